//! What holds for all bodies.

use proptest::prelude::*;

use super::*;

const KINDS: [PathKind; 16] = [
    PathKind::ChatCompletions,
    PathKind::Completions,
    PathKind::Responses,
    PathKind::Messages,
    PathKind::CountTokens,
    PathKind::Embeddings,
    PathKind::Rerank,
    PathKind::Score,
    PathKind::Classify,
    PathKind::Pooling,
    PathKind::Tokenize,
    PathKind::Detokenize,
    PathKind::AudioTranscriptions,
    PathKind::AudioTranslations,
    PathKind::Images,
    PathKind::Other,
];

fn read_as_all(body: &[u8]) {
    for kind in KINDS {
        for content_type in [None, Some("multipart/form-data; boundary=b")] {
            let _ = parse(kind, content_type, body, &WITH_TOOLS);
        }
    }
    let _ = peek_model(body);
}

/// Pieces of which bodies that are nearly right can be made.
fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\u",
        "d83c",
        "1e",
        "-",
        "null",
        "true",
        " ",
        "\"model\":",
        "\"m\"",
        "\"messages\":",
        "\"content\":",
        "\"input\":",
        "\"prompt\":",
        "\"tools\":",
        "\"type\":\"text\"",
        "\"text\":",
        "\"\\ud800\"",
        "--b",
        "\r\n",
        "--b--",
        "Content-Disposition: form-data; name=model",
        "é",
        "\0",
    ])
}

/// Any JSON value, in any of its spellings.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(key(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::sample::select(vec!["type", "text", "content", "a"]).prop_map(str::to_owned),
    ]
}

/// Draws bits from a seed, for choices of spelling.
struct Choices(u64);

impl Choices {
    fn yes(&mut self) -> bool {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0 >> 63 == 1
    }

    fn blank(&mut self, out: &mut String) {
        if self.yes() {
            out.push_str(if self.yes() { " " } else { "\n\t" });
        }
    }
}

fn spell_text(text: &str, choices: &mut Choices, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        if choices.yes() || matches!(char, '"' | '\\') || u32::from(char) < 0x20 {
            for unit in char.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(char);
        }
    }
    out.push('"');
}

/// The value with white space, key order and escapes drawn by `choices`.
fn spell(value: &serde_json::Value, choices: &mut Choices, out: &mut String) {
    choices.blank(out);
    match value {
        serde_json::Value::String(text) => spell_text(text, choices, out),
        serde_json::Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                spell(item, choices, out);
            }
            out.push(']');
        }
        serde_json::Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            if choices.yes() {
                fields.reverse();
            }
            out.push('{');
            for (at, (key, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                choices.blank(out);
                spell_text(key, choices, out);
                choices.blank(out);
                out.push(':');
                spell(value, choices, out);
            }
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
    choices.blank(out);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        read_as_all(&body);
    }

    #[test]
    fn nearly_right_bodies_never_panic(tokens in prop::collection::vec(token(), 0..40)) {
        read_as_all(tokens.concat().as_bytes());
        read_as_all(format!("{{\"model\":\"m\",{}", tokens.concat()).as_bytes());
    }

    #[test]
    fn spelling_does_not_change_the_text(
        contents in prop::collection::vec(json(), 1..4),
        part in json(),
        tools in json(),
        seed in any::<u64>(),
    ) {
        let messages: Vec<_> = contents
            .into_iter()
            .chain([serde_json::json!([{"type": "text", "text": part}, part])])
            .map(|content| serde_json::json!({"role": "user", "content": content}))
            .collect();
        let body = serde_json::json!({"model": "m", "messages": messages, "tools": [tools]});
        let mut spelt = String::new();
        spell(&body, &mut Choices(seed), &mut spelt);
        for kind in [PathKind::ChatCompletions, PathKind::Messages] {
            prop_assert_eq!(
                read(kind, &WITH_TOOLS, body.to_string().as_bytes()),
                read(kind, &WITH_TOOLS, spelt.as_bytes()),
                "{}", spelt
            );
        }
    }
}
