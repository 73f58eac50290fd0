//! The client: HTTP/1.1 with keep-alive, one request at a time on a connection.

mod answer;
mod connection;
mod failure;
pub(crate) mod page;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::scenario::Engines;
pub(crate) use answer::Answer;
use answer::Reader;
use connection::{Connection, Pool};
pub(crate) use failure::{Failure, Kind};

pub(crate) struct Client {
    pool: Pool,
    host: HeaderValue,
    strategy: Option<HeaderValue>,
    timeout: Duration,
    engines: Engines,
}

/// What to send, and what the answer must be like.
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) body: Bytes,
    pub(crate) stream: bool,
    pub(crate) answer_tokens: usize,
    pub(crate) keep_text: bool,
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const STRATEGY: HeaderName = HeaderName::from_static("routing-strategy");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Client {
    pub(crate) async fn new(
        authority: &str,
        strategy: Option<&str>,
        timeout: Duration,
        engines: Engines,
    ) -> anyhow::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            pool: Pool::new(authority).await?,
            host: HeaderValue::from_str(authority)?,
            strategy: strategy.map(HeaderValue::from_str).transpose()?,
            timeout,
            engines,
        }))
    }

    /// Connections opened so far.
    pub(crate) fn connections(&self) -> u64 {
        self.pool.opened()
    }

    pub(crate) async fn exchange(&self, wanted: &Wanted) -> Result<Answer, Failure> {
        match tokio::time::timeout(self.timeout, self.attempt(wanted)).await {
            Ok(result) => result,
            Err(_) => Err(Failure::new(
                Kind::Timeout,
                format!("no end after {:?}", self.timeout),
            )),
        }
    }

    async fn attempt(&self, wanted: &Wanted) -> Result<Answer, Failure> {
        let (mut connection, response) = self.send(wanted).await?;
        let pod = header(&response, "target-pod");
        let result = self.read(wanted, response).await;
        match result {
            Ok(mut answer) => {
                answer.pod = pod;
                if connection.is_reusable().await {
                    self.pool.put(connection);
                }
                Ok(answer)
            }
            Err(failure) => Err(failure.at(pod)),
        }
    }

    /// Sends on a kept connection or a new one. One that the gateway closed before anything was sent is no failure.
    async fn send(&self, wanted: &Wanted) -> Result<(Connection, Response<Incoming>), Failure> {
        let mut request = self.request(wanted)?;
        while let Some(mut connection) = self.pool.take() {
            match connection.send(request).await {
                Ok(response) => return Ok((connection, response)),
                Err((_, Some(unsent))) => request = unsent,
                Err((failure, None)) => return Err(failure),
            }
        }
        let mut connection = self.pool.open().await?;
        match connection.send(request).await {
            Ok(response) => Ok((connection, response)),
            Err((failure, _)) => Err(failure),
        }
    }

    fn request(&self, wanted: &Wanted) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::post("/v1/chat/completions")
            .header(HOST, self.host.clone())
            .header(CONTENT_TYPE, JSON)
            .header(REQUEST_ID, &wanted.id)
            .body(Full::new(wanted.body.clone()))
            .map_err(|error| Failure::new(Kind::Request, error.to_string()))?;
        if let Some(strategy) = &self.strategy {
            request.headers_mut().insert(STRATEGY, strategy.clone());
        }
        Ok(request)
    }

    async fn read(&self, wanted: &Wanted, response: Response<Incoming>) -> Result<Answer, Failure> {
        let status = response.status();
        let echoed = header(&response, "x-request-id");
        let mut body = response.into_body();
        if !status.is_success() {
            let text = match body.collect().await {
                Ok(text) => String::from_utf8_lossy(&text.to_bytes()).into_owned(),
                Err(error) => format!("and a broken body: {error}"),
            };
            return Err(Failure::new(Kind::Status(status.as_u16()), text));
        }
        if let Some(echoed) = echoed.filter(|echoed| *echoed != wanted.id) {
            let detail = format!("x-request-id is {echoed}, not {}", wanted.id);
            return Err(Failure::new(Kind::WrongAnswer, detail));
        }
        let mut reader = Reader::new(wanted, self.engines);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| failure::broken(&error))?;
            if let Some(data) = frame.data_ref() {
                reader.feed(data, Instant::now())?;
            }
        }
        reader.end(Instant::now())
    }
}

fn header(response: &Response<Incoming>, name: &str) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(value.to_owned())
}
