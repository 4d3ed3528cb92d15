//! What became of text that was to be spoken.

use paceline_pipeline::synthesis::Synthesis;

use super::{
    page::{Page, Scale},
    table as t,
};

pub(super) fn write(page: &mut Page, synthesis: &Synthesis) {
    let stats = synthesis.stats();
    page.family(&t::LISTENERS).size(&[], stats.listening);
    let mut series = page.family(&t::SPOKEN);
    series.count(&["good"], stats.finished);
    series.count(&["failed"], stats.failed);
    series.count(&["cancelled"], stats.cancelled);
    series.count(&["refused"], stats.refused);
    page.family(&t::SOUND).value(&[], stats.sound.as_secs_f64());
    page.family(&t::FIRST_TOKEN).histogram(&[], &stats.first_token, &Scale::SECONDS);
    page.family(&t::FIRST_CHUNK).histogram(&[], &stats.first_chunk, &Scale::SECONDS);
    page.family(&t::CHUNK).histogram(&[], &stats.chunk_latency, &Scale::SECONDS);
    page.family(&t::SPEECH_FACTOR).histogram(&[], &stats.real_time_factor, &Scale::RATIO);
    page.family(&t::GAPS).count(&[], stats.gaps);
}
