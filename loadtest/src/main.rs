//! Measures gateways: traffic over HTTP, offline replay of traces, comparison with other balancers.

mod run;

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
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
    }
}
