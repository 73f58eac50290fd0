//! Bodies that are refused, and how.

use super::*;

use BodyError::*;
use PathKind::*;

#[test]
fn a_wrong_model_is_named_by_its_kind() {
    for (model, error) in [
        (r#""model":"","#, BadModel("an empty string")),
        (r#""model":null,"#, BadModel("null")),
        (r#""model":5,"#, BadModel("a number")),
        (r#""model":-5.5e3,"#, BadModel("a number")),
        (r#""model":true,"#, BadModel("a boolean")),
        (r#""model":["m"],"#, BadModel("an array")),
        (r#""model":{"a":"m"},"#, BadModel("an object")),
        (r#""model":"m","model":"m","#, TwoModels),
        (r#""model":"m","mod\u0065l":"n","#, TwoModels),
        (r#""Model":"m","#, NoModel),
        ("", NoModel),
    ] {
        for kind in [ChatCompletions, Completions, Embeddings] {
            let body = format!(r#"{{{model}"messages":[{{"content":"a"}}]}}"#);
            check(kind, body, Err(error.clone()));
        }
    }
}

#[test]
fn what_is_no_object_is_named_by_its_kind() {
    for (body, kind) in [
        ("[]", "an array"),
        (" [1]", "an array"),
        ("\"s\"", "a string"),
        ("5", "a number"),
        ("-5", "a number"),
        ("true", "a boolean"),
        ("null", "null"),
    ] {
        check(ChatCompletions, body, Err(NotAnObject(kind)));
    }
}

#[test]
fn broken_json_tells_the_place() {
    const ENDS: &str = "it ends too early";
    const WRONG: &str = "invalid syntax or encoding";
    for (body, why) in [
        (&b""[..], format!("{ENDS} at line 1 column 0")),
        (b"  \n", format!("{ENDS} at line 2 column 0")),
        (b"{", format!("{ENDS} at line 1 column 1")),
        (b"{\"model\":\"m\"", format!("{ENDS} at line 1 column 12")),
        (
            b"{\"model\":\"m\"}x",
            format!("{WRONG} at line 1 column 14"),
        ),
        (
            b"{\"model\":\"m\"}{}",
            format!("{WRONG} at line 1 column 14"),
        ),
        (b"{\"model\":m}", format!("{WRONG} at line 1 column 10")),
        (b"{'model':1}", format!("{WRONG} at line 1 column 2")),
        (
            b"\xef\xbb\xbf{\"model\":\"m\"}",
            format!("{WRONG} at line 1 column 1"),
        ),
    ] {
        check(ChatCompletions, body, Err(NotJson(why)));
    }
}

#[test]
fn wrong_encoding_is_refused_or_passed_the_same_each_time() {
    for (body, refused) in [
        (&b"{\"model\":\"m\",\"messages\":[{\"content\":\"\xed\xa0\xbc\"}]}"[..], true),
        (b"{\"model\":\"m\",\"messages\":[{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}]}", true),
        (b"{\"model\":\"\xff\",\"messages\":[{\"content\":\"a\"}]}", true),
        // What is skipped is the engine's to judge.
        (b"{\"\xff\":1,\"model\":\"m\",\"messages\":[{\"content\":\"a\"}]}", false),
        (b"{\"user\":\"\xff\",\"model\":\"m\",\"messages\":[{\"content\":\"a\"}]}", false),
    ] {
        let first = read(ChatCompletions, &WITH_TOOLS, body);
        assert_eq!(matches!(first, Err(NotJson(_))), refused, "{first:?}");
        assert_eq!(read(ChatCompletions, &WITH_TOOLS, body), first);
    }
}

#[test]
fn a_prompt_must_be_there_where_the_engine_needs_one() {
    for (kind, body, error) in [
        (ChatCompletions, r#"{"model":"m"}"#, NoMessages),
        (Messages, r#"{"model":"m","system":"S"}"#, NoMessages),
        (
            ChatCompletions,
            r#"{"model":"m","messages":[]}"#,
            NoMessages,
        ),
        (
            ChatCompletions,
            r#"{"model":"m","messages":null}"#,
            NoMessages,
        ),
        (
            ChatCompletions,
            r#"{"model":"m","messages":{"a":[1]}}"#,
            NoMessages,
        ),
        (
            ChatCompletions,
            r#"{"model":"m","messages":"s"}"#,
            NoMessages,
        ),
        (ChatCompletions, r#"{"model":"m","messages":5}"#, NoMessages),
        (
            ChatCompletions,
            r#"{"model":"m","messages":-5}"#,
            NoMessages,
        ),
        (
            ChatCompletions,
            r#"{"model":"m","messages":5.5}"#,
            NoMessages,
        ),
        (
            ChatCompletions,
            r#"{"model":"m","messages":true}"#,
            NoMessages,
        ),
        (Responses, r#"{"model":"m"}"#, NoInput),
        (Responses, r#"{"model":"m","input":null}"#, NoInput),
        (Responses, r#"{"model":"m","input":[]}"#, EmptyInput),
        (Responses, r#"{"model":"m","input":[ ]}"#, EmptyInput),
        (Responses, r#"{"model":"m","input":{}}"#, BadInput),
        (Responses, r#"{"model":"m","input":5}"#, BadInput),
        (Responses, r#"{"model":"m","input":true}"#, BadInput),
    ] {
        check(kind, body, Err(error));
    }
}

#[test]
fn a_form_on_a_path_for_json_is_told_so() {
    let json = says("\"a\"");
    for (content_type, body, status) in [
        (
            Some("multipart/form-data; boundary=b"),
            "--b\r\n",
            Some(415),
        ),
        (
            Some("Application/X-WWW-Form-Urlencoded"),
            "model=m",
            Some(415),
        ),
        (
            Some("application/x-www-form-urlencoded"),
            json.as_str(),
            None,
        ),
        (Some("text/plain"), &json, None),
        (Some("text/plain"), "model=m", Some(400)),
        (None, &json, None),
        (None, "", Some(400)),
    ] {
        let read = parse(ChatCompletions, content_type, body.as_bytes(), &WITH_TOOLS);
        assert_eq!(
            read.err().map(|error| error.status()),
            status,
            "{content_type:?} {body}"
        );
    }
}

#[test]
fn messages_of_errors_hold_nothing_of_the_prompt() {
    const SECRET: &str = "hunter2";
    for kind in [
        ChatCompletions,
        Completions,
        Responses,
        Messages,
        Embeddings,
    ] {
        for body in [
            format!(r#"{{"model":"m","messages":"{SECRET}","input":{{"a":"{SECRET}"}}}}"#),
            format!(r#"{{"model":["{SECRET}"]}}"#),
            format!(r#"{{"model":"m","prompt":{SECRET}}}"#),
            format!(r#"{{"model":"m","{SECRET}":"{SECRET}"#),
            format!(r#"{{"model":"m","messages":[{{"content":"{SECRET}\x"}}]}}"#),
            SECRET.to_owned(),
            format!(r#""{SECRET}""#),
            format!(r#"{{"{SECRET}" "#),
        ] {
            if let Err(error) = parse(kind, None, body.as_bytes(), &WITH_TOOLS) {
                assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
            }
        }
    }
}
