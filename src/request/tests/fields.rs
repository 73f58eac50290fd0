//! The fields besides model and prompt.

use super::*;

#[test]
fn stream_limit_and_salt() {
    for (fields, stream, max_tokens, cache_salt) in [
        ("", false, None, None),
        (r#","stream":true"#, true, None, None),
        (r#","stream": false "#, false, None, None),
        (
            r#","stream":"true","max_tokens":"5","cache_salt":5"#,
            false,
            None,
            None,
        ),
        (
            r#","stream":null,"max_tokens":null,"cache_salt":null"#,
            false,
            None,
            None,
        ),
        (r#","max_tokens":5"#, false, Some(5), None),
        (r#","max_completion_tokens":6"#, false, Some(6), None),
        (r#","max_output_tokens": 7 "#, false, Some(7), None),
        (r#","max_tokens":-1"#, false, None, None),
        (
            r#","max_tokens":99999999999999999999999"#,
            false,
            None,
            None,
        ),
        (r#","stream":false,"str\u0065am":true"#, true, None, None),
        (r#","cache_salt":"s\u0061lt""#, false, None, Some("salt")),
    ] {
        let body = format!(r#"{{"model":"m","prompt":"a"{fields}}}"#);
        let request = parse(PathKind::Completions, None, body.as_bytes(), &WITH_TOOLS).unwrap();
        assert_eq!(
            (
                request.stream,
                request.max_tokens,
                request.cache_salt.as_deref()
            ),
            (stream, max_tokens, cache_salt),
            "{fields}"
        );
    }
}

#[test]
fn the_model_of_an_unknown_body() {
    for (body, model) in [
        (r#"{"model":"m"}"#, Some("m")),
        (r#"{"x":[[1]],"mod\u0065l":"\u006d"}"#, Some("m")),
        (r#"{"model":5}"#, None),
        (r#"["m"]"#, None),
        ("{", None),
        ("", None),
    ] {
        assert_eq!(peek_model(body.as_bytes()).as_deref(), model, "{body}");
    }
}
