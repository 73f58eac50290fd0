//! The operator's side: health, readiness, metrics, pods, models and reload, on an address of its own.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Method, Response, StatusCode, header};
use pingora_core::apps::http_app::ServeHttp;
use pingora_core::protocols::http::ServerSession;

use crate::proxy::State;

pub struct Admin {
    state: Arc<State>,
    reload: Arc<dyn Reload>,
}

/// Reads the configuration again; the error tells what is wrong, one problem a line.
pub trait Reload: Send + Sync {
    fn reload(&self) -> Result<String, String>;
}

impl Admin {
    pub fn new(state: Arc<State>, reload: Arc<dyn Reload>) -> Self {
        Self { state, reload }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Vec<u8>> {
        match (path, method) {
            ("/livez", &Method::GET | &Method::HEAD) => text(StatusCode::OK, "ok\n"),
            ("/readyz", &Method::GET | &Method::HEAD) => self.ready(),
            ("/metrics", &Method::GET | &Method::HEAD) => self.metrics(),
            ("/pods", &Method::GET | &Method::HEAD) => {
                json(&self.state.fleet.snapshot().pods_view())
            }
            ("/models", &Method::GET | &Method::HEAD) => {
                json(&self.state.fleet.snapshot().models_view())
            }
            ("/reload", &Method::POST) => self.reload(),
            ("/", &Method::GET | &Method::HEAD) => text(StatusCode::OK, INDEX),
            ("/livez" | "/readyz" | "/metrics" | "/pods" | "/models" | "/", _) => {
                not_allowed("GET, HEAD")
            }
            ("/reload", _) => not_allowed("POST"),
            _ => text(StatusCode::NOT_FOUND, &format!("no such page\n\n{INDEX}")),
        }
    }

    fn ready(&self) -> Response<Vec<u8>> {
        if self.state.is_draining() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
        }
        if !self.state.fleet.snapshot().ready() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "no pod is ready\n");
        }
        text(StatusCode::OK, "ready\n")
    }

    fn metrics(&self) -> Response<Vec<u8>> {
        match self.state.render_metrics() {
            Ok(page) => with_type(
                StatusCode::OK,
                "text/plain; version=0.0.4; charset=utf-8",
                page.into_bytes(),
            ),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        }
    }

    fn reload(&self) -> Response<Vec<u8>> {
        match self.reload.reload() {
            Ok(done) => text(StatusCode::OK, &format!("{done}\n")),
            Err(problems) => text(StatusCode::UNPROCESSABLE_ENTITY, &format!("{problems}\n")),
        }
    }
}

const INDEX: &str = "\
GET  /livez    the process runs
GET  /readyz   a pod can take requests
GET  /metrics  Prometheus
GET  /pods     the pods, their health and load
GET  /models   the models and who serves them
POST /reload   read the configuration again
";

#[async_trait]
impl ServeHttp for Admin {
    async fn response(&self, session: &mut ServerSession) -> Response<Vec<u8>> {
        let method = session.req_header().method.clone();
        let path = session.req_header().uri.path().to_owned();
        let mut response = self.answer(&method, &path);
        let length = response.body().len();
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length.into());
        if method == Method::HEAD {
            response.body_mut().clear();
        }
        response
    }
}

fn text(status: StatusCode, body: &str) -> Response<Vec<u8>> {
    with_type(
        status,
        "text/plain; charset=utf-8",
        body.as_bytes().to_vec(),
    )
}

fn json(value: &impl serde::Serialize) -> Response<Vec<u8>> {
    match serde_json::to_vec_pretty(value) {
        Ok(body) => with_type(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn not_allowed(methods: &'static str) -> Response<Vec<u8>> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    response
        .headers_mut()
        .insert(header::ALLOW, header::HeaderValue::from_static(methods));
    response
}

fn with_type(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    response
}
