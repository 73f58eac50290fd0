//! Rules that look at more than one value, after file, environment and command line are in place.

use std::net::SocketAddr;

use super::problem::{Problems, Wrong};
use super::{Config, pods};
use crate::routing::settings::TokenizerKind;

/// Lets `--pod` replace the pods of the file.
pub(super) fn take_command_line(config: &mut Config, urls: &[String], problems: &Problems) {
    if urls.is_empty() {
        return;
    }
    if !config.pods.is_empty() {
        config.notes.push(format!(
            "--pod is given: the {} pods of the file are not used",
            config.pods.len()
        ));
    }
    config.pods = pods::from_command_line(urls, problems);
}

pub(super) fn check(config: &Config, problems: &Problems) {
    listeners(config, problems);
    let prefix = &config.routing.prefix_cache;
    if prefix.answers && prefix.tokenizer != TokenizerKind::Character {
        problems.add(
            "routing.prefix_cache.answers",
            Wrong::new(
                "is true, but the tokens of a prompt and its answer are not those of the one after those of the other",
                "false, or the tokenizer character",
            ),
        );
    }
}

fn listeners(config: &Config, problems: &Problems) {
    let allowed = "an address and port of its own for every listener";
    let listen = &config.server.listen;
    for (i, listener) in listen.iter().enumerate() {
        let path = format!("server.listen[{i}]");
        if let Some(first) = listen[..i]
            .iter()
            .position(|other| collide(other.address, listener.address))
        {
            problems.add(
                &path,
                Wrong::new(format!("takes the port of server.listen[{first}]"), allowed),
            );
        }
        if collide(listener.address, config.admin.listen) {
            problems.add(&path, Wrong::new("takes the port of admin.listen", allowed));
        }
    }
}

/// Whether two sockets cannot be bound side by side. `[::]` and `0.0.0.0` can, on the systems that keep
/// the families apart, and are left to them.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port()
        && a.port() != 0
        && a.is_ipv4() == b.is_ipv4()
        && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}
