//! What is believed now, and what would be done about it, for those who want to look.
//!
//! Decisions are made by the very code that serves, on what waits now; where nothing waits, on an
//! item that is imagined to come now.

use std::{fmt, time::Duration};

use super::Scheduler;
use crate::{
    FireReason, Key, Moment, Policy,
    latency::Curve,
    moment::to_duration,
    policy::{self, Verdict, View, Why},
    queue::Queue,
};

/// What a batcher believes now.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// When it was asked.
    pub now: Moment,
    /// How it decides.
    pub policy: Policy,
    /// Devices that are attached.
    pub devices: usize,
    /// Of these, how many work on a batch.
    pub busy: usize,
    /// How long calls take, for each length bucket that was seen.
    pub latencies: Vec<Latency>,
    /// How many queues there are, one per key and length bucket.
    pub n_queues: usize,
    /// Some of them; where there is none, the one that the last batch came from.
    pub queues: Vec<QueueView>,
}

impl Explanation {
    /// Most queues that are shown.
    pub const MAX_QUEUES: usize = 16;
}

/// How long calls of one length bucket take.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Which bucket.
    pub bucket: usize,
    /// The longest length in it; `None` for the last, which has no end.
    pub edge: Option<u32>,
    /// The mean time of each batch size that was seen, in rising order.
    pub means: Vec<(usize, Duration)>,
    /// How many times the mean calls rarely exceed; deadlines are judged by that.
    pub margin: f32,
}

/// One queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueView {
    /// What its items have in common.
    pub key: Key,
    /// Its length bucket.
    pub bucket: usize,
    /// Items that wait, those behind their lane's first too.
    pub items: usize,
    /// Of these, how many could go now.
    pub ready: usize,
    /// Rows of those.
    pub rows: usize,
    /// How long the first of those has been ready.
    pub oldest: Option<Duration>,
    /// How long it is until the earliest deadline.
    pub deadline: Option<Duration>,
    /// How long its batch has been held for company.
    pub held: Option<Duration>,
    /// The usual gap between arrivals, where it is known.
    pub usual_gap: Option<Duration>,
    /// What is done, or what would be if an item came now.
    pub decision: Decision,
}

/// What is done with a queue when a device is free.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Whether nothing waits, and it is about one item that might come now.
    pub is_imagined: bool,
    /// Why its batch leaves, if it does.
    pub fires: Option<FireReason>,
    /// How long it is held otherwise, if nobody comes.
    pub holds: Option<Duration>,
    /// In what numbers.
    pub why: Why,
}

impl<P, S> Scheduler<P, S> {
    /// What is believed now, and what would be done about it.
    #[must_use]
    pub fn explain(&self, now: Moment) -> Explanation {
        let mut queues: Vec<QueueView> = self
            .queues
            .iter()
            .take(Explanation::MAX_QUEUES)
            .map(|(_, queue)| self.look_at(queue, now))
            .collect();
        if queues.is_empty() {
            let (key, bucket) = self
                .recent
                .newest()
                .map_or((Key::ANY, 0), |record| (record.facts.key, record.facts.bucket));
            queues.push(self.look_at(&Queue::new(key, bucket, 0), now));
        }
        let latency = |(bucket, curve): (usize, &Curve)| Latency {
            bucket,
            edge: self.limits.buckets.edge(bucket),
            means: curve.points().map(|(rows, mean)| (rows, to_duration(mean))).collect(),
            margin: curve.margin(),
        };
        Explanation {
            now,
            policy: self.limits.policy,
            devices: self.n_devices,
            busy: self.flights.len(),
            latencies: self.latency.curves().map(latency).collect(),
            n_queues: self.queues.len(),
            queues,
        }
    }

