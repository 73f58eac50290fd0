//! The access log: one line a request, as `key=value` words or as a JSON object.
//!
//! A line is formatted on the request's thread into a buffer that is reused, and handed to
//! [`Writer`], which never makes the request wait.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use super::escape::{MAX_VALUE, push_number, push_padded, push_quoted, push_word};
use super::timestamp;
use crate::config::LogFormat;
use crate::metrics::EndedBy;
use crate::usage::Usage;

use super::writer::Writer;

/// What may wait for a slow reader of stdout; some tens of thousands of lines.
const MAX_WAITING: usize = 8 << 20;
/// A process that ends does not wait longer for a reader that is stuck.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// All that is told of one request. Strings may come from the client: they are cut and escaped.
#[derive(Clone, Copy, Debug)]
pub struct AccessLine<'a> {
    /// When the request arrived.
    pub time: SystemTime,
    pub request_id: &'a str,
    pub client: Option<IpAddr>,
    pub method: &'a str,
    /// A query, which may hold a key, is left out.
    pub path: &'a str,
    /// 0: there was none.
    pub status: u16,
    pub model: Option<&'a str>,
    pub pod: Option<&'a str>,
    pub strategy: Option<&'a str>,
    pub reason: Option<&'static str>,
    pub matched_blocks: usize,
    pub total_blocks: usize,
    pub request_bytes: u64,
    pub response_bytes: u64,
    pub usage: Option<Usage>,
    pub first_byte: Option<Duration>,
    pub total: Duration,
    /// Pods that were tried.
    pub tries: u32,
    pub ended_by: EndedBy,
}

/// Where access lines go. Lines still waiting when it is dropped are written by its thread, if
/// the process lives that long; [`AccessLog::flush`] waits for them.
#[derive(Debug)]
pub struct AccessLog {
    format: LogFormat,
    writer: Writer,
}

thread_local! {
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl AccessLog {
    /// To stdout. Starts a thread, so not before the process has forked, if it does.
    pub fn start(format: LogFormat) -> std::io::Result<Self> {
        Self::to(format, std::io::stdout(), MAX_WAITING)
    }

    fn to(
        format: LogFormat,
        output: impl Write + Send + 'static,
        max_waiting: usize,
    ) -> std::io::Result<Self> {
        Ok(Self {
            format,
            writer: Writer::start("access log", output, max_waiting)?,
        })
    }

    pub fn write(&self, line: &AccessLine<'_>) {
        LINE.with_borrow_mut(|buffer| {
            buffer.clear();
            line.push(buffer, self.format);
            self.writer.hand_over(buffer);
        });
    }

    /// Lines that were not written since the start: the reader was too slow, or is gone.
    pub fn dropped(&self) -> u64 {
        self.writer.dropped()
    }

    /// Waits until what was handed over before is written, for a moment at most; false: it is not.
    pub fn flush(&self) -> bool {
        self.writer.flush(FLUSH_PATIENCE)
    }
}

impl AccessLine<'_> {
    fn push(&self, out: &mut Vec<u8>, format: LogFormat) {
        let path = self.path.split('?').next().unwrap_or_default();
        let mut line = Line { out, format };
        line.begin(self.time);
        line.text("request_id", Some(self.request_id));
        line.address("client", self.client);
        line.text("method", Some(self.method));
        line.text("path", Some(path));
        line.number("status", Some(self.status.into()));
        line.text("model", self.model);
        line.text("pod", self.pod);
        line.text("strategy", self.strategy);
        line.text("reason", self.reason);
        line.number("matched_blocks", Some(self.matched_blocks as u64));
        line.number("total_blocks", Some(self.total_blocks as u64));
        line.number("request_bytes", Some(self.request_bytes));
        line.number("response_bytes", Some(self.response_bytes));
        line.number("prompt_tokens", self.usage.map(|usage| usage.prompt));
        line.number(
            "completion_tokens",
            self.usage.map(|usage| usage.completion),
        );
        line.number("cached_tokens", self.usage.map(|usage| usage.cached));
        line.millis("first_byte_ms", self.first_byte);
        line.millis("total_ms", Some(self.total));
        line.number("tries", Some(self.tries.into()));
        line.text("ended_by", Some(self.ended_by.as_str()));
        line.end();
    }
}

struct Line<'a> {
    out: &'a mut Vec<u8>,
    format: LogFormat,
}

impl Line<'_> {
    fn begin(&mut self, time: SystemTime) {
        let (before, after): (&[u8], &[u8]) = match self.format {
            LogFormat::Text => (b"time=", b""),
            LogFormat::Json => (b"{\"time\":\"", b"\""),
        };
        self.out.extend_from_slice(before);
        timestamp::push(self.out, time);
        self.out.extend_from_slice(after);
    }

    fn end(&mut self) {
        let end: &[u8] = match self.format {
            LogFormat::Text => b"\n",
            LogFormat::Json => b"}\n",
        };
        self.out.extend_from_slice(end);
    }

    fn key(&mut self, key: &'static str) {
        let (before, after): (&[u8], &[u8]) = match self.format {
            LogFormat::Text => (b" ", b"="),
            LogFormat::Json => (b",\"", b"\":"),
        };
        self.out.extend_from_slice(before);
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(after);
    }

    fn nothing(&mut self) {
        let nothing: &[u8] = match self.format {
            LogFormat::Text => b"-",
            LogFormat::Json => b"null",
        };
        self.out.extend_from_slice(nothing);
    }

    fn text(&mut self, key: &'static str, value: Option<&str>) {
        self.key(key);
        match (value, self.format) {
            (None, _) => self.nothing(),
            (Some(value), LogFormat::Text) => push_word(self.out, value, MAX_VALUE),
            (Some(value), LogFormat::Json) => push_quoted(self.out, value, MAX_VALUE),
        }
    }

    fn number(&mut self, key: &'static str, value: Option<u64>) {
        self.key(key);
        match value {
            Some(value) => push_number(self.out, value),
            None => self.nothing(),
        }
    }

    /// Milliseconds with three decimals.
    fn millis(&mut self, key: &'static str, value: Option<Duration>) {
        self.key(key);
        let Some(value) = value else {
            return self.nothing();
        };
        let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        push_number(self.out, micros / 1000);
        self.out.push(b'.');
        push_padded(self.out, micros % 1000, 3);
    }

    fn address(&mut self, key: &'static str, value: Option<IpAddr>) {
        self.key(key);
        let Some(value) = value else {
            return self.nothing();
        };
        let quote: &[u8] = match self.format {
            LogFormat::Text => b"",
            LogFormat::Json => b"\"",
        };
        self.out.extend_from_slice(quote);
        // Writing to memory does not fail.
        drop(write!(self.out, "{value}"));
        self.out.extend_from_slice(quote);
    }
}
