//! What the gateway writes: the log on stderr, one access line a request on stdout.
//!
//! Invariants: values from outside are cut and escaped, so one line stays one line; neither
//! prompts nor keys are ever given to this module; nothing here panics, and nothing on a request's
//! path waits for a slow reader.
//!
//! Deliberately not here: rotation and shipping, which are the platform's.

mod access;
mod escape;
mod logger;
mod timestamp;
mod writer;

pub use self::access::{AccessLine, AccessLog};
pub use self::logger::start;
pub(crate) use self::writer::Writer;
