//! What the configuration says of pods and of their health checks.

use std::collections::BTreeMap;
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
