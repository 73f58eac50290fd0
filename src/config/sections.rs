//! Reads the sections that hold plain settings: server, admin, limits, timeouts and the like.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::files::readable;
use super::problem::Wrong;
use super::reader::{Map, Node};
use super::rule;
use super::{
    Admin, Auth, Limits, Listener, ListenerTls, Log, LogFormat, Retry, Server, Timeouts,
    TokenizerService,
};
use crate::fleet::settings::HealthSettings;

pub(super) const BODY: std::ops::RangeInclusive<usize> = 1..=4 << 30;

const LEVELS: &[(&str, log::LevelFilter)] = &[
    ("off", log::LevelFilter::Off),
    ("error", log::LevelFilter::Error),
    ("warn", log::LevelFilter::Warn),
    ("info", log::LevelFilter::Info),
    ("debug", log::LevelFilter::Debug),
    ("trace", log::LevelFilter::Trace),
];
const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

pub(super) fn server(node: &Node<'_>, server: &mut Server) {
    node.map(|map| {
        map.set(&mut server.listen, "listen", listeners);
        if let Some(threads) = map
            .take("threads")
            .and_then(|node| node.scalar(rule::whole(0..=1024)))
        {
            // 0 is the default, which is resolved already.
            if threads > 0 {
                server.threads = threads;
            }
        }
        map.scalar(
            &mut server.shutdown_grace,
            "shutdown_grace",
            rule::duration_or_zero,
        );
        map.text(&mut server.upgrade_socket, "upgrade_socket", path);
    });
}

fn listeners(node: &Node<'_>) -> Option<Vec<Listener>> {
    let items = node.list()?;
    if items.is_empty() {
        node.add("is empty", "at least one address such as 0.0.0.0:8080");
    }
    Some(items.iter().filter_map(listener).collect())
}

fn listener(node: &Node<'_>) -> Option<Listener> {
    if node.is_text() {
        return Some(Listener {
            address: node.text(address)?,
            tls: None,
            h2c: false,
        });
    }
    if !node.is_map() {
        node.wrong_kind("an address, or a map with the key address");
        return None;
    }
    node.map(|map| {
        let address = required(map, "address", |node| node.text(address));
        let tls = map.take("tls").filter(|node| !node.is_none());
        let has_tls = tls.is_some();
        let tls = tls.and_then(|node| node.map(listener_tls).flatten());
        let mut h2c = false;
        map.scalar(&mut h2c, "h2c", rule::flag);
        if h2c && has_tls {
            map.node().add(
                "has both tls and h2c",
                "one of them; with tls, HTTP/2 is agreed on by ALPN",
            );
        }
        Some(Listener {
            address: address?,
            tls,
            h2c,
        })
    })
    .flatten()
}

fn listener_tls(map: &mut Map<'_, '_>) -> Option<ListenerTls> {
    let cert = required(map, "cert", |node| node.text(readable));
    let key = required(map, "key", |node| node.text(readable));
    let mut client_ca = None;
    map.text(&mut client_ca, "client_ca", rule::or_none(readable));
    Some(ListenerTls {
        cert: cert?,
        key: key?,
        client_ca,
    })
}

/// Takes a key that has no default.
pub(super) fn required<'a, T>(
    map: &mut Map<'_, 'a>,
    key: &'static str,
    read: impl FnOnce(&Node<'a>) -> Option<T>,
) -> Option<T> {
    match map.take(key) {
        Some(node) => read(&node),
        None => {
            map.node()
                .add(format!("has no {key}"), format!("a map with the key {key}"));
            None
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, Wrong> {
    text.parse().map_err(|_| {
        Wrong::new(
            "is not an address",
            "IP:PORT such as 0.0.0.0:8080 or [::]:8080",
        )
    })
}

fn path(text: &str) -> Result<PathBuf, Wrong> {
    rule::not_empty(text)
        .map(PathBuf::from)
        .map_err(|wrong| Wrong::new(wrong.what, "a path of a file"))
}

pub(super) fn admin(node: &Node<'_>, admin: &mut Admin) {
    node.map(|map| map.text(&mut admin.listen, "listen", address));
}

pub(super) fn limits(node: &Node<'_>, limits: &mut Limits) {
    node.map(|map| {
        map.scalar(&mut limits.body, "body", rule::size(BODY));
        map.scalar(
            &mut limits.header_size,
            "header_size",
            rule::size(1024..=1 << 20),
        );
        map.scalar(&mut limits.headers, "headers", rule::whole(1..=10_000));
        map.scalar(
            &mut limits.header_timeout,
            "header_timeout",
            rule::duration_limit,
        );
        map.scalar(&mut limits.body_idle, "body_idle", rule::duration_limit);
        map.scalar(&mut limits.body_rate, "body_rate", rule::size(0..=1 << 30));
    });
}

pub(super) fn timeouts(node: &Node<'_>, timeouts: &mut Timeouts) {
    node.map(|map| {
        map.scalar(&mut timeouts.connect, "connect", rule::duration_limit);
        map.scalar(&mut timeouts.first_byte, "first_byte", rule::duration_limit);
        map.scalar(&mut timeouts.idle, "idle", rule::duration_limit);
        map.scalar(&mut timeouts.request, "request", rule::duration_limit);
        map.scalar(
            &mut timeouts.client_write,
            "client_write",
            rule::duration_limit,
        );
    });
}

pub(super) fn retry(node: &Node<'_>, retry: &mut Retry) {
    node.map(|map| map.scalar(&mut retry.attempts, "attempts", rule::whole(0..=16)));
}

pub(super) fn health(node: &Node<'_>, health: &mut HealthSettings) {
    node.map(|map| {
        map.text(&mut health.path, "path", rule::url_path);
        map.scalar(&mut health.interval, "interval", rule::duration);
        map.scalar(&mut health.timeout, "timeout", rule::duration);
        map.scalar(
            &mut health.unhealthy_after,
            "unhealthy_after",
            rule::whole(1..=1000),
        );
        map.scalar(
            &mut health.healthy_after,
            "healthy_after",
            rule::whole(1..=1000),
        );
        map.scalar(&mut health.min_available, "min_available", rule::ratio);
    });
}

pub(super) fn log(node: &Node<'_>, log: &mut Log) {
    node.map(|map| {
        map.scalar(&mut log.level, "level", rule::one_of(LEVELS));
        map.scalar(&mut log.format, "format", rule::one_of(FORMATS));
        map.scalar(&mut log.access, "access", rule::flag);
    });
}

pub(super) fn auth(node: &Node<'_>, auth: &mut Auth) {
    node.map(|map| {
        map.set(&mut auth.client_keys, "client_keys", |node| {
            node.list_of(|node| node.secret_text(rule::header_token))
        });
        map.set(&mut auth.engine_key, "engine_key", |node| {
            node.secret_text(rule::or_none(rule::header_token))
        });
    });
}

pub(super) fn tokenizer(node: &Node<'_>, tokenizer: &mut TokenizerService) {
    node.map(|map| {
        map.scalar(&mut tokenizer.timeout, "timeout", rule::duration);
        map.scalar(&mut tokenizer.ttl, "ttl", rule::duration);
        map.scalar(&mut tokenizer.cache, "cache", rule::whole(0..=10_000_000));
        map.text(&mut tokenizer.file, "file", rule::or_none(readable));
    });
}
