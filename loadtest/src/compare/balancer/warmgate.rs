//! Warmgate with its default strategy, and the bare Pingora proxy that shows what its foundation costs alone.

use std::process::Command;

use anyhow::Result;

use super::{Balancer, Place, Program};

pub(super) const WARMGATE: Balancer = Balancer {
    name: super::WARMGATE,
    about: "one thread, its default strategy, bodies buffered whole",
    program: Program::Beside { file: "warmgate" },
    command: warmgate,
};

/// The subcommand of this program.
const COMMAND: &str = "bare-pingora";

pub(super) const BARE: Balancer = Balancer {
    name: super::BARE,
    about: "Pingora with nothing on it: one thread, round robin, bodies streamed through",
    program: Program::Beside { file: "loadtest" },
    command: bare,
};

fn warmgate(place: &Place<'_>) -> Result<Command> {
    let pods = place.each_engine(|engine| format!("  - http://{engine}\n"));
    let config = format!(
        "server: {{listen: [\"{}\"], threads: 1, upgrade_socket: {}}}\n\
         admin: {{listen: \"{}\"}}\n\
         log: {{level: warn, access: false}}\n\
         pods:\n{pods}",
        place.listen,
        place.folder.join("upgrade.sock").display(),
        place.admin,
    );
    let file = place.write("warmgate.yaml", &config)?;
    let mut command = Command::new(place.program);
    command.args(["serve", "--config"]).arg(file);
    Ok(command)
}

fn bare(place: &Place<'_>) -> Result<Command> {
    let mut command = Command::new(place.program);
    command.arg(COMMAND).arg(place.listen.to_string());
    command.args(place.engines.iter().map(ToString::to_string));
    Ok(command)
}
