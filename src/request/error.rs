//! What can be wrong with a body. Messages name keys, kinds and places, never what a client wrote into a value.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the request body is not JSON: {0}")]
    NotJson(String),
    #[error("the request body must be a JSON object, not {0}")]
    NotAnObject(&'static str),
    #[error("the request names no model; set `model` to one of GET /v1/models")]
    NoModel,
    #[error("`model` must be a non-empty string, not {0}; set it to one of GET /v1/models")]
    BadModel(&'static str),
    #[error("`model` is given twice; give it once")]
    TwoModels,
    #[error("no messages in the request body")]
    NoMessages,
    #[error("'input' is a required property")]
    NoInput,
    #[error("'input' must be a string or an array of input items")]
    BadInput,
    #[error("'input' array cannot be empty")]
    EmptyInput,
    #[error("`Content-Type: {given}` is not understood on this path; send {expected}")]
    ContentType {
        given: String,
        expected: &'static str,
    },
    #[error("the multipart body is not well-formed: {0}")]
    BadMultipart(&'static str),
    #[error("the form has no field `model`; set it to one of GET /v1/models")]
    NoModelField,
}

impl BodyError {
    pub fn status(&self) -> u16 {
        match self {
            Self::ContentType { .. } => 415,
            _ => 400,
        }
    }

    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::ContentType { .. } => Some("unsupported_media_type"),
            _ => None,
        }
    }

    pub fn param(&self) -> Option<&'static str> {
        match self {
            Self::NoModel | Self::BadModel(_) | Self::TwoModels | Self::NoModelField => {
                Some("model")
            }
            Self::NoMessages => Some("messages"),
            Self::NoInput | Self::BadInput | Self::EmptyInput => Some("input"),
            _ => None,
        }
    }

    /// The reference's debugging header for it.
    pub fn header(&self) -> &'static str {
        match self {
            Self::NoModel | Self::BadModel(_) | Self::TwoModels => "x-error-no-model-in-request",
            Self::BadMultipart(_) | Self::NoModelField => "x-error-multipart-parsing",
            _ => "x-error-request-body-processing",
        }
    }
}
