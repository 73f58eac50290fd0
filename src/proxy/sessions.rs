//! What ties a client's requests to one pod: the session id that this gateway gave out, and keys of the client's own.
//!
//! An id is the address of a pod in base64, as in the reference. It is only ever compared with the addresses of our
//! own pods: what it says is never connected to.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use pingora_http::header_value_from_slice;

use crate::fleet::Pod;
use crate::routing::PodSlot;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// Longest address: IPv6 in brackets with a port, in base64.
const LONGEST_ID: usize = 64;

/// What the headers of a request say of its session.
#[derive(Debug, Default)]
pub(super) struct ClientSession {
    /// The pod that the session id names, if it is one of ours.
    pub(super) pod: Option<PodSlot>,
    pub(super) key: Option<String>,
}

impl ClientSession {
    /// `keys`: headers that may hold a key. `pods`: those that serve the request's model; others may share an address with
    /// them, behind another path.
    pub(super) fn of(headers: &HeaderMap, keys: &[String], pods: &[Arc<Pod>]) -> Self {
        Self {
            pod: pod(headers, pods),
            key: key(headers, keys),
        }
    }
}

/// The session id of a request that went to this pod.
pub(super) fn id_of(pod: &Pod) -> HeaderValue {
    header_value_from_slice(STANDARD.encode(pod.address()).as_bytes())
}

fn pod(headers: &HeaderMap, pods: &[Arc<Pod>]) -> Option<PodSlot> {
    let address = address(headers.get(SESSION_ID)?.as_bytes())?;
    let named = pods.iter().find(|pod| pod.address_now() == Some(address));
    Some(named?.slot())
}

/// The first of these headers that holds a key.
fn key(headers: &HeaderMap, names: &[String]) -> Option<String> {
    const LONGEST_KEY: usize = 256;
    let values = names.iter().filter_map(|name| headers.get(name));
    let mut keys = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
        .filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
    keys.next()
}

fn address(id: &[u8]) -> Option<SocketAddr> {
    if id.len() > LONGEST_ID {
        return None;
    }
    let decoded = STANDARD.decode(id.trim_ascii()).ok()?;
    std::str::from_utf8(&decoded).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, SourceFile, Sources};
    use crate::fleet::Fleet;

    #[test]
    fn an_id_is_an_address_in_base64_and_nothing_else() {
        let check = |text: &str, expected: Option<&str>| {
            let expected = expected.map(|address| address.parse().unwrap());
            assert_eq!(
                address(STANDARD.encode(text).as_bytes()),
                expected,
                "{text}"
            );
        };
        check("10.0.0.1:8000", Some("10.0.0.1:8000"));
        check("[::1]:8000", Some("[::1]:8000"));
        for text in [
            "",
            "10.0.0.1",
            "e1:8000",
            "http://10.0.0.1:8000",
            "10.0.0.1:99999",
            "::1:8000",
        ] {
            check(text, None);
        }
        for id in [&b"*"[..], b"MTA", b"\xff\xff\xff\xff", &[b'A'; 65]] {
            assert_eq!(address(id), None);
        }
    }

    #[test]
    fn an_id_names_a_pod_of_the_request_s_model() {
        let text = "pods: [{url: http://10.0.0.1:80/a, name: a, models: [m-a]}, {url: http://10.0.0.1:80/b, name: b, models: [m-b]}]";
        let path = std::path::Path::new("warmgate.yaml");
        let config = Config::load(Sources {
            file: Some(SourceFile { path, text }),
            pods: &[],
            environment: &Environment::default(),
            strategy: &|_| Ok(()),
        });
        let fleet = Fleet::new(&config.unwrap());
        let snapshot = fleet.snapshot();
        let mut headers = HeaderMap::new();
        let id = STANDARD.encode("10.0.0.1:80");
        headers.insert(SESSION_ID, id.parse().unwrap());
        for (model, at) in [("m-a", 0), ("m-b", 1)] {
            let pods = snapshot.model(model).unwrap().served_by();
            assert_eq!(
                pod(&headers, pods),
                Some(snapshot.pods()[at].slot()),
                "{model}"
            );
        }
    }

    #[test]
    fn the_first_header_with_a_key_counts() {
        let names = ["x-run".to_owned(), "x-aibrix-session-key".to_owned()];
        let check = |given: &[(&'static str, &str)], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.insert(*name, value.parse().unwrap());
            }
            assert_eq!(key(&headers, &names).as_deref(), expected, "{given:?}");
        };
        let long = "x".repeat(257);
        check(&[], None);
        check(&[("x-aibrix-session-key", " k ")], Some("k"));
        check(&[("x-aibrix-session-key", "k"), ("x-run", "r")], Some("r"));
        check(&[("x-aibrix-session-key", "k"), ("x-run", "")], Some("k"));
        check(
            &[("x-aibrix-session-key", "k"), ("x-run", &long)],
            Some("k"),
        );
        check(&[("x-run", &long[1..])], Some(&long[1..]));
    }
}
