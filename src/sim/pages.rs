//! What an engine tells beside its work: health, models, metrics, and its simulation's own pages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};

use super::answer;
use super::faults::Faults;
use super::http::Face;
use super::seen::SeenRequest;
use super::stream::{Body, pause, whole};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");

impl Face {
    /// The page at this path, if there is one. Pages are not in the log, and only faults of their own
    /// concern them.
    pub(super) async fn page(
        &self,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Option<Response<Body>> {
        let done = || json_answer(StatusCode::OK, &json!({}));
        Some(match (method, path) {
            (&Method::GET | &Method::HEAD, "/health") => self.health().await,
            (&Method::GET, "/v1/models") => self.models(),
            (&Method::GET, "/metrics") => self.metrics(),
            (&Method::GET, "/version") => json_answer(StatusCode::OK, &json!({"version": "sim"})),
            (&Method::GET, "/sim/requests") => {
                let requests: Vec<Value> =
                    self.log.all().iter().map(SeenRequest::to_json).collect();
                json_answer(StatusCode::OK, &requests.into())
            }
            (&Method::GET, "/sim/state") => json_answer(StatusCode::OK, &self.state()),
            (&Method::POST, "/sim/reset") => {
                self.log.clear();
                done()
            }
            (&Method::POST, "/sim/release") => {
                self.release();
                done()
            }
            (&Method::POST, "/sim/faults") => match serde_json::from_slice(body) {
                Ok(faults) => {
                    self.set_faults(faults);
                    done()
                }
                Err(error) => bad_request(&error.to_string(), "bad_fault"),
            },
            (_, path) if path.starts_with("/sim/") => not_found(),
            (&Method::GET, path) => self.model(path.strip_prefix("/v1/models/")?),
            _ => return None,
        })
    }

    pub(super) fn release(&self) {
        self.released.send_modify(|times| *times += 1);
    }

    pub(super) fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.faults.lock())
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        *self.faults.lock() = Arc::new(faults);
    }

    async fn health(&self) -> Response<Body> {
        let faults = self.faults();
        let check = self.health_checks.fetch_add(1, Ordering::Relaxed) + 1;
        let every = faults.health_slow_every.unwrap_or(1).max(1);
        if check.is_multiple_of(every) {
            pause(faults.health_delay_ms).await;
        }
        match faults.health_status {
            Some(status) => refusal(status),
            None => whole(StatusCode::OK, JSON, Bytes::from_static(b"{}")),
        }
    }

    fn models(&self) -> Response<Body> {
        if let Some(status) = self.faults().models_status {
            return refusal(status);
        }
        let models: Vec<Value> = self.models.iter().map(|id| model(id)).collect();
        json_answer(StatusCode::OK, &json!({"object": "list", "data": models}))
    }

    /// Names may hold slashes; a client may have escaped them.
    fn model(&self, name: &str) -> Response<Body> {
        let name = name.replace("%2F", "/").replace("%2f", "/");
        match self.models.contains(&name) {
            true => json_answer(StatusCode::OK, &model(&name)),
            false => no_model(),
        }
    }

    /// Requests that wait for the engine, and the others that have not ended.
    fn load(&self) -> (u64, u64) {
        let waiting = self.driver.with(|engine| engine.waiting() as u64);
        (self.log.running().saturating_sub(waiting), waiting)
    }

    fn metrics(&self) -> Response<Body> {
        if self.faults().no_metrics {
            return not_found();
        }
        let (running, waiting) = self.load();
        let model = self.models.first().map_or("", String::as_str);
        let labels = format!("engine=\"0\",model_name=\"{model}\"");
        let page = self.driver.with(|engine| {
            let totals = engine.totals();
            let rows = [
                ("gauge", "num_requests_running", running as f64),
                ("gauge", "num_requests_waiting", waiting as f64),
                ("gauge", "kv_cache_usage_perc", engine.kv_usage()),
                ("counter", "prefix_cache_queries_total", totals.prompt_tokens as f64),
                ("counter", "prefix_cache_hits_total", totals.cached_tokens as f64),
                ("counter", "prompt_tokens_total", totals.prompt_tokens as f64),
                ("counter", "generation_tokens_total", totals.output_tokens as f64),
            ];
            let rows = rows.map(|(kind, name, value)| {
                format!("# TYPE vllm:{name} {kind}\nvllm:{name}{{{labels}}} {value}\n")
            });
            let blocks = (engine.model().block_tokens, engine.model().kv_blocks);
            rows.concat()
                + &format!(
                    "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{labels},block_size=\"{}\",num_gpu_blocks=\"{}\"}} 1\n",
                    blocks.0, blocks.1
                )
        });
        whole(StatusCode::OK, TEXT, page.into())
    }

    fn state(&self) -> Value {
        let (running, waiting) = self.load();
        json!({
            "running": running, "waiting": waiting, "requests_total": self.log.total(),
            "connections": self.connections.load(Ordering::Relaxed),
        })
    }
}

fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": "sim"})
}

pub(super) fn not_found() -> Response<Body> {
    json_answer(
        StatusCode::NOT_FOUND,
        &answer::error("not found", "not_found"),
    )
}

pub(super) fn no_model() -> Response<Body> {
    let error = answer::error("the model does not exist here", "model_not_found");
    json_answer(StatusCode::NOT_FOUND, &error)
}

pub(super) fn bad_request(message: &str, code: &str) -> Response<Body> {
    json_answer(StatusCode::BAD_REQUEST, &answer::error(message, code))
}

pub(super) fn refusal(status: u16) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_answer(status, &answer::error("refused on purpose", "sim_fault"));
    if matches!(status.as_u16(), 429 | 503) {
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, 7.into());
    }
    response
}

pub(super) fn preflight() -> Response<Body> {
    let mut response = whole(StatusCode::OK, TEXT, Bytes::from_static(b"OK"));
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, POST, OPTIONS"),
        (
            "access-control-allow-headers",
            "authorization, content-type",
        ),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

pub(super) fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    whole(status, JSON, value.to_string().into())
}
