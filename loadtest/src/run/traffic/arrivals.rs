//! Times at which conversations begin in an open loop, counted from the start.

use std::time::Duration;

use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp};

use super::super::scenario::arrival::Open;
use crate::trace;

/// Never goes back; ends with the trace, or never.
pub(crate) enum Arrivals {
    Poisson {
        gap: Exp<f64>,
        at: f64,
        random: Box<ChaCha8Rng>,
    },
    Trace(std::vec::IntoIter<Duration>),
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
                let turns = trace::load(file, usize::MAX)?.turns;
                let times: Vec<Duration> = turns
                    .iter()
                    .map(|turn| Duration::from_micros((turn.at_us as f64 / speed) as u64))
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
        let line = |timestamp: u32| {
            format!(
                "{{\"timestamp\":{timestamp},\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}}\n"
            )
        };
        std::fs::write(file.path(), line(5000) + &line(4000)).unwrap();
        let trace = |speed| Open::Trace {
            file: file.path().to_owned(),
            speed,
        };
        let random = ChaCha8Rng::seed_from_u64(1);
        let times: Vec<Duration> = Arrivals::new(&trace(2.0), random.clone())
            .unwrap()
            .collect();
        assert_eq!(times, [Duration::ZERO, Duration::from_millis(500)]);
    }
}
