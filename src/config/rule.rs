//! Rules for single values: text in, value or the reason why not out.
//!
//! The file and the environment share them, so that both have the same ranges and the same words.
//! Every rule refuses the empty text; [`super::reader`] counts on it to learn what a rule allows.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::problem::Wrong;

/// The longest duration: large enough for every use, small enough to be added to any clock.
pub(super) const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

type Ruled<T> = Result<T, Wrong>;

pub(super) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Ruled<T>
where
    T: FromStr + PartialOrd + Display,
{
    move |text| {
        let allowed = || format!("a whole number, {} to {}", range.start(), range.end());
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Wrong::new("is not a whole number", allowed()));
        }
        // What does not fit the type is out of range as well.
        text.parse()
            .ok()
            .filter(|value| range.contains(value))
            .ok_or_else(|| Wrong::new("is out of range", allowed()))
    }
}

/// A number of at least `min`, or, with [`above`], more than that.
pub(super) fn at_least(min: f64) -> impl Fn(&str) -> Ruled<f64> {
    number(
        move |value| value >= min,
        format!("a number, {min} or more"),
    )
}

pub(super) fn above(min: f64) -> impl Fn(&str) -> Ruled<f64> {
    number(move |value| value > min, format!("a number above {min}"))
}

/// A share: 0 to 1.
pub(super) fn ratio(text: &str) -> Ruled<f64> {
    number(
        |value| (0.0..=1.0).contains(&value),
        "a number, 0 to 1".to_owned(),
    )(text)
}

fn number(fits: impl Fn(f64) -> bool, allowed: String) -> impl Fn(&str) -> Ruled<f64> {
    move |text| match text.parse::<f64>() {
        Ok(value) if value.is_finite() && fits(value) => Ok(value),
        Ok(value) if value.is_finite() => Err(Wrong::new("is out of range", allowed.clone())),
        _ => Err(Wrong::new("is not a number", allowed.clone())),
    }
}

pub(super) fn flag(text: &str) -> Ruled<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Wrong::new("is not true or false", "true, false")),
    }
}

pub(super) fn one_of<T: Copy>(choices: &'static [(&'static str, T)]) -> impl Fn(&str) -> Ruled<T> {
    move |text| {
        choices
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, value)| *value)
            .ok_or_else(|| {
                let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                Wrong::new("is not known", names.join(", "))
            })
    }
}

/// An absolute path of a URL, as a request line may hold it.
pub(super) fn url_path(text: &str) -> Ruled<String> {
    let fits = text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    if fits {
        Ok(text.to_owned())
    } else {
        Err(Wrong::new(
            "is not a URL path",
            "a path that starts with / and has no spaces",
        ))
    }
}

/// Text that may stand in a header: visible ASCII.
pub(super) fn header_token(text: &str) -> Ruled<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(Wrong::new(
            "is empty or has spaces or characters outside ASCII",
            "visible ASCII characters",
        ))
    }
}

/// The name of a header, in lower case.
pub(super) fn header_name(text: &str) -> Ruled<String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if !text.is_empty() && text.bytes().all(fits) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(Wrong::new(
            "is not the name of a header",
            "letters, digits and dashes, such as x-aibrix-session-key",
        ))
    }
}

pub(super) fn not_empty(text: &str) -> Ruled<String> {
    if text.trim().is_empty() {
        Err(Wrong::new("is empty", "a string with something in it"))
    } else {
        Ok(text.to_owned())
    }
}

/// `none` or what the inner rule takes.
pub(super) fn or_none<T>(rule: impl Fn(&str) -> Ruled<T>) -> impl Fn(&str) -> Ruled<Option<T>> {
    move |text| match text {
        "none" => Ok(None),
        _ => rule(text).map(Some).map_err(|wrong| Wrong {
            allowed: format!("{}, or none", wrong.allowed),
            ..wrong
        }),
    }
}

const DURATIONS: &str = "a duration such as 250ms, 10s, 20m or 1h; a bare number is seconds";

/// A duration above zero.
pub(super) fn duration(text: &str) -> Ruled<Duration> {
    match duration_or_zero(text) {
        Ok(value) if value.is_zero() => Err(Wrong::new(
            "is zero",
            format!("{DURATIONS}; more than 0, at most 365 days"),
        )),
        other => other,
    }
}

pub(super) fn duration_or_zero(text: &str) -> Ruled<Duration> {
    let value = parse_duration(text).ok_or_else(|| Wrong::new("is not a duration", DURATIONS))?;
    if value > YEAR {
        return Err(Wrong::new(
            "is out of range",
            format!("{DURATIONS}; at most 365 days"),
        ));
    }
    Ok(value)
}

