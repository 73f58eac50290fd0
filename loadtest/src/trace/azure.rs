//! The traces of Azure's LLM inference: CSV of arrival and sizes. They say nothing of prefixes, so
//! no two requests share one here: such a trace shows how load is spread, not what caches save.

use super::{Format, Turn, chain};

const BLOCK_TOKENS: usize = 32;
const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

pub(super) struct Azure {
    /// Where each of [`COLUMNS`] stands.
    columns: [usize; 3],
    header_read: bool,
    requests: u64,
}

impl Azure {
    pub(super) fn of_header(line: &str) -> Option<Self> {
        let find = |name: &str| line.split(',').position(|column| column.trim() == name);
        let [at, prompt, output] = COLUMNS.map(find);
        Some(Self {
            columns: [at?, prompt?, output?],
            header_read: false,
            requests: 0,
        })
    }
}

impl Format for Azure {
    fn name(&self) -> &'static str {
        "azure"
    }

    fn turn(&mut self, line: &str) -> Result<Option<Turn>, String> {
        if !std::mem::replace(&mut self.header_read, true) {
            return Ok(None);
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |column: usize| {
            let name = COLUMNS[column];
            fields
                .get(self.columns[column])
                .copied()
                .ok_or_else(|| format!("{name} is missing in {line:?}"))
        };
        let count = |column: usize| {
            let (name, text) = (COLUMNS[column], field(column)?);
            text.parse::<usize>()
                .map_err(|_| format!("{name} is no whole number: {text:?}"))
        };
        let text = field(0)?;
        let at_us = microseconds(text).ok_or_else(|| {
            format!("TIMESTAMP is not like 2023-11-16 18:17:03.9799600: {text:?}")
        })?;
        let prompt_tokens = count(1)?;
        self.requests += 1;
        let unlike_all_others = self.requests << 32;
        let blocks = (0..prompt_tokens / BLOCK_TOKENS).map(|at| unlike_all_others | at as u64);
        Ok(Some(Turn {
            at_us,
            prompt_tokens,
            output_tokens: count(2)?,
            blocks: chain(blocks),
            ..Turn::default()
        }))
    }

    fn block_tokens(&self) -> usize {
        BLOCK_TOKENS
    }
}

/// Since 1970. A zone at the end is left out: all lines of a trace have the same.
fn microseconds(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let time = time.split(['+', 'Z']).next()?;
    let mut time = time.split(':');
    let (hour, minute) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let (second, fraction) = match time.next()?.split_once('.') {
        Some((second, fraction)) => (second.parse().ok()?, fraction),
        None => (0, ""),
    };
    let _: (u64, u64, u64) = (hour, minute, second);
    let digits = fraction.get(..fraction.len().min(6))?;
    let micros: u64 = format!("{digits:0<6}").parse().ok()?;
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    in_range.then(|| {
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        seconds * 1_000_000 + micros
    })
}

/// From 1970-01-01 to a date of the Gregorian calendar. Years are counted from March on, so that
/// the leap day is the last of its year.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let to_year = year * 365 + year / 4 - year / 100 + year / 400;
    let to_month = (month * 153 + 2) / 5;
    to_year + to_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_microsecond() {
        let check = |text: &str, expected| assert_eq!(microseconds(text), expected, "{text}");
        check("1970-01-01 00:00:00", Some(0));
        check("1970-01-02 00:00:01.5", Some(86_401_500_000));
        check("2000-03-01 00:00:00", Some(951_868_800_000_000));
        check("2023-11-16 18:17:03.9799600", Some(1_700_158_623_979_960));
        check(
            "2024-05-10 00:00:00.009930+00:00",
            Some(1_715_299_200_009_930),
        );
        for wrong in [
            "",
            "now",
            "2023-11-16",
            "2023-13-01 00:00:00",
            "2023-11-16 25:00:00",
            "2023-11-16 1:2",
            "2023-11-16 00:00:0é.éééé",
        ] {
            check(wrong, None);
        }
    }
}
