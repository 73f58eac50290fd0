//! Chat traffic as assistants make it: a few long system prompts shared by many sessions, each session a few turns.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::MODEL;

pub(super) struct Traffic {
    pub(super) gateway: SocketAddr,
    pub(super) strategy: String,
    /// Makes the prompts of a run its own, so that it begins with cold caches.
    pub(super) salt: usize,
    pub(super) duration: Duration,
}

/// What the clients saw.
#[derive(Default)]
pub(super) struct Seen {
    /// Time to the first event of each answer.
    pub(super) first_event: Vec<Duration>,
    pub(super) by_pod: BTreeMap<String, usize>,
    pub(super) failed: usize,
}

/// For the strategies that go by users or by sessions.
struct Who {
    user: String,
    session: String,
}

const CLIENTS: usize = 16;
const SYSTEM_PROMPTS: usize = 24;
const TURNS: usize = 3;

type Http = Client<HttpConnector, Full<Bytes>>;

impl Traffic {
    pub(super) async fn run(self) -> Result<Seen> {
        let end = Instant::now() + self.duration;
        let traffic = std::sync::Arc::new(self);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let traffic = std::sync::Arc::clone(&traffic);
            clients.spawn(async move { traffic.client(number, end).await });
        }
        let mut all = Seen::default();
        while let Some(seen) = clients.join_next().await {
            let seen = seen.context("a client of the demo failed")?;
            all.first_event.extend(seen.first_event);
            all.failed += seen.failed;
            for (pod, count) in seen.by_pod {
                *all.by_pod.entry(pod).or_default() += count;
            }
        }
        Ok(all)
    }

    async fn client(&self, number: usize, end: Instant) -> Seen {
        let http: Http = Client::builder(TokioExecutor::new()).build_http();
        let mut seen = Seen::default();
        for session in 0.. {
            // Every client goes through the system prompts in an order of its own.
            let prompt = (number * 7 + session * 5) % SYSTEM_PROMPTS;
            let mut messages =
                vec![json!({"role": "system", "content": self.system_prompt(prompt)})];
            for turn in 0..TURNS {
                if Instant::now() >= end {
                    return seen;
                }
                let question = format!(
                    "client {number} session {session} turn {turn}: {}",
                    "why? ".repeat(40)
                );
                messages.push(json!({"role": "user", "content": question}));
                let who = Who {
                    user: format!("client {number}"),
                    session: format!("run {} client {number} session {session}", self.salt),
                };
                match self.ask(&http, &who, &messages).await {
                    Ok((pod, first_event)) => {
                        *seen.by_pod.entry(pod).or_default() += 1;
                        seen.first_event.push(first_event);
                    }
                    Err(_) => seen.failed += 1,
                }
                messages.push(json!({"role": "assistant", "content": "word ".repeat(16)}));
            }
        }
        seen
    }

    fn system_prompt(&self, number: usize) -> String {
        format!("run {} assistant {number}: ", self.salt)
            + &format!("rule {number} of this assistant. ").repeat(400)
    }

    async fn ask(&self, http: &Http, who: &Who, messages: &[Value]) -> Result<(String, Duration)> {
        let body = json!({"model": MODEL, "stream": true, "max_tokens": 16, "messages": messages});
        let request = Request::post(format!("http://{}/v1/chat/completions", self.gateway))
            .header(header::CONTENT_TYPE, "application/json")
            .header("routing-strategy", &self.strategy)
            .header("user", &who.user)
            .header("x-aibrix-session-key", &who.session)
            .body(Full::from(body.to_string()))?;
        let started = Instant::now();
        let mut answer = http.request(request).await?;
        anyhow::ensure!(answer.status().is_success(), "status {}", answer.status());
        let pod = answer
            .headers()
            .get("target-pod")
            .and_then(|pod| pod.to_str().ok())
            .unwrap_or("?")
            .to_owned();
        let mut first_event = None;
        while let Some(frame) = answer.body_mut().frame().await {
            frame?;
            first_event.get_or_insert_with(|| started.elapsed());
        }
        Ok((pod, first_event.context("an empty answer")?))
    }
}

/// The status of a page.
pub(super) async fn status(address: SocketAddr, path: &str) -> Result<u16> {
    let http: Http = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::get(format!("http://{address}{path}")).body(Full::default())?;
    Ok(http.request(request).await?.status().as_u16())
}
