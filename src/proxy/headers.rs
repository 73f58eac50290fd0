//! Header rules between client and engine.

use std::net::IpAddr;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};
use pingora_core::Result;
use pingora_http::{RequestHeader, ResponseHeader};

use super::context::RequestContext;

const REQUEST_ID: &str = "x-request-id";
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The client's request id if it can stand in a log and a header, else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    const LONGEST: usize = 128;
    let given = headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    match given {
        Some(id)
            if !id.is_empty()
                && id.len() <= LONGEST
                && id.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            id.to_owned()
        }
        _ => uuid::Uuid::new_v4().to_string(),
    }
}

/// What the engine gets beside the client's own headers.
pub(super) fn to_engine(
    upstream: &mut RequestHeader,
    context: &RequestContext,
    tls: bool,
) -> Result<()> {
    upstream.remove_header(&EXPECT);
    if context.body_length > 0 {
        upstream.remove_header(&TRANSFER_ENCODING);
        upstream.insert_header(CONTENT_LENGTH, context.body_length)?;
    }
    if context.decoded {
        upstream.remove_header(&CONTENT_ENCODING);
    }
    upstream.insert_header(REQUEST_ID, &context.request_id)?;
    if let Some(client) = context.client {
        upstream.insert_header(FORWARDED_FOR, forwarded_for(&upstream.headers, client))?;
    }
    upstream.insert_header("x-forwarded-proto", if tls { "https" } else { "http" })?;
    if let Some(attempt) = &context.attempt {
        upstream.insert_header(HOST, attempt.pod.host_header())?;
        upstream.insert_header("target-pod", attempt.pod.address())?;
    }
    if let Some(routing) = &context.routing {
        upstream.insert_header("routing-strategy", routing.plan.requested())?;
    }
    super::auth::replace(&context.live.auth, upstream)
}

/// What the client gets beside the engine's own headers.
pub(super) fn to_client(response: &mut ResponseHeader, context: &RequestContext) -> Result<()> {
    response.insert_header("request-id", &context.request_id)?;
    response.insert_header(REQUEST_ID, &context.request_id)?;
    response.insert_header("x-went-into-req-headers", "true")?;
    if let Some(routing) = &context.routing {
        response.insert_header("routing-strategy", routing.plan.requested())?;
        if let Some(profile) = &routing.profile {
            response.insert_header("x-aibrix-config-profile", &profile.name)?;
        }
    }
    if let Some(attempt) = &context.attempt {
        response.insert_header("target-pod", attempt.pod.name())?;
        response.insert_header("target-pod-ip", attempt.pod.address())?;
    }
    Ok(())
}

/// Takes off what would make a client wait for a body that cannot come, or read one in a framing it does not know.
pub(super) fn fit_framing(response: &mut ResponseHeader, client: Version) {
    let bodyless = response.status == StatusCode::NO_CONTENT;
    if bodyless {
        response.remove_header(&CONTENT_LENGTH);
    }
    if bodyless || response.status == StatusCode::NOT_MODIFIED || client == Version::HTTP_10 {
        response.remove_header(&TRANSFER_ENCODING);
    }
}

/// The chain the client came through, with the address that we saw added. Nothing of it is believed.
fn forwarded_for(headers: &HeaderMap, client: IpAddr) -> Vec<u8> {
    let mut chain = Vec::new();
    for value in headers.get_all(FORWARDED_FOR) {
        chain.extend_from_slice(value.as_bytes());
        chain.extend_from_slice(b", ");
    }
    chain.extend_from_slice(client.to_string().as_bytes());
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
                headers.insert(REQUEST_ID, given.parse().unwrap());
            }
            let id = request_id(&headers);
            assert_eq!(Some(id.as_str()) == given, kept, "{given:?} gave {id}");
            assert!(!id.is_empty());
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
