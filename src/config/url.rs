//! Addresses of pods, read strictly: what a URL means must not depend on who reads it.
//!
//! Taken: `http` and `https`, a host name, an IPv4 address or an IPv6 address in brackets, a port, a
//! path. Refused: user names, queries, fragments. Messages never hold the text itself, which may hold
//! a password.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::problem::Wrong;
use crate::fleet::settings::{PodUrl, UpstreamTls};

const ALLOWED: &str = "http://HOST:PORT or https://HOST:PORT, with or without a path";

/// How an engine behind `https` is checked unless the file says otherwise.
pub(super) const VERIFIED: UpstreamTls = UpstreamTls {
    verify: true,
    sni: None,
    ca: None,
};

pub(super) fn pod_url(text: &str) -> Result<PodUrl, Wrong> {
    let wrong = |what: &str| Wrong::new(what, ALLOWED);
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| wrong("is not a URL: http:// or https:// is missing"))?;
    let (tls, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (None, 80),
        "https" => (Some(VERIFIED), 443),
        _ => return Err(wrong("is a URL of another scheme than http and https")),
    };
    if rest.contains('?') || rest.contains('#') {
        return Err(wrong("is a URL with a query or a fragment"));
    }
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if authority.contains('@') {
        return Err(wrong("is a URL with a user name"));
    }
    let (host, port) = host_and_port(authority).map_err(wrong)?;
    Ok(PodUrl {
        tls,
        host,
        port: port.unwrap_or(default_port),
        base_path: base_path(path).map_err(wrong)?,
        http2: false,
    })
}

/// Checks an endpoint of an engine's event stream: `tcp://HOST:PORT`.
pub(super) fn tcp_endpoint(text: &str) -> Result<String, Wrong> {
    let wrong = |what: &str| Wrong::new(what, "tcp://HOST:PORT");
    let authority = text
        .strip_prefix("tcp://")
        .ok_or_else(|| wrong("is not an endpoint: tcp:// is missing"))?;
    match host_and_port(authority).map_err(wrong)? {
        (_, Some(_)) => Ok(text.to_owned()),
        (_, None) => Err(wrong("is an endpoint without a port")),
    }
}

/// A name that a TLS client may ask for; addresses are never asked for.
pub(super) fn host_name(text: &str) -> Result<String, Wrong> {
    if is_host_name(text) && text.parse::<Ipv4Addr>().is_err() {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(Wrong::new(
            "is not a host name",
            "a name such as engine.example",
        ))
    }
}

/// `host:port` as it is written in a URL and in a `Host` header.
pub(super) fn authority(url: &PodUrl) -> String {
    if url.host.contains(':') {
        format!("[{}]:{}", url.host, url.port)
    } else {
        format!("{}:{}", url.host, url.port)
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    let (host, port) = if let Some(bracketed) = authority.strip_prefix('[') {
        let (address, after) = bracketed
            .split_once(']')
            .ok_or("is a URL whose IPv6 address lacks its closing bracket")?;
        let address: Ipv6Addr = address
            .parse()
            .map_err(|_| "is a URL whose brackets hold no IPv6 address")?;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(port),
            None if after.is_empty() => None,
            None => return Err("is a URL with something between address and port"),
        };
        (address.to_string(), port)
    } else {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        if port.is_some_and(|port| port.contains(':')) {
            return Err("is a URL whose IPv6 address is not in brackets");
        }
        if !is_host_name(host) {
            return Err("is a URL without a valid host name or address");
        }
        (host.to_ascii_lowercase(), port)
    };
    let port = port.map(parse_port).transpose()?;
    Ok((host, port))
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    const WRONG: &str = "is a URL whose port is not a number from 1 to 65535";
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(WRONG);
    }
    match text.parse() {
        Ok(0) | Err(_) => Err(WRONG),
        Ok(port) => Ok(port),
    }
}

