//! What a path is for.

/// Paths whose bodies are understood; all else is [`PathKind::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathKind {
    ChatCompletions,
    Completions,
    Responses,
    Messages,
    CountTokens,
    Embeddings,
    Rerank,
    Score,
    Classify,
    Pooling,
    Tokenize,
    Detokenize,
    AudioTranscriptions,
    AudioTranslations,
    Images,
    Other,
}

use PathKind::*;

const PATHS: &[(&str, PathKind)] = &[
    ("/v1/chat/completions", ChatCompletions),
    ("/v1/completions", Completions),
    ("/v1/responses", Responses),
    ("/v1/messages", Messages),
    ("/v1/messages/count_tokens", CountTokens),
    ("/v1/embeddings", Embeddings),
    ("/v1/rerank", Rerank),
    ("/v2/rerank", Rerank),
    ("/rerank", Rerank),
    ("/v1/score", Score),
    ("/score", Score),
    ("/v1/classify", Classify),
    ("/classify", Classify),
    ("/v1/pooling", Pooling),
    ("/pooling", Pooling),
    ("/v1/tokenize", Tokenize),
    ("/tokenize", Tokenize),
    ("/v1/detokenize", Detokenize),
    ("/detokenize", Detokenize),
    ("/v1/audio/transcriptions", AudioTranscriptions),
    ("/v1/audio/translations", AudioTranslations),
    ("/v1/images/generations", Images),
];

impl PathKind {
    /// `path` has no query. Taken literally, but for one slash at the end.
    pub fn classify(path: &str) -> Self {
        let plain = path.strip_suffix('/').unwrap_or(path);
        let known = PATHS.iter().find(|(known, _)| *known == plain);
        known.map_or(Other, |(_, kind)| *kind)
    }

    /// The `path` label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            ChatCompletions => "chat_completions",
            Completions => "completions",
            Responses => "responses",
            Messages => "messages",
            CountTokens => "count_tokens",
            Embeddings => "embeddings",
            Rerank => "rerank",
            Score => "score",
            Classify => "classify",
            Pooling => "pooling",
            Tokenize => "tokenize",
            Detokenize => "detokenize",
            AudioTranscriptions => "audio_transcriptions",
            AudioTranslations => "audio_translations",
            Images => "images",
            Other => "other",
        }
    }

    /// Whether a body must name a model.
    pub fn reads_model(self) -> bool {
        self != Other
    }

    /// Whether the prompt's text decides where the request goes.
    pub fn has_prompt(self) -> bool {
        matches!(
            self,
            ChatCompletions | Completions | Responses | Messages | Rerank | Classify | Pooling
        )
    }

    /// Whether the engine keeps the prompt's blocks in its cache.
    pub fn fills_cache(self) -> bool {
        matches!(self, ChatCompletions | Completions | Responses | Messages)
    }

    pub(super) fn has_messages(self) -> bool {
        matches!(self, ChatCompletions | Messages)
    }

    pub(super) fn is_multipart(self) -> bool {
        matches!(self, AudioTranscriptions | AudioTranslations)
    }
}

/// The model that a path of the models interface names, unescaped.
pub fn model_in_path(path: &str) -> Option<String> {
    let name = path.strip_prefix("/v1/models/")?;
    let name = name.strip_suffix('/').unwrap_or(name);
    let decoded = percent_decode(name)?;
    (!decoded.is_empty()).then_some(decoded)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let value = digit(bytes.next())? * 16 + digit(bytes.next())?;
        out.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_literally_but_for_a_slash_at_the_end() {
        for (path, kind) in [
            ("/v1/chat/completions", ChatCompletions),
            ("/v1/chat/completions/", ChatCompletions),
            ("/v1/chat/completions//", Other),
            ("//v1/chat/completions", Other),
            ("/V1/chat/completions", Other),
            ("/%76%31/chat/completions", Other),
            ("/v1/messages/count_tokens", CountTokens),
            ("/tokenize", Tokenize),
            ("/", Other),
            ("", Other),
        ] {
            assert_eq!(PathKind::classify(path), kind, "{path}");
        }
    }

    #[test]
    fn a_model_in_the_path_is_unescaped() {
        for (path, model) in [
            ("/v1/models/m-a", Some("m-a")),
            ("/v1/models/org%2Fm-a", Some("org/m-a")),
            ("/v1/models/org/m-a/", Some("org/m-a")),
            ("/v1/models/", None),
            ("/v1/models", None),
            ("/v1/models/%ff", None),
            ("/v1/models/a%2", None),
        ] {
            assert_eq!(model_in_path(path).as_deref(), model, "{path}");
        }
    }
}
