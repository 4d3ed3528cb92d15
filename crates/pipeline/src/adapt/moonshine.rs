//! Speech: an audio file of one utterance in, `{"text", "duration"}` out.

use std::time::Duration;

use paceline_audio::{Bounds, Decoder, Encoding, Source};
use paceline_types::{DType, Tensor};
use serde_json::{Value, json};

use super::{AdaptError, Adapter, Encoded};

/// Samples a second that the model takes.
const RATE: u32 = 16_000;
/// The longest utterance that it understands.
const LONGEST: Duration = Duration::from_secs(30);

/// The adapter `moonshine`. The file is WAV, FLAC, MP3, AAC, M4A, Ogg or Matroska, of any rate and up
/// to half a minute; channels are mixed. Longer audio is for the speech endpoints, which find the
/// utterances in it.
#[derive(Debug, Default)]
pub struct Moonshine;

impl Adapter for Moonshine {
    fn encode(&self, body: &[u8]) -> Result<Encoded, AdaptError> {
        let samples = decoded(body)?;
        let duration =
            f64::from(u32::try_from(samples.len()).unwrap_or(u32::MAX)) / f64::from(RATE);
        Ok(Encoded::Ask {
            inputs: vec![Tensor::from_f32(&[1, samples.len()], &samples)?],
            decode: Box::new(move |outputs| answer(outputs, duration)),
        })
    }
}

/// The samples of a file, its channels mixed.
fn decoded(body: &[u8]) -> Result<Vec<f32>, AdaptError> {
    let bounds = Bounds { max_duration: LONGEST, ..Bounds::default() };
    let wrong = |error: paceline_audio::DecodeError| AdaptError::NotAudio(error.to_string());
    let mut decoder =
        Decoder::new(Source::container(Encoding::Auto), RATE, &bounds).map_err(wrong)?;
    let mut mixed: Vec<f32> = Vec::new();
    let mut mix = |planes: &[&[f32]]| {
        #[expect(clippy::cast_precision_loss, reason = "few channels")]
        let share = 1.0 / planes.len() as f32;
        let n_frames = planes.first().map_or(0, |plane| plane.len());
        let frame = |at: usize| planes.iter().map(|plane| plane[at]).sum::<f32>() * share;
        mixed.extend((0..n_frames).map(frame));
    };
    decoder.push(body, &mut mix).map_err(wrong)?;
    decoder.finish(&mut mix).map_err(wrong)?;
    if mixed.is_empty() {
        return Err(AdaptError::NotAudio("there is no sound in it".to_owned()));
    }
    Ok(mixed)
}

fn answer(outputs: &[Tensor], duration: f64) -> Result<Value, AdaptError> {
    let text = match outputs {
        [text] if text.dtype() == DType::Bytes => text.byte_elements().next(),
        _ => None,
    };
    let text = text.ok_or_else(|| AdaptError::Outputs {
        expected: "one BYTES element",
        actual: format!("{} outputs", outputs.len()),
    })?;
    Ok(json!({ "text": String::from_utf8_lossy(text), "duration": duration }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_mixed_and_what_is_no_audio_is_refused() {
        let wav = include_bytes!("../../../audio/tests/golden/jfk.wav");
        assert_eq!(decoded(wav).unwrap().len(), 176_000);
        for body in [&b""[..], b"no audio at all", &wav[..44]] {
            let error = decoded(body).unwrap_err();
            assert!(matches!(error, AdaptError::NotAudio(_)), "{error}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let wav = include_bytes!("../../../audio/tests/golden/jfk.wav");
        let mut long = wav[..44].to_vec();
        (0..3).for_each(|_| long.extend_from_slice(&wav[44..]));
        // The header says less than there is; some writers leave it open.
        long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        long[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = decoded(&long).unwrap_err();
        assert!(matches!(error, AdaptError::NotAudio(_)), "{error}");
    }
}
