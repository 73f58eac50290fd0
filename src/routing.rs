//! Chooses a pod for a request. Values in, values out: time, randomness and pods are arguments.

pub mod pod;
pub mod settings;

pub use pod::{Load, PodSlot, PodView};
