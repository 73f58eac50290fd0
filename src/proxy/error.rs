//! Every error answer of the gateway: one place that turns a reason into a status, headers and an OpenAI-shaped body.

use std::time::Duration;

use http::StatusCode;

use crate::fleet::{Selector, SelectorError};
use crate::request::BodyError;
use crate::request::coding::CodingError;

/// What the client is told. The message names what was wrong and the way out, never a prompt or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ErrorAnswer {
    pub(super) status: StatusCode,
    pub(super) message: String,
    pub(super) code: Option<&'static str>,
    pub(super) param: Option<&'static str>,
    /// The reference gateway's debugging header.
    pub(super) header: Option<(&'static str, String)>,
    pub(super) retry_after: Option<Duration>,
    /// The connection cannot carry another request: framing is in doubt, or a body was left unread.
    pub(super) close: bool,
}

impl ErrorAnswer {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            code: None,
            param: None,
            header: None,
            retry_after: None,
            close: false,
        }
    }

    pub(super) fn bad_framing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message).and_close()
    }

    pub(super) fn unauthorized() -> Self {
        Self {
            code: Some("invalid_api_key"),
            param: Some("api_key"),
            ..Self::new(StatusCode::UNAUTHORIZED, "Incorrect API key provided")
        }
    }

    pub(super) fn body_too_large(limit: usize) -> Self {
        Self {
            code: Some("request_too_large"),
            ..Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the request body is larger than the limit of {limit} bytes (limits.body)"),
            )
        }
        .and_close()
    }

    pub(super) fn body_too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "the request body arrived too slowly (limits.body_idle, limits.body_rate)",
        )
        .and_close()
    }

    pub(super) fn header_too_large(message: String) -> Self {
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message).and_close()
    }

    pub(super) fn unknown_model(model: &str) -> Self {
        Self {
            code: Some("model_not_found"),
            param: Some("model"),
            header: Some(("x-error-no-model-backends", header_safe(model))),
            ..Self::new(
                StatusCode::NOT_FOUND,
                format!(
                    "The model `{}` does not exist. GET /v1/models lists those that do.",
                    shown(model)
                ),
            )
        }
    }

    pub(super) fn unknown_path() -> Self {
        Self {
            header: Some(("x-error-request-body-processing", "true".to_owned())),
            ..Self::new(
                StatusCode::NOT_FOUND,
                "unknown request path: it names no model, and the pods serve different models, so it cannot be routed",
            )
        }
    }

    pub(super) fn no_ready_pod(model: Option<&str>) -> Self {
        let message = match model {
            Some(model) => format!("no pod that serves the model `{}` is ready", shown(model)),
            None => "no pod is ready".to_owned(),
        };
        Self {
            code: Some("service_unavailable"),
            header: Some(("x-error-no-model-backends", "true".to_owned())),
            retry_after: Some(RETRY_AFTER),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }

    pub(super) fn no_selected_pod(selector: &Selector) -> Self {
        Self {
            code: Some("service_unavailable"),
            header: Some(("x-error-routing", "true".to_owned())),
            retry_after: Some(RETRY_AFTER),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("no pod that is ready has the labels of external-filter: `{selector}`"),
            )
        }
    }

    pub(super) fn too_many_requests(model: &str, wait: Duration) -> Self {
        Self {
            code: Some("rate_limit_exceeded"),
            header: Some(("x-error-model-rps-exceeded", "true".to_owned())),
            retry_after: Some(wait),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "more requests for the model `{}` than its profile allows a second",
                    shown(model)
                ),
            )
        }
    }

    pub(super) fn pods_full(most: u32) -> Self {
        Self {
            code: Some(PODS_FULL),
            header: Some(("x-error-replica-inflight-exceeded", "true".to_owned())),
            retry_after: Some(Duration::from_secs(1)),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("every pod runs as many requests as the model's profile allows ({most})"),
            )
        }
    }

    pub(super) fn bad_selector(error: &SelectorError) -> Self {
        Self {
            header: Some(("x-error-routing", "true".to_owned())),
            ..Self::new(StatusCode::BAD_REQUEST, format!("external-filter: {error}"))
        }
    }

    pub(super) fn all_full(waited: Duration) -> Self {
        Self {
            code: Some("service_unavailable"),
            header: Some(("x-error-routing", "true".to_owned())),
            retry_after: Some(RETRY_AFTER),
            ..Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "for {waited:?} every pod had all the requests that its latency goal allows"
                ),
            )
        }
    }

    pub(super) fn bad_strategy(message: String) -> Self {
        Self {
            header: Some(("x-error-routing", "true".to_owned())),
            ..Self::new(StatusCode::BAD_REQUEST, message)
        }
    }

    pub(super) fn engine(status: StatusCode, message: impl Into<String>) -> Self {
        let code = match status {
            StatusCode::GATEWAY_TIMEOUT => "engine_timeout",
            _ => "engine_unreachable",
        };
        Self {
            code: Some(code),
            ..Self::new(status, message)
        }
    }

    pub(super) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal error of the gateway; its log tells more",
        )
        .and_close()
    }

    pub(super) fn body(&self) -> Vec<u8> {
        let error = serde_json::json!({
            "error": {
                "message": self.message,
                "type": self.kind(),
                "code": self.code,
                "param": self.param,
            }
        });
        error.to_string().into_bytes()
    }

    fn and_close(self) -> Self {
        Self {
            close: true,
            ..self
        }
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            429 if self.code == Some(PODS_FULL) => "overloaded_error",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }
}

