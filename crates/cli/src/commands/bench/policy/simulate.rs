//! The event loop in virtual time.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::{
    Row,
    peers::{Contender, Step},
    scenario::{OBJECTIVE, Scenario},
};

/// Runs one policy through one scenario.
pub(crate) fn simulate(
    contender: &mut dyn Contender,
    scenario: &Scenario,
    seed: u64,
    lasts: Duration,
) -> Row {
    let arrivals = scenario.arrivals(seed, lasts);
    let mut noise = ChaCha8Rng::seed_from_u64(seed ^ 0x5EED);
    let mut world = World { calls: BinaryHeap::new(), answered: vec![None; arrivals.len()] };
    let (mut n_free, mut busy, mut n_calls) = (scenario.n_devices, Duration::ZERO, 0_usize);
    let mut arriving = arrivals.iter().enumerate().peekable();
    let mut now = Duration::ZERO;
    // Arrivals end with the run, but calls under way and what waits are seen through.
    let ends = lasts + Duration::from_secs(1);
    loop {
        let mut look_again = None;
        while 0 < n_free {
            match contender.next(now) {
                Step::Run(items) => {
                    let longest =
                        items.iter().map(|&item| arrivals[item].length).max().unwrap_or(0);
                    let takes = scenario.service_time(items.len(), longest, &mut noise);
                    n_free -= 1;
                    n_calls += 1;
                    busy += takes;
                    world.calls.push(Reverse(Call {
                        done: now + takes,
                        started: now,
                        number: n_calls,
                        items,
                    }));
                }
                Step::LookAgain(at) => {
                    look_again = Some(at);
                    break;
                }
                Step::Nothing => break,
            }
        }
        let next_arrival = arriving.peek().map(|(_, arrival)| arrival.at);
        let next_done = world.calls.peek().map(|Reverse(call)| call.done);
        let Some(next) = [next_arrival, next_done, look_again].into_iter().flatten().min() else {
            break;
        };
        now = next.max(now);
        if ends < now {
            break;
        }
        while let Some((item, arrival)) = arriving.next_if(|(_, arrival)| arrival.at <= now) {
            contender.arrive(item, arrival.length, now);
        }
        while world.calls.peek().is_some_and(|Reverse(call)| call.done <= now) {
            let Some(Reverse(call)) = world.calls.pop() else { break };
            n_free += 1;
            for &item in &call.items {
                world.answered[item] = Some(now.saturating_sub(arrivals[item].at));
            }
            contender.done(&call.items, now.saturating_sub(call.started), now);
        }
    }
    let device_time = lasts.as_secs_f64() * count(scenario.n_devices);
    let n_run = world.answered.iter().flatten().count();
    let mut latencies: Vec<Duration> = world.answered.iter().copied().flatten().collect();
    latencies.sort_unstable();
    let n_good = latencies.partition_point(|latency| *latency <= OBJECTIVE);
    Row {
        policy: contender.name(),
        scenario: scenario.name,
        offered_per_s: count(arrivals.len()) / lasts.as_secs_f64(),
        p50_ms: quantile(&latencies, 0.5),
        p99_ms: quantile(&latencies, 0.99),
        in_slo: count(n_good) / count(arrivals.len().max(1)),
        goodput_per_s: count(n_good) / lasts.as_secs_f64(),
        busy_share: busy.as_secs_f64() / device_time,
        mean_batch: count(n_run) / count(n_calls.max(1)),
    }
}

struct World {
    calls: BinaryHeap<Reverse<Call>>,
    /// How long after its arrival each item was answered.
    answered: Vec<Option<Duration>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    done: Duration,
    started: Duration,
    number: usize,
    items: Vec<usize>,
}

/// In milliseconds.
fn quantile(sorted: &[Duration], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into the list"
    )]
    let rank = (count(sorted.len()) * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
}

#[expect(clippy::cast_precision_loss, reason = "millions at most")]
fn count(n: usize) -> f64 {
    n as f64
}
