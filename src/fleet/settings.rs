//! What the configuration says of pods and of their health checks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// One pod as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSpec {
    pub url: PodUrl,
    /// Unique; `host:port` unless configured.
    pub name: String,
    /// `None`: asked of the pod's `GET /v1/models`.
    pub models: Option<Vec<String>>,
    pub role: Role,
    /// `None`: told by the metrics it exports.
    pub engine: Option<EngineKind>,
    pub labels: BTreeMap<String, String>,
    /// Path of the engine's metrics; `None`: not read.
    pub metrics: Option<String>,
    pub kv_events: Option<KvEvents>,
}

/// A parsed pod URL. `base_path` has no trailing slash: "" or "/engine-a". A trailing `/v1` is taken off
/// at parsing, so that requests for `/v1/...` reach the engine with one `/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUrl {
    /// `None`: plain text.
    pub tls: Option<UpstreamTls>,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
    pub base_path: String,
    /// `true`: HTTP/2 (h2c prior knowledge, or ALPN over TLS).
    pub http2: bool,
}

impl PodUrl {
    /// `None` when the host is a name.
    pub(super) fn literal_address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.host.parse().ok()?;
        Some(SocketAddr::new(ip, self.port))
    }

    /// The Host header: the port only where it is not the scheme's own.
    pub(super) fn host_header(&self) -> String {
        let usual = if self.tls.is_some() { 443 } else { 80 };
        let host = self.bracketed();
        if self.port == usual {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    fn bracketed(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

impl fmt::Display for PodUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(
            f,
            "{scheme}://{}:{}{}",
            self.bracketed(),
            self.port,
            self.base_path
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    pub verify: bool,
    /// Name to ask for and to check; `None`: the URL's host if it is a name.
    pub sni: Option<String>,
    /// Further trusted roots, PEM.
    pub ca: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Mixed,
    Prefill,
    Decode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    Vllm,
    Sglang,
    Trtllm,
    Llamacpp,
    Xllm,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEvents {
    pub publish: String,
    pub replay: Option<String>,
    pub topic: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HealthSettings {
    pub path: String,
    pub interval: Duration,
    pub timeout: Duration,
    /// Consecutive failures after which a pod is taken out.
    pub unhealthy_after: u32,
    /// Consecutive successes after which it comes back.
    pub healthy_after: u32,
    /// Share of a model's pods that health checks never go below; 0: no such floor.
    pub min_available: f64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            path: "/health".to_owned(),
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(3),
            unhealthy_after: 3,
            healthy_after: 1,
            min_available: 0.5,
        }
    }
}
