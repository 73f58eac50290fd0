//! What is measured, and in which order.

use super::prompt::Shape;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Measure {
    /// Closed loop: requests a second, CPU a request, memory.
    Throughput,
    /// Open loop at a fixed rate: what the balancer adds to the time of an answer.
    Latency,
    /// 200 streams, an event each 10 ms: CPU an event.
    Relay,
}

/// What is measured of all balancers, in each round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Test {
    pub(super) measure: Measure,
    pub(super) shape: Shape,
    pub(super) connections: usize,
    pub(super) rate: Option<f64>,
}

/// Events of a streamed answer, where the engine sends them at once.
const EVENTS: u32 = 32;
const RELAY_STREAMS: usize = 200;
const RELAY_PAUSE_MS: u32 = 10;
const RELAY_EVENTS: u32 = 100;

pub(super) fn tests(measures: &[Measure], bodies_kib: &[usize], connections: usize) -> Vec<Test> {
    let mut tests = Vec::new();
    for &measure in measures {
        if measure == Measure::Relay {
            tests.push(Test {
                measure,
                shape: Shape {
                    body: 1 << 10,
                    stream: Some(RELAY_EVENTS),
                    pause_ms: RELAY_PAUSE_MS,
                },
                connections: RELAY_STREAMS,
                rate: None,
            });
            continue;
        }
        for &kibibytes in bodies_kib {
            for stream in [None, Some(EVENTS)] {
                let shape = Shape {
                    body: kibibytes << 10,
                    stream,
                    pause_ms: 0,
                };
                tests.push(Test {
                    measure,
                    shape,
                    connections,
                    rate: (measure == Measure::Latency).then(|| moderate_rate(shape)),
                });
            }
        }
    }
    tests
}

/// Requests a second that every balancer can serve with time to spare.
fn moderate_rate(shape: Shape) -> f64 {
    let rate = match shape.body >> 10 {
        0..=4 => 3000.0,
        5..=64 => 2000.0,
        65..=1024 => 300.0,
        _ => 20.0,
    };
    match shape.stream {
        None => rate,
        Some(_) => f64::min(rate, 300.0),
    }
}

/// The order of a round: each round another goes first, and every second one goes backwards, so that neither the place in
/// the round nor the neighbour before is a balancer's own.
pub(super) fn order(count: usize, round: usize) -> Vec<usize> {
    let place = |step: usize| {
        let step = if round.is_multiple_of(2) {
            step
        } else {
            count - step
        };
        (round + step) % count
    };
    (0..count).map(place).collect()
}

impl Test {
    pub(super) fn title(&self) -> String {
        let size = self.shape.body >> 10;
        let streamed = self.shape.stream.map_or(String::new(), |events| {
            format!(", answers of {events} events")
        });
        match (self.measure, self.rate) {
            (Measure::Throughput, _) => format!("Throughput, bodies of {size} KiB{streamed}"),
            (Measure::Latency, rate) => format!(
                "Latency at {} requests/s, bodies of {size} KiB{streamed}",
                rate.unwrap_or_default()
            ),
            (Measure::Relay, _) => format!(
                "Relay, {} streams, an event each {} ms",
                self.connections, self.shape.pause_ms
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_measured_with_and_without_streams_and_the_relay_once() {
        let all = tests(
            &[Measure::Throughput, Measure::Latency, Measure::Relay],
            &[1, 4096],
            32,
        );
        let titles: Vec<String> = all.iter().map(Test::title).collect();
        assert_eq!(
            titles,
            [
                "Throughput, bodies of 1 KiB",
                "Throughput, bodies of 1 KiB, answers of 32 events",
                "Throughput, bodies of 4096 KiB",
                "Throughput, bodies of 4096 KiB, answers of 32 events",
                "Latency at 3000 requests/s, bodies of 1 KiB",
                "Latency at 300 requests/s, bodies of 1 KiB, answers of 32 events",
                "Latency at 20 requests/s, bodies of 4096 KiB",
                "Latency at 20 requests/s, bodies of 4096 KiB, answers of 32 events",
                "Relay, 200 streams, an event each 10 ms",
            ]
        );
    }

    #[test]
    fn every_round_begins_with_another_and_turns_round() {
        assert_eq!(order(4, 0), [0, 1, 2, 3]);
        assert_eq!(order(4, 1), [1, 0, 3, 2]);
        assert_eq!(order(4, 2), [2, 3, 0, 1]);
        assert_eq!(order(4, 3), [3, 2, 1, 0]);
        assert_eq!(order(1, 7), [0]);
    }
}
