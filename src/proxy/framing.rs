//! Refuses request heads on which two HTTP implementations could disagree, before anything is read or sent on.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use memchr::memchr_iter;
use pingora_core::protocols::http::ServerSession;

use super::error::ErrorAnswer;
use crate::config::Limits;

/// Checks sizes and framing of the head that was just read.
pub(super) fn check(session: &ServerSession, limits: &Limits) -> Result<(), ErrorAnswer> {
    let header = session.req_header();
    let count = header.headers.len();
    if count > limits.headers {
        return Err(ErrorAnswer::header_too_large(format!(
            "the request has {count} headers; the limit is {} (limits.headers)",
            limits.headers
        )));
    }
    let Some(http1) = session.as_http1() else {
        return check_size(http2_head_size(session), limits);
    };
    let raw = http1.get_headers_raw_bytes();
    check_size(raw.len(), limits)?;
    if has_bare_line_feed(&raw) {
        return Err(ErrorAnswer::bad_framing(
            "a line of the request head does not end in CR LF",
        ));
    }
    if header.uri.authority().is_some() {
        return Err(ErrorAnswer::bad_framing(
            "the request target is in absolute form; send the path and a Host header",
        ));
    }
    let codings = &header.headers;
    let mut transfer = codings.get_all(TRANSFER_ENCODING).iter();
    if let Some(first) = transfer.next() {
        // Pingora drops the Content-Length beside a Transfer-Encoding, so it is looked for in the bytes.
        if codings.contains_key(CONTENT_LENGTH) || names_content_length(&raw) {
            return Err(ErrorAnswer::bad_framing(
                "the request has both Content-Length and Transfer-Encoding; send one",
            ));
        }
        if transfer.next().is_some() || !first.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(ErrorAnswer::bad_framing(
                "the only Transfer-Encoding understood is a single `chunked`",
            ));
        }
    }
    Ok(())
}

fn check_size(size: usize, limits: &Limits) -> Result<(), ErrorAnswer> {
    if size <= limits.header_size {
        return Ok(());
    }
    Err(ErrorAnswer::header_too_large(format!(
        "the request head has {size} bytes; the limit is {} (limits.header_size)",
        limits.header_size
    )))
}

fn http2_head_size(session: &ServerSession) -> usize {
    let header = session.req_header();
    let fields: usize = header
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    fields + header.raw_path().len()
}

fn has_bare_line_feed(head: &[u8]) -> bool {
    memchr_iter(b'\n', head).any(|at| at == 0 || head[at - 1] != b'\r')
}

fn names_content_length(head: &[u8]) -> bool {
    const NAME: &[u8] = b"content-length";
    memchr_iter(b'\n', head).any(|at| {
        head.get(at + 1..at + 1 + NAME.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(NAME))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_line_feeds_are_seen_wherever_they_stand() {
        for (head, bare) in [
            (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], false),
            (b"GET / HTTP/1.1\nHost: a\r\n\r\n", true),
            (b"GET / HTTP/1.1\r\nHost: a\n\r\n", true),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\n", true),
        ] {
            assert_eq!(has_bare_line_feed(head), bare, "{}", head.escape_ascii());
        }
    }

    #[test]
    fn a_content_length_is_found_by_name_only() {
        assert!(names_content_length(
            b"POST / HTTP/1.1\r\nCONTENT-Length: 3\r\n\r\n"
        ));
        assert!(!names_content_length(
            b"POST / HTTP/1.1\r\nx-a: content-length: 3\r\n\r\n"
        ));
    }
}
