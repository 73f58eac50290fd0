//! Any bytes as the body of any path, in any coding: an answer, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmgate::request::{self, ParseOptions, PathKind, coding};

const PATHS: &[&str] = &[
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/audio/transcriptions",
];
const CODINGS: &[&str] = &["", "gzip", "deflate", "zstd", "br", "gzip, br"];

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
    for path in PATHS {
        let kind = PathKind::classify(path);
        let parsed = request::parse(kind, Some("multipart/form-data; boundary=b"), &decoded, &options);
        if let Ok(request) = parsed {
            assert!(!request.model.is_empty());
            assert_eq!(request.prompt.pieces().map(<[u8]>::len).sum::<usize>(), request.prompt.len());
        }
    }
    let _ = request::peek_model(&decoded);
    let _ = request::model_in_path(&String::from_utf8_lossy(body));
});
