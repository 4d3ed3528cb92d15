//! What streams of speech did, stage by stage.

use paceline_batch::Stats;
use paceline_pipeline::{
    VoiceDetector,
    speech::{RATE, Speech, SpeechStats, Stage},
};

use super::{
    page::{Page, Scale},
    table as t,
};

pub(super) fn write(page: &mut Page, speech: &Speech, voices: &VoiceDetector) {
    let stats = speech.stats();
    page.family(&t::STREAMS).size(&[], stats.streams);
    page.family(&t::STREAMS_LIMIT).size(&[], speech.settings().limits.max_streams);
    page.family(&t::STREAMS_REFUSED).count(&[], stats.refused);
    page.family(&t::ROUNDS).count(&[], stats.rounds);
    let mut series = page.family(&t::SEGMENTS);
    series.count(&["good"], stats.segments);
    series.count(&["failed"], stats.failed);
    series.count(&["superseded"], stats.superseded);
    series.count(&["cancelled"], stats.cancelled);

    let mut vad = Stats::default();
    voices.stats().iter().for_each(|shard| vad.merge(shard));
    let stages = stages(&stats, &vad);
    let mut series = page.family(&t::STAGE_BUSY);
    for (name, stage) in &stages {
        series.value(&[name], stage.busy_seconds());
    }
    let mut series = page.family(&t::STAGE_AUDIO);
    for (name, stage) in &stages {
        series.value(&[name], audio_seconds(stage));
    }
    let mut series = page.family(&t::STAGE_FACTOR);
    for (name, stage) in &stages {
        if 0 < stage.samples {
            series.value(&[name], stage.busy_seconds() / audio_seconds(stage));
        }
    }
    page.family(&t::VAD_WAIT).histogram(&[], &vad.wait, &Scale::SECONDS);
    page.family(&t::VAD_CALL).histogram(&[], &vad.execution, &Scale::SECONDS);
    page.family(&t::VAD_STREAMS).histogram(&[], &vad.batch_rows, &Scale::ROWS);
}

fn stages(stats: &SpeechStats, vad: &Stats) -> [(&'static str, Stage); 3] {
    let vad = Stage {
        nanos: u64::try_from(vad.execution.sum()).unwrap_or(u64::MAX),
        samples: stats.judged,
    };
    [("decode", stats.decode), ("vad", vad), ("model", stats.model)]
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
fn audio_seconds(stage: &Stage) -> f64 {
    stage.samples as f64 / f64::from(RATE.hertz())
}
