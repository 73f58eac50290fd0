use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The text of an answer, however it is cut.
#[track_caller]
fn check(dialect: Dialect, events: bool, answer: &str, expected: Option<&str>) {
    for size in [1, 2, 3, 7, 64, answer.len().max(1)] {
        let mut text = AnswerText::new(dialect, events);
        for chunk in answer.as_bytes().chunks(size) {
            text.feed(chunk);
        }
        assert_eq!(
            text.finish().as_deref(),
            expected,
            "cut at {size}: {answer}"
        );
    }
}

fn stream(events: &[serde_json::Value]) -> String {
    events
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap_or("message");
            format!("event: {kind}\r\ndata: {event}\r\n\r\n")
        })
        .collect()
}

fn chat(content: &str) -> serde_json::Value {
    json!({"id": "x", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": null}]})
}

#[test]
fn a_chat_s_text_is_what_its_chunks_add_up_to() {
    let mut events =
        vec![json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})];
    events.extend(["Hel", "lo \"w\u{f6}rld\"\n", "data: x"].map(chat));
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    events.push(json!({"choices": [], "usage": {"prompt_tokens": 3}}));
    let expected = Some("Hello \"w\u{f6}rld\"\ndata: x");
    let text = stream(&events);
    check(Dialect::ChatCompletions, true, &text, expected);
    let done = format!(": comment\n{text}data: [DONE]\n\n");
    check(Dialect::ChatCompletions, true, &done, expected);
    let cut = text.trim_end().to_owned();
    check(Dialect::ChatCompletions, true, &cut, expected);
}

#[test]
fn every_dialect_has_its_document() {
    let answer = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a\u{1f600}b"}}]});
    check(
        Dialect::ChatCompletions,
        false,
        &answer.to_string(),
        Some("a\u{1f600}b"),
    );
    let answer = json!({"choices": [{"text": " and on", "index": 0, "logprobs": null}]});
    check(
        Dialect::Completions,
        false,
        &answer.to_string(),
        Some(" and on"),
    );
    let answer = json!({"type": "message", "content": [
        {"type": "text", "text": "one"}, {"type": "text", "text": "two"}, {"type": "tool_use", "input": {}}, {"type": "text", "text": "three"}
    ]});
    check(
        Dialect::Messages,
        false,
        &answer.to_string(),
        Some("one two"),
    );
    let message = |texts: &[&str]| {
        let content: Vec<_> = texts
            .iter()
            .map(|text| json!({"type": "output_text", "text": text, "annotations": []}))
            .collect();
        json!({"type": "message", "role": "assistant", "content": content})
    };
    let answer = json!({"output": [message(&["one", "two"]), message(&["three"]), {"type": "function_call"}, message(&["four"])]});
    check(
        Dialect::Responses,
        false,
        &answer.to_string(),
        Some("one two three"),
    );
}

#[test]
fn completions_stream_their_text() {
    let chunk = |text: &str| json!({"choices": [{"index": 0, "text": text}]});
    let text = stream(&[chunk(" a"), chunk("b"), chunk("")]);
    check(Dialect::Completions, true, &text, Some(" ab"));
}

#[test]
fn messages_stream_blocks_up_to_the_first_that_is_no_text() {
    let start = |kind: &str| json!({"type": "content_block_start", "index": 0, "content_block": {"type": kind, "text": ""}});
    let delta = |text: &str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let json = json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a"}});
    let first =
        json!({"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}});
    let last = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}});
    let text = stream(&[
        first.clone(),
        start("text"),
        delta("one"),
        delta(" more"),
        start("text"),
        delta("two"),
        last.clone(),
    ]);
    check(Dialect::Messages, true, &text, Some("one more two"));
    let text = stream(&[
        first.clone(),
        start("text"),
        delta("one"),
        start("tool_use"),
        json,
        last.clone(),
    ]);
    check(Dialect::Messages, true, &text, Some("one"));
    let text = stream(&[
        first,
        start("thinking"),
        delta("hm"),
        start("text"),
        delta("one"),
        last,
    ]);
    check(Dialect::Messages, true, &text, None);
}

