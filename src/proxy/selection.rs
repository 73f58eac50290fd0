//! Chooses the pod of each try and keeps the account of it.

use std::cell::RefCell;
use std::time::Instant;

use http::StatusCode;
use pingora_core::Result;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::Session;

use super::context::{Attempt, RequestContext, Routing};
use super::error::ErrorAnswer;
use super::queue::Leaving;
use super::replay;
use super::state::State;
use crate::fleet::{ModelPods, Snapshot, Wanted};
use crate::metrics::Routed;
use crate::routing::{Choice, PodView, RouteError, Scratch};

thread_local! {
    /// Working memory of a decision, which never waits: reused by all requests of a thread.
    static WORK: RefCell<(Vec<PodView>, Scratch)> = RefCell::default();
}

/// The peer of the next try. A pod that failed before is off the count already.
pub(super) async fn next_peer(
    state: &State,
    session: &mut Session,
    context: &mut RequestContext,
) -> Result<Box<HttpPeer>> {
    context.attempt = None;
    let limited = context
        .routing
        .as_ref()
        .filter(|routing| routing.plan.most_requests().is_some());
    let queued = limited.map(|routing| (routing.model.clone(), routing.selector.is_some()));
    let Some((model, selects)) = queued else {
        return look(state, context).unwrap_or_else(|| Err(context.fail(ErrorAnswer::internal())));
    };
    let patience = context.live.router.settings().slo.max_wait;
    let found = async {
        // What waits for certain pods waits beside the others: it may wait while there are pods for them.
        let _turn = match selects {
            false => Some(state.queue.turn(model.as_deref()).await),
            true => None,
        };
        state.queue.until(|| look(state, context)).await
    };
    let found = tokio::select! {
        biased;
        found = tokio::time::timeout(patience, found) => found,
        ended = replay::ended(session) => return Err(ended),
    };
    found.unwrap_or_else(|_| Err(context.fail(ErrorAnswer::all_full(patience))))
}

/// `None`: there are pods, but all are full.
fn look(state: &State, context: &mut RequestContext) -> Option<Result<Box<HttpPeer>>> {
    let Some(routing) = &context.routing else {
        return Some(Err(context.fail(ErrorAnswer::internal())));
    };
    let snapshot = state.fleet.snapshot();
    let pods = pods_of(&snapshot, routing);
    loop {
        let chosen = pods.map(|pods| choose(state, context, routing, pods));
        if let Some(Err(RouteError::AllFull)) = chosen {
            return None;
        }
        let Some(Ok(choice)) = chosen else {
            let answer = nobody_left(routing, pods, context);
            return Some(Err(context.fail(answer)));
        };
        // A pod can only be missing if it left the fleet, but not this snapshot; it is passed over all the same.
        let Some(pod) = snapshot.pod(choice.slot) else {
            context.excluded.push(choice.slot);
            continue;
        };
        let peer = match pod.peer() {
            Ok(peer) => peer,
            Err(error) => {
                log::debug!(
                    "request {}: pod {} is passed over: {error}",
                    context.request_id,
                    pod.name()
                );
                context.excluded.push(choice.slot);
                continue;
            }
        };
        // Another request may have taken the last place meanwhile; then the pod is no candidate any more.
        let pick = state.fleet.next_pick();
        let admitted = pod.admit(pick, choice.uncached_tokens, routing.most_in_flight());
        let Some(in_flight) = admitted else {
            continue;
        };
        let metrics = state.metrics.pod(pod.name());
        metrics.picked(choice.reason.as_str());
        if context.tries > 0 {
            metrics.retried();
        }
        context.tries += 1;
        context.attempt = Some(Attempt {
            in_flight,
            leaving: Leaving::new(&state.queue),
            pod: pod.clone(),
            choice,
            connection: None,
            kept_connection: false,
        });
        return Some(Ok(peer));
    }
}

