//! Times at which conversations begin in an open loop, counted from the start.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp};
use serde::Deserialize;

use super::super::scenario::arrival::Open;

/// Never goes back; ends with the trace, or never.
pub(crate) enum Arrivals {
    Poisson {
        gap: Exp<f64>,
        at: f64,
        random: Box<ChaCha8Rng>,
    },
    Trace(std::vec::IntoIter<Duration>),
}

/// A line of a trace in Mooncake's format; only its time matters here.
#[derive(Deserialize)]
struct Line {
    /// Milliseconds.
    timestamp: f64,
}

impl Arrivals {
    pub(crate) fn new(open: &Open, random: ChaCha8Rng) -> Result<Self> {
        match open {
            Open::Poisson { rate } => Ok(Self::Poisson {
                gap: Exp::new(*rate).with_context(|| format!("rate {rate}"))?,
                at: 0.0,
                random: Box::new(random),
            }),
            Open::Trace { file, speed } => {
                let times = read(file).with_context(|| format!("trace {}", file.display()))?;
                let first = times.first().copied().unwrap_or_default();
                let times: Vec<Duration> = times
                    .into_iter()
                    .map(|at| Duration::from_secs_f64((at - first) / 1e3 / speed))
                    .collect();
                Ok(Self::Trace(times.into_iter()))
            }
        }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        match self {
            Self::Poisson { gap, at, random } => {
                *at += gap.sample(&mut **random);
                Duration::try_from_secs_f64(*at).ok()
            }
            Self::Trace(times) => times.next(),
        }
    }
}

/// The times of all lines, in milliseconds and in order.
fn read(file: &Path) -> Result<Vec<f64>> {
    let open = File::open(file).context("cannot be read")?;
    let input: Box<dyn Read> = match file.extension() {
        Some(extension) if extension == "gz" => Box::new(MultiGzDecoder::new(open)),
        _ => Box::new(open),
    };
    let mut times = Vec::new();
    for (number, line) in BufReader::new(input).lines().enumerate() {
        let line = line.context("cannot be read")?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Line =
            serde_json::from_str(&line).with_context(|| format!("line {}", number + 1))?;
        if !line.timestamp.is_finite() || line.timestamp < 0.0 {
            bail!(
                "line {}: timestamp {} is not a time in milliseconds",
                number + 1,
                line.timestamp
            );
        }
        times.push(line.timestamp);
    }
    if times.is_empty() {
        bail!("has no lines");
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_poisson_process_has_its_rate_and_never_goes_back() {
        let random = ChaCha8Rng::seed_from_u64(1);
        let arrivals = Arrivals::new(&Open::Poisson { rate: 100.0 }, random).unwrap();
        let times: Vec<Duration> = arrivals.take(10_000).collect();
        assert!(times.is_sorted());
        let seconds = times[9_999].as_secs_f64();
        assert!((95.0..105.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_trace_gives_its_times_from_its_first_line_on() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "{\"timestamp\":5000,\"input_length\":1}\n\n{\"timestamp\":4000}\n";
        std::fs::write(file.path(), text).unwrap();
        let trace = |speed| Open::Trace {
            file: file.path().to_owned(),
            speed,
        };
        let random = ChaCha8Rng::seed_from_u64(1);
        let times: Vec<Duration> = Arrivals::new(&trace(2.0), random.clone())
            .unwrap()
            .collect();
        assert_eq!(times, [Duration::ZERO, Duration::from_millis(500)]);

        std::fs::write(file.path(), "{\"timestamp\":1}\n{\"time\":2}\n").unwrap();
        let error = Arrivals::new(&trace(1.0), random).err().unwrap();
        assert!(format!("{error:#}").contains("line 2"), "{error:#}");
    }
}
