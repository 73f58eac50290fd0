//! Chooses the pod of each try and keeps the account of it.

use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_proxy::Session;
use std::time::Instant;

use super::context::{Attempt, RequestContext};
use super::error::ErrorAnswer;
use super::state::State;
use crate::routing::Request;

/// The peer of the next try. The pod that failed before, if any, is off the count already.
pub(super) fn next_peer(state: &State, _session: &Session, context: &mut RequestContext) -> Result<Box<HttpPeer>> {
    context.attempt = None;
    context.tries += 1;
    let Some(routing) = &context.routing else {
        return Err(context.fail(ErrorAnswer::internal()));
    };
    let snapshot = state.fleet.snapshot();
    let pods = snapshot.candidates(routing.model.as_deref(), &context.excluded);
    let request = Request {
        blocks: &routing.blocks,
        seed: routing.seed,
        now_ms: state.now_ms(),
    };
    let started = Instant::now();
    let Ok(choice) = context.live.router.route(&routing.plan, &request, &pods) else {
        let answer = match context.last_connect_error.take() {
            Some(answer) => answer,
            None => ErrorAnswer::no_ready_pod(routing.model.as_deref()),
        };
        return Err(context.fail(answer));
    };
    state.metrics.routed(routing, &choice, started.elapsed());
    let pod = snapshot.pod(choice.slot);
    let attempt = Attempt { };
    let peer = pod.peer();
    context.attempt = Some(attempt);
    peer
}
