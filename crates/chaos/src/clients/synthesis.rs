//! Texts to be spoken by a pair of models whose sound says of every sample which voice and token it
//! is: every sample must be that of this text in this voice, at its place.

use paceline_backend::simulated::speech::{Mark, TOKEN_SAMPLES, token};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{Stage, http};
use crate::ledger::Outcome;

/// What the pair takes where the client says nothing.
const STEPS: u8 = 5;

pub(crate) async fn ask_on_and_on(stage: Stage, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while !stage.is_over() {
        let length = random.random_range(1..60);
        let text: String = (0..length).map(|_| random.random_range('a'..='z')).collect();
        let voice = random.random_range(1..=2);
        stage.settle("synthesis", ask(&stage, &text, voice)).await;
    }
}

async fn ask(stage: &Stage, text: &str, voice: u8) -> Outcome {
    let name = if voice == 1 { "a" } else { "b" };
    let path = format!("/tts?text={text}&voice={name}&format=pcm");
    let asked = http::send(stage.server.http, &path, None, "GET", bytes::Bytes::new()).await;
    match asked {
        Err(error) => Outcome::Cut(format!("{error:#}")),
        Ok((200, sound)) => judge(text, voice, &sound),
        Ok((status, said)) => http::refusal(status, &said),
    }
}

fn judge(text: &str, voice: u8, sound: &[u8]) -> Outcome {
    let right = marks(text.as_bytes(), voice).map(|mark| {
        let sample = (mark.sample() * 32_767.0).round();
        #[expect(clippy::cast_possible_truncation, reason = "from 0 to 32767")]
        let sample = sample as i16;
        sample
    });
    let heard = sound.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]]));
    let n_samples = text.len() * TOKEN_SAMPLES;
    if sound.len() != n_samples * 2 {
        return Outcome::Wrong(format!("{} bytes of sound for {n_samples} samples", sound.len()));
    }
    match heard.zip(right).position(|(heard, right)| heard != right) {
        Some(at) => Outcome::Wrong(format!("sample {at} of {text:?} is of something else")),
        None => Outcome::Right,
    }
}

/// What every sample of a text must say.
fn marks(text: &[u8], voice: u8) -> impl Iterator<Item = Mark> {
    let token_at = |at: usize| token(text[at], at);
    (0..text.len() * TOKEN_SAMPLES).map(move |sample| {
        let (at, place) = (sample / TOKEN_SAMPLES, sample % TOKEN_SAMPLES);
        let token = match (place, at) {
            (0, 0) => 0,
            (0, _) => token_at(at - 1),
            _ => token_at(at),
        };
        let is_end = sample + 1 == text.len() * TOKEN_SAMPLES;
        let place = if is_end { 1023 } else { u16::try_from(place).unwrap_or(0) };
        Mark { voice, steps: STEPS, token, place }
    })
}
