//! The text of prompts and the faults of bodies, as tables.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::*;

const WITH_TOOLS: ParseOptions = ParseOptions {
    include_tools: true,
};

/// The prompt's text as one string.
fn text_of(kind: PathKind, body: &str, options: &ParseOptions) -> String {
    let request = parse(kind, Some("application/json"), body.as_bytes(), options)
        .unwrap_or_else(|error| panic!("{error}: {body}"));
    let bytes: Vec<u8> = request.prompt.pieces().flatten().copied().collect();
    assert_eq!(bytes.len(), request.prompt.len());
    String::from_utf8(bytes).unwrap()
}

fn check(kind: PathKind, body: &str, expected: &str) {
    assert_eq!(text_of(kind, body, &WITH_TOOLS), expected, "{body}");
}

fn check_error(kind: PathKind, body: &[u8], expected: &BodyError) {
    let got = parse(kind, None, body, &WITH_TOOLS).expect_err("an error");
    assert_eq!(&got, expected, "{}", body.escape_ascii());
}

/// The messages of the reference's golden table.
const MESSAGES: &str = r#"[{"role":"system","content":"you are a helpful assistant"},{"role":"user","content":[{"type":"text","text":"what is the weather?"}]}]"#;
/// Their text here. Deviation: the reference keeps the content array as raw JSON.
const TEXT: &str = "you are a helpful assistant what is the weather?";

