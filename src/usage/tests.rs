use bytes::Bytes;
use proptest::prelude::*;

use super::{HEAD, TAIL, Usage, UsageScanner};

fn scan<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Option<Usage> {
    let mut scanner = UsageScanner::default();
    for chunk in chunks {
        scanner.feed(&Bytes::copy_from_slice(chunk));
    }
    scanner.finish()
}

fn usage(prompt: u64, completion: u64, cached: u64) -> Option<Usage> {
    Some(Usage {
        prompt,
        completion,
        cached,
    })
}

const CHAT: &str = r#"{"id":"c","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":12,"total_tokens":15,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}},"kv_transfer_params":null}"#;
const CHAT_STREAM: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,",
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
    "data: [DONE]\n\n",
);
const MESSAGES_STREAM: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":",
    "{\"input_tokens\":25,\"cache_read_input_tokens\":16,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},",
    "\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);
const RESPONSES_STREAM: &str = concat!(
    "event: response.created\r\ndata: {\"response\":{\"usage\":null}}\r\n\r\n",
    "event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[],",
    "\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":5},",
    "\"output_tokens\":6},\"user\":null}}\r\n\r\n",
);

#[test]
fn every_face_tells_its_tokens_wherever_the_answer_is_cut() {
    for (answer, expected) in [
        (CHAT, usage(12, 3, 8)),
        (CHAT_STREAM, usage(7, 2, 4)),
        (MESSAGES_STREAM, usage(25, 15, 16)),
        (RESPONSES_STREAM, usage(9, 6, 5)),
    ] {
        let bytes = answer.as_bytes();
        assert_eq!(scan([bytes]), expected, "{answer}");
        assert_eq!(scan(bytes.chunks(1)), expected, "{answer}");
        for at in 0..bytes.len() {
            let (left, right) = bytes.split_at(at);
            assert_eq!(scan([left, right]), expected, "{answer} cut at {at}");
        }
    }
}

