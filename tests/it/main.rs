//! The real binary in front of simulated engines.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod auth;
mod bodies;
mod cancel;
mod capture;
mod check;
mod client_certificates;
mod demo;
mod filters;
mod framing;
mod http2;
mod index;
mod layering;
mod lifecycle;
mod observe;
mod profiles;
mod recall;
mod requests;
mod routing;
mod sessions;
mod strategies;
mod streams;
mod support;
