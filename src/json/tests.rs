use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

/// What the walk says of one whole text.
fn whole(json: &[u8]) -> Option<Raw<'_>> {
    let mut walk = Walk::new(json);
    let value = walk.value()?;
    walk.end()?;
    Some(value)
}

/// The walk accepts what `serde_json` does, but for values that are no UTF-8, and reads strings as it does.
#[track_caller]
fn same(json: &[u8]) {
    let serde = serde_json::from_slice::<IgnoredAny>(json);
    let mut walk = Walk::new(json);
    let passed = walk.pass().and_then(|_| walk.end());
    let shown = String::from_utf8_lossy(json);
    assert_eq!(passed.is_some(), serde.is_ok(), "{shown:?} {serde:?}");
    let value = whole(json);
    let valid = serde.is_ok() && std::str::from_utf8(json).is_ok();
    assert_eq!(value.is_some(), valid, "{shown:?}");
    let Some(value) = value else {
        return;
    };
    assert_eq!(value.bytes, shown.trim_ascii().as_bytes());
    if let Ok(expected) = serde_json::from_slice::<String>(json) {
        let text = value.text().unwrap();
        assert_eq!(text.to_str(), expected);
        assert_eq!(text.len(), expected.len());
        assert_eq!(text.plain().is_some(), !shown.contains('\\'));
    }
}

#[test]
fn every_byte_at_every_place_of_a_string() {
    for length in [1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 95, 96, 97, 100, 170] {
        for at in 0..length {
            for byte in 0..=255 {
                let mut json = vec![b'x'; length + 2];
                json[0] = b'"';
                json[length + 1] = b'"';
                json[at + 1] = byte;
                same(&json);
            }
        }
    }
}

/// A byte that borrows from the next must not hide or invent a special one.
#[test]
fn every_pair_of_bytes_in_a_string() {
    for first in 0..=255 {
        for second in 0..=255 {
            same(&[
                b'"', first, second, b'x', b'x', b'x', b'x', b'x', b'x', b'"',
            ]);
        }
    }
}

#[test]
fn numbers_and_words() {
    for json in [
        "0",
        "-0",
        "00",
        "01",
        "-",
        "-01",
        "1",
        "10",
        "1.",
        "1.5",
        ".5",
        "1.e5",
        "1e5",
        "1E+5",
        "1e-5",
        "1e",
        "1e+",
        "-1.25e-07",
        "+1",
        "0x1",
        "1_0",
        "1 2",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "0e0",
        "-a",
        "123456789012345678901234567890",
        "true",
        "tru",
        "truex",
        "true ",
        "True",
        "false",
        "fals",
        "null",
        "nul",
        "nulll",
        "undefined",
        "",
        " ",
        "\u{a0}1",
        "\u{c}1",
        "\u{feff}1",
    ] {
        same(json.as_bytes());
        same(format!("[{json}]").as_bytes());
        same(format!("{{\"a\":{json},\"b\":{json}}}").as_bytes());
    }
}

#[test]
fn brackets_and_commas() {
    for json in [
        "[]",
        "[ ]",
        "[,]",
        "[1,]",
        "[,1]",
        "[1 1]",
        "[1,,1]",
        "[1]]",
        "[[1]",
        "[}",
        "{]",
        "{}",
        "{ }",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\" : 1 , \"b\" : [ ] }",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:1}",
        "{\"a\"::1}",
        "{\"a\",1}",
        "[{}{}]",
        "[{},{}]",
        "[\"a\":1]",
        "{\"a\":[}]",
        "[{]}",
        "{\"a\":{\"b\":{\"c\":[[[]]]}}}",
        "[1}",
        "{\"a\":1]",
        "[",
        "{",
        "]",
        "}",
        "[[",
        "{\"a\":{",
        "\"a\"\"b\"",
    ] {
        same(json.as_bytes());
        same(format!("[{json}]").as_bytes());
        same(format!("{{\"k\":{json}}}").as_bytes());
        same(format!("{{\"k\":[{json},{json}]}}").as_bytes());
    }
}

