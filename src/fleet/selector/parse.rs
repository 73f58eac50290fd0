//! From the text of a selector to its requirements.

use super::{Condition, Problem, Requirement, SHOWN};

/// Longest name of a label, and longest value.
const LONGEST_NAME: usize = 63;
/// Longest prefix of a key, the `example.com` of `example.com/tier`.
const LONGEST_PREFIX: usize = 253;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Word(&'a str),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    Above,
    Below,
}

impl Token<'_> {
    fn shown(self) -> String {
        match self {
            Self::End => "the end".to_owned(),
            Self::Word(word) => format!("{:?}", shown(word)),
            Self::Comma => "a comma".to_owned(),
            Self::Open => "a (".to_owned(),
            Self::Close => "a )".to_owned(),
            Self::Not => "a !".to_owned(),
            Self::Equal => "a =".to_owned(),
            Self::NotEqual => "a !=".to_owned(),
            Self::Above => "a >".to_owned(),
            Self::Below => "a <".to_owned(),
        }
    }
}

pub(super) struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(super) fn selector(mut self) -> Result<Vec<Requirement>, Problem> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Comma => {}
                other => return Err(Problem::NoComma(other.shown())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Problem> {
        let negated = self.peek() == Token::Not;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(Problem::NoKey(other.shown())),
        };
        if !is_key(key) {
            return Err(Problem::Key(shown(key)));
        }
        let condition = if negated {
            Condition::Absent
        } else {
            self.condition(key)?
        };
        Ok(Requirement {
            key: key.to_owned(),
            condition,
        })
    }

    fn condition(&mut self, key: &str) -> Result<Condition, Problem> {
        // The comma belongs to the list of requirements.
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(Condition::Exists);
        }
        match self.next() {
            Token::Equal => Ok(Condition::In(vec![self.value()?])),
            Token::NotEqual => Ok(Condition::NotIn(vec![self.value()?])),
            Token::Above => self.number().map(Condition::Above),
            Token::Below => self.number().map(Condition::Below),
            Token::Word("in") => self.list().map(Condition::In),
            Token::Word("notin") => self.list().map(Condition::NotIn),
            other => Err(Problem::NoOperator(other.shown(), shown(key))),
        }
    }

    /// A value may be empty: `tier=` asks for a label without one.
    fn value(&mut self) -> Result<String, Problem> {
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(value) => {
                self.next();
                checked(value)
            }
            other => Err(Problem::NoValue(other.shown())),
        }
    }

    fn number(&mut self) -> Result<i64, Problem> {
        match self.next() {
            Token::Word(word) => word.parse().map_err(|_| Problem::Number(shown(word))),
            other => Err(Problem::NoValue(other.shown())),
        }
    }

    /// `(a, b)`; between commas and brackets a value may be empty.
    fn list(&mut self) -> Result<Vec<String>, Problem> {
        match self.next() {
            Token::Open => {}
            other => return Err(Problem::NoList(other.shown())),
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.next();
                    checked(value)?
                }
                _ => String::new(),
            };
            values.push(value);
            match self.next() {
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => return Err(Problem::OpenList(other.shown())),
            }
        }
    }

    fn peek(&self) -> Token<'a> {
        self.split().0
    }

    fn next(&mut self) -> Token<'a> {
        let (token, rest) = self.split();
        self.rest = rest;
        token
    }

    fn split(&self) -> (Token<'a>, &'a str) {
        let text = self.rest.trim_start();
        let signs = [
            ("!=", Token::NotEqual),
            ("==", Token::Equal),
            ("=", Token::Equal),
            ("!", Token::Not),
            (",", Token::Comma),
            ("(", Token::Open),
            (")", Token::Close),
            (">", Token::Above),
            ("<", Token::Below),
        ];
        for (sign, token) in signs {
            if let Some(rest) = text.strip_prefix(sign) {
                return (token, rest);
            }
        }
        let ends = |c: char| c.is_whitespace() || "!=,()<>".contains(c);
        let (word, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
        let token = if word.is_empty() {
            Token::End
        } else {
            Token::Word(word)
        };
        (token, rest)
    }
}

fn checked(value: &str) -> Result<String, Problem> {
    if is_name(value) {
        Ok(value.to_owned())
    } else {
        Err(Problem::Value(shown(value)))
    }
}

/// `tier` or `example.com/tier`.
fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= LONGEST_NAME
        && ends
            .iter()
            .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_domain(text: &str) -> bool {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty()
            && part.bytes().all(plain)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(part)
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}
