//! What a socket waits for and for how long. Pure: it is told the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::ws::SocketLimits;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    /// It listens to the client.
    pub(crate) reads: bool,
    /// Something is ready for the client.
    pub(crate) writes: bool,
    /// Something waits for the session.
    pub(crate) waits: bool,
}

/// What is to be done about the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ask the client whether it is there.
    Ping,
    /// Tell the client that nothing of its stream could be done for so long.
    Warn(Duration),
    /// The client sent nothing for too long.
    Idle,
    /// Nothing of its stream could be done for too long.
    Overloaded,
    /// The client is not there, or does not read.
    Cut(&'static str),
}

#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) limits: SocketLimits,
    /// When anything was last heard of the client.
    heard: Instant,
    /// When the client last wanted something.
    asked: Instant,
    pinged: Option<Instant>,
    blocked: Option<Instant>,
    stalled: Option<Instant>,
    is_warned: bool,
}

impl Clock {
    pub(crate) fn new(limits: SocketLimits, now: Instant) -> Self {
        Self {
            limits,
            heard: now,
            asked: now,
            pinged: None,
            blocked: None,
            stalled: None,
            is_warned: false,
        }
    }

    /// Something came from the client.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = None;
    }

    /// The client wants something.
    pub(crate) fn asked(&mut self, now: Instant) {
        self.asked = now;
    }

    /// Something was written.
    pub(crate) fn wrote(&mut self) {
        self.blocked = None;
    }

    /// The session did something.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.stalled = None;
        self.is_warned = false;
        // It is not the client's silence that was waited for.
        self.asked = now;
    }

    /// Notes what the connection is doing; says when to look again at the latest.
    pub(crate) fn arm(&mut self, view: View, now: Instant) -> Instant {
        self.blocked = view.writes.then(|| self.blocked.unwrap_or(now));
        self.stalled = view.waits.then(|| self.stalled.unwrap_or(now));
        if !view.reads {
            // Who is not listened to cannot be heard.
            self.heard(now);
        }
        if view.waits {
            self.asked = now;
        }
        let limits = &self.limits;
        let stall = if self.is_warned { limits.stall_timeout } else { limits.stall_warning };
        [
            Some(self.asked + limits.idle_timeout),
            Some(self.pinged.unwrap_or(self.heard) + limits.ping_interval),
            self.blocked.map(|since| since + limits.write_timeout),
            self.stalled.map(|since| since + stall.min(limits.stall_timeout)),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(now + limits.ping_interval)
    }

    /// What is to be done now, if anything.
    pub(crate) fn look(&mut self, now: Instant) -> Option<Verdict> {
        let limits = &self.limits;
        let past = |since: Option<Instant>, span| since.filter(|since| *since + span <= now);
        if past(self.blocked, limits.write_timeout).is_some() {
            return Some(Verdict::Cut("the client does not read"));
        }
        if past(self.stalled, limits.stall_timeout).is_some() {
            return Some(Verdict::Overloaded);
        }
        if past(self.pinged, limits.ping_interval).is_some() {
            return Some(Verdict::Cut("the client does not answer"));
        }
        if past(Some(self.asked), limits.idle_timeout).is_some() {
            return Some(Verdict::Idle);
        }
        if !self.is_warned
            && let Some(since) = past(self.stalled, limits.stall_warning)
        {
            self.is_warned = true;
            return Some(Verdict::Warn(now - since));
        }
        if self.pinged.is_none() && past(Some(self.heard), limits.ping_interval).is_some() {
            self.pinged = Some(now);
            return Some(Verdict::Ping);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENS: View = View { reads: true, writes: false, waits: false };

    /// Lets time pass as a connection would: it looks when it was told to.
    fn run(view: View, from: Instant, clock: &mut Clock, for_secs: u64) -> Vec<(u64, Verdict)> {
        let mut verdicts = Vec::new();
        let mut now = clock.arm(view, from);
        while now <= from + Duration::from_secs(for_secs) {
            while let Some(verdict) = clock.look(now) {
                verdicts.push(((now - from).as_secs(), verdict));
                if !matches!(verdict, Verdict::Ping | Verdict::Warn(_)) {
                    return verdicts;
                }
            }
            now = clock.arm(view, now).max(now + Duration::from_millis(1));
        }
        verdicts
    }

    #[test]
    fn a_client_that_does_not_answer_is_cut_after_two_intervals() {
        let now = Instant::now();
        let mut clock = Clock::new(SocketLimits::default(), now);

        let verdicts = run(LISTENS, now, &mut clock, 100);

        let cut = Verdict::Cut("the client does not answer");
        assert_eq!(verdicts, [(20, Verdict::Ping), (40, cut)]);
    }

    #[test]
    fn a_client_that_answers_and_wants_nothing_is_idle_in_the_end() {
        let start = Instant::now();
        let mut clock = Clock::new(SocketLimits::default(), start);
        let mut at = start;
        loop {
            let verdicts = run(LISTENS, at, &mut clock, 21);
            at += Duration::from_secs(21);
            match verdicts.last().map(|(_, verdict)| *verdict) {
                Some(Verdict::Ping) => clock.heard(at),
                other => break assert_eq!(other, Some(Verdict::Idle)),
            }
        }
        assert!((300..330).contains(&(at - start).as_secs()));
    }

    #[test]
    fn a_stream_that_is_not_served_is_told_and_then_closed() {
        let now = Instant::now();
        let mut clock = Clock::new(SocketLimits::default(), now);
        let view = View { reads: false, writes: false, waits: true };

        let mut verdicts = run(view, now, &mut clock, 1000);

        verdicts.retain(|(_, verdict)| *verdict != Verdict::Ping);
        let warning = Verdict::Warn(Duration::from_secs(5));
        assert_eq!(verdicts, [(5, warning), (60, Verdict::Overloaded)]);
    }

    #[test]
    fn a_client_that_does_not_read_is_cut() {
        let now = Instant::now();
        let mut clock = Clock::new(SocketLimits::default(), now);
        let view = View { reads: false, writes: true, waits: false };

        let verdicts = run(view, now, &mut clock, 1000);

        assert_eq!(verdicts, [(20, Verdict::Cut("the client does not read"))]);
    }
}
