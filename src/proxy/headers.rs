//! Header rules between client and engine.

use std::fmt;
use std::io::Write;
use std::net::IpAddr;

use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use pingora_http::header_value_from_slice;

use super::context::RequestContext;
use super::sessions::{self, SESSION_ID};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const TARGET_POD: HeaderName = HeaderName::from_static("target-pod");
const TARGET_POD_IP: HeaderName = HeaderName::from_static("target-pod-ip");
const WENT_IN: HeaderName = HeaderName::from_static("x-went-into-req-headers");
const PROFILE_USED: HeaderName = HeaderName::from_static("x-aibrix-config-profile");
/// What a client asks for, and what it and the engine are told was done.
pub(super) const ROUTING_STRATEGY: HeaderName = HeaderName::from_static("routing-strategy");
/// Headers that are added to a head, at most.
const ADDED: usize = 8;

/// A request's id: it stands in both heads, in the log and in errors.
#[derive(Clone)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    pub(super) const NONE: Self = Self(HeaderValue::from_static(""));

    /// The client's own if it can stand in a log and a header, else a new one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        const LONGEST: usize = 128;
        let harmless = |id: &&HeaderValue| {
            !id.is_empty() && id.len() <= LONGEST && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        match headers.get(X_REQUEST_ID).filter(harmless) {
            Some(id) => Self(id.clone()),
            None => Self::new(),
        }
    }

    fn new() -> Self {
        let mut text = uuid::Uuid::encode_buffer();
        let id = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut text);
        Self(header_value_from_slice(id.as_bytes()))
    }

    pub(super) fn as_str(&self) -> &str {
        // Only ASCII gets in.
        self.0.to_str().unwrap_or_default()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether an answer comes as server-sent events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let start = value.as_bytes().get(..EVENTS.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(EVENTS))
    })
}

/// What the engine gets beside the client's own headers.
pub(super) fn to_engine(headers: &mut HeaderMap, context: &RequestContext, tls: bool) {
    headers.reserve(ADDED);
    headers.remove(EXPECT);
    if context.body_length > 0 {
        headers.remove(TRANSFER_ENCODING);
        if !has_length(headers, context.body_length) {
            headers.insert(CONTENT_LENGTH, context.body_length.into());
        }
    }
    if context.decoded {
        headers.remove(CONTENT_ENCODING);
    }
    headers.insert(X_REQUEST_ID, context.request_id.0.clone());
    if let Some(client) = context.client {
        let chain = forwarded_for(headers, client);
        headers.insert(FORWARDED_FOR, header_value_from_slice(&chain));
    }
    let scheme = if tls { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
    if let Some(attempt) = &context.attempt {
        headers.insert(HOST, attempt.pod.host_value());
        headers.insert(TARGET_POD, attempt.pod.address_value());
    }
    if let Some(routing) = &context.routing {
        headers.insert(ROUTING_STRATEGY, routing.strategy.clone());
    }
    super::auth::replace(&context.live.auth, headers);
}

/// What the client gets beside the engine's own headers.
pub(super) fn to_client(headers: &mut HeaderMap, context: &RequestContext) {
    headers.reserve(ADDED);
    headers.insert(REQUEST_ID, context.request_id.0.clone());
    headers.insert(X_REQUEST_ID, context.request_id.0.clone());
    headers.insert(WENT_IN, HeaderValue::from_static("true"));
    if let Some(routing) = &context.routing {
        headers.insert(ROUTING_STRATEGY, routing.strategy.clone());
        if let Some(profile) = &routing.profile {
            headers.insert(PROFILE_USED, profile.name.clone());
        }
    }
    if let Some(attempt) = &context.attempt {
        headers.insert(TARGET_POD, attempt.pod.name_value());
        headers.insert(TARGET_POD_IP, attempt.pod.address_value());
        if context
            .routing
            .as_ref()
            .is_some_and(|routing| routing.plan.keeps_sessions())
        {
            headers.insert(SESSION_ID, sessions::id_of(&attempt.pod));
        }
    }
}

/// Takes off what would make a client wait for a body that cannot come, or read one in a framing it does not know.
pub(super) fn fit_framing(headers: &mut HeaderMap, status: StatusCode, client: Version) {
    let bodyless = status == StatusCode::NO_CONTENT;
    if bodyless {
        headers.remove(CONTENT_LENGTH);
    }
    if bodyless || status == StatusCode::NOT_MODIFIED || client == Version::HTTP_10 {
        headers.remove(TRANSFER_ENCODING);
    }
}

fn has_length(headers: &HeaderMap, length: usize) -> bool {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let told = lengths.next().and_then(|value| value.to_str().ok());
    lengths.next().is_none()
        && told.is_some_and(|told| told.bytes().all(|byte| byte.is_ascii_digit()))
        && told.and_then(|told| told.parse().ok()) == Some(length)
}

/// The chain the client came through, with the address that we saw added. Nothing of it is believed.
fn forwarded_for(headers: &HeaderMap, client: IpAddr) -> Vec<u8> {
    let mut chain = Vec::with_capacity(64);
    for value in headers.get_all(FORWARDED_FOR) {
        chain.extend_from_slice(value.as_bytes());
        chain.extend_from_slice(b", ");
    }
    // Writing to memory cannot fail.
    let _ = write!(chain, "{client}");
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_s_request_id_is_kept_only_if_it_is_harmless() {
        for (given, kept) in [
            (Some("abc-123"), true),
            (Some(""), false),
            (Some("a b"), false),
            (None, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(given) = given {
                headers.insert(X_REQUEST_ID, given.parse().unwrap());
            }
            let id = RequestId::of(&headers);
            assert_eq!(Some(id.as_str()) == given, kept, "{given:?} gave {id}");
            assert!(!id.as_str().is_empty());
        }
    }

    #[test]
    fn the_address_seen_is_appended_to_every_earlier_one() {
        let mut headers = HeaderMap::new();
        headers.append(FORWARDED_FOR, "203.0.113.9".parse().unwrap());
        headers.append(FORWARDED_FOR, "198.51.100.7".parse().unwrap());
        let chain = forwarded_for(&headers, "127.0.0.1".parse().unwrap());
        assert_eq!(chain, b"203.0.113.9, 198.51.100.7, 127.0.0.1");
    }
}
