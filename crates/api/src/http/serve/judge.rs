//! Decides when a connection has had its time. Pure: whoever drives it says what it sees.

use std::time::Duration;

use super::{ServeLimits, watch::Sight};

/// Fewer bytes than this in all of the time that a client has are no progress.
const PROGRESS: u64 = 1 << 10;

/// What is to be done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    /// Nothing is on it: say goodbye.
    Close,
    /// Its client keeps it from ending: end it.
    Cut(&'static str),
}

/// Looks at one connection every [`interval`](Judge::interval).
#[derive(Debug)]
pub(super) struct Judge {
    limits: ServeLimits,
    /// What was seen when something had last happened.
    then: Sight,
    /// How long ago that was.
    quiet: Duration,
    is_closing: bool,
}

impl Judge {
    pub(super) fn new(limits: ServeLimits) -> Self {
        Self { limits, then: Sight::default(), quiet: Duration::ZERO, is_closing: false }
    }

    /// How often to look.
    pub(super) fn interval(&self) -> Duration {
        let ServeLimits { header_timeout, idle_timeout, stall_timeout, .. } = self.limits;
        header_timeout.min(idle_timeout).min(stall_timeout).max(Duration::from_millis(1))
    }

    /// The server is stopping: who holds it up has less time, and nobody is idle any more.
    pub(super) fn hurry(&mut self) {
        let ServeLimits { header_timeout, idle_timeout, stall_timeout, drain_stall, .. } =
            &mut self.limits;
        for limit in [header_timeout, idle_timeout, stall_timeout] {
            *limit = (*limit).min(*drain_stall);
        }
        self.is_closing = true;
        self.quiet = Duration::ZERO;
    }

    pub(super) fn look(&mut self, now: Sight) -> Verdict {
        let then = self.then;
        let is_open = now.begun > now.ended;
        // What is read while no request is open is none of its progress.
        let read = if is_open { now.read - then.read } else { 0 };
        let has_moved = (now.begun, now.ended) != (then.begun, then.ended)
            || now.written - then.written + read >= PROGRESS;
        if now.busy > 0 || (has_moved && now.begun > 0) {
            self.then = now;
            self.quiet = Duration::ZERO;
            return Verdict::Stay;
        }
        self.quiet = self.quiet.saturating_add(self.interval());
        let (limit, verdict) = if now.begun == 0 {
            (self.limits.header_timeout, Verdict::Cut("no request came"))
        } else if is_open || now.is_blocked {
            (self.limits.stall_timeout, Verdict::Cut("its client neither sent nor read"))
        } else if now.is_sending_head {
            (self.limits.header_timeout, Verdict::Cut("a request's head took too long"))
        } else if self.is_closing {
            (self.limits.stall_timeout, Verdict::Cut("its client did not let it end"))
        } else {
            (self.limits.idle_timeout, Verdict::Close)
        };
        if self.quiet < limit {
            return Verdict::Stay;
        }
        if verdict == Verdict::Close {
            self.is_closing = true;
            self.quiet = Duration::ZERO;
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits() -> ServeLimits {
        ServeLimits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(20),
            drain_stall: Duration::from_secs(5),
            ..ServeLimits::default()
        }
    }

    /// How many looks it takes until a connection that stays as it is is not let stay.
    fn looks(judge: &mut Judge, sight: Sight) -> (u32, Verdict) {
        for n in 1..=9 {
            let verdict = judge.look(sight);
            if verdict != Verdict::Stay {
                return (n, verdict);
            }
        }
        (0, Verdict::Stay)
    }

    #[test]
    fn who_sends_nothing_or_no_whole_head_is_cut() {
        let silent = Sight::default();
        assert!(matches!(looks(&mut Judge::new(limits()), silent), (1, Verdict::Cut(_))));
        let busy_doing_nothing = Sight { read: 1 << 20, written: 1 << 20, ..silent };
        let cut = looks(&mut Judge::new(limits()), busy_doing_nothing);
        assert!(matches!(cut, (1, Verdict::Cut(_))), "bytes are no request");
        let second = Sight { begun: 1, ended: 1, is_sending_head: true, ..silent };
        assert!(matches!(looks(&mut Judge::new(limits()), second), (2, Verdict::Cut(_))));
    }

    #[test]
    fn who_is_idle_is_told_first_and_cut_if_that_is_not_enough() {
        let mut judge = Judge::new(limits());
        let idle = Sight { begun: 3, ended: 3, ..Sight::default() };
        assert_eq!(looks(&mut judge, idle), (4, Verdict::Close));
        assert!(matches!(looks(&mut judge, idle), (2, Verdict::Cut(_))));
    }

    #[test]
    fn who_neither_sends_nor_reads_is_cut_and_who_waits_for_us_is_not() {
        let open = Sight { begun: 1, ..Sight::default() };
        assert!(matches!(looks(&mut Judge::new(limits()), open), (3, Verdict::Cut(_))));
        let blocked = Sight { begun: 1, ended: 1, is_blocked: true, ..Sight::default() };
        assert!(matches!(looks(&mut Judge::new(limits()), blocked), (3, Verdict::Cut(_))));
        let waiting = Sight { busy: 1, ..open };
        assert_eq!(looks(&mut Judge::new(limits()), waiting), (0, Verdict::Stay));
    }

    #[test]
    fn a_trickle_is_no_progress_and_a_stream_is() {
        let mut judge = Judge::new(limits());
        let at = |read| Sight { begun: 1, read, ..Sight::default() };
        judge.look(at(0));
        assert_eq!(judge.look(at(100)), Verdict::Stay);
        assert!(matches!(judge.look(at(200)), Verdict::Cut(_)));
        let mut judge = Judge::new(limits());
        for n in 0..100 {
            assert_eq!(judge.look(at(n << 9)), Verdict::Stay, "1 KiB in each 20 s");
        }
    }

    #[test]
    fn whoever_holds_up_the_end_has_less_time() {
        let mut judge = Judge::new(limits());
        judge.hurry();
        assert_eq!(judge.interval(), Duration::from_secs(5));
        let idle = Sight { begun: 1, ended: 1, ..Sight::default() };
        assert!(matches!(looks(&mut judge, idle), (2, Verdict::Cut(_))));
    }

    proptest! {
        #[test]
        fn whatever_a_client_does_it_is_let_stay_while_we_owe_it_an_answer(
            looks in proptest::collection::vec((0..3_u64, 0..3_u64, 0..9999_u64, any::<bool>()), 1..50)
        ) {
            let mut judge = Judge::new(limits());
            let mut sight = Sight::default();
            for (begun, ended, bytes, flag) in looks {
                sight.begun += begun;
                sight.ended = (sight.ended + ended).min(sight.begun);
                sight.read += bytes;
                sight.written += bytes;
                (sight.is_blocked, sight.is_sending_head) = (flag, !flag);
                sight.busy = 1;
                prop_assert_eq!(judge.look(sight), Verdict::Stay);
            }
        }
    }
}
