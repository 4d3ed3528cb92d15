//! What is kept of each request: pure, in memory that does not grow with their number.
//!
//! Latency counts from when a request was *due*, so one that had to wait for its turn at a slow
//! server is as late as its user would have found it. A request that got no answer in time, or
//! could not even be sent, counts as late as it was when it was given up.

use std::{collections::BTreeMap, fmt, time::Duration};

use hdrhistogram::Histogram;

/// Why a request got no good answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No connection could be made.
    Connect,
    /// The connection ended before the answer did.
    Closed,
    /// No answer in time.
    Timeout,
    /// The answer was not HTTP.
    Malformed,
    /// It was due, and every connection was still busy when the run ended.
    NotSent,
    /// An HTTP status other than success.
    Status(u16),
    /// A gRPC code other than OK.
    Grpc(i32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("no connection"),
            Self::Closed => f.write_str("connection closed"),
            Self::Timeout => f.write_str("timeout"),
            Self::Malformed => f.write_str("malformed answer"),
            Self::NotSent => f.write_str("not sent in time"),
            Self::Status(status) => write!(f, "HTTP {status}"),
            Self::Grpc(code) => {
                write!(f, "gRPC {:?}", tonic::Code::from_i32(*code))
            }
        }
    }
}

/// A request without a good answer, and what the server said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub fault: Fault,
    /// The beginning of the answer, or nothing.
    pub said: String,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self { fault, said: String::new() }
    }
}

/// One request, in time since the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) due: Duration,
    pub(crate) sent: Duration,
    pub(crate) done: Duration,
}

/// Which requests count, in time since the start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

impl Window {
    fn contains(&self, time: Duration) -> bool {
        self.from <= time && time < self.to
    }
}

/// What became of the requests of one run.
#[derive(Debug, Clone)]
pub struct Record {
    window: Window,
    slo: Option<Duration>,
    latency: Histogram<u64>,
    lag: Histogram<u64>,
    n_offered: u64,
    n_answered: u64,
    n_in_slo: u64,
    faults: BTreeMap<Fault, u64>,
    said: String,
    last_done: Duration,
}

impl Record {
    pub(crate) fn new(window: Window, slo: Option<Duration>) -> Self {
        // From a microsecond to a day, to three digits, in about 200 KB.
        let histogram =
            || Histogram::new_with_bounds(1_000, 86_400_000_000_000, 3).expect("constant bounds");
        Self {
            window,
            slo,
            latency: histogram(),
            lag: histogram(),
            n_offered: 0,
            n_answered: 0,
            n_in_slo: 0,
            faults: BTreeMap::new(),
            said: String::new(),
            last_done: Duration::ZERO,
        }
    }

    pub(crate) fn answered(&mut self, sample: Sample) {
        self.last_done = self.last_done.max(sample.done);
        self.n_answered += u64::from(self.window.contains(sample.done));
        if !self.window.contains(sample.due) {
            return;
        }
        self.n_offered += 1;
        let latency = sample.done.saturating_sub(sample.due);
        self.n_in_slo += u64::from(self.slo.is_none_or(|slo| latency <= slo));
        self.latency.saturating_record(nanos(latency));
        self.lag.saturating_record(nanos(sample.sent.saturating_sub(sample.due)));
    }

