//! What text each kind of body gives.

use std::borrow::Cow;

use super::*;

use PathKind::*;

#[test]
fn a_string_and_text_parts_give_the_same() {
    for (content, text) in [
        (r#""T""#, "T"),
        (r#"[{"type":"text","text":"T"}]"#, "T"),
        (r#"[ { "text" : "T" , "x" : [1] , "type" : "text" } ]"#, "T"),
        (r#"["T"]"#, "T"),
        (r#"[{"type":"input_text","text":"T"}]"#, "T"),
        (r#"[{"type":"output_text","text":"T"}]"#, "T"),
        (
            r#"[{"type":"text","text":"T"},{"type":"text","text":"U"}]"#,
            "T U",
        ),
        (r#"[{"t\u0079pe":"te\u0078t","t\u0065xt":"\u0054"}]"#, "T"),
        // The last of a key that is given twice counts, as elsewhere.
        (r#"[{"type":"text","text":"U","text":"T"}]"#, "T"),
        (
            r#""a\nb\"c\\d\/e\t\r\b\f\u00e9\ud83d\ude00""#,
            "a\nb\"c\\d/e\t\r\u{8}\u{c}é😀",
        ),
        (r#""a \ud83c b""#, "a \u{fffd} b"),
        (
            r#""\udc00\ud83d\ud83d\ude00\n\\u0041""#,
            "\u{fffd}\u{fffd}😀\n\\u0041",
        ),
        (r#"[{"type":"text","text":"\ud83c"}]"#, "\u{fffd}"),
        (r#"[{"\ud83c":1,"type":"text","text":"T"}]"#, "T"),
        // A part that is no longer than a hash needs none.
        (r#"[5, {"a" : 1},"T"]"#, r#"5 {"a":1} T"#),
        (r#""a\u0000b""#, "a\0b"),
        ("\"\"", ""),
        ("[]", ""),
        ("null", "null"),
        ("5", "5"),
        ("1e1", "1e1"),
        ("true", "true"),
        (r#"{"b":1, "a":2}"#, r#"{"a":2,"b":1}"#),
    ] {
        check(ChatCompletions, says(content), Ok(text));
        check(Messages, says(content), Ok(text));
    }
}

#[test]
fn messages_are_joined_by_one_blank() {
    for (messages, text) in [
        (r#"[{"content":"a"},{"content":"b"}]"#, "a b"),
        (r#"[{"content":"a"},{"role":"x"},{"content":"b"}]"#, "a  b"),
        (r#"[{"content":""},{"content":"b"}]"#, " b"),
        (
            r#"[{"content":"a"},5,"s",null,[1],true,1.5,-1,{"content":"b"}]"#,
            "a        b",
        ),
        (r#"[{"content":"z","content":"a"}]"#, "a"),
        (r#"[{"c\u006fntent":"a","contents":"b"}]"#, "a"),
        (r#"[{"\ud83c":1,"content":"a","\udc00":2}]"#, "a"),
    ] {
        check(ChatCompletions, chat(messages), Ok(text));
    }
}

#[test]
fn what_is_not_text_keeps_the_text_before_it() {
    let image = |data: &str| {
        let body = says(&format!(
            r#"[{{"type":"text","text":"T"}},{{"type":"image_url","image_url":{{"url":"{data}"}}}}]"#
        ));
        read(ChatCompletions, &WITH_TOOLS, body.as_bytes()).unwrap()
    };
    let one = image("data:image/png;base64,AAAA");
    assert!(one.starts_with("T "), "{one}");
    assert_eq!(one.len(), "T ".len() + 16, "a hash stands for it");
    assert_eq!(one, image("data:image/png;base64,AAAA"));
    assert_ne!(one, image("data:image/png;base64,AAAB"));
}

#[test]
fn a_further_turn_extends_the_text() {
    let turns = [
        r#"{"role":"user","content":"one"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x"}]}"#,
        r#"{"role":"tool","content":[{"type":"text","text":"two"}]}"#,
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}"#,
        r#"{"role":"user","content":""}"#,
        r#"{"role":"user","content":"three"}"#,
    ];
    for kind in [ChatCompletions, Messages, Responses] {
        let key = if kind == Responses {
            "input"
        } else {
            "messages"
        };
        let texts: Vec<String> = (1..=turns.len())
            .map(|count| {
                let body = format!(
                    r#"{{"model":"m","tools":[{{"a":1}}],"system":"s","instructions":"s","{key}":[{}]}}"#,
                    turns[..count].join(",")
                );
                read(kind, &WITH_TOOLS, body.as_bytes()).unwrap()
            })
            .collect();
        for pair in texts.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{kind:?} {pair:?}");
        }
    }
}

#[test]
fn each_kind_has_its_text() {
    for (kind, body, text) in [
        (
            Messages,
            r#"{"model":"m","system":"S","messages":[{"content":"a"}]}"#,
            "S a",
        ),
        (
            Messages,
            r#"{"model":"m","messages":[{"content":"a"}],"tools":[1],"system":[{"type":"text","text":"S","cache_control":{"type":"ephemeral"}},{"type":"text","text":"R"}]}"#,
            "S R [1] a",
        ),
        (
            Messages,
            r#"{"model":"m","system":null,"messages":[{"content":"a"}]}"#,
            "a",
        ),
        (
            ChatCompletions,
            r#"{"model":"m","system":"S","messages":[{"content":"a"}]}"#,
            "a",
        ),
        (Responses, r#"{"model":"m","input":"a"}"#, "a"),
        (
            Responses,
            r#"{"model":"m","instructions":"S","tools":[{"b":1,"a":2}],"input":"a"}"#,
            r#"S [{"a":2,"b":1}] a"#,
        ),
        (
            Responses,
            r#"{"model":"m","instructions":{"b":1, "a":2},"input":[{"content":"a"}]}"#,
            r#"{"a":2,"b":1} a"#,
        ),
        (
            Responses,
            r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","name":"f"},"s"]}"#,
            r#"a {"name":"f","type":"function_call"} "s""#,
        ),
        (Responses, r#"{"model":"m","input":"","messages":5}"#, ""),
        (Completions, r#"{"model":"m","prompt":"a\nb"}"#, "a\nb"),
        (Completions, r#"{"model":"m","prompt":["a","b"]}"#, "a b"),
        (
            Completions,
            r#"{"model":"m","prompt":[1, 2,3 ]}"#,
            "[1,2,3]",
        ),
        (
            Completions,
            r#"{"model":"m","prompt":[[1,2],[3]]}"#,
            "[[1,2],[3]]",
        ),
        (Completions, r#"{"model":"m","prompt":null}"#, ""),
        (Completions, r#"{"model":"m"}"#, ""),
        (
            Rerank,
            r#"{"documents":["d1","d2"],"model":"m","query":"q"}"#,
            "q d1 d2",
        ),
        (
            Rerank,
            r#"{"model":"m","query":"q","documents":[{"text":"d"}]}"#,
            r#"q [{"text":"d"}]"#,
        ),
        (Classify, r#"{"model":"m","input":"a"}"#, "a"),
        (Classify, r#"{"model":"m","input":["a","b"]}"#, "a b"),
        (Pooling, r#"{"model":"m","input":"a"}"#, "a"),
        (Embeddings, r#"{"model":"m","input":"a"}"#, ""),
        (
            CountTokens,
            r#"{"model":"m","messages":[{"content":"a"}]}"#,
            "",
        ),
        (Tokenize, r#"{"model":"m","prompt":"a"}"#, ""),
        (Images, r#"{"model":"m","prompt":"a"}"#, ""),
        (
            Completions,
            r#"{"mod\u0065l":"\u006d","pr\u006fmpt":"a"}"#,
            "a",
        ),
        (Completions, r#"{"\ud83c":1,"model":"m","prompt":"a"}"#, "a"),
        (
            Completions,
            r#"{"model":"m","prompt":["a",1]}"#,
            r#"["a",1]"#,
        ),
        (Completions, r#"{"model":"m","prompt":[]}"#, ""),
        (
            ChatCompletions,
            r#" { "m\u0065ssages" : [ { "content" : "a" } ] , "model" : "m" } "#,
            "a",
        ),
    ] {
        check(kind, body, Ok(text));
    }
}

#[test]
fn text_without_escapes_is_not_copied() {
    for body in [
        says(r#""plain é text""#),
        says(r#"[{"type":"text","text":"plain"},{"text":"more","type":"text"}]"#),
    ] {
        let request = parse(ChatCompletions, None, body.as_bytes(), &WITH_TOOLS).unwrap();
        assert!(matches!(request.model, Cow::Borrowed(_)));
        request.prompt.each(|piece| {
            let inside = body.as_bytes().as_ptr_range().contains(&piece.as_ptr());
            assert!(inside || piece == b" ", "{piece:?}");
        });
    }
}

/// A piece takes more room than a short text, so nothing but short texts must not be as many pieces.
#[test]
fn no_number_of_tiny_parts_makes_as_many_pieces() {
    const COUNT: usize = 100_000;
    let list = |item: &str| format!("[{}{item}]", format!("{item},").repeat(COUNT - 1));
    let joined = |text: &str| format!("{}{text}", format!("{text} ").repeat(COUNT - 1));
    for (kind, body, text) in [
        (ChatCompletions, chat(&list("0")), joined("")),
        (ChatCompletions, says(&list("\"a\"")), joined("a")),
        (ChatCompletions, says(&list("\"\\n\"")), joined("\n")),
        (ChatCompletions, says(&list("{}")), joined("{}")),
        (
            Responses,
            format!(r#"{{"model":"m","input":{}}}"#, list("0")),
            joined("0"),
        ),
        (
            Completions,
            format!(r#"{{"model":"m","prompt":{}}}"#, list("\"a\"")),
            joined("a"),
        ),
    ] {
        check(kind, &body, Ok(&text));
        let request = parse(kind, None, body.as_bytes(), &WITH_TOOLS).unwrap();
        let mut pieces = 0;
        request.prompt.each(|_| pieces += 1);
        assert!(pieces < COUNT / 10, "{pieces} pieces of {kind:?}");
    }
}

#[test]
fn long_pieces_keep_their_place_among_many_short_ones() {
    let long = "long ".repeat(20);
    let contents = ["s", &long, &long, "t"].repeat(3000);
    let messages: Vec<String> = contents
        .iter()
        .map(|text| format!(r#"{{"content":"{text}"}}"#))
        .collect();
    let body = chat(&format!("[{}]", messages.join(",")));
    check(ChatCompletions, body, Ok(&contents.join(" ")));
}