fn is_host_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if text.len() > 253 || !text.split('.').all(label) {
        return false;
    }
    // A last label of digits is an address to some resolvers and a name to others: only the plain form passes.
    let last = text.rsplit('.').next().unwrap_or_default();
    !last.bytes().all(|b| b.is_ascii_digit()) || text.parse::<Ipv4Addr>().is_ok()
}

/// The path without trailing slashes and without a last `/v1`, which requests bring themselves.
fn base_path(path: &str) -> Result<String, &'static str> {
    let fits = |b: u8| {
        b.is_ascii_graphic()
            && !matches!(
                b,
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            )
    };
    if !path.bytes().all(fits) {
        return Err("is a URL whose path has characters that must be percent-encoded");
    }
    let path = path.trim_end_matches('/');
    if path.contains("//") || path.split('/').any(|part| part == "." || part == "..") {
        return Err("is a URL whose path has empty or dotted parts");
    }
    Ok(path.strip_suffix("/v1").unwrap_or(path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_ports_and_paths_are_taken_apart() {
        let check = |text: &str, tls: bool, want: &str, path: &str| {
            let url = pod_url(text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
            assert_eq!(url.tls.is_some(), tls, "{text}");
            assert_eq!(authority(&url), want, "{text}");
            assert_eq!(url.base_path, path, "{text}");
        };
        check("http://10.0.0.11:8000", false, "10.0.0.11:8000", "");
        check("http://10.0.0.11:8000/", false, "10.0.0.11:8000", "");
        check("http://e1", false, "e1:80", "");
        check("https://E1.Example", true, "e1.example:443", "");
        check("HTTP://e1.:1", false, "e1.:1", "");
        check("http://[::1]:18101", false, "[::1]:18101", "");
        check("http://[2001:DB8:0:0::1]", false, "[2001:db8::1]:80", "");
        check(
            "http://my_pod:8000/engine-a/",
            false,
            "my_pod:8000",
            "/engine-a",
        );
        check("http://e1:8000/a/b%2Fc", false, "e1:8000", "/a/b%2Fc");
    }

    #[test]
    fn a_last_v1_is_taken_off_once() {
        let check = |path: &str, want: &str| {
            let url = pod_url(&format!("http://e1:8000{path}")).unwrap();
            assert_eq!(url.base_path, want, "{path}");
        };
        check("/v1", "");
        check("/v1/", "");
        check("/engine-a/v1", "/engine-a");
        check("/engine-a/v1/", "/engine-a");
        check("/v1/v1", "/v1");
        check("/v1/x", "/v1/x");
        check("/av1", "/av1");
        check("/v10", "/v10");
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        for text in [
            "",
            "e1:8000",
            "//e1",
            "ftp://e1",
            "http://",
            "http:///v1",
            "http://:8000",
            "http://e1:",
            "http://e1:0",
            "http://e1:65536",
            "http://e1:+80",
            "http://e1:8000?x",
            "http://e1:8000/#a",
            "http://u:p@e1:8000",
            "http://::1:8000",
            "http://[::1",
            "http://[::1]8000",
            "http://[e1]:80",
            "http://1.2.3",
            "http://0x7f.1",
            "http://256.1.1.1",
            "http://e 1",
            "http://e1/a b",
            "http://e1/a//b",
            "http://e1/../b",
            "http://-e1",
            "http://e1..x",
            "http://é1",
            " http://e1",
            "http://e1 ",
            "http://e1/\u{7f}",
            "http://[fe80::1%25eth0]:80",
        ] {
            assert!(pod_url(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn endpoints_need_tcp_and_a_port() {
        assert!(tcp_endpoint("tcp://127.0.0.1:5557").is_ok());
        assert!(tcp_endpoint("tcp://[::1]:5557").is_ok());
        for text in [
            "",
            "127.0.0.1:5557",
            "tcp://127.0.0.1",
            "tcp://*:5557",
            "ipc:///x",
            "tcp://e1:5557/x",
        ] {
            assert!(tcp_endpoint(text).is_err(), "{text:?} was taken");
        }
    }
}
