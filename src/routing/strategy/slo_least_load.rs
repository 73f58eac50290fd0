//! `slo-least-load`: as [`slo`], but a request never waits: the least loaded pod takes it whatever it runs.

use super::slo::{Slo, exclusive};
use super::*;

pub(super) const DEFINITION: Definition = exclusive("slo-least-load", |_, _| {
    Box::new(Slo { pod_requests: None })
});

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn takes_the_least_loaded_however_much_that_is() {
        assert_eq!(alone("slo-least-load", &rows(&[30, 10, 20], &[])), [1]);
        let settings = super::super::slo::goal(4);
        assert_eq!(build(&settings, "slo-least-load").most_requests(), None);
    }
}
