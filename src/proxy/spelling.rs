//! Heads without the spelling of their header names.
//!
//! Pingora keeps how each name was spelt in a second map, and every header that is added goes into both, its name read anew:
//! more work than all else that a small request needs here. Names have no case (RFC 9110, 5.1) and HTTP/2 has none to keep,
//! so they go on in lower case, the most common ones as Pingora titles them.

use std::mem::replace;

use http::HeaderMap;
use pingora_core::Result;
use pingora_http::{RequestHeader, ResponseHeader};

/// Drops the spelling of a request's names, before Pingora copies the head for the engine.
pub(super) fn drop_from(head: &mut RequestHeader) -> Result<()> {
    if head.has_case() {
        edit_request(head, |_| {})?;
    }
    Ok(())
}

/// Changes the headers of a request; the rest of its head stays as it is.
pub(super) fn edit_request(
    head: &mut RequestHeader,
    edit: impl FnOnce(&mut HeaderMap),
) -> Result<()> {
    let path = head.uri.path_and_query();
    let plain = path.is_some_and(|path| path.as_str().as_bytes() == head.raw_path());
    // An absolute URI, or one that is not UTF-8, is not what the parts have.
    let verbatim = (!plain).then(|| head.raw_path().to_vec());
    let ends_stream = head.send_end_stream();

    let (empty, ()) = http::Request::new(()).into_parts();
    let mut parts: http::request::Parts = replace(head, empty.into()).into();
    edit(&mut parts.headers);
    *head = parts.into();

    if let Some(target) = verbatim {
        head.set_raw_path(&target)?;
    }
    if let Some(ends_stream) = ends_stream {
        head.set_send_end_stream(ends_stream);
    }
    Ok(())
}

/// Changes the headers of an answer; the rest of its head stays as it is.
pub(super) fn edit_response(
    head: &mut ResponseHeader,
    edit: impl FnOnce(&mut HeaderMap),
) -> Result<()> {
    let usual = head.get_reason_phrase() == head.status.canonical_reason();
    let reason = (!usual).then(|| head.get_reason_phrase().map(str::to_owned));

    let (empty, ()) = http::Response::new(()).into_parts();
    let mut parts: http::response::Parts = replace(head, empty.into()).into();
    edit(&mut parts.headers);
    *head = parts.into();

    match reason {
        Some(reason) => head.set_reason_phrase(reason.as_deref()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_its_target_and_all_values_in_their_order() {
        for target in [
            &b"/v1/chat/completions?a=b"[..],
            b"*",
            b"http://other.example/v1/models?x=%20",
            b"/caf\xe9",
            b"/",
        ] {
            let mut head = RequestHeader::build("POST", target, None).unwrap();
            head.append_header("X-Many", "one").unwrap();
            head.append_header("x-mANY", "two").unwrap();
            let before = head.raw_path().to_vec();
            drop_from(&mut head).unwrap();
            assert!(!head.has_case());
            assert_eq!(head.raw_path(), before);
            assert_eq!(head.raw_path_is_utf8(), target.is_ascii());
            let mut wire = Vec::new();
            head.header_to_h1_wire(&mut wire);
            assert_eq!(wire, b"x-many: one\r\nx-many: two\r\n");
        }
    }

    #[test]
    fn a_request_over_http2_keeps_how_its_stream_ends() {
        for ends in [true, false] {
            let mut head = RequestHeader::build("POST", b"/", None).unwrap();
            head.set_version(http::Version::HTTP_2);
            head.set_send_end_stream(ends);
            drop_from(&mut head).unwrap();
            assert_eq!(head.send_end_stream(), Some(ends));
        }
    }

    #[test]
    fn an_answer_keeps_status_and_reason() {
        for reason in [Some("Fine By Me"), Some("OK"), None] {
            let mut head = ResponseHeader::build(200, None).unwrap();
            head.set_reason_phrase(reason).unwrap();
            let before = head.get_reason_phrase().map(str::to_owned);
            edit_response(&mut head, |headers| {
                headers.insert("x-a", http::HeaderValue::from_static("1"));
            })
            .unwrap();
            assert_eq!(head.status, 200);
            assert_eq!(head.get_reason_phrase(), before.as_deref());
            assert_eq!(head.headers["x-a"], "1");
        }
    }
}
