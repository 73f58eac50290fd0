//! `session-affinity`: the pod that the client's session has been on.
//!
//! The pod that the request's session names, if it is a candidate; else the one that the client's session key falls to by
//! rendezvous hashing, which moves no more sessions than it must when pods come and go: the highest FNV-1a hash of key,
//! a zero byte and the pod's address. Without either, the fewest running requests, where the reference draws.
//!
//! In a list it scores 1 for that pod and 0 for the others.

use super::*;

pub(super) const DEFINITION: Definition = Definition {
    name: "session-affinity",
    kind: Kind::Scorer,
    blending: Blending::Pin,
    needs_prefix: false,
    needs_detail: true,
    build: |_, _| Box::new(SessionAffinity),
};

struct SessionAffinity;

/// Longer keys are none, as in the reference.
const LONGEST_KEY: usize = 256;

impl SessionAffinity {
    fn pod_of(&self, request: &Request<'_>, rows: &[Candidate]) -> Option<usize> {
        let session = &request.session;
        let named = |row: &Candidate| Some(row.slot) == session.pod;
        if let Some(row) = rows.iter().position(named) {
            return Some(row);
        }
        let key = session
            .key
            .filter(|key| (1..=LONGEST_KEY).contains(&key.len()))?;
        let addressed = rows.iter().enumerate().filter_map(|(at, row)| {
            let address = row.detail.as_deref()?.address.as_str();
            Some((rendezvous(key, address), address, at))
        });
        // Of equal hashes the smaller address.
        let best = addressed.max_by(|left, right| left.0.cmp(&right.0).then(right.1.cmp(left.1)));
        best.map(|(_, _, at)| at)
    }
}

impl Strategy for SessionAffinity {
    fn polarity(&self) -> Polarity {
        Polarity::Most
    }

    fn score(&self, request: &Request<'_>, candidates: Candidates<'_>, scores: &mut [f64]) {
        scores.fill(0.0);
        if let Some(row) = self.pod_of(request, candidates.rows()) {
            scores[row] = 1.0;
        }
    }

    fn pick(
        &self,
        request: &Request<'_>,
        candidates: Candidates<'_>,
        _: &mut Vec<f64>,
        rng: &mut Rng,
    ) -> Pick {
        match self.pod_of(request, candidates.rows()) {
            Some(row) => Pick::new(row, Reason::Session),
            None => fewest_requests(candidates, rng),
        }
    }
}

fn rendezvous(key: &str, address: &str) -> u64 {
    let bytes = key.bytes().chain([0]).chain(address.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::routing::Session;

    fn request(pod: Option<u16>, key: Option<&str>) -> Request<'_> {
        Request {
            session: Session {
                pod: pod.map(PodSlot),
                key,
            },
            ..Request::default()
        }
    }

    fn check(request: &Request<'_>, rows: &[Candidate], expected: &[usize]) {
        assert_eq!(alone_for("session-affinity", request, rows), expected);
    }

    #[test]
    fn keys_fall_to_pods_as_in_the_reference() {
        let hashes = ["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"]
            .map(|address| rendezvous("run-1", address));
        assert_eq!(
            hashes,
            [
                0x71ce_3109_0318_a04e,
                0x1329_bbf4_59d2_91c9,
                0x24b9_d6de_da99_14e4
            ]
        );
        let table = addressed(3);
        check(&request(None, Some("run-1")), &table, &[0]);
        check(&request(None, Some("run-2")), &table, &[1]);
        check(&request(None, Some("agent")), &table, &[2]);
        // The pod is gone: only its own sessions move.
        check(&request(None, Some("run-2")), &table[1..], &[0]);
    }

    #[test]
    fn the_sessions_pod_comes_first_and_load_last() {
        let mut table = addressed(3);
        table[2].load.in_flight = 1;
        table[0].load.in_flight = 5;
        check(&request(Some(1), Some("run-1")), &table, &[1]);
        check(&request(Some(9), Some("run-1")), &table, &[0]);
        check(&request(Some(9), None), &table, &[1]);
        check(&request(None, Some("")), &table, &[1]);
        check(&request(None, Some(&"x".repeat(257))), &table, &[1]);
        let found = scores_for(
            &RoutingSettings::default(),
            "session-affinity",
            &request(Some(1), None),
            &table,
        );
        assert_eq!(found, [0.0, 1.0, 0.0]);
    }
}