/// Notes what the pod is sent, and the prompt's blocks as its own: now, when the request is sent to it.
pub(super) fn record(state: &State, context: &RequestContext) {
    let (Some(routing), Some(attempt)) = (&context.routing, &context.attempt) else {
        return;
    };
    let (router, now_ms) = (&context.live.router, state.now_ms());
    if routing.records {
        router.record(attempt.choice.slot, &routing.blocks, now_ms);
    }
    router.sent(&routing.plan, &routing.request(now_ms), &attempt.choice);
}

/// A pod could not be reached. Gives whether another one is to be tried.
pub(super) fn connect_failed(state: &State, context: &mut RequestContext, reason: &str) -> bool {
    let Some(attempt) = context.attempt.take() else {
        return false;
    };
    let pod = &attempt.pod;
    log::debug!(
        "request {}: no connection to pod {}: {reason}",
        context.request_id,
        pod.name()
    );
    state.metrics.pod(pod.name()).connect_failed();
    pod.connect_failed(&state.fleet, reason);
    context.excluded.push(pod.slot());
    context.may_try_again() && has_candidates(state, context)
}

fn has_candidates(state: &State, context: &RequestContext) -> bool {
    let snapshot = state.fleet.snapshot();
    let Some(routing) = &context.routing else {
        return false;
    };
    let pods = pods_of(&snapshot, routing);
    pods.is_some_and(|pods| pods.has_any(&wanted(routing, context)))
}

fn pods_of<'a>(snapshot: &'a Snapshot, routing: &Routing) -> Option<&'a ModelPods> {
    match &routing.model {
        Some(model) => snapshot.model(model),
        None => Some(snapshot.all()),
    }
}

fn wanted<'a>(routing: &'a Routing, context: &'a RequestContext) -> Wanted<'a> {
    Wanted {
        exclude: &context.excluded,
        selector: routing.selector.as_ref(),
        most_in_flight: routing.most_in_flight(),
    }
}

fn choose(
    state: &State,
    context: &RequestContext,
    routing: &Routing,
    pods: &ModelPods,
) -> Result<Choice, RouteError> {
    let request = routing.request(state.now_ms());
    let started = Instant::now();
    let chosen = WORK.with_borrow_mut(|(views, scratch)| {
        let needs_detail = routing.plan.needs_detail();
        pods.views(&wanted(routing, context), needs_detail, views);
        context
            .live
            .router
            .route(&routing.plan, &request, views, scratch)
    });
    let took = started.elapsed();
    state.metrics.routing_took(took);
    let metrics = state.metrics.model(routing.model.as_deref());
    match &chosen {
        Ok(choice) => metrics.routed(&Routed {
            prefix: choice
                .selection
                .map(|selection| (selection.as_str(), choice.match_bucket().as_str())),
            gate_fired: choice.gate_fired,
            took,
        }),
        Err(RouteError::NoPod) if routing.plan.needs_prefix() => {
            metrics.prefix_routing_failed("no_target_pod", took)
        }
        Err(RouteError::NoPod | RouteError::AllFull) => {}
    }
    chosen
}

fn nobody_left(
    routing: &Routing,
    pods: Option<&ModelPods>,
    context: &RequestContext,
) -> ErrorAnswer {
    if context.tries > 0 {
        return ErrorAnswer::engine(
            StatusCode::BAD_GATEWAY,
            "no connection to an engine could be made",
        );
    }
    let Some(pods) = pods.filter(|pods| pods.routable_count() > 0) else {
        return ErrorAnswer::no_ready_pod(routing.model.as_deref());
    };
    let full = Wanted {
        most_in_flight: None,
        ..wanted(routing, context)
    };
    match (routing.most_in_flight(), &routing.selector) {
        (Some(most), _) if pods.has_any(&full) => ErrorAnswer::pods_full(most),
        (_, Some(selector)) => ErrorAnswer::no_selected_pod(selector),
        _ => ErrorAnswer::no_ready_pod(routing.model.as_deref()),
    }
}
