//! Any bytes as the body of any path, in any coding: an answer, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmgate::request::{self, ParseOptions, PathKind, coding};

/// A path of each kind.
const PATHS: &[&str] = &[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
    "/v1/classify",
    "/v1/pooling",
    "/v1/tokenize",
    "/v1/detokenize",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/images/generations",
    "/v1/models",
];
const CODINGS: &[&str] = &["", "gzip", "deflate", "zstd", "br", "gzip, br"];
const CONTENT_TYPES: &[Option<&str>] = &[
    Some("multipart/form-data; boundary=b"),
    Some("multipart/form-data; x=\"; boundary=a\"; boundary=\"b;c\""),
    Some("application/json"),
    None,
];

fuzz_target!(|data: &[u8]| {
    let Some((&choice, body)) = data.split_first() else {
        return;
    };
    let coding = CODINGS[usize::from(choice) % CODINGS.len()];
    let Ok(decoded) = coding::decode(coding, body, 1 << 16) else {
        return;
    };
    assert!(decoded.len() <= 1 << 16 || coding.is_empty());
    let options = ParseOptions {
        include_tools: choice & 128 == 0,
    };
    let content_type = CONTENT_TYPES[usize::from(choice) / CODINGS.len() % CONTENT_TYPES.len()];
    for path in PATHS {
        let kind = PathKind::classify(path);
        if let Ok(request) = request::parse(kind, content_type, &decoded, &options) {
            assert!(!request.model.is_empty());
            let mut length = 0;
            request.prompt.each(|piece| length += piece.len());
            assert_eq!(length, request.prompt.len());
            assert!(
                length <= decoded.len(),
                "a text is never longer than its body"
            );
        }
    }
    let _ = request::peek_model(&decoded);
    let _ = request::model_in_path(&String::from_utf8_lossy(body));
});
