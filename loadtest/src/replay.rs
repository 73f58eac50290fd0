//! `loadtest replay`: a trace against simulated engines on virtual time, with the gateway's own
//! routing. No sockets, no threads; the same arguments give the same figures.
//!
//! What it leaves out: the time that gateway and network take, connections that fail, and all of
//! an engine that the simulated one has not ([`warmgate::sim::engine`]).

mod arrivals;
mod figures;
mod pod;
mod report;
mod simulation;
mod strategies;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warmgate::routing::settings::RoutingSettings;
use warmgate::sim::EngineModel;

use self::arrivals::Arrivals;
pub(crate) use self::arrivals::Timing;
use self::figures::Figures;
use self::simulation::{Setting, simulate};
use crate::trace::{self, Trace};

/// Bytes of text that a token is taken for: the gateway's index is sized in bytes of prompt.
const TOKEN_BYTES: usize = 4;

/// Replays a trace offline, on virtual time, under one strategy after another.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What the gateway wrote under `capture`, a Mooncake trace (JSON lines) or an Azure LLM trace
    /// (CSV); may be gzipped.
    trace: PathBuf,
    /// Strategies to replay under: names parted by commas, and weighted lists parted by ';' or
    /// blanks, as in "random,prefix-cache;prefix-cache:5,load-balance:4". May be repeated.
    /// Default: all.
    #[arg(long, value_name = "LIST")]
    strategies: Vec<String>,
    /// Number of engines. This option, --timing and --scale take several values, parted by commas: then every combination
    /// is replayed.
    #[arg(long, value_delimiter = ',', default_value = "8", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pods: Vec<u16>,
    /// Decides what is left to chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// When requests come.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "timestamps")]
    timing: Vec<Timing>,
    /// Factor on recorded times: 0.5 is twice the load.
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = factor)]
    scale: Vec<f64>,
    /// The load is one for so many engines: twice as many get the requests twice as fast.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    load_for: Option<u16>,
    /// Spread requests that were recorded at one moment evenly until the next: for traces with a
    /// coarse clock, like Mooncake's conversations with its three seconds.
    #[arg(long)]
    spread: bool,
    /// Only the first so many requests.
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Milliseconds between two readings of an engine's figures.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    poll_ms: u64,
    /// Size of the gateway's prefix index in its blocks of 128 bytes.
    #[arg(long, value_name = "BLOCKS", default_value_t = RoutingSettings::default().prefix_cache.max_blocks)]
    index_blocks: usize,
    #[command(flatten)]
    engine: EngineArguments,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// What each simulated engine costs and holds.
#[derive(clap::Args)]
#[command(next_help_heading = "Engines")]
struct EngineArguments {
    /// Prompt tokens computed in a second.
    #[arg(long, value_name = "TOKENS", default_value_t = 8000.0, value_parser = factor)]
    prefill_per_second: f64,
    /// Milliseconds of a step in which one answer is decoded.
    #[arg(long, value_name = "MS", default_value_t = 10.2, value_parser = factor)]
    decode_ms: f64,
    /// Milliseconds that each further answer adds to it.
    #[arg(long, value_name = "MS", default_value_t = 0.2, value_parser = not_negative)]
    decode_more_ms: f64,
    /// KV cache in blocks of 16 tokens.
    #[arg(long, value_name = "BLOCKS", default_value_t = EngineModel::default().kv_blocks)]
    kv_blocks: usize,
    /// Most requests that run at once; others wait.
    #[arg(long, value_name = "N", default_value_t = EngineModel::default().max_sequences)]
    max_batch: usize,
    /// Most tokens computed in a step.
    #[arg(long, value_name = "TOKENS", default_value_t = EngineModel::default().step_tokens)]
    step_tokens: usize,
}

impl EngineArguments {
    fn model(&self, block_tokens: usize) -> EngineModel {
        let tokens = self
            .kv_blocks
            .saturating_mul(EngineModel::default().block_tokens);
        EngineModel {
            block_tokens,
            kv_blocks: tokens / block_tokens,
            max_sequences: self.max_batch,
            step_tokens: self.step_tokens,
            prefill_us: 1e6 / self.prefill_per_second,
            decode_base_us: (self.decode_ms - self.decode_more_ms).max(0.0) * 1e3,
            decode_us: self.decode_more_ms * 1e3,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let strategies = strategies::split(&arguments.strategies)?;
    let limit = arguments.limit.map_or(usize::MAX, NonZeroUsize::get);
    let trace = trace::load(&arguments.trace, limit)?;
    let mut out = std::io::stdout().lock();
    let mut documents = Vec::new();
    for (nth, case) in cases(arguments).into_iter().enumerate() {
        let (rows, arrivals) = replay(arguments, &trace, case, &strategies)?;
        if arguments.json {
            let setting = described(arguments, &trace, case);
            documents.push(report::json(setting, &rows));
            continue;
        }
        if nth > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}\n", headline(&trace, case, &arrivals))?;
        write!(out, "{}", report::table(&rows))?;
    }
    match documents.as_slice() {
        [] => {}
        [one] => writeln!(out, "{one:#}")?,
        several => writeln!(out, "{:#}", Value::from(several))?,
    }
    Ok(())
}

/// One of the combinations asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    pods: u16,
    timing: Timing,
    /// With [`Arguments::load_for`] in it.
    scale: f64,
}

