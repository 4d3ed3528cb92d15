//! One reading of everything that is shown. The only file here that touches what is running.

use std::{cmp::Reverse, time::Duration};

use paceline_batch::{Dropped, Stats};
use paceline_pipeline::{
    Mode, Model, ModelFacts,
    speech::{RoundSight, SpeechStats},
};
use serde::Serialize;

use super::{
    CameraSight,
    batches::{Landed, in_line},
    bins::Bins,
};
use crate::App;

/// Most rounds that are shown one by one.
const TOP_ROUNDS: usize = 12;

/// One reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Milliseconds since 1970.
    pub(super) time_ms: u64,
    pub(super) is_ready: bool,
    pub(super) models: Vec<ModelSample>,
    pub(super) speech: SpeechSight,
    pub(super) cameras: Option<CameraSight>,
    /// Batches that landed since the reading before.
    pub(super) batches: Vec<Landed>,
}

/// One version of one model.
#[derive(Debug, Clone)]
pub(super) struct ModelSample {
    pub(super) facts: Facts,
    pub(super) counts: Counts,
    /// Of the last batch that landed.
    pub(super) sequence: u64,
}

/// What changes so seldom that it is told only as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) version: u64,
    platform: String,
    mode: Mode,
    instances: usize,
    max_batch: usize,
    /// Whether it takes plain bytes.
    has_adapter: bool,
    /// Why it cannot answer, if it cannot.
    pub(super) trouble: Option<String>,
}

impl Facts {
    /// Whether both are about one version of one model.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.name, self.version) == (&other.name, other.version)
    }
}

/// Counts since the model was loaded, and how it is now. What is not written is zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) good: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) failed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) cancelled: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) refused: u64,
    /// No answer was possible in time: told at the door, or after waiting.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) hopeless: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) late: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) failed_calls: u64,
    /// Batches by why they left.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fired: [u64; 6],
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) padded: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) useful: u64,
    #[serde(skip_serializing_if = "Bins::is_empty")]
    pub(super) rows: Bins,
    #[serde(skip_serializing_if = "Bins::is_empty")]
    pub(super) wait: Bins,
    #[serde(skip_serializing_if = "Bins::is_empty")]
    pub(super) run: Bins,
    #[serde(skip_serializing_if = "Bins::is_empty")]
    pub(super) total: Bins,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) waiting: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) in_flight: usize,
}

/// Streams of speech: all of them in numbers, and the first few.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct SpeechSight {
    pub(super) open: usize,
    /// Rounds under way, and those in which somebody speaks.
    pub(super) rounds: usize,
    pub(super) speaking: usize,
    /// How far those are behind that are furthest behind.
    pub(super) behind_ms: u64,
    pub(super) refused: u64,
    pub(super) samples: u64,
    pub(super) segments: u64,
    pub(super) failed: u64,
    /// Who is furthest behind, then who has been here longest.
    pub(super) top: Vec<Round>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Round {
    number: u64,
    model: String,
    kind: &'static str,
    age_s: u64,
    heard_ms: u64,
    behind_ms: u64,
    segments: u64,
    failed: u64,
    speaking: bool,
}

impl Sample {
    /// The reading after `before`.
    pub(super) fn take(
        app: &App,
        time_ms: u64,
        cameras: Option<CameraSight>,
        before: &Self,
    ) -> Self {
        let speech = &app.streams.speech;
        let (mut models, mut batches) = (Vec::new(), Vec::new());
        for (at, model) in app.models.all().iter().enumerate() {
            let mut own = ModelSample::of(model);
            let earlier = before.model(at, &own.facts);
            let earlier = earlier.filter(|earlier| own.counts.follow(&earlier.counts));
            own.sequence = earlier.map_or(0, |earlier| earlier.sequence);
            let landed = Landed::after(at, model, own.sequence);
            own.sequence = landed.last().map_or(own.sequence, |last| last.sequence);
            models.push(own);
            batches.push(landed);
        }
        Self {
            time_ms,
            is_ready: app.is_ready(),
            models,
            speech: SpeechSight::of(speech.stats(), speech.rounds()),
            cameras,
            batches: in_line(batches),
        }
    }

    /// The model that these facts are about. Most often it is where it was.
    pub(super) fn model(&self, at: usize, facts: &Facts) -> Option<&ModelSample> {
        let is_it = |model: &&ModelSample| model.facts.is_same(facts);
        self.models.get(at).filter(is_it).or_else(|| self.models.iter().find(is_it))
    }

    /// Where a model stands among those of this reading.
    pub(super) fn position(&self, facts: &ModelFacts) -> Option<usize> {
        let is_it = |model: &ModelSample| {
            (&model.facts.name, model.facts.version) == (&facts.name, facts.version)
        };
        self.models.iter().position(is_it)
    }
}

