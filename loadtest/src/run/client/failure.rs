//! What can go wrong with a request. Everything that does is counted under one of these.

use std::error::Error;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// No connection.
    Connect,
    /// The request could not be made: a mistake of the scenario.
    Request,
    /// The connection broke before the head of the answer.
    NoAnswer,
    Status(u16),
    /// The connection broke within the answer.
    Broken,
    /// The answer ended in good order, but not where it should.
    CutShort,
    /// It is no JSON, or no event stream.
    Malformed,
    /// An error within a stream.
    ErrorEvent,
    /// It is another request's answer, or not as long as asked for.
    WrongAnswer,
    Timeout,
    /// It was open when the run had to end.
    Unfinished,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("no connection"),
            Self::Request => f.write_str("not sendable"),
            Self::NoAnswer => f.write_str("broken before the answer"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Broken => f.write_str("broken within the answer"),
            Self::CutShort => f.write_str("cut short"),
            Self::Malformed => f.write_str("malformed"),
            Self::ErrorEvent => f.write_str("error in the stream"),
            Self::WrongAnswer => f.write_str("wrong answer"),
            Self::Timeout => f.write_str("timeout"),
            Self::Unfinished => f.write_str("unfinished at the end"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    pub(crate) pod: Option<String>,
}

const LONGEST_DETAIL: usize = 300;

impl Failure {
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let detail: String = detail.into();
        Self {
            kind,
            detail: detail.chars().take(LONGEST_DETAIL).collect(),
            pod: None,
        }
    }

    pub(super) fn at(self, pod: Option<String>) -> Self {
        Self { pod, ..self }
    }
}

/// An answer's body that did not come to its end.
pub(super) fn broken(error: &hyper::Error) -> Failure {
    Failure::new(Kind::Broken, chain(error))
}

/// An error with its causes; hyper's own text often says only where.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
