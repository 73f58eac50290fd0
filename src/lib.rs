//! Warmgate: a gateway for LLM engines that sends each request to the pod whose KV cache already
//! holds the longest prefix of its prompt, weighed against load.
//!
//! | module | does |
//! | --- | --- |
//! | [`routing`] | thinks: prompt blocks, prefix index, strategies; pure, no I/O, no clock |
//! | [`request`] | reads a request body: model, prompt text, stream flag; pure |
//! | [`fleet`] | knows the pods: who they are, whether they are well, how busy they are |
//! | `json` | goes over JSON without building it, for the two that read much of it; pure |
//! | [`usage`] | finds the token counts in an answer; pure |
//! | [`answer`] | puts an answer's text together; pure |
//! | [`metrics`] | every metric family and the text that Prometheus reads |
//! | [`telemetry`] | the log and the access log |
//! | [`capture`] | writes the traffic down for a replay: hashes, sizes and times, never text |
//! | [`sim`] | the simulated engine that the demo, the tests and the load test share |

pub mod admin;
pub mod answer;
pub mod app;
pub mod capture;
pub mod config;
pub mod demo;
pub mod fleet;
mod json;
pub mod metrics;
pub mod proxy;
pub mod request;
pub mod routing;
pub mod sim;
pub mod telemetry;
pub mod usage;
mod wrapped;