fn cases(arguments: &Arguments) -> Vec<Case> {
    let mut cases = Vec::new();
    for &pods in &arguments.pods {
        let load_for = arguments.load_for.unwrap_or(pods);
        for &timing in &arguments.timing {
            for scale in &arguments.scale {
                let scale = scale * f64::from(load_for) / f64::from(pods);
                cases.push(Case {
                    pods,
                    timing,
                    scale,
                });
            }
        }
    }
    cases
}

fn replay(
    arguments: &Arguments,
    trace: &Trace,
    case: Case,
    strategies: &[String],
) -> anyhow::Result<(Vec<report::Row>, Arrivals)> {
    let engine = arguments.engine.model(trace.block_tokens);
    let arrivals = Arrivals::new(trace, case.timing, case.scale, arguments.spread, &engine);
    let setting = Setting {
        trace,
        arrivals: &arrivals,
        routing: routing(arguments.index_blocks, trace.block_tokens),
        engine,
        pods: case.pods,
        poll: Duration::from_millis(arguments.poll_ms),
        seed: arguments.seed,
    };
    let mut rows = Vec::new();
    for strategy in strategies {
        let started = Instant::now();
        let seen = simulate(&setting, strategy)?;
        let figures = Figures::new(strategy, &seen, &setting.engine);
        let speed = trace.turns.len() as f64 / started.elapsed().as_secs_f64();
        rows.push((figures, speed));
    }
    Ok((rows, arrivals))
}

/// The gateway's defaults, with an index as large as it would be in blocks of the trace.
fn routing(index_blocks: usize, block_tokens: usize) -> RoutingSettings {
    let mut settings = RoutingSettings::default();
    let bytes = index_blocks.saturating_mul(settings.prefix_cache.block_size);
    settings.prefix_cache.max_blocks = bytes.div_ceil(block_tokens * TOKEN_BYTES);
    settings
}

fn headline(trace: &Trace, case: Case, arrivals: &Arrivals) -> String {
    let turns = &trace.turns;
    let first = arrivals.fixed.len();
    let sessions = match case.timing {
        Timing::Timestamps => String::new(),
        Timing::ThinkTime => format!(" of {first} sessions"),
    };
    let seconds = turns.last().map_or(0, |turn| turn.at_us) as f64 / 1e6;
    format!(
        "{} requests{sessions} in {:.0} s ({} format, times by {}) on {} pods",
        turns.len(),
        seconds * case.scale,
        trace.format,
        case.scale,
        case.pods,
    )
}

fn described(arguments: &Arguments, trace: &Trace, case: Case) -> Value {
    let engine = &arguments.engine;
    json!({
        "format": trace.format,
        "requests": trace.turns.len(),
        "block_tokens": trace.block_tokens,
        "pods": case.pods,
        "seed": arguments.seed,
        "timing": match case.timing {
            Timing::Timestamps => "timestamps",
            Timing::ThinkTime => "think-time",
        },
        "scale": case.scale,
        "spread": arguments.spread,
        "poll_ms": arguments.poll_ms,
        "index_blocks": arguments.index_blocks,
        "engine": {
            "prefill_per_second": engine.prefill_per_second,
            "decode_ms": engine.decode_ms,
            "decode_more_ms": engine.decode_more_ms,
            "kv_blocks": engine.kv_blocks,
            "max_batch": engine.max_batch,
            "step_tokens": engine.step_tokens,
        },
    })
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("give a number above 0".to_owned()),
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("give a number, 0 or more".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        replay: Arguments,
    }

    fn asked(options: &str) -> Vec<(u16, Timing, f64)> {
        let words = ["replay", "trace.jsonl"].into_iter();
        let command = Command::parse_from(words.chain(options.split_whitespace()));
        let cases = cases(&command.replay).into_iter();
        cases
            .map(|case| (case.pods, case.timing, case.scale))
            .collect()
    }

    #[test]
    fn every_combination_is_replayed() {
        use Timing::{ThinkTime, Timestamps};
        assert_eq!(asked(""), [(8, Timestamps, 1.0)]);
        assert_eq!(
            asked("--pods 2,4 --timing timestamps,think-time --scale 1,0.5"),
            [
                (2, Timestamps, 1.0),
                (2, Timestamps, 0.5),
                (2, ThinkTime, 1.0),
                (2, ThinkTime, 0.5),
                (4, Timestamps, 1.0),
                (4, Timestamps, 0.5),
                (4, ThinkTime, 1.0),
                (4, ThinkTime, 0.5),
            ]
        );
    }

    #[test]
    fn more_engines_can_be_given_the_load_of_as_many() {
        let cases = asked("--pods 8,16 --load-for 8 --scale 0.6");
        let scales: Vec<f64> = cases.iter().map(|case| case.2).collect();
        assert_eq!(scales, [0.6, 0.3]);
    }
}
