//! Wakes at a moment. Tokio's timers count in milliseconds, which is as much as many an answer
//! takes; the kernel's timer descriptors count in nanoseconds.

use tokio::time::{Instant, sleep_until};

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;

/// Wakes at a moment.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// To the millisecond.
    Coarse,
    /// To some microseconds.
    #[cfg(target_os = "linux")]
    Precise(AsyncFd<OwnedFd>),
}

impl Alarm {
    /// The most precise one that this system has. Must be called on a runtime.
    pub(crate) fn new() -> Self {
        #[cfg(target_os = "linux")]
        {
            let timer = timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            );
            #[expect(deprecated, reason = "an `OwnedFd` stays open and the same, as is asked for")]
            if let Ok(Ok(timer)) = timer.map(AsyncFd::new) {
                return Self::Precise(timer);
            }
        }
        Self::coarse()
    }

    /// Tokio's own.
    pub(crate) const fn coarse() -> Self {
        Self::Coarse
    }

    /// Returns at that moment; it may be a little early or late.
    pub(crate) async fn wait_until(&mut self, moment: Instant) {
        match self {
            Self::Coarse => sleep_until(moment).await,
            #[cfg(target_os = "linux")]
            Self::Precise(timer) => {
                let left = moment.saturating_duration_since(Instant::now());
                let (Ok(seconds), false) = (i64::try_from(left.as_secs()), left.is_zero()) else {
                    return;
                };
                let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
                let once = Itimerspec {
                    it_interval: zero,
                    it_value: Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() },
                };
                if timerfd_settime(&*timer, TimerfdTimerFlags::empty(), &once).is_err() {
                    return sleep_until(moment).await;
                }
                // Setting it again takes back what it said before, so nothing need be read.
                if let Ok(mut ready) = timer.readable().await {
                    ready.clear_ready();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_never_wakes_before_the_moment_by_more_than_a_tick_and_can_be_set_again() {
        let mut alarm = Alarm::new();
        for micros in [300, 0, 700, 150] {
            let moment = Instant::now() + Duration::from_micros(micros);
            alarm.wait_until(moment).await;
            assert!(moment <= Instant::now() + Duration::from_micros(100));
        }
    }
}