#[test]
fn responses_stream_messages_up_to_the_first_other_item() {
    let item = |kind: &str| json!({"type": "response.output_item.added", "item": {"type": kind, "content": []}});
    let part = |index: u32| json!({"type": "response.content_part.added", "content_index": index, "part": {"type": "output_text", "text": ""}});
    let delta = |text: &str| json!({"type": "response.output_text.delta", "delta": text});
    let done = json!({"type": "response.completed", "response": {"output": []}});
    let text = stream(&[
        item("message"),
        part(0),
        delta("one"),
        part(1),
        delta("two"),
        item("message"),
        part(0),
        delta("three"),
        done.clone(),
    ]);
    check(Dialect::Responses, true, &text, Some("one two three"));
    let text = stream(&[
        item("message"),
        delta("one"),
        item("function_call"),
        delta("x"),
        done.clone(),
    ]);
    check(Dialect::Responses, true, &text, Some("one"));
    let text = stream(&[
        item("reasoning"),
        delta("x"),
        item("message"),
        delta("one"),
        done,
    ]);
    check(Dialect::Responses, true, &text, None);
}

#[test]
fn what_cannot_be_foreseen_or_understood_is_no_text() {
    let second = json!({"choices": [{"index": 1, "delta": {"content": "b"}}]});
    check(
        Dialect::ChatCompletions,
        true,
        &stream(&[chat("a"), second]),
        None,
    );
    let two = json!({"choices": [{"index": 0, "message": {"content": "a"}}, {"index": 1, "message": {"content": "b"}}]});
    check(Dialect::ChatCompletions, false, &two.to_string(), None);
    let call = json!({"choices": [{"index": 0, "message": {"content": null, "tool_calls": [{"id": "x"}]}}]});
    check(Dialect::ChatCompletions, false, &call.to_string(), None);
    check(Dialect::ChatCompletions, false, "", None);
    for broken in ["{", "[]", "null", "{\"choices\": 1}", "hello"] {
        check(Dialect::ChatCompletions, false, broken, None);
        let text = format!("{}data: {broken}\n\n", stream(&[chat("a")]));
        check(Dialect::ChatCompletions, true, &text, None);
    }
    let error = json!({"type": "error", "error": {"type": "overloaded_error"}});
    check(Dialect::Messages, true, &stream(&[error]), None);
}

#[test]
fn what_is_kept_is_bounded() {
    let long = "x".repeat(10_000);
    let text = stream(&vec![chat(&long); 40]);
    let mut answer = AnswerText::new(Dialect::ChatCompletions, true);
    answer.feed(text.as_bytes());
    assert!(answer.unread.capacity() <= LONGEST_LINE);
    assert_eq!(answer.finish().map(|text| text.len()), Some(LONGEST_TEXT));

    for events in [true, false] {
        let mut answer = AnswerText::new(Dialect::ChatCompletions, events);
        for _ in 0..200 {
            answer.feed(&[b'x'; 10_000]);
            assert!(answer.unread.capacity() <= 2 * LONGEST_DOCUMENT);
        }
        assert_eq!(answer.unread.capacity(), 0);
        assert_eq!(answer.finish(), None);
    }
}

#[test]
fn a_text_is_cut_between_characters() {
    let mut answer = AnswerText::new(Dialect::ChatCompletions, true);
    for _ in 0..30 {
        answer.feed(stream(&[chat(&"\u{20ac}".repeat(3001))]).as_bytes());
    }
    let text = answer.finish().unwrap();
    assert!(text.len() > LONGEST_TEXT - 3 && text.len() <= LONGEST_TEXT);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), events: bool, cut in 1_usize..50) {
        for dialect in [Dialect::ChatCompletions, Dialect::Completions, Dialect::Messages, Dialect::Responses] {
            let mut answer = AnswerText::new(dialect, events);
            answer.feed(b"data: {\"choices\": [");
            for chunk in bytes.chunks(cut) {
                answer.feed(chunk);
            }
            answer.finish();
        }
    }

    #[test]
    fn any_text_comes_out_as_it_went_in(parts in proptest::collection::vec(any::<String>(), 1..8)) {
        let events: Vec<_> = parts.iter().map(|part| chat(part)).collect();
        let whole = parts.concat();
        let expected = (!whole.is_empty()).then_some(whole.as_str());
        check(Dialect::ChatCompletions, true, &stream(&events), expected);
    }
}
