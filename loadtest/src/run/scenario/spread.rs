//! Numbers that vary: sizes in tokens, pauses, how many of something.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use rand::Rng;
use rand_distr::{Distribution, Exp, LogNormal};
use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};

/// What a number counts; decides how its text is read.
pub(crate) trait Unit {
    const ALLOWED: &str;
    fn read(text: &str) -> Option<f64>;
}

/// Tokens, turns, questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Count;

/// Seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time;

impl Unit for Count {
    const ALLOWED: &str = "a number, 0 or more";
    fn read(text: &str) -> Option<f64> {
        let number: f64 = text.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number)
    }
}

impl Unit for Time {
    const ALLOWED: &str = "a duration as in 250ms, 20s, 1m30s, a day at most";
    fn read(text: &str) -> Option<f64> {
        let duration = warmgate::config::parse_duration(text)?;
        Some(duration.as_secs_f64()).filter(|&seconds| seconds <= LONGEST)
    }
}

/// How a number is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread<U> {
    shape: Shape,
    unit: PhantomData<U>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Fixed(f64),
    Uniform { from: f64, to: f64 },
    Exponential(Exp<f64>),
    LogNormal(LogNormal<f64>),
}

/// Whatever a distribution says: a prompt of more tokens than this is a mistake.
const MOST_TOKENS: f64 = (1 << 22) as f64;
const LONGEST: f64 = 86_400.0;

impl<U> Spread<U> {
    pub(crate) const fn fixed(number: f64) -> Self {
        Self {
            shape: Shape::Fixed(number),
            unit: PhantomData,
        }
    }

    /// The number, if it is always the same.
    pub(super) fn only(&self) -> Option<f64> {
        match self.shape {
            Shape::Fixed(number) => Some(number),
            _ => None,
        }
    }

    fn draw(&self, random: &mut impl Rng) -> f64 {
        match &self.shape {
            Shape::Fixed(number) => *number,
            Shape::Uniform { from, to } => random.random_range(*from..=*to),
            Shape::Exponential(shape) => shape.sample(random),
            Shape::LogNormal(shape) => shape.sample(random),
        }
    }
}

impl Spread<Count> {
    pub(crate) fn count(&self, random: &mut impl Rng) -> usize {
        // In range by the bounds.
        self.draw(random).round().clamp(0.0, MOST_TOKENS) as usize
    }
}

impl Spread<Time> {
    pub(crate) fn pause(&self, random: &mut impl Rng) -> Duration {
        Duration::from_secs_f64(self.draw(random).clamp(0.0, LONGEST))
    }
}

/// A number or a string, as text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar(value.to_owned()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    from: Option<Scalar>,
    to: Option<Scalar>,
    mean: Option<Scalar>,
    median: Option<Scalar>,
    sigma: Option<f64>,
}

impl Described {
    fn shape<U: Unit>(self) -> Result<Shape, String> {
        let read = read::<U>;
        match (self.from, self.to, self.mean, self.median, self.sigma) {
            (Some(from), Some(to), None, None, None) => {
                let (from, to) = (read(&from.0)?, read(&to.0)?);
                match from <= to {
                    true => Ok(Shape::Uniform { from, to }),
                    false => Err(format!("from {from} is above to {to}")),
                }
            }
            (None, None, Some(mean), None, None) => {
                let middle = read(&mean.0)?;
                match Exp::new(1.0 / middle) {
                    Ok(shape) if middle > 0.0 => Ok(Shape::Exponential(shape)),
                    _ => Err(format!("mean {} is not above 0", mean.0)),
                }
            }
            (None, None, None, Some(median), Some(sigma)) => {
                let middle = read(&median.0)?;
                let shape = LogNormal::new(middle.ln(), sigma);
                match shape {
                    Ok(shape) if middle > 0.0 => Ok(Shape::LogNormal(shape)),
                    _ => Err(format!(
                        "median {} and sigma {sigma} make no log-normal distribution; allowed: numbers above 0",
                        median.0
                    )),
                }
            }
            _ => {
                Err("is no distribution; allowed: {from, to}, {mean} or {median, sigma}".to_owned())
            }
        }
    }
}

fn read<U: Unit>(text: &str) -> Result<f64, String> {
    U::read(text).ok_or_else(|| format!("{text} is not right here; allowed: {}", U::ALLOWED))
}

impl<'de, U: Unit> Deserialize<'de> for Spread<U> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpreadVisitor<U>(PhantomData<U>);
        impl<U: Unit> SpreadVisitor<U> {
            fn fixed<E: de::Error>(text: &str) -> Result<Spread<U>, E> {
                read::<U>(text).map(Spread::fixed).map_err(E::custom)
            }
        }
        impl<'de, U: Unit> Visitor<'de> for SpreadVisitor<U> {
            type Value = Spread<U>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "{}, or one of {{from, to}}, {{mean}}, {{median, sigma}}",
                    U::ALLOWED
                )
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Spread<U>, E> {
                Self::fixed(&value.to_string())
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Spread<U>, E> {
                Self::fixed(&value.to_string())
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Spread<U>, E> {
                Self::fixed(&value.to_string())
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Spread<U>, E> {
                Self::fixed(value)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Spread<U>, A::Error> {
                let described = Described::deserialize(MapAccessDeserializer::new(map))?;
                let shape = described.shape::<U>().map_err(de::Error::custom)?;
                Ok(Spread {
                    shape,
                    unit: PhantomData,
                })
            }
        }
        deserializer.deserialize_any(SpreadVisitor(PhantomData))
    }
}