    fn look_at(&self, queue: &Queue, now: Moment) -> QueueView {
        let is_imagined = queue.n_ready == 0;
        let mut view = self.view(queue, now);
        let as_if;
        if is_imagined {
            as_if = self.gaps.as_if_arrived(queue.owner(), now);
            let is_full = self.limits.max_items == 1;
            view = View { n_items: 1, rows: 1, is_full, since: as_if.as_ref(), ..view };
        }
        let judged = policy::judge(&view, now);
        let (fires, holds) = match judged.verdict {
            Verdict::Fire(reason) => (Some(reason), None),
            Verdict::Hold(until) => (None, Some(until.since(now))),
        };
        let oldest = queue.oldest(&self.slots);
        let soonest = queue.soonest();
        QueueView {
            key: queue.key,
            bucket: queue.bucket,
            items: queue.n_items,
            ready: queue.n_ready,
            rows: queue.rows,
            oldest: oldest.map(|oldest| now.since(oldest)),
            deadline: (soonest != Moment::NEVER).then(|| soonest.since(now)),
            held: queue.held_since.map(|since| now.since(since)),
            usual_gap: self.gaps.median(queue.owner()),
            decision: Decision { is_imagined, fires, holds, why: judged.why },
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.is_imagined { "an item that came now" } else { "what waits" };
        write!(f, "{who} would ")?;
        match self.holds {
            None => f.write_str("leave as soon as a device is free: "),
            Some(holds) => write!(f, "be held for at most {holds:.1?}: "),
        }?;
        write!(f, "{}", self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("nothing more fits into the batch"),
            Self::Closing => f.write_str("the batcher is closing"),
            Self::EnoughRows(rows) => write!(f, "the fixed policy fires at {rows} rows"),
            Self::Clock(wait) => write!(f, "the fixed policy waits {wait:.1?}"),
            Self::NothingLearned => {
                f.write_str("no call was seen yet, so nothing is known that waiting could save")
            }
            Self::CallsAreShort(shortest) => write!(
                f,
                "a call takes only {shortest:.1?}, so waiting would cost more than it could save"
            ),
            Self::NobodyExpected => f.write_str("nobody else is expected to come soon"),
            Self::DoesNotPay(saving) => write!(
                f,
                "one more would save {saving:.1?} of a device, less than waiting for it would cost"
            ),
            Self::HeldLongest(wait) => write!(f, "it was held for the longest allowed, {wait:.1?}"),
            Self::WantedLater => f.write_str("all are wanted later, so nobody loses by waiting"),
            Self::WantedNow => f.write_str("it is time for those who are wanted first"),
            Self::DeadlineIsNear => f.write_str("its earliest deadline allows no more waiting"),
            Self::Pays { saving, chance, cost } => write!(
                f,
                "with a chance of {:.0} % one more comes, which would save {saving:.1?} of a \
                 device and cost {cost:.1?} of waiting",
                chance * 100.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Next, Settings, Tag};

    const MS: Duration = Duration::from_millis(1);

    /// Items that come every millisecond to calls that take 50 ms, whatever their size.
    fn busy() -> (Scheduler<()>, Moment) {
        let mut scheduler = Scheduler::new(Settings::default().validate().unwrap());
        scheduler.learn(0, 1, 50 * MS);
        scheduler.learn(0, 32, 50 * MS);
        let mut now = Moment::START;
        for _ in 0..40 {
            now = now.after(MS);
            scheduler.offer((), &Tag::default(), None, now).unwrap();
            if let Next::Batch(batch) = scheduler.next(now) {
                let landing = crate::Landing { took: Some(50 * MS), ..Default::default() };
                scheduler.finish(batch.flight, landing, [], now);
            }
        }
        (scheduler, now)
    }

    #[test]
    fn what_is_explained_is_what_is_done() {
        let (mut scheduler, mut now) = busy();
        for _ in 0..200 {
            now = now.after(MS / 4);
            let told = scheduler.explain(now).queues[0].decision;
            let is_empty = scheduler.n_waiting() == 0;
            assert_eq!(told.is_imagined, is_empty);
            if is_empty {
                scheduler.offer((), &Tag::default(), None, now).unwrap();
            }
            // An imagined item is told of before it came, and then it comes.
            match scheduler.next(now) {
                Next::Batch(batch) => {
                    assert_eq!(told.fires, Some(batch.facts.fired), "{told}");
                    scheduler.finish(batch.flight, crate::Landing::default(), [], now);
                }
                Next::HoldUntil(until) => assert_eq!(told.holds, Some(until.since(now)), "{told}"),
                Next::Nothing => panic!("something waits"),
            }
        }
    }

    #[test]
    fn dense_arrivals_are_told_to_be_waited_for() {
        let (scheduler, now) = busy();

        let told = scheduler.explain(now).queues[0].clone();

        assert!(told.usual_gap.unwrap() < 2 * MS);
        assert!(matches!(told.decision.why, Why::Pays { .. }), "{}", told.decision);
        assert!(told.decision.to_string().contains("be held for at most"), "{}", told.decision);
        assert!(told.decision.to_string().contains("one more comes"), "{}", told.decision);
    }

    #[test]
    fn where_nothing_waits_one_item_is_imagined() {
        let told = |settings: &Settings| {
            let scheduler: Scheduler<()> = Scheduler::new(settings.validate().unwrap());
            scheduler.explain(Moment::START).queues[0].decision.why
        };
        let fixed = Settings { policy: crate::PolicyName::Fixed, ..Settings::default() };

        assert_eq!(told(&fixed), Why::Clock(2 * MS));
        let early = Settings { max_items: Some(4), early_fire: Some(0.25), ..fixed };
        assert_eq!(told(&early), Why::EnoughRows(1));
        assert_eq!(told(&Settings { max_items: Some(1), ..Settings::default() }), Why::Full);
        assert_eq!(told(&Settings::default()), Why::NothingLearned);
    }

    #[test]
    fn the_time_that_is_left_is_told_where_it_is_bounded() {
        let mut scheduler: Scheduler<()> = Scheduler::new(Settings::default().validate().unwrap());
        scheduler.offer((), &Tag::default(), None, Moment::START).unwrap();
        let deadline = |scheduler: &Scheduler<()>| {
            scheduler.explain(Moment::START.after(MS)).queues[0].deadline
        };
        assert_eq!(deadline(&scheduler), None);

        let tag = Tag { timeout: Some(50 * MS), ..Tag::default() };
        scheduler.offer((), &tag, None, Moment::START).unwrap();
        assert_eq!(deadline(&scheduler), Some(49 * MS));
    }

    #[test]
    fn where_no_queue_is_left_the_last_one_is_told_of() {
        let mut scheduler: Scheduler<()> = Scheduler::new(Settings::default().validate().unwrap());
        let tag = Tag { key: Key::unique(), ..Tag::default() };
        scheduler.offer((), &tag, None, Moment::START).unwrap();
        let Next::Batch(batch) = scheduler.next(Moment::START) else { panic!("one item waits") };
        scheduler.finish(batch.flight, crate::Landing::default(), [], Moment::START);

        let told = scheduler.explain(Moment::START);

        assert_eq!((told.n_queues, told.queues[0].key), (0, tag.key));
    }
}