    pub(crate) fn failed(&mut self, sample: Sample, failure: Failure) {
        self.last_done = self.last_done.max(sample.done);
        if !self.window.contains(sample.due) {
            return;
        }
        self.n_offered += 1;
        *self.faults.entry(failure.fault).or_default() += 1;
        if self.said.is_empty() {
            self.said = failure.said;
        }
        if matches!(failure.fault, Fault::Timeout | Fault::NotSent) {
            self.latency.saturating_record(nanos(sample.done.saturating_sub(sample.due)));
        }
        if failure.fault != Fault::NotSent {
            self.lag.saturating_record(nanos(sample.sent.saturating_sub(sample.due)));
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, other) in [(&mut self.latency, &other.latency), (&mut self.lag, &other.lag)] {
            own.add(other).expect("equal bounds");
        }
        self.n_offered += other.n_offered;
        self.n_answered += other.n_answered;
        self.n_in_slo += other.n_in_slo;
        for (&fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        if self.said.is_empty() {
            self.said.clone_from(&other.said);
        }
        self.last_done = self.last_done.max(other.last_done);
    }

    /// Ends the window at the last answer: the run ended before its time.
    pub(crate) fn end_early(&mut self) {
        self.window.to = self.window.to.min(self.last_done).max(self.window.from);
    }

    /// How long requests counted.
    #[must_use]
    pub fn lasted(&self) -> Duration {
        self.window.to.saturating_sub(self.window.from)
    }

    /// When the last answer came, counted from the start.
    #[must_use]
    pub const fn last_done(&self) -> Duration {
        self.last_done
    }

    /// Requests that were due.
    #[must_use]
    pub const fn n_offered(&self) -> u64 {
        self.n_offered
    }

    /// Good answers a second.
    #[must_use]
    pub fn answers_per_second(&self) -> f64 {
        self.per_second(self.n_answered)
    }

    /// Good answers within the objective a second; all good answers where there is no objective.
    #[must_use]
    pub fn goodput_per_second(&self) -> f64 {
        self.per_second(self.n_in_slo)
    }

    /// The share of requests that got a good answer within the objective, from 0 to 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share is approximate")]
    pub fn share_in_slo(&self) -> f64 {
        if self.n_offered == 0 { 0.0 } else { self.n_in_slo as f64 / self.n_offered as f64 }
    }

    /// The latency that this share of requests, from 0 to 1, stayed within.
    #[must_use]
    pub fn latency_at(&self, share: f64) -> Duration {
        Duration::from_nanos(self.latency.value_at_quantile(share))
    }

    /// The mean latency.
    #[must_use]
    pub fn mean_latency(&self) -> Duration {
        Duration::try_from_secs_f64(self.latency.mean() / 1e9).unwrap_or_default()
    }

    /// By how much requests were sent later than due: the generator's own lateness, where
    /// connections are free.
    #[must_use]
    pub fn lag_at(&self, share: f64) -> Duration {
        Duration::from_nanos(self.lag.value_at_quantile(share))
    }

    /// Requests without a good answer, by kind.
    #[must_use]
    pub const fn faults(&self) -> &BTreeMap<Fault, u64> {
        &self.faults
    }

    /// What the server said with the first of them; empty where it said nothing.
    #[must_use]
    pub fn said(&self) -> &str {
        &self.said
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is approximate")]
    fn per_second(&self, count: u64) -> f64 {
        let seconds = self.lasted().as_secs_f64();
        if seconds == 0.0 { 0.0 } else { count as f64 / seconds }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn sample(due: u64, sent: u64, done: u64) -> Sample {
        Sample { due: ms(due), sent: ms(sent), done: ms(done) }
    }

    fn record() -> Record {
        Record::new(Window { from: ms(1000), to: ms(2000) }, Some(ms(50)))
    }

    fn close(actual: Duration, expected: Duration) -> bool {
        actual.abs_diff(expected) <= expected / 500
    }

    #[test]
    fn lateness_counts_from_when_a_request_was_due() {
        let mut record = record();

        record.answered(sample(1000, 1000, 1010));
        record.answered(sample(1100, 1400, 1440));

        assert!(close(record.latency_at(1.0), ms(340)), "{:?}", record.latency_at(1.0));
        assert!(close(record.lag_at(1.0), ms(300)));
        assert!((record.share_in_slo() - 0.5).abs() < 1e-9);
        assert!((record.goodput_per_second() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn warm_up_and_stragglers_do_not_count_as_throughput_but_stragglers_are_late() {
        let mut record = record();

        record.answered(sample(900, 900, 950));
        record.answered(sample(990, 990, 1001));
        record.answered(sample(1999, 1999, 2500));

        assert!((record.answers_per_second() - 1.0).abs() < 1e-9, "the one that ended inside");
        assert_eq!(record.n_offered(), 1, "the one that was due inside");
        assert!(close(record.latency_at(0.5), ms(501)));
    }

    #[test]
    fn what_was_given_up_is_late_and_what_was_refused_is_an_error_only() {
        let mut record = record();

        record.answered(sample(1000, 1000, 1001));
        record.failed(sample(1100, 1100, 1101), Fault::Status(503).into());
        record.failed(sample(1200, 1200, 1900), Fault::Timeout.into());
        record.failed(sample(1300, 2000, 2000), Fault::NotSent.into());

        assert!(close(record.latency_at(1.0), ms(700)));
        assert!(close(record.latency_at(0.3), ms(1)));
        assert_eq!(record.faults().len(), 3);
        assert!((record.share_in_slo() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn two_threads_add_up() {
        let (mut one, mut two) = (record(), record());
        one.answered(sample(1000, 1000, 1001));
        two.answered(sample(1000, 1000, 1100));
        two.failed(sample(1100, 1100, 1101), Failure { fault: Fault::Closed, said: "x".into() });

        one.merge(&two);

        assert_eq!((one.n_offered(), one.faults()[&Fault::Closed], one.said()), (3, 1, "x"));
        assert!(close(one.latency_at(1.0), ms(100)));
        assert_eq!(one.last_done(), ms(1101));
    }
}
