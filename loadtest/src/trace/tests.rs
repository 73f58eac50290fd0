use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const MOONCAKE: &str = r#"{"timestamp": 3000, "input_length": 1100, "output_length": 5, "hash_ids": [7, 8, 9]}
{"timestamp": 1000, "input_length": 1024, "output_length": 0, "hash_ids": [7, 8]}

{"timestamp": 3000, "input_length": 2000, "output_length": 9, "hash_ids": [6, 8, 9, 10]}
"#;

const AZURE: &str = "\u{feff}TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:17:03.9799600,70,10\r
2023-11-16 18:17:04.0319600,64,8\r
";

fn load_bytes(bytes: &[u8], limit: usize) -> Result<Trace, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    load(file.path(), limit)
}

fn load_text(text: &str) -> Trace {
    load_bytes(text.as_bytes(), usize::MAX).unwrap()
}

#[test]
fn a_mooncake_trace_is_read_in_order_of_time() {
    let trace = load_text(MOONCAKE);
    assert_eq!((trace.format, trace.block_tokens), ("mooncake", 512));
    let sizes = |turn: &Turn| {
        (
            turn.at_us,
            turn.prompt_tokens,
            turn.output_tokens,
            turn.blocks.len(),
        )
    };
    let sizes: Vec<_> = trace.turns.iter().map(sizes).collect();
    assert_eq!(
        sizes,
        [
            (0, 1024, 0, 2),
            (2_000_000, 1100, 5, 2),
            (2_000_000, 2000, 9, 3)
        ]
    );
}

#[test]
fn equal_ids_are_equal_blocks_where_all_before_them_are_equal() {
    let turns = load_text(MOONCAKE).turns;
    assert_eq!(turns[0].blocks, turns[1].blocks);
    assert!(
        turns[2]
            .blocks
            .iter()
            .all(|block| !turns[0].blocks.contains(block))
    );
}

#[test]
fn an_azure_trace_is_read_and_shares_nothing() {
    let trace = load_text(AZURE);
    assert_eq!(trace.format, "azure");
    let sizes = |turn: &Turn| {
        (
            turn.at_us,
            turn.prompt_tokens,
            turn.output_tokens,
            turn.blocks.len(),
        )
    };
    let sizes: Vec<_> = trace.turns.iter().map(sizes).collect();
    assert_eq!(sizes, [(0, 70, 10, 2), (52_000, 64, 8, 2)]);
    let [first, second] = &trace.turns[..] else {
        unreachable!()
    };
    assert!(
        first
            .blocks
            .iter()
            .all(|block| !second.blocks.contains(block))
    );
}

const CAPTURE: &str = r#"{"time_ms":5000,"path":"chat_completions","model":"m","session":"00000000000000ff","pod":"e1","status":200,"body_bytes":1100,"prompt_bytes":1060,"prompt_tokens":265,"output_bytes":900,"output_tokens":7,"stream":false,"ttft_ms":20,"duration_ms":700,"block_bytes":512,"blocks":["0123456789abcdef","fedcba9876543210"]}
{"time_ms":4000,"path":"chat_completions","pod":"e2","status":200,"body_bytes":700,"prompt_bytes":600,"output_bytes":2000,"stream":true,"duration_ms":70,"block_bytes":512,"blocks":["0123456789abcdef"]}
{"time_ms":4000,"path":"chat_completions","status":503,"body_bytes":700,"prompt_bytes":600,"output_bytes":20,"stream":false,"duration_ms":1,"block_bytes":512,"blocks":[]}
{"time_ms":4000,"path":"other","pod":"e2","status":200,"body_bytes":0,"prompt_bytes":0,"output_bytes":20,"stream":false,"duration_ms":1,"block_bytes":512,"blocks":[]}
"#;

#[test]
fn a_capture_is_read_without_what_no_engine_computed() {
    let trace = load_text(CAPTURE);
    assert_eq!((trace.format, trace.block_tokens), ("capture", 128));
    let hashes = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210].map(BlockHash);
    let expected = [
        Turn {
            at_us: 0,
            prompt_tokens: 150,
            output_tokens: 10,
            blocks: hashes[..1].to_vec(),
            took_us: Some(70_000),
            session: None,
        },
        Turn {
            at_us: 1_000_000,
            prompt_tokens: 265,
            output_tokens: 7,
            blocks: hashes.to_vec(),
            took_us: Some(700_000),
            session: Some(255),
        },
    ];
    assert_eq!(trace.turns, expected);
}

#[test]
fn a_gzipped_trace_is_the_same_trace() {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(MOONCAKE.as_bytes()).unwrap();
    let trace = load_bytes(&packed.finish().unwrap(), usize::MAX).unwrap();
    assert_eq!(trace, load_text(MOONCAKE));
}

#[test]
fn a_limit_takes_the_first_requests() {
    assert_eq!(load_bytes(MOONCAKE.as_bytes(), 2).unwrap().turns.len(), 2);
    assert_eq!(load_bytes(AZURE.as_bytes(), 1).unwrap().turns.len(), 1);
}

#[test]
fn errors_name_the_line_and_what_is_wrong_there() {
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens";
    for (text, expected) in [
        ("", "holds no request"),
        (azure, "holds no request"),
        ("hello", "line 1: not a request of a Mooncake trace"),
        (
            "{\"hash_ids\": [1]}",
            "line 1: no Mooncake request: missing field `timestamp`",
        ),
        (
            &format!("{MOONCAKE}{{\"hash_ids\""),
            "line 5: no Mooncake request: EOF",
        ),
        (
            r#"{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1]}"#,
            "line 1: 1 hash_ids for 1024 tokens, of which 2 blocks are full",
        ),
        (
            r#"{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]}"#,
            "line 1: no Mooncake request: invalid value: integer `-1`",
        ),
        (
            &format!("{azure}\n\n2023-11-16 18:17:03,70"),
            "line 3: GeneratedTokens is missing in \"2023-11-16 18:17:03,70\"",
        ),
        (
            &format!("{azure}\n2023-11-16 18:17:03,many,1"),
            "line 2: ContextTokens is no whole number: \"many\"",
        ),
        (
            &format!("{azure}\nnoon,1,1"),
            "line 2: TIMESTAMP is not like",
        ),
    ] {
        let found = load_bytes(text.as_bytes(), usize::MAX)
            .unwrap_err()
            .to_string();
        assert!(found.contains(expected), "{text}: {found}");
    }
    let missing = load(Path::new("/no/such/trace"), 1)
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("/no/such/trace") && missing.contains("No such file"),
        "{missing}"
    );
}
