//! Takes a request in: what the gateway answers itself, who may send, the body, the model, the prompt's blocks.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Method};
use pingora_core::Result;
use pingora_http::RequestHeader;
use pingora_proxy::Session;

use super::body::{self, ReadError};
use super::context::{RequestContext, Routing};
use super::error::ErrorAnswer;
use super::headers::ROUTING_STRATEGY;
use super::rules::{ProfileRules, Size};
use super::sessions::ClientSession;
use super::state::{State, Strategy};
use super::{auth, local};
use crate::fleet::{ModelPods, Selector, Snapshot};
use crate::request::{self, InferenceRequest, ParseOptions, PathKind, coding};
use crate::routing::{PrefixBlocks, Request, Scope};

pub(super) enum Intake {
    /// The client has its answer.
    Answered,
    /// The body to send on.
    Forward(Bytes),
}

pub(super) async fn take(
    state: &State,
    session: &mut Session,
    context: &mut RequestContext,
) -> Result<Intake> {
    match admit(state, session, context).await {
        Ok(intake) => Ok(intake),
        Err(Refusal::Connection(error)) => Err(error),
        Err(Refusal::Answer(answer)) => {
            local::refuse(session, context, &answer).await;
            Ok(Intake::Answered)
        }
    }
}

pub(super) enum Refusal {
    Answer(ErrorAnswer),
    Connection(Box<pingora_core::Error>),
}

impl From<ErrorAnswer> for Refusal {
    fn from(answer: ErrorAnswer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Box<pingora_core::Error>> for Refusal {
    fn from(error: Box<pingora_core::Error>) -> Self {
        Self::Connection(error)
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Answer(answer) => Self::Answer(answer),
            ReadError::Connection(error) => Self::Connection(error),
        }
    }
}

async fn admit(
    state: &State,
    session: &mut Session,
    context: &mut RequestContext,
) -> Result<Intake, Refusal> {
    let header = session.req_header();
    let (method, path) = (&header.method, header.uri.path());
    context.kind = PathKind::classify(path);
    if local::is_health(method, path) {
        local::health(state, session, context).await?;
        return Ok(Intake::Answered);
    }
    let headers = &header.headers;
    if !auth::is_preflight(method, headers) && !auth::is_allowed(&context.live.auth, headers) {
        return Err(ErrorAnswer::unauthorized().into());
    }
    if local::is_model_list(method, path) {
        local::models(state, session, context).await?;
        return Ok(Intake::Answered);
    }
    body::check_announced(&session.downstream_session, &context.live.limits)?;
    let limits = &context.live.limits;
    let mut body = body::read(&mut session.downstream_session, limits, &state.bodies).await?;
    let header = session.req_header();
    if header.method == Method::POST && context.kind.reads_model() {
        if let Some(decoded) = decode(&header.headers, &body, context)? {
            body = decoded;
            context.decoded = true;
        }
        route_by_body(state, &header.headers, &body, context)?;
    } else {
        route_by_path(state, header, &body, context)?;
    }
    Ok(Intake::Forward(body))
}

/// Engines read no compressed bodies, so what is understood here is sent on decoded.
fn decode(
    headers: &HeaderMap,
    body: &Bytes,
    context: &RequestContext,
) -> Result<Option<Bytes>, ErrorAnswer> {
    let mut names = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        let value = value
            .to_str()
            .map_err(|_| ErrorAnswer::bad_framing("the Content-Encoding header is not ASCII"))?;
        names.push(value);
    }
    if names.is_empty() {
        return Ok(None);
    }
    let limit = context.live.limits.body;
    coding::decode(&names.join(","), body, limit)
        .map(Some)
        .map_err(|error| ErrorAnswer::coding(&error, limit))
}

fn route_by_body(
    state: &State,
    headers: &HeaderMap,
    body: &Bytes,
    context: &mut RequestContext,
) -> Result<(), ErrorAnswer> {
    let options = ParseOptions {
        include_tools: context.live.router.settings().prefix_cache.include_tools,
    };
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let request = request::parse(context.kind, content_type, body, &options)?;
    let snapshot = state.fleet.snapshot();
    let model = find_model(&snapshot, &request.model)?;
    let selector = selector(headers)?;
    let size = || Size {
        prompt_tokens: context
            .kind
            .has_prompt()
            .then(|| Request::tokens_of(request.prompt.len())),
        max_tokens: request.max_tokens,
    };
    let (strategy, profile) = strategy(headers, Some(model), size, context)?;
    let Strategy { plan, name } = strategy;
    let wanted = plan.needs_prefix() || state.capture.is_some();
    let blocks = match wanted && context.kind.has_prompt() {
        true => hash(&request, context),
        false => PrefixBlocks::default(),
    };
    context.routing = Some(Routing {
        model: Some(model.name().to_owned()),
        records: plan.needs_prefix() && context.kind.fills_cache(),
        plan,
        strategy: name,
        blocks,
        seed: state.next_seed(),
        prompt_tokens: Request::tokens_of(request.prompt.len()),
        user: header_text(headers, &USER),
        session: session(headers, model, context),
        selector,
        profile,
    });
    Ok(())
}

