//! `slo-least-load-pulling`: another name of [`slo`], as in the reference.

use super::slo::{Slo, exclusive};
use super::*;

pub(super) const DEFINITION: Definition = exclusive("slo-least-load-pulling", |settings, _| {
    Box::new(Slo {
        pod_requests: settings.slo.pod_requests,
    })
});