#[test]
fn escapes() {
    for escape in [
        "\\\"",
        "\\\\",
        "\\/",
        "\\b",
        "\\f",
        "\\n",
        "\\r",
        "\\t",
        "\\u0041",
        "\\u00e9",
        "\\u20AC",
        "\\ud83d\\ude00",
        "\\u0000",
        "\\uffff",
        "\\",
        "\\x",
        "\\u",
        "\\u1",
        "\\u12",
        "\\u123",
        "\\u123g",
        "\\u 123",
        "\\u+123",
        "\\'",
        "\\0",
        "\\U0041",
        "\\ud83d\\ude0",
        "\\ud83d\\",
        "\\ud83d\\n",
    ] {
        for before in ["", "1234567", "\u{e9}"] {
            for after in ["", "e", "\\n", "\u{e9}"] {
                same(format!("\"{before}{escape}{after}\"").as_bytes());
            }
        }
    }
}

#[test]
fn half_a_surrogate_pair_stands_as_the_replacement() {
    for (json, expected) in [
        (r#""\ud83d""#, "\u{fffd}"),
        (r#""\ude00""#, "\u{fffd}"),
        (r#""\ud83dx""#, "\u{fffd}x"),
        (r#""\ud83d\n""#, "\u{fffd}\n"),
        (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
        (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
        (r#""\ud83d\u0041""#, "\u{fffd}A"),
    ] {
        let text = whole(json.as_bytes()).unwrap().text().unwrap();
        assert_eq!(text.to_str(), expected);
        assert_eq!(text.len(), expected.len());
    }
}

/// Deeper than a reader that recurses could go.
#[test]
fn no_depth_exhausts_the_stack() {
    const DEPTH: usize = 1_000_000;
    let open = "[{\"a\":".repeat(DEPTH);
    let close = "}]".repeat(DEPTH);
    assert!(whole(format!("{open}1{close}").as_bytes()).is_some());
    assert!(whole(format!("{open}1{}", &close[1..]).as_bytes()).is_none());
    assert!(whole(open.as_bytes()).is_none());
}

#[test]
fn what_is_no_utf8_is_told_where_it_is_asked_for() {
    let json = b"{\"\xff\":\"\xff\",\"a\":\"b\xff\"}";
    let mut walk = Walk::new(json);
    assert!(walk.pass().is_some());
    assert_eq!(walk.no_utf8(), None);
    let mut walk = Walk::new(json);
    let walked = walk.object(|walk, key| match key.is("a") {
        true => walk.value().map(drop),
        false => walk.pass().map(drop),
    });
    assert_eq!(walked, None);
    assert_eq!(walk.no_utf8(), Some(json.len() - 1));
}

/// Pieces of which texts that are nearly right can be made.
fn token() -> impl Strategy<Value = &'static [u8]> {
    prop::sample::select(vec![
        &b"{"[..],
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b"\"",
        b"\\",
        b"\\u",
        b"d83d",
        b"\\ude00",
        b"1",
        b"e",
        b"-",
        b".",
        b"null",
        b"true",
        b" ",
        b"\n",
        b"\"key\":",
        b"\"text\"",
        b"\"a long text that takes more than a step, as they do when there is much to say\"",
        b"\xc3\xa9",
        b"\xff",
        b"\0",
    ])
}

proptest! {
    #[test]
    fn any_text_is_read_as_serde_reads_it(tokens in prop::collection::vec(token(), 0..24)) {
        let json = tokens.concat();
        same(&json);
        same(&[b"[", &*json, b"]"].concat());
        same(&[b"\"", &*json, b"\""].concat());
    }

    #[test]
    fn any_string_is_read_as_serde_reads_it(text in any::<String>(), pad in 0..80_usize) {
        let text = format!("{}{text}", "x".repeat(pad));
        same(serde_json::to_string(&text).unwrap().as_bytes());
    }

    #[test]
    fn any_bytes_are_read_as_serde_reads_them(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        same(&bytes);
        same(&[b"\"", &*bytes, b"\""].concat());
    }
}
