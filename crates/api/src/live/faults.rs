//! Bad news, told once each: what went wrong between two readings, in words. Pure.
//!
//! The same trouble again soon after is one fault that goes on, so that a flood of refusals is one
//! line, and the list is as long as it may be and no longer.

use std::collections::VecDeque;

use serde::Serialize;

use super::sample::{Counts, Sample};

/// How many are kept.
const KEPT: usize = 64;
/// How long nothing may happen before the same trouble is a new fault.
const GOES_ON_MS: u64 = 10_000;

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    /// Counts faults from 1.
    number: u64,
    kind: &'static str,
    /// The model, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// How often.
    count: u64,
    /// What is to be said about it.
    text: String,
    /// When it began and when it was last seen, in milliseconds since 1970.
    first_ms: u64,
    last_ms: u64,
}

/// The last faults, newest last.
#[derive(Debug, Default)]
pub(super) struct Faults {
    known: VecDeque<Fault>,
    next: u64,
}

impl Faults {
    pub(super) fn all(&self) -> Vec<&Fault> {
        self.known.iter().collect()
    }

    /// Those that began or went on at this time.
    pub(super) fn at(&self, time_ms: u64) -> Vec<&Fault> {
        self.known.iter().filter(|fault| fault.last_ms == time_ms).collect()
    }

    /// Looks for trouble in what happened from one reading to the next.
    pub(super) fn compare(&mut self, before: &Sample, now: &Sample) {
        let time = now.time_ms;
        for (at, model) in now.models.iter().enumerate() {
            let name = || Some(model.facts.name.clone());
            let earlier = before.model(at, &model.facts);
            if let Some(trouble) = &model.facts.trouble
                && earlier.is_none_or(|earlier| earlier.facts.trouble.as_ref() != Some(trouble))
            {
                self.add(time, ("trouble", name(), 1), trouble);
            }
            // A model that was loaded again counts from nothing.
            let counts = match earlier {
                Some(earlier) => model.counts.since(&earlier.counts),
                None => model.counts.clone(),
            };
            for (kind, count, text) in troubles(&counts) {
                self.add(time, (kind, name(), count), text);
            }
        }
        let more = |now: u64, before: u64| now.saturating_sub(before);
        let (then, speech) = (&before.speech, &now.speech);
        for (kind, count, text) in [
            ("no_place", more(speech.refused, then.refused), "streams refused: all places taken"),
            ("unheard", more(speech.failed, then.failed), "segments of speech without a result"),
        ] {
            self.add(time, (kind, None, count), text);
        }
        if let Some(cameras) = &now.cameras {
            let saw = before.cameras.as_ref();
            let earlier = saw.map(|cameras| cameras.counts).unwrap_or_default();
            for (kind, count, text) in [
                ("dead", more(cameras.counts.dead, earlier.dead), "frames put to the dead letters"),
                ("lost", more(cameras.counts.lost, earlier.lost), "frames trimmed away unanswered"),
                ("redis", more(cameras.counts.faults, earlier.faults), "faults of Redis"),
            ] {
                self.add(time, (kind, None, count), text);
            }
            if let Some(problem) = &cameras.problem
                && saw.is_none_or(|saw| saw.problem.as_ref() != Some(problem))
            {
                self.add(time, ("cameras", None, 1), problem);
            }
        }
    }

    fn add(
        &mut self,
        time_ms: u64,
        (kind, model, count): (&'static str, Option<String>, u64),
        text: &str,
    ) {
        if count == 0 {
            return;
        }
        let goes_on = self.known.iter_mut().rev().find(|fault| {
            (fault.kind, &fault.model, &*fault.text) == (kind, &model, text)
                && time_ms.saturating_sub(fault.last_ms) <= GOES_ON_MS
        });
        if let Some(fault) = goes_on {
            (fault.count, fault.last_ms) = (fault.count + count, time_ms);
            return;
        }
        if self.known.len() == KEPT {
            self.known.pop_front();
        }
        self.next += 1;
        let (number, text) = (self.next, text.to_owned());
        let (first_ms, last_ms) = (time_ms, time_ms);
        self.known.push_back(Fault { number, kind, model, count, text, first_ms, last_ms });
    }
}

fn troubles(counts: &Counts) -> [(&'static str, u64, &'static str); 4] {
    [
        ("refused", counts.refused, "requests refused: the queue is full"),
        ("hopeless", counts.hopeless, "requests refused: no answer possible in time"),
        ("late", counts.late, "requests dropped: their deadline could not be met"),
        ("failed", counts.failed_calls, "model calls failed"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::sample::tests::{model, sample};

    #[test]
    fn a_flood_is_one_fault_that_goes_on_until_there_was_peace() {
        let mut faults = Faults::default();
        let refused = |time, refused| {
            let counts = Counts { refused, ..Counts::default() };
            sample(time, vec![model("m", counts, None)])
        };
        faults.compare(&refused(0, 0), &refused(500, 7));
        faults.compare(&refused(500, 7), &refused(1000, 10));
        assert_eq!(faults.all().len(), 1);
        assert_eq!((faults.all()[0].count, faults.all()[0].first_ms), (10, 500));
        assert_eq!(faults.at(1000).len(), 1);

        faults.compare(&refused(1000, 10), &refused(1500, 10));
        assert!(faults.at(1500).is_empty(), "nothing happened");
        faults.compare(&refused(1500, 10), &refused(60_000, 11));
        assert_eq!(faults.all().len(), 2, "a minute of peace lies between");
    }

    #[test]
    fn trouble_is_told_in_its_own_words_and_once() {
        let mut faults = Faults::default();
        let is = |time, trouble| sample(time, vec![model("m", Counts::default(), trouble)]);
        faults.compare(&is(0, None), &is(1, Some("<b>its worker died")));
        faults.compare(&is(1, Some("<b>its worker died")), &is(2, Some("<b>its worker died")));

        assert_eq!(faults.all().len(), 1);
        assert_eq!(faults.all()[0].text, "<b>its worker died");
        assert_eq!(faults.all()[0].count, 1);
    }

    #[test]
    fn the_list_never_grows_beyond_its_bound() {
        let mut faults = Faults::default();
        for n in 0..1000 {
            let trouble = n.to_string();
            let now = sample(n, vec![model("m", Counts::default(), Some(&trouble))]);
            faults.compare(&Sample::default(), &now);
        }
        assert_eq!(faults.all().len(), KEPT);
        assert_eq!(faults.all()[KEPT - 1].text, "999");
    }
}
