//! The real binary in front of simulated engines.

mod requests;
mod support;
