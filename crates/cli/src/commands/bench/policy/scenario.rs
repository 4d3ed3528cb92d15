//! What arrives, and how long serving it takes.

use std::time::Duration;

use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// One workload and the devices that serve it.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) per_second: f64,
    /// Alternate seconds at 1.9 and 0.1 times the rate.
    pub(crate) is_bursty: bool,
    pub(crate) service: Service,
    /// Standard deviation of service time, as a share of it.
    pub(crate) noise: f64,
    pub(crate) n_devices: usize,
    pub(crate) max_items: usize,
}

/// How long a call takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Service {
    /// 5 ms and half a millisecond per item.
    PerItem,
    /// 3 ms and ten microseconds per item and unit of the longest item's length. Lengths are
    /// lognormal with a mean of 73.
    PerPaddedLength,
}

/// One thing that arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: Duration,
    pub(crate) length: u32,
}

/// Answers later than this after arrival are worth nothing.
pub(crate) const OBJECTIVE: Duration = Duration::from_millis(50);

impl Scenario {
    pub(crate) fn all() -> Vec<Self> {
        let base = Self {
            name: "light",
            about: "20/s, far below what one device can do",
            per_second: 20.0,
            is_bursty: false,
            service: Service::PerItem,
            noise: 0.0,
            n_devices: 1,
            max_items: 32,
        };
        let over = |name, about, per_second, noise| Self {
            name,
            about,
            per_second,
            noise,
            ..base.clone()
        };
        vec![
            base.clone(),
            Self {
                is_bursty: true,
                ..over("bursty", "800/s, alternating seconds of 1.9x and 0.1x", 800.0, 0.0)
            },
            over("over105", "1600/s, 105 % of capacity", 1600.0, 0.0),
            over("over144", "2200/s, 144 % of capacity", 2200.0, 0.0),
            over("over105_noise", "as over105, service time varies by 25 %", 1600.0, 0.25),
            over("over144_noise", "as over144, service time varies by 25 %", 2200.0, 0.25),
            Self {
                service: Service::PerPaddedLength,
                max_items: 64,
                ..over(
                    "mixed_lengths",
                    "400/s, lognormal lengths, 3 + 0.01 b max_length ms, at most 64",
                    400.0,
                    0.0,
                )
            },
            Self { n_devices: 4, ..over("four_executors", "800/s on four devices", 800.0, 0.0) },
        ]
    }

    pub(crate) fn names() -> Vec<&'static str> {
        Self::all().iter().map(|scenario| scenario.name).collect()
    }

    /// Everything that arrives within `lasts`, in order.
    pub(crate) fn arrivals(&self, seed: u64, lasts: Duration) -> Vec<Arrival> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut arrivals = Vec::new();
        let mut at = 0.0_f64;
        loop {
            let factor = match self.is_bursty {
                false => 1.0,
                true if at.rem_euclid(2.0) < 1.0 => 1.9,
                true => 0.1,
            };
            // A gap that would cross into the next second is drawn anew from there.
            let gap = -(1.0 - random.random::<f64>()).ln() / (self.per_second * factor);
            let border = at.floor() + 1.0;
            if self.is_bursty && border < at + gap {
                at = border;
                continue;
            }
            at += gap;
            if lasts.as_secs_f64() <= at {
                return arrivals;
            }
            arrivals.push(Arrival {
                at: Duration::from_secs_f64(at),
                length: self.length(&mut random),
            });
        }
    }

    /// How long one call takes.
    pub(crate) fn service_time(
        &self,
        n_items: usize,
        longest: u32,
        random: &mut impl Rng,
    ) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
        let n_items = n_items as f64;
        let millis = match self.service {
            Service::PerItem => 5.0 + 0.5 * n_items,
            Service::PerPaddedLength => 3.0 + 0.01 * n_items * f64::from(longest),
        };
        let factor = (1.0 + self.noise * normal(random)).max(0.2);
        Duration::from_secs_f64(millis * factor / 1000.0)
    }

    fn length(&self, random: &mut impl Rng) -> u32 {
        match self.service {
            Service::PerItem => 0,
            Service::PerPaddedLength => {
                // exp(3.79 + 1²/2) is 73.
                let length = (3.79 + normal(random)).exp().clamp(1.0, 2000.0);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "clamped"
                )]
                {
                    length as u32
                }
            }
        }
    }
}

/// A standard normal variate, by Box and Muller.
fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}
