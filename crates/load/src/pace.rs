//! Hands out due times, each when it is due.
//!
//! Whoever is free holds the pacer, waits with it for the next due time, and lets the next one
//! hold it before sending. So one alarm serves any number of connections, and while all of them
//! are busy nobody asks: what became due meanwhile goes out at once, late and counted as late.

use std::{
    iter::{Skip, StepBy},
    time::Duration,
};

use tokio::time::Instant;

use crate::{Stop, alarm::Alarm, arrivals::Due};

/// Longest wait before it is seen that the run was stopped.
const GLANCE: Duration = Duration::from_millis(100);

/// One thread's share of the due times.
#[derive(Debug)]
pub(crate) struct Pacer {
    due: StepBy<Skip<Due>>,
    alarm: Alarm,
    /// When the run ends, counted from the start.
    end: Duration,
}

impl Pacer {
    /// Thread `thread` of `threads` takes every so many-th due time.
    pub(crate) fn new(
        due: Due,
        thread: usize,
        threads: usize,
        end: Duration,
        alarm: Alarm,
    ) -> Self {
        Self { due: due.skip(thread).step_by(threads), alarm, end }
    }

    /// Waits for the next due time and gives it; `None` once the run is over.
    pub(crate) async fn next(&mut self, start: Instant, stop: &Stop) -> Option<Duration> {
        if self.end <= start.elapsed() {
            return None;
        }
        let due = self.due.next().filter(|due| *due < self.end)?;
        let at = start + due;
        loop {
            if stop.is_stopped() {
                return None;
            }
            let now = Instant::now();
            if at <= now {
                return Some(due);
            }
            self.alarm.wait_until(at.min(now + GLANCE)).await;
        }
    }

    /// What was due before the end and was never handed out.
    pub(crate) fn unsent(&mut self) -> impl Iterator<Item = Duration> {
        let end = self.end;
        self.due.by_ref().take_while(move |due| *due < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arrivals;

    fn pacer(thread: usize, threads: usize) -> Pacer {
        let due = Arrivals::Uniform { per_second: 10.0 }.due(0);
        Pacer::new(due, thread, threads, Duration::from_secs(1), Alarm::coarse())
    }

    #[tokio::test(start_paused = true)]
    async fn due_times_come_when_they_are_due_and_end_with_the_run() {
        let (start, stop) = (Instant::now(), Stop::default());
        let mut pacer = pacer(0, 1);
        let mut given = Vec::new();

        while let Some(due) = pacer.next(start, &stop).await {
            assert_eq!(start.elapsed(), due);
            given.push(due.as_millis());
        }

        assert_eq!(given, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(pacer.unsent().count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_became_due_while_nobody_asked_is_given_at_once_or_counted() {
        let (start, stop) = (Instant::now(), Stop::default());
        let mut pacer = pacer(0, 1);
        tokio::time::advance(Duration::from_millis(350)).await;

        for due in [0, 100, 200, 300] {
            assert_eq!(pacer.next(start, &stop).await, Some(Duration::from_millis(due)));
        }
        assert_eq!(start.elapsed(), Duration::from_millis(350));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pacer.next(start, &stop).await, None);
        assert_eq!(pacer.unsent().count(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn threads_share_the_due_times_and_stopping_ends_them() {
        let (start, stop) = (Instant::now(), Stop::default());
        let (mut even, mut odd) = (pacer(0, 2), pacer(1, 2));

        assert_eq!(odd.next(start, &stop).await, Some(Duration::from_millis(100)));
        assert_eq!(even.next(start, &stop).await, Some(Duration::ZERO));
        assert_eq!(odd.next(start, &stop).await, Some(Duration::from_millis(300)));
        stop.stop();
        assert_eq!(odd.next(start, &stop).await, None);
    }
}