impl ModelSample {
    fn of(model: &Model) -> Self {
        let facts = model.facts();
        Self {
            facts: Facts {
                name: facts.name.clone(),
                version: facts.version,
                platform: facts.platform.clone(),
                mode: facts.mode,
                instances: facts.instances,
                max_batch: facts.limits.max_items(),
                has_adapter: model.adapter().is_some(),
                trouble: model.trouble(),
            },
            counts: Counts::of(model, &model.batch_stats()),
            sequence: 0,
        }
    }
}

impl Counts {
    fn of(model: &Model, batches: &Stats) -> Self {
        let requests = model.stats();
        Self {
            good: requests.n_good,
            failed: requests.n_failed,
            cancelled: requests.n_cancelled,
            refused: batches.refused_full,
            hopeless: batches.refused_hopeless,
            late: batches.items_dropped(Dropped::Expired) + batches.items_dropped(Dropped::TooLate),
            failed_calls: batches.failed_calls,
            fired: batches.batches,
            padded: batches.padded_units,
            useful: batches.useful_units,
            rows: Bins::from(&batches.batch_rows),
            wait: Bins::from(&batches.wait),
            run: Bins::from(&batches.execution),
            total: Bins::from(&requests.latency),
            waiting: batches.waiting_items,
            in_flight: batches.in_flight,
        }
    }
}

impl Counts {
    /// Whether these can have come from `before`: a model that was loaded again counts anew.
    pub(super) fn follow(&self, before: &Self) -> bool {
        before.good <= self.good && before.fired.iter().zip(self.fired).all(|(a, b)| *a <= b)
    }

    /// What came on top of `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let more = |count: fn(&Self) -> u64| count(self).saturating_sub(count(before));
        Self {
            good: more(|counts| counts.good),
            failed: more(|counts| counts.failed),
            cancelled: more(|counts| counts.cancelled),
            refused: more(|counts| counts.refused),
            hopeless: more(|counts| counts.hopeless),
            late: more(|counts| counts.late),
            failed_calls: more(|counts| counts.failed_calls),
            fired: std::array::from_fn(|at| self.fired[at].saturating_sub(before.fired[at])),
            padded: more(|counts| counts.padded),
            useful: more(|counts| counts.useful),
            rows: self.rows.since(&before.rows),
            wait: self.wait.since(&before.wait),
            run: self.run.since(&before.run),
            total: self.total.since(&before.total),
            waiting: self.waiting,
            in_flight: self.in_flight,
        }
    }
}

impl SpeechSight {
    pub(super) fn of(stats: SpeechStats, mut rounds: Vec<RoundSight>) -> Self {
        rounds.sort_by_key(|round| (Reverse(round.waiting), round.number));
        Self {
            open: stats.streams,
            rounds: rounds.len(),
            speaking: rounds.iter().filter(|round| round.is_active).count(),
            behind_ms: rounds.first().map_or(0, |round| millis(round.behind())),
            refused: stats.refused,
            samples: stats.samples,
            segments: stats.segments,
            failed: stats.failed,
            top: rounds.iter().take(TOP_ROUNDS).map(Round::of).collect(),
        }
    }
}

impl Round {
    fn of(round: &RoundSight) -> Self {
        Self {
            number: round.number,
            model: round.model.to_string(),
            kind: if round.is_segmented { "segmented" } else { "simple" },
            age_s: round.age.as_secs(),
            heard_ms: millis(round.heard()),
            behind_ms: millis(round.behind()),
            segments: round.segments,
            failed: round.failed,
            speaking: round.is_active,
        }
    }
}

fn is_zero<A: Default + PartialEq>(value: &A) -> bool {
    *value == A::default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::live) fn model(name: &str, counts: Counts, trouble: Option<&str>) -> ModelSample {
        let facts = Facts {
            name: name.to_owned(),
            version: 1,
            platform: "test".to_owned(),
            mode: Mode::Batch,
            instances: 1,
            max_batch: 8,
            has_adapter: false,
            trouble: trouble.map(str::to_owned),
        };
        ModelSample { facts, counts, sequence: 0 }
    }

    pub(in crate::live) fn sample(time_ms: u64, models: Vec<ModelSample>) -> Sample {
        Sample { time_ms, is_ready: true, models, ..Sample::default() }
    }

    #[test]
    fn a_thousand_rounds_are_numbers_and_the_few_that_are_furthest_behind() {
        let round = |number: u64| RoundSight {
            number,
            model: "m".into(),
            is_segmented: true,
            age: Duration::from_secs(1),
            samples: 16_000,
            waiting: usize::try_from(number % 500).unwrap() * 16,
            segments: 0,
            failed: 0,
            is_active: number.is_multiple_of(2),
        };
        let sight = SpeechSight::of(SpeechStats::default(), (0..1000).map(round).collect());

        assert_eq!((sight.rounds, sight.speaking, sight.behind_ms), (1000, 500, 499));
        assert_eq!(sight.top.len(), TOP_ROUNDS);
        let first: Vec<u64> = sight.top.iter().take(3).map(|round| round.number).collect();
        assert_eq!(first, [499, 999, 498]);
        assert_eq!(sight.top[0].heard_ms, 1000);
    }
}
