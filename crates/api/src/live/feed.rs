//! Who has seen how much. Pure: whoever drives it brings the readings.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{
    PERIOD,
    batches::Landed,
    faults::Faults,
    frame::{Snapshot, Whole, can_tick, event, tick},
    sample::Sample,
};

/// Ticks that are kept for those who are late.
const KEPT: usize = 8;

/// What one viewer has seen: the number of its last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor(Option<u64>);

impl Cursor {
    /// Of somebody who has seen nothing.
    pub(super) const NEW: Self = Self(None);
}

/// What everybody sees.
#[derive(Debug, Default)]
pub(super) struct Feed {
    began_ms: u64,
    now: Sample,
    /// Of the newest frame.
    number: u64,
    /// The newest, oldest first; nothing before them can be told but by a snapshot.
    ticks: VecDeque<Bytes>,
    faults: Faults,
}

impl Feed {
    /// Begins with nothing, at this time.
    pub(super) fn new(began_ms: u64) -> Self {
        Self { began_ms, ..Self::default() }
    }

    /// The last reading.
    pub(super) const fn last(&self) -> &Sample {
        &self.now
    }

    /// Takes the next reading.
    pub(super) fn push(&mut self, sample: Sample) {
        self.number += 1;
        self.faults.compare(&self.now, &sample);
        if can_tick(&self.now, &sample) {
            if self.ticks.len() == KEPT {
                self.ticks.pop_front();
            }
            let faults = self.faults.at(sample.time_ms);
            let tick = tick(self.number, &self.now, &sample, faults);
            self.ticks.push_back(event("tick", &tick));
        } else {
            self.ticks.clear();
        }
        self.now = sample;
    }

    /// What a viewer has not seen: ticks, or a snapshot where ticks do not reach back far enough.
    /// Nothing where it has seen all.
    /// `recent` says which batches landed last.
    pub(super) fn news(
        &self,
        cursor: &mut Cursor,
        recent: impl FnOnce() -> Vec<Landed>,
    ) -> Vec<Bytes> {
        let seen = cursor.0.replace(self.number);
        let missed = seen.and_then(|seen| usize::try_from(self.number - seen).ok());
        match missed {
            Some(missed) if missed <= self.ticks.len() => {
                self.ticks.range(self.ticks.len() - missed..).cloned().collect()
            }
            _ => vec![event("snapshot", &self.snapshot(recent()))],
        }
    }

    fn snapshot(&self, batches: Vec<Landed>) -> Snapshot<'_> {
        Snapshot {
            number: self.number,
            server: env!("CARGO_PKG_VERSION"),
            began_ms: self.began_ms,
            time_ms: self.now.time_ms,
            is_ready: self.now.is_ready,
            period_ms: u64::try_from(PERIOD.as_millis()).unwrap_or(0),
            models: self.now.models.iter().map(Whole::from).collect(),
            speech: &self.now.speech,
            cameras: self.now.cameras.as_ref(),
            faults: self.faults.all(),
            batches,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::live::sample::{
        Counts,
        tests::{model, sample},
    };

    fn read(frame: &Bytes) -> (String, Value) {
        let text = std::str::from_utf8(frame).unwrap();
        let (name, data) = text.trim_end().split_once("\ndata: ").unwrap();
        (name.trim_start_matches("event: ").to_owned(), serde_json::from_str(data).unwrap())
    }

    /// A reading in which so many requests were answered.
    fn answered(time: u64, good: u64) -> Sample {
        sample(time, vec![model("m", Counts { good, ..Counts::default() }, None)])
    }

    #[test]
    fn a_model_that_comes_goes_or_fails_is_told_by_a_snapshot() {
        let mut feed = Feed::new(0);
        feed.push(answered(1, 0));
        let mut cursor = Cursor::NEW;
        assert_eq!(read(&feed.news(&mut cursor, Vec::new)[0]).0, "snapshot");
        assert!(feed.news(&mut cursor, Vec::new).is_empty(), "all is seen");

        feed.push(answered(2, 0));
        let (name, tick) = read(&feed.news(&mut cursor, Vec::new)[0]);
        assert_eq!((&*name, &tick["models"]), ("tick", &Value::Null), "nothing happened");

        let fails = model("m", Counts::default(), Some("gone"));
        for models in [vec![], vec![model("m", Counts::default(), None)], vec![fails]] {
            feed.push(sample(3, models));
            assert_eq!(read(&feed.news(&mut cursor, Vec::new)[0]).0, "snapshot");
        }
    }

    proptest! {
        #[test]
        fn whoever_adds_up_what_it_is_told_knows_what_is_so(
            looks in prop::collection::vec((0_u64..100, any::<bool>()), 1..40),
        ) {
            let (mut feed, mut cursor) = (Feed::new(0), Cursor::NEW);
            let (mut truth, mut told) = (0, 0);
            for (time, (more, looks)) in looks.into_iter().enumerate() {
                truth += more;
                feed.push(answered(time as u64, truth));
                if !looks {
                    continue;
                }
                for frame in feed.news(&mut cursor, Vec::new) {
                    let (name, frame) = read(&frame);
                    let good = frame["models"][0]["counts"]["good"].as_u64().unwrap_or(0);
                    told = if name == "snapshot" { good } else { told + good };
                }
                prop_assert_eq!(told, truth);
            }
            prop_assert!(feed.ticks.len() <= KEPT);
        }
    }
}
