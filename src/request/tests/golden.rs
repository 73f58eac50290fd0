//! The reference's table of prompt texts. One deviation: a text part gives its text, not its JSON, so that a string and
//! an array with the same text lead to the same pod. Where the reference has the second message's array in its text
//! (`[{"type":"text","text":"what is the weather?"}]`), here is `what is the weather?`.

use super::*;

const MESSAGES: &str = r#"[{"role":"system","content":"you are a helpful assistant"},{"role":"user","content":[{"type":"text","text":"what is the weather?"}]}]"#;
const TEXT: &str = "you are a helpful assistant what is the weather?";
const TOOLS: &str = r#"[{"type":"function","function":{"name":"get_weather","description":"Get the weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","maximum":1e1}}}}}]"#;
const CANONICAL: &str = r#"[{"function":{"description":"Get the weather","name":"get_weather","parameters":{"properties":{"city":{"type":"string"},"days":{"maximum":1e1,"type":"integer"}},"type":"object"}},"type":"function"}]"#;

fn with_tools(tools: &str) -> String {
    format!(r#"{{"model":"m","tools":{tools},"messages":{MESSAGES}}}"#)
}

#[test]
fn no_tools_leave_no_trace() {
    check(PathKind::ChatCompletions, chat(MESSAGES), Ok(TEXT));
    for tools in ["null", "[]", "[ ]", "[\n]", "{}", "\"x\"", "5", "true"] {
        check(PathKind::ChatCompletions, with_tools(tools), Ok(TEXT));
        let after = format!(r#"{{"messages":{MESSAGES},"tools": {tools} ,"model":"m"}}"#);
        check(PathKind::ChatCompletions, after, Ok(TEXT));
    }
}

#[test]
fn tools_come_first_and_in_order() {
    let expected = format!("{CANONICAL} {TEXT}");
    check(
        PathKind::ChatCompletions,
        with_tools(TOOLS),
        Ok(expected.as_str()),
    );
    let spaced = TOOLS.replace(':', " :\n").replace(',', "\t, ");
    check(
        PathKind::ChatCompletions,
        with_tools(&spaced),
        Ok(expected.as_str()),
    );
    check(
        PathKind::Messages,
        with_tools(
            r#"[{"name":"get_weather","input_schema":{"type":"object"},"description":"Get the weather"}]"#,
        ),
        Ok(&format!(
            r#"[{{"description":"Get the weather","input_schema":{{"type":"object"}},"name":"get_weather"}}] {TEXT}"#
        )),
    );
}

#[test]
fn canonical_json_keeps_spellings() {
    for (tools, canonical) in [
        (r#"["a < b && c > d"]"#, r#"["a < b && c > d"]"#),
        ("[1e1, 1E+1, 1.0, -0, 10]", "[1e1,1E+1,1.0,-0,10]"),
        (
            "[123456789012345678901234567890.10]",
            "[123456789012345678901234567890.10]",
        ),
        (r#"["\u0041\/", "é"]"#, r#"["A/","é"]"#),
        // By bytes: capitals before small letters, a prefix before what it begins.
        (
            r#"[{"b":1,"a":2,"B":3,"ab":4}]"#,
            r#"[{"B":3,"a":2,"ab":4,"b":1}]"#,
        ),
        (r#"[{"a":[{"d":1,"c":2}]}]"#, r#"[{"a":[{"c":2,"d":1}]}]"#),
        (r#"[{"a":1,"b":2,"a":3}]"#, r#"[{"a":3,"b":2}]"#),
        (
            r#"[{"b":"\ud800","a":1}, {}, [ ]]"#,
            "[{\"a\":1,\"b\":\"\u{fffd}\"},{},[]]",
        ),
        (r#"["\u000A\t\"\\"]"#, r#"["\n\t\"\\"]"#),
    ] {
        let expected = format!("{canonical} {TEXT}");
        check(
            PathKind::ChatCompletions,
            with_tools(tools),
            Ok(expected.as_str()),
        );
    }
}

#[test]
fn tools_can_be_left_out() {
    let body = with_tools(TOOLS);
    let text = read(PathKind::ChatCompletions, &WITHOUT_TOOLS, body.as_bytes());
    assert_eq!(text.as_deref(), Ok(TEXT));
}

/// The reference takes its text as it is; here such a body is no JSON.
#[test]
fn broken_tools_break_the_body() {
    let broken = read(
        PathKind::ChatCompletions,
        &WITH_TOOLS,
        with_tools(r#" [{"type": "#).as_bytes(),
    );
    assert!(matches!(broken, Err(BodyError::NotJson(_))), "{broken:?}");
}

/// Noting the keys of such an object would take many times its size.
#[test]
fn an_object_of_very_many_keys_stays_as_it_was_sent() {
    let keys: String = (0..5000)
        .rev()
        .map(|key| format!(" \"{key}\":0,"))
        .collect();
    let tools = format!("[{{{keys}\"x\":0}}]");
    let expected = format!("{tools} {TEXT}");
    check(
        PathKind::ChatCompletions,
        with_tools(&tools),
        Ok(expected.as_str()),
    );
}
