//! The built-in defaults; `conf/full.yaml` shows them, and a test keeps the two equal.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::{
    Admin, Auth, Config, Limits, Listener, Log, LogFormat, Retry, Server, Timeouts,
    TokenizerService,
};
use crate::fleet::settings::HealthSettings;
use crate::routing::settings::RoutingSettings;

impl Default for Config {
    fn default() -> Self {
        Self {
            server: Server::default(),
            admin: Admin::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            health: HealthSettings::default(),
            log: Log::default(),
            auth: Auth::default(),
            pods: Vec::new(),
            models: BTreeMap::new(),
            routing: RoutingSettings::default(),
            metrics_poll: Duration::from_secs(1),
            tokenizer: TokenizerService::default(),
            capture: None,
            notes: Vec::new(),
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: vec![Listener {
                address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 8080)),
                tls: None,
                h2c: false,
            }],
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            shutdown_grace: Duration::from_secs(60),
            upgrade_socket: PathBuf::from("/tmp/warmgate-upgrade.sock"),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 64 << 20,
            header_size: 64 << 10,
            headers: 128,
            header_timeout: Some(Duration::from_secs(30)),
            body_idle: Some(Duration::from_secs(30)),
            body_rate: 500,
        }
    }
}

impl Default for Timeouts {
    /// Engines may prefill for minutes and answer for hours: only dead peers are cut off.
    fn default() -> Self {
        Self {
            connect: Some(Duration::from_secs(2)),
            first_byte: None,
            idle: None,
            request: None,
            client_write: Some(Duration::from_secs(60)),
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 2 }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: log::LevelFilter::Info,
            format: LogFormat::Text,
            access: true,
        }
    }
}

impl Default for TokenizerService {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            ttl: Duration::from_secs(300),
            cache: 10_000,
            file: None,
        }
    }
}
