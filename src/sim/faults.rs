//! What an engine does wrong on demand.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Set for all requests (`POST /sim/faults`, [`SimEngine::set_faults`](super::SimEngine::set_faults)), or for one in its
/// header `x-sim-fault`, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Silence before the head of the answer.
    pub head_delay_ms: u64,
    /// Silence between the head and the first event.
    pub first_delay_ms: u64,
    /// Silence between one event and the next.
    pub event_interval_ms: u64,
    /// A stream of so many events, whatever was asked.
    pub events: Option<u64>,
    /// Answer with this status and an error body.
    pub status: Option<u16>,
    /// Close the connection in the middle of a stream, after so many events.
    pub die_after_events: Option<u64>,
    /// ... with a reset.
    pub reset: bool,
    pub never_answer: bool,
    /// Close the connection as soon as it is accepted.
    pub close_on_accept: bool,
    /// Close it when the request has been read.
    pub close_on_head: bool,
    pub health_status: Option<u16>,
    pub health_delay_ms: u64,
    /// Only each n-th health check is delayed.
    pub health_slow_every: Option<u64>,
    pub models_status: Option<u16>,
    pub no_metrics: bool,
    /// A JSON answer comes in three pieces, this far apart.
    pub content_length_pieces_ms: Option<u64>,
    /// The exact body of a stream, chunk by chunk.
    pub script: Option<Vec<Chunk>>,
    /// A stream of so many bytes, as fast as it can be read.
    pub flood_bytes: Option<u64>,
    /// One event of so many bytes without a new line.
    pub big_event_bytes: Option<u64>,
    /// Written to the socket instead of an answer; then the connection is closed.
    pub raw_response: Option<String>,
    /// Instead of `raw_response`, for bytes that are no text.
    #[serde(rename = "raw_response_base64", with = "base64_text")]
    pub raw_response_bytes: Vec<u8>,
    /// Requests wait until they are released.
    pub hold: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Chunk {
    pub delay_ms: u64,
    pub text: String,
    /// Instead of `text`, for bytes that are no text.
    #[serde(rename = "base64", with = "base64_text")]
    pub bytes: Vec<u8>,
}

impl Faults {
    pub(super) fn raw(&self) -> Option<Bytes> {
        match &self.raw_response {
            Some(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
            None if self.raw_response_bytes.is_empty() => None,
            None => Some(Bytes::copy_from_slice(&self.raw_response_bytes)),
        }
    }
}

impl Chunk {
    pub fn text(delay_ms: u64, text: &str) -> Self {
        Self {
            delay_ms,
            text: text.to_owned(),
            bytes: Vec::new(),
        }
    }

    pub fn bytes(delay_ms: u64, bytes: &[u8]) -> Self {
        Self {
            delay_ms,
            text: String::new(),
            bytes: bytes.to_vec(),
        }
    }

    pub(super) fn data(&self) -> Bytes {
        if self.bytes.is_empty() {
            Bytes::copy_from_slice(self.text.as_bytes())
        } else {
            Bytes::copy_from_slice(&self.bytes)
        }
    }
}

/// Bytes in JSON.
mod base64_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map_err(D::Error::custom)
    }
}
