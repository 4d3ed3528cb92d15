//! What is sent: everything, or what changed between two readings. Pure.

use bytes::Bytes;
use serde::Serialize;

use super::{
    CameraSight,
    batches::Landed,
    faults::Fault,
    sample::{Counts, Facts, ModelSample, Sample, SpeechSight},
};

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot<'a> {
    pub(super) number: u64,
    pub(super) server: &'static str,
    pub(super) began_ms: u64,
    pub(super) time_ms: u64,
    pub(super) is_ready: bool,
    pub(super) period_ms: u64,
    pub(super) models: Vec<Whole<'a>>,
    pub(super) speech: &'a SpeechSight,
    pub(super) cameras: Option<&'a CameraSight>,
    pub(super) faults: Vec<&'a Fault>,
    /// The last of them.
    pub(super) batches: Vec<Landed>,
}

/// A model, with everything about it.
#[derive(Debug, Serialize)]
pub(super) struct Whole<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    counts: &'a Counts,
}

impl<'a> From<&'a ModelSample> for Whole<'a> {
    fn from(model: &'a ModelSample) -> Self {
        Self { facts: &model.facts, counts: &model.counts }
    }
}

/// What changed. What is not there has not.
#[derive(Debug, Serialize)]
pub(super) struct Tick<'a> {
    pub(super) number: u64,
    pub(super) time_ms: u64,
    /// Over how long it changed.
    pub(super) took_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) models: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speech: Option<&'a SpeechSight>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cameras: Option<&'a CameraSight>,
    /// New ones, and those of which there is more to say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) faults: Vec<&'a Fault>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) batches: &'a [Landed],
}

/// What a model did since.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    /// Which of the last snapshot's models.
    at: usize,
    /// What is counted came on top; what waits and is under way is as it is now.
    counts: Counts,
}

/// Whether so little changed that a tick can say it: same models, same standing.
pub(super) fn can_tick(before: &Sample, now: &Sample) -> bool {
    let same = |(before, now): (&ModelSample, &ModelSample)| {
        before.facts == now.facts && now.counts.follow(&before.counts)
    };
    before.is_ready == now.is_ready
        && before.models.len() == now.models.len()
        && before.models.iter().zip(&now.models).all(same)
}

/// What changed from one reading to the next.
pub(super) fn tick<'a>(
    number: u64,
    before: &Sample,
    now: &'a Sample,
    faults: Vec<&'a Fault>,
) -> Tick<'a> {
    let changes = before.models.iter().zip(&now.models).enumerate();
    Tick {
        number,
        time_ms: now.time_ms,
        took_ms: now.time_ms.saturating_sub(before.time_ms),
        models: changes
            .filter(|(_, (before, now))| before.counts != now.counts)
            .map(|(at, (before, now))| Change { at, counts: now.counts.since(&before.counts) })
            .collect(),
        speech: (before.speech != now.speech).then_some(&now.speech),
        cameras: now.cameras.as_ref().filter(|_| before.cameras != now.cameras),
        faults,
        batches: &now.batches,
    }
}

/// As it goes over the wire. Made once, whoever reads it.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    // What is sent are numbers and strings; writing them cannot fail.
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