#[test]
fn what_an_answer_tells_is_found() {
    for (answer, expected) in [
        ("", None),
        ("{}", None),
        ("data: [DONE]\n\n", None),
        (r#"{"usage":null}"#, None),
        (r#"{"usage":{}}"#, None),
        (r#"{"usage":"prompt_tokens"}"#, None),
        (r#"{"usage":[{"prompt_tokens":1}]}"#, None),
        (r#"{"usage":{"prompt_tokens":1"#, None),
        (r#"{"usage":{"prompt_tokens":1}"#, usage(1, 0, 0)),
        (
            r#"{"usage" : {"prompt_tokens" : 5 , "total_tokens":5}}"#,
            usage(5, 0, 0),
        ),
        (
            "{\n  \"usage\": {\n    \"prompt_tokens\": 5\n  }\n}\n",
            usage(5, 0, 0),
        ),
        (
            r#"{"usage":{"prompt_tokens":-1,"completion_tokens":2}}"#,
            usage(0, 2, 0),
        ),
        (
            r#"{"usage":{"prompt_tokens":1.5,"completion_tokens":2}}"#,
            usage(0, 2, 0),
        ),
        (
            r#"{"usage":{"prompt_tokens":4294967297}}"#,
            usage(4_294_967_297, 0, 0),
        ),
        (
            r#"{"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":1}}"#,
            usage(0, 1, 0),
        ),
        (
            r#"{"usage":{"prompt_tokens":3,"prompt_tokens_details":null}}"#,
            usage(3, 0, 0),
        ),
        (
            r#"{"usage":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":2}}"#,
            usage(3, 4, 2),
        ),
        ("data:{\"usage\":{\"prompt_tokens\":3}}", usage(3, 0, 0)),
        (": \"usage\":{\"prompt_tokens\":3}\n\n", None),
    ] {
        assert_eq!(scan([answer.as_bytes()]), expected, "{answer}");
    }
}

#[test]
fn text_and_tool_arguments_are_not_taken_for_usage() {
    let text = r#"\"usage\":{\"prompt_tokens\":99} \\\"usage\\\": {"#;
    for filler in [0, HEAD, TAIL - 300, TAIL - 40, TAIL, 3 * TAIL] {
        let filler = "x".repeat(filler);
        let real = r#""usage":{"prompt_tokens":1,"completion_tokens":2}"#;
        for answer in [
            format!(r#"{{"choices":[{{"text":"{filler}{text}"}}],{real}}}"#),
            format!(r#"{{"choices":[{{"text":"{text}{filler}"}}],{real}}}"#),
            format!(r#"{{{real},"choices":[{{"text":"{text}{filler}{text}"}}]}}"#),
            format!(
                r#"{{"content":[{{"input":{{"usage":{{"prompt_tokens":77}},"x":"{filler}"}}}}],{real}}}"#
            ),
            format!(
                r#"{{{real},"content":[{{"x":"{filler}","input":{{"usage":{{"prompt_tokens":77}}}}}}]}}"#
            ),
            format!(
                "data: {{\"delta\":\"{filler}{text}\"}}\n\ndata: {{{real}}}\n\ndata: [DONE]\n\n"
            ),
            format!("data: {{\"response\":{{\"output\":\"{filler}{text}\",{real}}}}}\n\n"),
        ] {
            assert_eq!(
                scan([answer.as_bytes()]),
                usage(1, 2, 0),
                "{} bytes",
                answer.len()
            );
            assert_eq!(
                scan(answer.as_bytes().chunks(7)),
                usage(1, 2, 0),
                "{} bytes",
                answer.len()
            );
        }
    }
    for answer in [
        r#"{"text":"\"usage\":{\"prompt_tokens\":99}"}"#,
        r#"{"text":"usage","a":{"prompt_tokens":99}}"#,
        r#"{"a":{"b":{"usage":{"prompt_tokens":99}}}}"#,
    ] {
        assert_eq!(scan([answer.as_bytes()]), None, "{answer}");
    }
}

#[test]
fn the_last_of_many_counts_is_the_one() {
    let mut stream = String::new();
    for tokens in 1..=200 {
        stream += &format!(
            "data: {{\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{tokens}}}}}\n\n"
        );
    }
    assert_eq!(scan([stream.as_bytes()]), usage(5, 200, 0));
}

#[test]
fn an_endless_event_costs_no_memory() {
    let mut scanner = UsageScanner::default();
    scanner.feed(&Bytes::from_static(
        b"data: {\"choices\":[{\"delta\":{\"content\":\"",
    ));
    let chunk = vec![b'a'; 1 << 20];
    for _ in 0..64 {
        scanner.feed(&chunk.clone().into());
    }
    assert_eq!(scanner.kept.len(), HEAD + TAIL);
    scanner.feed(&Bytes::from_static(
        b"\"}}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":9}}\n\n",
    ));
    assert_eq!(scanner.finish(), usage(1, 9, 0));
}

#[test]
fn the_first_event_is_remembered_over_a_long_stream() {
    let (start, end) = MESSAGES_STREAM.split_at(MESSAGES_STREAM.find("event: ping").unwrap());
    let delta = b"event: content_block_delta\ndata: {\"delta\":{\"text\":\"word\"}}\n\n";
    let chunks = [start.as_bytes()].into_iter();
    let chunks = chunks
        .chain(std::iter::repeat_n(&delta[..], 1000))
        .chain([end.as_bytes()]);
    assert_eq!(scan(chunks), usage(25, 15, 16));
}

#[test]
fn a_cut_at_the_edge_of_what_is_kept_loses_nothing_that_fits() {
    for size in TAIL - 3..TAIL + 3 {
        let filler = "x".repeat(size - r#"{"x":"","usage":{"prompt_tokens":1}}"#.len());
        let answer = format!(r#"{{"x":"{filler}","usage":{{"prompt_tokens":1}}}}"#);
        assert_eq!(answer.len(), size);
        assert_eq!(scan([answer.as_bytes()]), usage(1, 0, 0), "{size}");
    }
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_survived(
        pieces in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..3000),
                r#"(\{|\}|\[|\]|"usage":|"|\\|:|,|data: |\n|"prompt_tokens":[0-9]{1,3}){0,40}"#
                    .prop_map(String::into_bytes),
            ],
            0..8,
        ),
    ) {
        let whole = pieces.concat();
        prop_assert_eq!(scan(pieces.iter().map(Vec::as_slice)), scan([whole.as_slice()]));
    }

    #[test]
    fn usage_after_any_text_is_found(text in ".{0,6000}", cut in 1_usize..500) {
        let answer = serde_json::json!({"choices": [{"text": text}], "usage": {"prompt_tokens": 3}});
        let answer = answer.to_string();
        prop_assert_eq!(scan(answer.as_bytes().chunks(cut)), usage(3, 0, 0));
    }
}
