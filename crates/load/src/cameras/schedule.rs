//! Which camera's frame is due when. Pure.
//!
//! Cameras take turns, so that each has the same rate and all together the rate that was asked for.
//! With bursts, a camera sends several frames at once and is silent for as many turns.

use std::time::Duration;

/// When frames are due, counted from the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Cameras.
    pub cameras: u32,
    /// Frames a second of all cameras together.
    pub rate: f64,
    /// Frames that a camera sends at once; 1 for an even flow.
    pub burst: u32,
}

impl Schedule {
    /// The frame with this number, counted over all cameras: when it is due, its camera, and its
    /// number among the camera's.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a run has far fewer than 2^52 frames"
    )]
    pub fn frame(&self, number: u64) -> (Duration, u32, u64) {
        let (cameras, burst) = (u64::from(self.cameras.max(1)), u64::from(self.burst.max(1)));
        let turn = number / burst;
        let camera = turn % cameras;
        let own = turn / cameras * burst + number % burst;
        let due = Duration::from_secs_f64((turn * burst) as f64 / self.rate.max(1e-3));
        (due, camera as u32, own)
    }

    /// Frames that are due before `end`.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a run has far fewer than 2^52 frames"
    )]
    pub fn count(&self, end: Duration) -> u64 {
        (end.as_secs_f64() * self.rate).ceil() as u64
    }
}

/// A simulated camera's name.
#[must_use]
pub(crate) fn camera_name(camera: u32) -> String {
    format!("cam-{camera}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Every camera's frames are numbered without a gap and are due in order; the rate is kept.
        #[test]
        fn law(cameras in 1_u32..50, burst in 1_u32..8, rate in 1.0_f64..10_000.0) {
            let schedule = Schedule { cameras, rate, burst };
            let mut next: HashMap<u32, u64> = HashMap::new();
            let mut last = Duration::ZERO;
            for number in 0..500 {
                let (due, camera, own) = schedule.frame(number);
                prop_assert!(camera < cameras && last <= due);
                let expected = next.entry(camera).or_default();
                prop_assert_eq!(own, *expected);
                *expected += 1;
                last = due;
                let even = number as f64 / rate;
                prop_assert!((due.as_secs_f64() - even).abs() <= f64::from(burst) / rate + 1e-6);
            }
        }
    }
}