/// The one 429 that is not for what the client did.
const PODS_FULL: &str = "pods_full";

/// How long a client should wait for a pod: about a health interval.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl From<BodyError> for ErrorAnswer {
    fn from(error: BodyError) -> Self {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
        Self {
            code: error.code(),
            param: error.param(),
            header: Some((error.header(), "true".to_owned())),
            ..Self::new(status, error.to_string())
        }
    }
}

impl ErrorAnswer {
    pub(super) fn coding(error: &CodingError, limit: usize) -> Self {
        match error {
            CodingError::TooLarge => Self {
                close: false,
                ..Self::body_too_large(limit)
            },
            CodingError::Unsupported(_) => Self {
                code: Some("unsupported_content_encoding"),
                ..Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error.to_string())
            },
            CodingError::Corrupt(_) => Self {
                header: Some(("x-error-request-body-processing", "true".to_owned())),
                ..Self::new(StatusCode::BAD_REQUEST, error.to_string())
            },
        }
    }
}

/// A client's value as it may stand in a message: bounded.
fn shown(value: &str) -> String {
    const LONGEST: usize = 200;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

/// A client's value as it may stand in a header: visible ASCII, bounded.
fn header_safe(value: &str) -> String {
    value
        .chars()
        .take(200)
        .map(|c| {
            if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '?'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(answer: &ErrorAnswer) -> serde_json::Value {
        serde_json::from_slice(&answer.body()).unwrap()
    }

    #[test]
    fn an_unknown_model_is_told_in_the_openai_shape() {
        let body = parsed(&ErrorAnswer::unknown_model("nope"));
        assert_eq!(body["error"]["code"], "model_not_found");
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert_eq!(body["error"]["param"], "model");
        assert!(
            body["error"]["message"]
                .as_str()
                .unwrap()
                .contains("`nope`")
        );
    }

    #[test]
    fn a_client_value_cannot_break_a_header_or_flood_a_message() {
        let answer = ErrorAnswer::unknown_model(&format!("a\r\nb\u{e9}{}", "x".repeat(10_000)));
        let (_, value) = answer.header.as_ref().unwrap();
        assert!(http::HeaderValue::from_str(value).is_ok());
        assert!(answer.body().len() < 1_000);
    }
}
