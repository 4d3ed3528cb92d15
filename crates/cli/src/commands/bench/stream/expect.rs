//! What is played, and when the server must have decided that somebody speaks.

use std::time::Duration;

use paceline_audio::{
    segment::{SegmentEvent, Segmenter, ValidSettings},
    silero::{Rate, Silero, StreamState},
};

const RATE: Rate = Rate::Hz16000;
/// Eleven seconds of speech: 16-bit samples, after the header of their file.
pub(crate) const SPEECH: &[u8] = {
    let file: &[u8] = include_bytes!("../../../../assets/speech.wav");
    file.split_at(44).1
};
/// What is spoken of an utterance until it is believed: its first frame, and three more.
const ONSET: u64 = 4 * 512;
/// Silence after each time it was said.
const PAUSE_SECONDS: usize = 4;

/// The audio of every stream.
pub(super) struct Tape {
    /// s16 samples.
    bytes: Vec<u8>,
    n_chunk: usize,
    chunk: Duration,
    utterances: Vec<Utterance>,
}

/// One utterance of the tape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Utterance {
    /// Seconds at which it begins, padding included.
    start: f64,
    /// The sample that decides that somebody speaks.
    decided: u64,
    /// Seconds at which its last frame that is not silent ends.
    pub(super) spoken: f64,
}

impl Utterance {
    /// Seconds at which its first frame is spoken.
    pub(super) fn onset(&self) -> f64 {
        RATE.seconds(self.decided.saturating_sub(ONSET))
    }
}

impl Tape {
    /// So many seconds of speech and silence.
    pub(super) fn new(seconds: u32, chunk_ms: u32) -> Self {
        let n_samples = seconds as usize * RATE.hertz() as usize;
        let pause = vec![0; 2 * PAUSE_SECONDS * RATE.hertz() as usize];
        let round = SPEECH.iter().chain(&pause).copied();
        let bytes: Vec<u8> = round.cycle().take(2 * n_samples).collect();
        let utterances = utterances(&bytes);
        let n_chunk = 2 * (RATE.hertz() as usize) * chunk_ms as usize / 1000;
        Self { bytes, n_chunk, chunk: Duration::from_millis(chunk_ms.into()), utterances }
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.n_chunk)
    }

    /// How long after the beginning a chunk is due: once its last sample was spoken.
    pub(super) fn due(&self, chunk: usize) -> Duration {
        self.chunk * u32::try_from(chunk + 1).unwrap_or(u32::MAX)
    }

    /// The utterance that begins at so many seconds.
    pub(super) fn utterance(&self, start: f64) -> Option<&Utterance> {
        self.utterances.iter().find(|utterance| (utterance.start - start).abs() < 1e-6)
    }

    /// When the audio was due that decides the utterance that begins at `start`.
    pub(super) fn decided(&self, start: f64) -> Option<Duration> {
        let sample = self.utterance(start)?.decided;
        Some(self.due(usize::try_from((sample - 1) * 2).ok()? / self.n_chunk))
    }

    /// How long it is until the tape begins anew.
    pub(super) fn round(&self) -> Duration {
        let n_samples = SPEECH.len() / 2 + PAUSE_SECONDS * RATE.hertz() as usize;
        Duration::from_secs_f64(RATE.seconds(n_samples as u64)).min(self.duration())
    }

    pub(super) fn n_samples(&self) -> u64 {
        self.bytes.len() as u64 / 2
    }

    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs_f64(RATE.seconds(self.n_samples()))
    }
}

/// What a server that is asked for nothing in particular finds on the tape.
fn utterances(bytes: &[u8]) -> Vec<Utterance> {
    let samples = bytes.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]]));
    let samples: Vec<f32> = samples.map(|sample| f32::from(sample) / 32768.0).collect();
    let mut segmenter = Segmenter::new(ValidSettings::default(), RATE);
    let (mut silero, mut state) = (Silero::new(RATE), StreamState::default());
    let (mut events, mut utterances) = (Vec::new(), Vec::<Utterance>::new());
    for frame in samples.chunks_exact(RATE.frame()) {
        let mut probability = [0.0];
        silero.detect(&[frame], &mut [&mut state], &mut probability);
        let n_taken = segmenter.push(frame);
        debug_assert_eq!(n_taken, frame.len(), "there is room for one frame when none waits");
        segmenter.score(probability[0], &mut events);
        let decided = segmenter.scored();
        for event in events.drain(..) {
            if let SegmentEvent::SpeechStart { start } = event {
                utterances.push(Utterance { start: RATE.seconds(start), decided, spoken: 0.0 });
            }
        }
        if let Some(last) = utterances.last_mut().filter(|_| segmenter.is_speaking()) {
            last.spoken = RATE.seconds(decided - segmenter.silence());
        }
    }
    utterances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tape_speaks_and_every_utterance_is_decided_after_it_begins_and_before_it_ends() {
        let tape = Tape::new(20, 100);

        assert_eq!(tape.n_samples(), 320_000);
        assert_eq!(tape.chunks().map(<[u8]>::len).sum::<usize>(), 640_000);
        assert!(3 <= tape.utterances.len(), "{:?}", tape.utterances);
        let mut before = 0.0;
        for &Utterance { start, decided, spoken } in &tape.utterances {
            let decided = RATE.seconds(decided);
            assert!(before <= start && start < decided && decided <= spoken, "{start} {spoken}");
            assert!(decided <= tape.decided(start).unwrap().as_secs_f64());
            before = spoken;
        }
        assert_eq!(tape.decided(123.0), None);
    }
}
