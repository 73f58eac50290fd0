//! Measures gateways: traffic over HTTP, offline replay of traces, comparison with other balancers.

mod compare;
mod replay;
mod run;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Traffic, offline replay and comparison with other balancers.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send the traffic of a scenario and report what the clients saw.
    Run(run::Options),
    /// Replay a trace offline, under several strategies.
    Replay(Box<replay::Arguments>),
    /// Compare Warmgate with other balancers on this machine.
    Compare(compare::Options),
    #[command(hide = true)]
    Engine(compare::EngineOptions),
    #[command(hide = true)]
    BarePingora(compare::BareOptions),
}

/// The same allocator as Warmgate's, so that the bare proxy differs from it in nothing else.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(options) => return run::run(&options),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Compare(options) => compare::run(&options),
        Command::Engine(options) => compare::engine(&options),
        Command::BarePingora(options) => compare::bare(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a command line tool tells its user why it ends"
)]
fn report(message: &str) {
    eprintln!("loadtest: {message}");
}
