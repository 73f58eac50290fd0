//! The routers of the field that choose a worker by the prompt, with their cache-aware policy.

use std::process::Command;

use anyhow::Result;

use super::{Balancer, Place, Program};

const ABOUT: &str = "one tokio thread, policy cache_aware, no retries";
const GET_SGLANG: &str = "pip install sglang-router, and --path to its bin folder";
const GET_SMG: &str = "pip install smg into an environment of its own, since sglang-router brings a command of that name, and --path to its bin folder";
const GET_VLLM: &str = "pip install vllm-router, and --path to its bin folder";

pub(super) const SGLANG_ROUTER: Balancer = Balancer {
    name: "sglang-router",
    about: ABOUT,
    program: Program::External {
        file: "sglang-router",
        version: "--version",
        says: "",
        get: GET_SGLANG,
    },
    command: launch,
};

pub(super) const SMG: Balancer = Balancer {
    name: "smg",
    about: ABOUT,
    program: Program::External {
        file: "smg",
        version: "--version",
        says: "smg ",
        get: GET_SMG,
    },
    command: launch,
};

pub(super) const VLLM_ROUTER: Balancer = Balancer {
    name: "vllm-router",
    about: ABOUT,
    program: Program::External {
        file: "vllm-router",
        version: "",
        says: "",
        get: GET_VLLM,
    },
    command: router,
};

fn launch(place: &Place<'_>) -> Result<Command> {
    let mut command = Command::new(place.program);
    command.arg("launch");
    arguments(&mut command, place);
    Ok(command)
}

fn router(place: &Place<'_>) -> Result<Command> {
    let mut command = Command::new(place.program);
    arguments(&mut command, place);
    Ok(command)
}

fn arguments(command: &mut Command, place: &Place<'_>) {
    let workers = place
        .engines
        .iter()
        .map(|engine| format!("http://{engine}"));
    command.arg("--worker-urls").args(workers);
    command.args(["--policy", "cache_aware", "--log-level", "error"]);
    // They would send a generation twice, which Warmgate never does.
    command.arg("--disable-retries");
    // They would take as many threads as the machine has cores they may use: one, too, but said here.
    command.env("TOKIO_WORKER_THREADS", "1");
    command.args(["--host", &place.listen.ip().to_string()]);
    command.args(["--port", &place.listen.port().to_string()]);
    command.args(["--prometheus-host", &place.admin.ip().to_string()]);
    command.args(["--prometheus-port", &place.admin.port().to_string()]);
}