fn chat(tools: &str) -> String {
    format!(r#"{{"model":"m","tools":{tools},"messages":{MESSAGES}}}"#)
}

#[test]
fn tools_that_are_none_leave_no_trace() {
    for tools in ["null", "[]", "[ ]", "{}", "\"x\""] {
        check(PathKind::ChatCompletions, &chat(tools), TEXT);
        let after = format!(r#"{{"model":"m","messages":{MESSAGES},"tools":{tools}}}"#);
        check(PathKind::ChatCompletions, &after, TEXT);
    }
}

#[test]
fn tools_are_canonical_whatever_their_order_and_white_space() {
    // Deviation: an exponent is spelled with its sign; the reference keeps `1e1`.
    let canonical = r#"[{"function":{"description":"Get the weather","name":"get_weather","parameters":{"properties":{"city":{"type":"string"},"days":{"maximum":1e+1,"type":"integer"}},"type":"object"}},"type":"function"}]"#;
    let forms = [
        r#"[{"type":"function","function":{"name":"get_weather","description":"Get the weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","maximum":1e1}}}}}]"#,
        r#" [ { "function" : {"parameters": {"properties":{"days":{"maximum":1e1, "type":"integer"},"city":{"type":"string"}}, "type":"object"},
            "description":"Get the weather","name":"get_weather"}, "type":"function"} ] "#,
    ];
    for tools in forms {
        check(
            PathKind::ChatCompletions,
            &chat(tools),
            &format!("{canonical} {TEXT}"),
        );
        let without = ParseOptions {
            include_tools: false,
        };
        assert_eq!(
            text_of(PathKind::ChatCompletions, &chat(tools), &without),
            TEXT
        );
    }
    let anthropic = r#"[{"name":"get_weather","input_schema":{"type":"object"},"description":"Get the weather"}]"#;
    let canonical = r#"[{"description":"Get the weather","input_schema":{"type":"object"},"name":"get_weather"}]"#;
    check(
        PathKind::Messages,
        &chat(anthropic),
        &format!("{canonical} {TEXT}"),
    );
    check(
        PathKind::ChatCompletions,
        &chat(r#"[{"description":"a < b && c > d"}]"#),
        &format!(r#"[{{"description":"a < b && c > d"}}] {TEXT}"#),
    );
}

#[test]
fn content_is_text_a_hash_or_as_it_stands() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}"#;
    let hash = format!("{:016x}", xxh3_64(image.as_bytes()));
    for (content, expected) in [
        (r#""plain""#.to_owned(), "plain".to_owned()),
        (
            r#""a \"b\" \u00e9\n""#.to_owned(),
            "a \"b\" \u{e9}\n".to_owned(),
        ),
        (
            r#"[{"type":"text","text":"plain"}]"#.to_owned(),
            "plain".to_owned(),
        ),
        (
            r#"[{"text":"a","type":"text"},{"type":"input_text","text":"b"},"c"]"#.to_owned(),
            "a b c".to_owned(),
        ),
        (
            format!(r#"[{{"type":"text","text":"see"}},{image}]"#),
            format!("see {hash}"),
        ),
        ("null".to_owned(), "null".to_owned()),
        ("[]".to_owned(), String::new()),
        (r#"{"odd": 1}"#.to_owned(), r#"{"odd": 1}"#.to_owned()),
        (r#""a \ud83c b""#.to_owned(), "a \u{fffd} b".to_owned()),
        (r#""\ud83c\udf89""#.to_owned(), "\u{1f389}".to_owned()),
        (r#""\u0000""#.to_owned(), "\0".to_owned()),
    ] {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#);
        check(PathKind::ChatCompletions, &body, &expected);
    }
    check(
        PathKind::ChatCompletions,
        r#"{"model":"m","messages":[{"content":"a"},{"role":"assistant"},{"content":"b"},7]}"#,
        "a  b ",
    );
}

#[test]
fn each_interface_has_its_fields() {
    for (kind, body, expected) in [
        (
            PathKind::Messages,
            r#"{"model":"m","messages":[{"content":"u"}],"system":"s"}"#,
            "s u",
        ),
        (
            PathKind::Messages,
            r#"{"model":"m","system":[{"type":"text","text":"s"}],"messages":[{"content":"u"}]}"#,
            "s u",
        ),
        (
            PathKind::Responses,
            r#"{"model":"m","instructions":"i","input":"u"}"#,
            "i u",
        ),
        (
            PathKind::Responses,
            r#"{"model":"m","instructions":null,"input":[{"role":"user","content":"u"},{"content":[{"type":"input_text","text":"v"}]}]}"#,
            "u v",
        ),
        (
            PathKind::Responses,
            r#"{"model":"m","input":[{"type":"function_call_output","output":"o"}]}"#,
            r#"{"type":"function_call_output","output":"o"}"#,
        ),
        (PathKind::Completions, r#"{"model":"m","prompt":"p"}"#, "p"),
        (
            PathKind::Completions,
            r#"{"model":"m","prompt":["p","q"]}"#,
            "p q",
        ),
        (
            PathKind::Completions,
            r#"{"model":"m","prompt":[1, 2,3]}"#,
            "[1, 2,3]",
        ),
        (
            PathKind::Completions,
            r#"{"model":"m","prompt":[[1,2],[3]]}"#,
            "[[1,2],[3]]",
        ),
        (PathKind::Completions, r#"{"model":"m"}"#, ""),
        (
            PathKind::Rerank,
            r#"{"model":"m","query":"q","documents":["a","b"]}"#,
            "q a b",
        ),
        (
            PathKind::Classify,
            r#"{"model":"m","input":["a","b"]}"#,
            "a b",
        ),
        (PathKind::Pooling, r#"{"model":"m","input":"a"}"#, "a"),
        (PathKind::Embeddings, r#"{"model":"m","input":"a"}"#, ""),
        (
            PathKind::CountTokens,
            r#"{"model":"m","messages":[{"content":"u"}]}"#,
            "",
        ),
    ] {
        check(kind, body, expected);
    }
}

#[test]
fn a_turn_s_text_begins_with_the_turn_s_before() {
    let mut messages = vec![json!({"role": "system", "content": "s"})];
    let mut before = String::new();
    for turn in 0..5 {
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": format!("question {turn}")}]}));
        let text = text_of(
            PathKind::ChatCompletions,
            &json!({"model": "m", "messages": messages}).to_string(),
            &WITH_TOOLS,
        );
        assert!(text.starts_with(&before), "{text}");
        messages.push(json!({"role": "assistant", "content": format!("answer {turn}")}));
        before = text;
    }
}

#[test]
fn other_fields_are_read_and_text_is_not_copied() {
    let body = r#"{"stream":true,"max_tokens":12,"cache_salt":"s","model":"m","messages":[{"content":"not copied"}]}"#;
    let request = parse(
        PathKind::ChatCompletions,
        None,
        body.as_bytes(),
        &WITH_TOOLS,
    )
    .unwrap();
    assert_eq!((request.stream, request.max_tokens), (true, Some(12)));
    assert_eq!(request.cache_salt.as_deref(), Some("s"));
    assert!(matches!(request.model, Cow::Borrowed("m")));
    let piece = request.prompt.pieces().next().unwrap();
    assert!(body.as_bytes().as_ptr_range().contains(&piece.as_ptr()));
}

#[test]
fn what_is_wrong_is_told_by_kind() {
    let chat = PathKind::ChatCompletions;
    for (body, expected) in [
        ("[]", BodyError::NotAnObject("an array")),
        ("  \"x\"", BodyError::NotAnObject("a string")),
        ("null", BodyError::NotAnObject("null")),
        ("{}", BodyError::NoModel),
        (r#"{"model":""}"#, BodyError::BadModel("an empty string")),
        (r#"{"model":null}"#, BodyError::BadModel("null")),
        (r#"{"model":5}"#, BodyError::BadModel("a number")),
        (r#"{"model":["m"]}"#, BodyError::BadModel("an array")),
        (r#"{"model":{}}"#, BodyError::BadModel("an object")),
        (r#"{"model":"a","model":"b"}"#, BodyError::TwoModels),
        (r#"{"model":"a","mod\u0065l":"b"}"#, BodyError::TwoModels),
        (r#"{"model":"a"}"#, BodyError::NoMessages),
        (r#"{"model":"a","messages":[]}"#, BodyError::NoMessages),
        (r#"{"model":"a","messages":"x"}"#, BodyError::NoMessages),
        (r#"{"model":"a","messages":null}"#, BodyError::NoMessages),
    ] {
        check_error(chat, body.as_bytes(), &expected);
    }
    for (body, expected) in [
        (r#"{"model":"a"}"#, BodyError::NoInput),
        (r#"{"model":"a","input":null}"#, BodyError::NoInput),
        (r#"{"model":"a","input":5}"#, BodyError::BadInput),
        (r#"{"model":"a","input":[]}"#, BodyError::EmptyInput),
    ] {
        check_error(PathKind::Responses, body.as_bytes(), &expected);
    }
    let form = parse(
        chat,
        Some("multipart/form-data; boundary=x"),
        b"--x",
        &WITH_TOOLS,
    );
    assert_eq!(form.expect_err("an error").status(), 415);
    let json = parse(
        PathKind::AudioTranscriptions,
        Some("application/json"),
        b"{}",
        &WITH_TOOLS,
    );
    assert_eq!(json.expect_err("an error").status(), 415);
    // What clients send under curl's default name is read all the same.
    let curl = parse(
        PathKind::Completions,
        Some("application/x-www-form-urlencoded"),
        br#"{"model":"m"}"#,
        &WITH_TOOLS,
    );
    assert!(curl.is_ok());
}

#[test]
fn broken_json_is_placed_and_nothing_of_it_is_quoted() {
    for body in [
        &b"{"[..],
        b"{\"model\":\"m\",}",
        b"{\"model\":\"m\"} x",
        b"\xef\xbb\xbf{}",
        b"{\"messages\":[{\"content\":\"SECRET \xed\xa0\xbc\"}]}",
        b"SECRET",
    ] {
        let error =
            parse(PathKind::ChatCompletions, None, body, &WITH_TOOLS).expect_err("an error");
        assert!(matches!(error, BodyError::NotJson(_)), "{error}");
        assert!(!error.to_string().contains("SECRET"), "{error}");
        assert!(error.to_string().contains("line 1 column"), "{error}");
    }
}

#[test]
fn no_depth_of_nesting_needs_a_deep_stack() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let objects = "{\"a\":".repeat(20_000) + "1" + &"}".repeat(20_000);
    let bodies = vec![
        format!(r#"{{"model":"m","x":{deep},"messages":[{{"content":"x"}}]}}"#),
        format!(r#"{{"model":"m","tools":{deep},"messages":[{{"content":{deep}}},{deep}]}}"#),
        format!(
            r#"{{"model":"m","system":{objects},"instructions":{deep},"messages":{deep},"input":{deep},"prompt":{deep}}}"#
        ),
        objects,
        "[".repeat(100_000),
    ];
    let thread = std::thread::Builder::new()
        .stack_size(512 * 1024)
        .spawn(move || {
            for body in &bodies {
                for kind in [
                    PathKind::ChatCompletions,
                    PathKind::Messages,
                    PathKind::Responses,
                    PathKind::Completions,
                    PathKind::Rerank,
                ] {
                    // Read or refused: both are answers.
                    drop(parse(kind, None, body.as_bytes(), &WITH_TOOLS));
                }
                drop(peek_model(body.as_bytes()));
            }
        });
    thread.unwrap().join().unwrap();
}

fn any_kind() -> impl Strategy<Value = PathKind> {
    prop::sample::select(vec![
        PathKind::ChatCompletions,
        PathKind::Messages,
        PathKind::Responses,
        PathKind::Completions,
        PathKind::Rerank,
        PathKind::AudioTranscriptions,
    ])
}

proptest! {
    #[test]
    fn no_bytes_are_too_odd(kind in any_kind(), body in prop::collection::vec(any::<u8>(), 0..300), coding in "(gzip|zstd|br|deflate)") {
        drop(parse(kind, Some("multipart/form-data; boundary=x"), &body, &WITH_TOOLS));
        drop(coding::decode(&coding, &body, 1000));
    }

    #[test]
    fn the_text_is_that_of_the_decoded_strings(contents in prop::collection::vec(".{0,40}", 1..5)) {
        let messages: Vec<Value> = contents.iter().map(|content| json!({"role": "user", "content": content})).collect();
        let body = json!({"model": "m", "messages": messages});
        let expected = contents.join(" ");
        prop_assert_eq!(&text_of(PathKind::ChatCompletions, &body.to_string(), &WITH_TOOLS), &expected);
        let pretty = serde_json::to_string_pretty(&body).unwrap();
        prop_assert_eq!(&text_of(PathKind::ChatCompletions, &pretty, &WITH_TOOLS), &expected);
    }
}
