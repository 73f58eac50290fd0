//! Measures gateways: traffic over HTTP, offline replay of traces, comparison with other balancers.

mod replay;
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
    Replay(Box<replay::Arguments>),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Replay(arguments) => replay::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a command line tool tells its user why it ends"
)]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("loadtest: {error:#}");
    ExitCode::FAILURE
}
