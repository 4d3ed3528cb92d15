//! Files of speech: beginnings of one recording, of different lengths. The text of each must be the
//! same every time, and no two are the same, so that whoever gets another's notices.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::{Stage, http, speech};
use crate::ledger::Outcome;

const PATH: &str = "/v1/listen?encoding=linear16&sample_rate=16000";
/// Lengths of files, in samples: some seconds, and then a little more each.
const LENGTHS: usize = 16;
const SHORTEST: usize = 40_001;
const STEP: usize = 5003;

/// What each file says, once it is known.
pub(crate) type Texts = Arc<Mutex<BTreeMap<usize, String>>>;

pub(crate) async fn ask_on_and_on(stage: Stage, texts: Texts, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while !stage.is_over() {
        let n_samples = SHORTEST + STEP * random.random_range(0..LENGTHS);
        stage.settle("transcription", ask(&stage, &texts, n_samples)).await;
    }
}

async fn ask(stage: &Stage, texts: &Texts, n_samples: usize) -> Outcome {
    let audio = speech::voice(n_samples);
    let asked =
        http::send(stage.server.http, PATH, None, "POST", bytes::Bytes::from_static(audio)).await;
    let (status, body) = match asked {
        Ok(answer) => answer,
        Err(error) => return Outcome::Cut(format!("{error:#}")),
    };
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status != 200 {
        let said = answer.to_string();
        return match status {
            429 | 503 | 504 => Outcome::Refused(said),
            _ => Outcome::Wrong(format!("{status} {said}")),
        };
    }
    let text = &answer["results"]["channels"][0]["alternatives"][0]["transcript"];
    let text = text.as_str().unwrap_or_default().to_owned();
    let mut texts = texts.lock();
    let is_others = texts.iter().any(|(&known, said)| known != n_samples && *said == text);
    let known = texts.entry(n_samples).or_insert_with(|| text.clone());
    if text.is_empty() || is_others || *known != text {
        return Outcome::Wrong(format!("{n_samples} samples said {known:?}, and say {text:?}"));
    }
    Outcome::Right
}