/// Until any pod has told what it serves, a model cannot be called unknown.
fn find_model<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a ModelPods, ErrorAnswer> {
    snapshot.model(name).ok_or_else(|| {
        if snapshot.knows_models() {
            ErrorAnswer::unknown_model(name)
        } else {
            ErrorAnswer::no_ready_pod(Some(name))
        }
    })
}

fn hash(request: &InferenceRequest<'_>, context: &RequestContext) -> PrefixBlocks {
    let mut blocks = PrefixBlocks::default();
    let scope = Scope {
        model: &request.model,
        cache_salt: request.cache_salt.as_deref(),
    };
    context
        .live
        .router
        .hash(scope, |show| request.prompt.each(show), &mut blocks);
    blocks
}

/// Any other path: by the model it names, or by load when all pods are alike. A browser's preflight names no model, and
/// any pod can answer it.
fn route_by_path(
    state: &State,
    header: &RequestHeader,
    body: &Bytes,
    context: &mut RequestContext,
) -> Result<(), ErrorAnswer> {
    let snapshot = state.fleet.snapshot();
    let named = request::model_in_path(header.uri.path()).or_else(|| request::peek_model(body));
    let model = match &named {
        Some(name) => Some(find_model(&snapshot, name)?),
        None if snapshot.is_uniform() || header.method == Method::OPTIONS => None,
        None => return Err(ErrorAnswer::unknown_path()),
    };
    let selector = selector(&header.headers)?;
    let (strategy, profile) = strategy(&header.headers, model, Size::default, context)?;
    let Strategy { plan, name } = strategy;
    context.routing = Some(Routing {
        model: model.map(|model| model.name().to_owned()),
        plan,
        strategy: name,
        blocks: PrefixBlocks::default(),
        records: false,
        seed: state.next_seed(),
        prompt_tokens: 0,
        user: header_text(&header.headers, &USER),
        session: session(&header.headers, model.unwrap_or(snapshot.all()), context),
        selector,
        profile,
    });
    Ok(())
}

fn session(headers: &HeaderMap, pods: &ModelPods, context: &RequestContext) -> ClientSession {
    let settings = &context.live.router.settings().session_affinity;
    ClientSession::of(headers, &settings.key_headers, pods.served_by())
}

/// Labels that the pod must have; several headers are one list, as HTTP has it.
fn selector(headers: &HeaderMap) -> Result<Option<Selector>, ErrorAnswer> {
    let values = headers.get_all(EXTERNAL_FILTER).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .filter(|value| !value.trim().is_empty())
        .collect();
    if values.is_empty() {
        return Ok(None);
    }
    Selector::parse(&values.join(","))
        .map(Some)
        .map_err(|error| ErrorAnswer::bad_selector(&error))
}

/// The strategy and the profile, by the request's headers and the model's settings; and the request counted, so that this
/// is the last thing that can refuse it.
fn strategy(
    headers: &HeaderMap,
    model: Option<&ModelPods>,
    size: impl FnOnce() -> Size,
    context: &RequestContext,
) -> Result<(Strategy, Option<Arc<ProfileRules>>), ErrorAnswer> {
    let live = &context.live;
    let requested = header_text(headers, &ROUTING_STRATEGY);
    let asked = || header_text(headers, &CONFIG_PROFILE);
    let rules = live.rules(model.map(ModelPods::name));
    let profile = rules.and_then(|rules| rules.profile(asked().as_deref(), size));
    let strategy = live
        .strategy(
            rules.map(|rules| &**rules),
            requested.as_deref(),
            profile.map(|rules| &rules.profile),
        )
        .map_err(|error| ErrorAnswer::bad_strategy(error.to_string()))?;
    if let (Some(rules), Some(model)) = (profile, model) {
        rules
            .admit(model.routable_count(), Instant::now())
            .map_err(|wait| ErrorAnswer::too_many_requests(model.name(), wait))?;
    }
    Ok((strategy, profile.cloned()))
}

const CONFIG_PROFILE: HeaderName = HeaderName::from_static("config-profile");
const EXTERNAL_FILTER: HeaderName = HeaderName::from_static("external-filter");
const USER: HeaderName = HeaderName::from_static("user");

/// A header's trimmed value, if there is anything in it.
fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = String::from_utf8_lossy(headers.get(name)?.as_bytes());
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}