/// A duration; `0` and `none` are no limit.
pub(super) fn duration_limit(text: &str) -> Ruled<Option<Duration>> {
    let value = or_none(duration_or_zero)(text)?;
    Ok(value.filter(|duration| !duration.is_zero()))
}

/// `250ms`, `1.5s`, `1h30m`, `10` (seconds).
pub fn parse_duration(text: &str) -> Option<Duration> {
    if let Some(seconds) = parse_decimal(text) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    if text.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let (amount, after) = split_amount(rest)?;
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let seconds = match unit {
            "ms" => amount / 1e3,
            "s" => amount,
            "m" => amount * 60.0,
            "h" => amount * 3600.0,
            "d" => amount * 86_400.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after;
    }
    Some(total)
}

/// A size in bytes.
pub(super) fn size(range: RangeInclusive<usize>) -> impl Fn(&str) -> Ruled<usize> {
    move |text| {
        let allowed = || {
            format!(
                "a size such as 64KiB, 16MiB or 1GB; a bare number is bytes; {} to {}",
                size_text(*range.start()),
                size_text(*range.end())
            )
        };
        let bytes = parse_size(text).ok_or_else(|| Wrong::new("is not a size", allowed()))?;
        usize::try_from(bytes)
            .ok()
            .filter(|value| range.contains(value))
            .ok_or_else(|| Wrong::new("is out of range", allowed()))
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let (amount, unit) = split_amount(text)?;
    let factor: u64 = match unit.trim_start() {
        "" | "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    // Whole amounts stay exact; a fraction of a byte is no size.
    if let Ok(whole) = text[..text.len() - unit.len()].parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let bytes = amount * factor as f64;
    (bytes.fract() == 0.0 && bytes < 9e15).then_some(bytes as u64)
}

fn size_text(bytes: usize) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Splits a decimal number off the front.
fn split_amount(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (amount, rest) = text.split_at(end);
    Some((parse_decimal(amount)?, rest))
}

/// Digits with at most one point; none of the other forms that floats have.
fn parse_decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (plain && text.starts_with(|c: char| c.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_fractions_and_sums() {
        let check = |text: &str, want: Option<f64>| {
            let got = duration_or_zero(text).ok();
            assert_eq!(got, want.map(Duration::from_secs_f64), "{text:?}");
        };
        check("250ms", Some(0.25));
        check("10s", Some(10.0));
        check("20m", Some(1200.0));
        check("1h", Some(3600.0));
        check("1d", Some(86_400.0));
        check("1m30s", Some(90.0));
        check("1.5s", Some(1.5));
        check("10", Some(10.0));
        check("0.5", Some(0.5));
        check("0", Some(0.0));
        for bad in [
            "", "s", "ten", "-1s", "10 s", "1x", "1e3", "inf", "NaN", ".5s", "1..2s", "366d",
            "9e99s",
        ] {
            check(bad, None);
        }
        assert!(duration("0").is_err());
        assert_eq!(duration_limit("0"), Ok(None));
        assert_eq!(duration_limit("none"), Ok(None));
    }

    #[test]
    fn sizes_are_binary_or_decimal_and_exact() {
        let check = |text: &str, want: Option<usize>| {
            assert_eq!(size(0..=usize::MAX)(text).ok(), want, "{text:?}");
        };
        check("0", Some(0));
        check("1000", Some(1000));
        check("12B", Some(12));
        check("64KiB", Some(65_536));
        check("16MiB", Some(16 << 20));
        check("1GiB", Some(1 << 30));
        check("1.5KiB", Some(1536));
        check("2KB", Some(2000));
        check("2 MB", Some(2_000_000));
        check("9007199254740993", Some(9_007_199_254_740_993));
        for bad in [
            "",
            "KiB",
            "-1",
            "1kib",
            "1TiB",
            "0.3",
            "99999999999GiB",
            "1e3",
        ] {
            check(bad, None);
        }
        let wrong = size(1024..=1 << 30)("1023").unwrap_err();
        assert!(wrong.allowed.ends_with("1KiB to 1GiB"), "{wrong:?}");
    }

    #[test]
    fn numbers_keep_their_ranges() {
        assert_eq!(whole(1..=10_u32)("10"), Ok(10));
        for bad in ["0", "11", "-1", "1.0", "", "+1", "99999999999999999999"] {
            assert!(whole(1..=10_u32)(bad).is_err(), "{bad}");
        }
        assert!(above(0.0)("0").is_err());
        assert!(at_least(0.0)("0").is_ok());
        for bad in ["nan", "inf", "-0.1", "1.01", ""] {
            assert!(ratio(bad).is_err(), "{bad}");
        }
    }
}
