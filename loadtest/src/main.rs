//! Measures gateways: traffic over HTTP, offline replay of traces, comparison with other balancers.

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
enum Command {}


fn main() -> ExitCode {
    match Arguments::parse().command {}
}
