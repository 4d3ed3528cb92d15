//! How much calls that are under way at once slow each other down, learned from calls.
//!
//! What looks like two devices may be one: two workers on a GPU, two instances on the same cores.
//! Dividing a crowd among them then gains nothing. So each call is asked how many others were under
//! way meanwhile, on average, and by how much it took longer than it does alone. One number is
//! enough: what each of the others adds to a call, as a part of the call.

use std::time::Duration;

use crate::{Moment, moment::nanos};

/// Who flew with whom, and what that cost.
#[derive(Debug)]
pub(crate) struct Company {
    /// 0 where devices are independent, 1 where all are one.
    slowing: f32,
    /// Nanoseconds of all calls together, until `counted`.
    flown: u64,
    counted: Moment,
    n_calls: u64,
}

impl Company {
    /// How much one call in company counts.
    const WEIGHT: f32 = 1.0 / 16.0;
    /// How much of it one call alone makes forgotten: half in some five hundred, so that a crowd is
    /// divided again some day, in case devices are no longer one.
    const FORGETS: f32 = 1.0 / 768.0;

    pub(crate) const fn new() -> Self {
        Self { slowing: 0.0, flown: 0, counted: Moment::START, n_calls: 0 }
    }

    fn count(&mut self, now: Moment) {
        self.flown = self.flown.wrapping_add(nanos(now.since(self.counted)) * self.n_calls);
        self.counted = self.counted.max(now);
    }

    /// A call begins; what [`lands`](Self::lands) wants to have back.
    pub(crate) fn departs(&mut self, now: Moment) -> u64 {
        self.count(now);
        self.n_calls += 1;
        self.flown
    }

    /// A call ends that lasted so long; how many others there were meanwhile, on average.
    pub(crate) fn lands(&mut self, departed: u64, lasted: Duration, now: Moment) -> f32 {
        self.count(now);
        self.n_calls -= 1;
        let own = nanos(lasted);
        let others = self.flown.wrapping_sub(departed).saturating_sub(own);
        if others == 0 { 0.0 } else { as_f32(others) / as_f32(own.max(1)) }
    }

    /// A call took so many times what it takes alone, with so many others.
    pub(crate) fn learn(&mut self, ratio: f32, others: f32) {
        // Company cannot cost more than a device that all share: what took longer still was a stall,
        // or the first call of its size.
        let ratio = ratio.min(1.0 + others);
        let unexplained = ratio - others.mul_add(self.slowing, 1.0);
        // A call counts for as much as it had company.
        let slowing =
            self.slowing + Self::WEIGHT * unexplained * others / (others * others).max(1.0);
        let alone = (1.0 - others).max(0.0);
        // Calls differ among themselves. What seems faster in company is kept too, or else noise alone
        // would make devices look like one.
        self.slowing = slowing.clamp(-1.0, 1.0) * (1.0 - Self::FORGETS * alone);
    }

    /// How many times longer than alone a call takes with so many others.
    pub(crate) fn slowed(&self, others: f32) -> f32 {
        others.mul_add(self.slowing.max(0.0), 1.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate of time needs no ninth digit")]
const fn as_f32(nanos: u64) -> f32 {
    nanos as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::at(Duration::from_millis(millis))
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// After so many calls of a ratio in company of one.
    fn learned(ratios: &[f32], rounds: usize) -> Company {
        let mut company = Company::new();
        for _ in 0..rounds {
            for ratio in ratios {
                company.learn(*ratio, 1.0);
            }
        }
        company
    }

    #[test]
    fn company_is_counted_for_as_long_as_it_lasts() {
        let mut company = Company::new();
        let first = company.departs(at(5));
        let second = company.departs(at(10));
        let third = company.departs(at(12));

        // 4 of 8 ms with the first, all of it with the second.
        assert_eq!(company.lands(first, ms(11), at(16)), (6.0 + 4.0) / 11.0);
        assert_eq!(company.lands(third, ms(8), at(20)), (4.0 + 8.0) / 8.0);
        assert_eq!(company.lands(second, ms(15), at(25)), (6.0 + 8.0) / 15.0);
        let alone = company.departs(at(30));
        assert_eq!(company.lands(alone, ms(7), at(37)), 0.0);
    }

    #[test]
    fn calls_that_take_twice_as_long_beside_another_share_a_device() {
        let one = learned(&[2.0], 100);
        assert!((1.95..=2.0).contains(&one.slowed(1.0)), "{one:?}");
        assert!((2.9..=3.0).contains(&one.slowed(2.0)), "{one:?}");
        assert_eq!(one.slowed(0.0), 1.0);

        let stalled = learned(&[50.0], 1);
        assert!(stalled.slowed(1.0) < 1.1, "one stall says little");
    }

    #[test]
    fn noise_does_not_make_one_device_of_two() {
        let noisy = learned(&[1.4, 0.6, 0.8, 1.2], 100);

        assert!(noisy.slowed(1.0) < 1.03, "{noisy:?}");
        let faster = learned(&[0.5], 100);
        assert_eq!(faster.slowed(1.0), 1.0, "nobody is faster for company");
    }

    #[test]
    fn what_company_costs_is_forgotten_by_those_who_are_alone() {
        let mut company = learned(&[2.0], 100);
        for _ in 0..532 {
            company.learn(1.0, 0.0);
        }

        assert!((1.45..1.55).contains(&company.slowed(1.0)), "{company:?}");
    }
}
