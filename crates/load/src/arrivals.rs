//! When requests are due. Pure: nothing here waits.

use std::{sync::Arc, time::Duration};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// When requests are due, counted from the start, whether or not the server keeps up.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Independent users: exponential gaps.
    Poisson {
        /// On average.
        per_second: f64,
    },
    /// Equal gaps.
    Uniform {
        /// Always.
        per_second: f64,
    },
    /// Independent users who come in crowds: alternate seconds at 1.9 and 0.1 times the rate.
    Bursty {
        /// On average.
        per_second: f64,
    },
    /// As it once happened.
    Trace(Arc<[Duration]>),
}

impl Arrivals {
    /// Reads a trace: one time a line, in seconds since the start; empty lines and those that
    /// begin with `#` do not count.
    ///
    /// # Errors
    ///
    /// Names the first line that is no time or comes before the one above it.
    pub fn read_trace(text: &str) -> Result<Self, TraceError> {
        let mut times: Vec<Duration> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let seconds: Option<f64> = line.parse().ok();
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let time = time.ok_or(TraceError::NoTime { line: number })?;
            if times.last().is_some_and(|&before| time < before) {
                return Err(TraceError::Backwards { line: number });
            }
            times.push(time);
        }
        if times.is_empty() { Err(TraceError::Empty) } else { Ok(Self::Trace(times.into())) }
    }

    /// The due times in order; the same seed gives the same times. Only a trace ends.
    #[must_use]
    pub fn due(&self, seed: u64) -> Due {
        Due { arrivals: self.clone(), random: ChaCha8Rng::seed_from_u64(seed), at: 0.0, n_given: 0 }
    }

    /// Requests a second over so long a time.
    #[must_use]
    pub fn per_second(&self, lasts: Duration) -> f64 {
        match self {
            Self::Poisson { per_second }
            | Self::Uniform { per_second }
            | Self::Bursty { per_second } => *per_second,
            #[expect(clippy::cast_precision_loss, reason = "a trace is short")]
            Self::Trace(times) => {
                times.partition_point(|&time| time < lasts) as f64
                    / lasts.as_secs_f64().max(f64::MIN_POSITIVE)
            }
        }
    }
}

/// Why a trace cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line without a time.
    #[error("line {line} is no time; write seconds since the start, one a line, such as 0.25")]
    NoTime {
        /// Counted from 1.
        line: usize,
    },
    /// A line out of order.
    #[error("line {line} is earlier than the line above it; sort the times")]
    Backwards {
        /// Counted from 1.
        line: usize,
    },
    /// Nothing in it.
    #[error("there is no time in it; write seconds since the start, one a line")]
    Empty,
}

/// Due times in order.
#[derive(Debug)]
pub struct Due {
    arrivals: Arrivals,
    random: ChaCha8Rng,
    /// Seconds since the start of the time given last.
    at: f64,
    n_given: usize,
}

impl Iterator for Due {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let number = self.n_given;
        self.n_given += 1;
        #[expect(clippy::cast_precision_loss, reason = "exact for the first 2^53 requests")]
        let seconds = match &self.arrivals {
            Arrivals::Trace(times) => return times.get(number).copied(),
            Arrivals::Uniform { per_second } => number as f64 / per_second,
            &Arrivals::Poisson { per_second } => self.crowd(|_| (per_second, f64::INFINITY)),
            &Arrivals::Bursty { per_second } => self.crowd(|at| {
                let second = at.floor();
                let factor = if second % 2.0 == 0.0 { 1.9 } else { 0.1 };
                (per_second * factor, second + 1.0)
            }),
        };
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

impl Due {
    /// The next of many independent users, where `rate` gives how many come a second from a time
    /// on, and until when that is so.
    fn crowd(&mut self, rate: impl Fn(f64) -> (f64, f64)) -> f64 {
        // An exponential amount of expectation passes between two arrivals.
        let mut left = -(1.0 - self.random.random::<f64>()).ln();
        loop {
            let (per_second, until) = rate(self.at);
            let expected = (until - self.at) * per_second;
            if left < expected {
                self.at += left / per_second;
                return self.at;
            }
            left -= expected;
            self.at = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn within(arrivals: &Arrivals, seconds: u64) -> Vec<Duration> {
        arrivals.due(1).take_while(|due| *due < Duration::from_secs(seconds)).collect()
    }

    proptest! {
        #[test]
        fn due_times_never_go_back_and_a_seed_repeats_them(
            seed: u64,
            per_second in 1.0..10_000.0_f64,
            kind in 0..3,
        ) {
            let arrivals = match kind {
                0 => Arrivals::Poisson { per_second },
                1 => Arrivals::Uniform { per_second },
                _ => Arrivals::Bursty { per_second },
            };

            let times: Vec<_> = arrivals.due(seed).take(500).collect();

            prop_assert!(times.is_sorted());
            prop_assert_eq!(times, arrivals.due(seed).take(500).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rates_hold_on_average_and_gaps_are_as_said() {
        let poisson = within(&Arrivals::Poisson { per_second: 1000.0 }, 20);
        assert!((19_400..20_600).contains(&poisson.len()), "{}", poisson.len());
        let gaps: Vec<f64> =
            poisson.windows(2).map(|pair| pair[1].abs_diff(pair[0]).as_secs_f64() * 1e3).collect();
        let longer = gaps.iter().filter(|&&gap| 1.0 < gap).count() as f64 / gaps.len() as f64;
        assert!((0.35..0.39).contains(&longer), "one in e is longer than the mean: {longer}");

        let uniform = within(&Arrivals::Uniform { per_second: 4.0 }, 1);
        assert_eq!(uniform, [0, 250, 500, 750].map(Duration::from_millis));

        let bursty = within(&Arrivals::Bursty { per_second: 1000.0 }, 20);
        let busy = bursty.iter().filter(|due| due.as_secs() % 2 == 0).count();
        assert!((18_500..19_500).contains(&busy), "{busy}");
        assert!((800..1_200).contains(&(bursty.len() - busy)), "{}", bursty.len() - busy);
    }

    #[test]
    fn a_trace_is_replayed_and_what_is_none_is_refused_by_line() {
        let trace = Arrivals::read_trace("# from the log\n0\n0.5\n\n0.5\n2.25\n").unwrap();

        let times: Vec<_> = trace.due(0).collect();

        assert_eq!(times, [0, 500, 500, 2250].map(Duration::from_millis));
        assert!((trace.per_second(Duration::from_secs(2)) - 1.5).abs() < 1e-9);
        for (text, error) in [
            ("0\nx\n", TraceError::NoTime { line: 2 }),
            ("-1\n", TraceError::NoTime { line: 1 }),
            ("NaN\n", TraceError::NoTime { line: 1 }),
            ("2\n1\n", TraceError::Backwards { line: 2 }),
            ("# nothing\n", TraceError::Empty),
        ] {
            assert_eq!(Arrivals::read_trace(text), Err(error), "{text}");
        }
    }
}
