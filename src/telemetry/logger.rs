//! The `log` facade's other end: a line on stderr for each record, as text or as JSON.
//!
//! Only our own records follow the configured level. Other crates' stop at warnings (at `info` if
//! the level is `debug` or more): below that Pingora writes whole request headers and bodies,
//! which hold keys and prompts.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use log::kv::{Key, Value, VisitSource};
use log::{LevelFilter, Log, Metadata, Record, SetLoggerError};

use super::escape::{push_quoted, push_word};
use super::timestamp;
use crate::config::LogFormat;

/// A message may quote a configuration line; it need not quote a file.
const MAX_MESSAGE: usize = 4096;

struct Logger {
    format: LogFormat,
    level: AtomicUsize,
}

static TEXT: Logger = Logger::new(LogFormat::Text);
static JSON: Logger = Logger::new(LogFormat::Json);

/// Sends all records of this process to stderr; to be called once.
pub fn start(settings: &crate::config::Log) -> Result<(), SetLoggerError> {
    let logger = match settings.format {
        LogFormat::Text => &TEXT,
        LogFormat::Json => &JSON,
    };
    log::set_logger(logger)?;
    set_level(settings.level);
    Ok(())
}

fn set_level(level: LevelFilter) {
    for logger in [&TEXT, &JSON] {
        logger.level.store(level as usize, Ordering::Relaxed);
    }
    log::set_max_level(level);
}

impl Logger {
    const fn new(format: LogFormat) -> Self {
        Self {
            format,
            level: AtomicUsize::new(LevelFilter::Info as usize),
        }
    }

    fn level_of(&self, target: &str) -> usize {
        let level = self.level.load(Ordering::Relaxed);
        let ours = target.split(':').next() == Some(env!("CARGO_CRATE_NAME"));
        let others = if level >= LevelFilter::Debug as usize {
            LevelFilter::Info
        } else {
            LevelFilter::Warn
        };
        if ours {
            level
        } else {
            level.min(others as usize)
        }
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() as usize <= self.level_of(metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut line = Vec::with_capacity(256);
        push_line(&mut line, self.format, SystemTime::now(), record);
        // There is nowhere left to report this to.
        drop(std::io::stderr().lock().write_all(&line));
    }

    fn flush(&self) {}
}

fn push_line(line: &mut Vec<u8>, format: LogFormat, time: SystemTime, record: &Record<'_>) {
    let message = match record.args().as_str() {
        Some(message) => std::borrow::Cow::Borrowed(message),
        None => record.args().to_string().into(),
    };
    match format {
        LogFormat::Text => {
            timestamp::push(line, time);
            line.push(b' ');
            line.extend_from_slice(record.level().as_str().as_bytes());
            line.push(b' ');
            push_word(line, record.target(), MAX_MESSAGE);
            line.extend_from_slice(b": ");
            push_message(line, &message);
        }
        LogFormat::Json => {
            line.extend_from_slice(b"{\"time\":\"");
            timestamp::push(line, time);
            line.extend_from_slice(b"\",\"level\":\"");
            line.extend_from_slice(record.level().as_str().to_ascii_lowercase().as_bytes());
            line.extend_from_slice(b"\",\"target\":");
            push_quoted(line, record.target(), MAX_MESSAGE);
            line.extend_from_slice(b",\"message\":");
            push_quoted(line, &message, MAX_MESSAGE);
        }
    }
    let mut fields = Fields { line, format };
    // Our visitor does not fail, and a source that does has only cut its own fields short.
    drop(record.key_values().visit(&mut fields));
    if format == LogFormat::Json {
        line.push(b'}');
    }
    line.push(b'\n');
}

/// A message is prose: escaped like a quoted string, without the quotation marks around it.
fn push_message(line: &mut Vec<u8>, message: &str) {
    if message.bytes().all(|byte| (b' '..0x7f).contains(&byte)) && message.len() <= MAX_MESSAGE {
        line.extend_from_slice(message.as_bytes());
        return;
    }
    let start = line.len();
    push_quoted(line, message, MAX_MESSAGE);
    line.pop();
    line.remove(start);
}

struct Fields<'a> {
    line: &'a mut Vec<u8>,
    format: LogFormat,
}

impl<'kvs> VisitSource<'kvs> for Fields<'_> {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), log::kv::Error> {
        let value = value.to_string();
        match self.format {
            LogFormat::Text => {
                self.line.push(b' ');
                push_word(self.line, key.as_str(), MAX_MESSAGE);
                self.line.push(b'=');
                push_word(self.line, &value, MAX_MESSAGE);
            }
            LogFormat::Json => {
                self.line.push(b',');
                push_quoted(self.line, key.as_str(), MAX_MESSAGE);
                self.line.push(b':');
                push_quoted(self.line, &value, MAX_MESSAGE);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use log::Level;

    use super::*;

    fn line(format: LogFormat, message: &str) -> String {
        let fields = [("pod", "e1"), ("why", "no \"route\"\n")];
        let mut line = Vec::new();
        let record = |args| {
            let mut record = Record::builder();
            record
                .level(Level::Warn)
                .target("warmgate::fleet")
                .args(args)
                .key_values(&fields);
            push_line(&mut line, format, UNIX_EPOCH, &record.build());
        };
        std::convert::identity(record)(format_args!("{message}"));
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_record_is_one_line_with_its_fields() {
        assert_eq!(
            line(LogFormat::Text, "pod \"e1\" is out"),
            "1970-01-01T00:00:00.000Z WARN warmgate::fleet: pod \"e1\" is out pod=e1 why=\"no \\\"route\\\"\\n\"\n",
        );
        assert_eq!(
            line(LogFormat::Text, "a\nb"),
            "1970-01-01T00:00:00.000Z WARN warmgate::fleet: a\\nb pod=e1 why=\"no \\\"route\\\"\\n\"\n",
        );
        let json: serde_json::Value =
            serde_json::from_str(&line(LogFormat::Json, "a\n\"b")).unwrap();
        let expected = serde_json::json!({
            "time": "1970-01-01T00:00:00.000Z", "level": "warn", "target": "warmgate::fleet",
            "message": "a\n\"b", "pod": "e1", "why": "no \"route\"\n",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn only_our_own_records_follow_the_level() {
        for (level, target, highest) in [
            (LevelFilter::Info, "warmgate", LevelFilter::Info),
            (LevelFilter::Trace, "warmgate::proxy", LevelFilter::Trace),
            (LevelFilter::Error, "warmgate::proxy", LevelFilter::Error),
            (LevelFilter::Info, "warmgate_other", LevelFilter::Warn),
            (LevelFilter::Info, "pingora_proxy", LevelFilter::Warn),
            (LevelFilter::Error, "pingora_proxy", LevelFilter::Error),
            (LevelFilter::Off, "pingora_proxy", LevelFilter::Off),
            (
                LevelFilter::Debug,
                "pingora_core::server",
                LevelFilter::Info,
            ),
            (LevelFilter::Trace, "h2", LevelFilter::Info),
        ] {
            let logger = Logger::new(LogFormat::Text);
            logger.level.store(level as usize, Ordering::Relaxed);
            assert_eq!(
                logger.level_of(target),
                highest as usize,
                "{level} {target}"
            );
        }
    }
}
