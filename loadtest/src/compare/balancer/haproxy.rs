//! HAProxy with one thread; it streams request bodies, since its buffers are fixed and small.

use std::process::Command;

use anyhow::Result;

use super::{Balancer, Place, Program};

pub(super) const HAPROXY: Balancer = Balancer {
    name: "haproxy",
    about: "one thread, least connections, bodies streamed through, http-reuse always",
    program: Program::External {
        file: "haproxy",
        version: "-v",
        says: "",
        get: "apt-get install haproxy",
    },
    command,
};

fn command(place: &Place<'_>) -> Result<Command> {
    let engines = place.each_engine(|engine| format!("  server e{} {engine}\n", engine.port()));
    let config = format!(
        "global\n  nbthread 1\n  maxconn 8192\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n  http-reuse always\n\
         frontend clients\n  bind {}\n  default_backend engines\n\
         backend engines\n  balance leastconn\n{engines}",
        place.listen
    );
    let file = place.write("haproxy.cfg", &config)?;
    let mut command = Command::new(place.program);
    command.arg("-db").arg("-f").arg(file);
    Ok(command)
}
