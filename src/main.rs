//! The command line: `serve`, `check`, `demo`, `sim`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use warmgate::app::{self, Source};
use warmgate::{demo, sim};

/// Bodies of every size come and go on all threads; glibc's allocator keeps what one thread has freed from the others.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit status for a configuration that does not hold.
const BAD_CONFIG: u8 = 64;

/// A gateway for LLM engines that routes each request to the pod whose KV cache already holds its prompt.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway.
    Serve {
        #[command(flatten)]
        source: SourceArguments,
        /// Take the listening sockets over from the running process (which must get SIGQUIT).
        #[arg(long)]
        upgrade: bool,
    },
    /// Check a configuration and say everything that is wrong with it, or cannot do what it is meant for.
    Check {
        #[command(flatten)]
        source: SourceArguments,
        /// Take warnings for errors, too.
        #[arg(long)]
        strict: bool,
    },
    /// Show prefix-cache routing at work on simulated engines, beside random routing.
    Demo(demo::Options),
    /// Run one simulated engine.
    Sim(sim::Arguments),
}

#[derive(clap::Args)]
struct SourceArguments {
    /// Configuration file [default: conf/warmgate.yaml, unless pods are given].
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// URL of a pod, instead of those of the file; may be repeated.
    #[arg(long = "pod", value_name = "URL")]
    pods: Vec<String>,
    /// Address to listen on, instead of server.listen.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Address of the operator's pages, instead of admin.listen.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
}

impl From<SourceArguments> for Source {
    fn from(arguments: SourceArguments) -> Self {
        let file = arguments.config.or_else(|| {
            let needed = arguments.pods.is_empty();
            needed.then(|| PathBuf::from("conf/warmgate.yaml"))
        });
        Self {
            file,
            pods: arguments.pods,
            listen: arguments.listen,
            admin: arguments.admin,
        }
    }
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve { source, upgrade } => {
            let source = Source::from(source);
            match source.load() {
                Ok(config) => app::serve(&config, source, upgrade),
                Err(problems) => return bad_config(&problems),
            }
        }
        Command::Demo(options) => demo::run(&options),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Check { source, strict } => match Source::from(source).load() {
            Ok(config) => match app::report_check(&config) {
                warnings @ 1.. if strict => {
                    return bad_config(&format!("{warnings} warnings, and --strict is given"));
                }
                _ => Ok(()),
            },
            Err(problems) => return bad_config(&problems),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn bad_config(problems: &str) -> ExitCode {
    report(problems);
    ExitCode::from(BAD_CONFIG)
}

#[expect(
    clippy::print_stderr,
    reason = "a command line tool tells its user why it ends"
)]
fn report(message: &str) {
    eprintln!("warmgate: {message}");
}
