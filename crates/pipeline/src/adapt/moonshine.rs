//! Speech: an audio file of one utterance in, `{"text", "duration"}` out.

use std::time::Duration;

use paceline_audio::{Bounds, Decoder, Encoding, Source};
use paceline_types::Tensor;
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
        [text] => text.byte_elements().next(),
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
    use paceline_types::DType;

    use super::*;

    #[test]
    fn what_is_no_audio_is_refused() {
        let wav = include_bytes!("../../../audio/tests/golden/jfk.wav");
        assert_eq!(decoded(wav).unwrap().len(), 176_000);
        for body in [&b""[..], b"no audio at all", &wav[..44]] {
            let error = decoded(body).unwrap_err();
            assert!(matches!(error, AdaptError::NotAudio(_)), "{error}");
        }
    }

    #[test]
    fn an_answer_says_what_was_heard_and_for_how_long() {
        let wav = include_bytes!("../../../audio/tests/golden/jfk.wav");
        let Encoded::Ask { inputs, decode } = Moonshine.encode(wav).unwrap() else {
            panic!("a model is needed")
        };
        assert_eq!(inputs[0].shape(), [1, 176_000]);
        let text = |bytes: &'static [u8]| {
            let (shape, data) = ([1, 1].as_slice().into(), bytes::Bytes::from_static(bytes));
            Tensor::build(DType::Bytes, shape, data).unwrap()
        };

        let answer = decode(&[text(b"\x02\0\0\0so")]).unwrap();
        assert_eq!(answer, json!({"text": "so", "duration": 11.0}));
        let wrong = Tensor::from_f32(&[1, 1], &[1.0]).unwrap();
        for outputs in [vec![], vec![wrong], vec![text(b"\0\0\0\0"), text(b"\0\0\0\0")]] {
            let refused = super::answer(&outputs, 1.0).unwrap_err();
            assert!(matches!(refused, AdaptError::Outputs { .. }), "{refused}");
        }
    }

    /// A file of samples of 16 bits, at the model's rate.
    fn wav(channels: u8, samples: &[i16]) -> Vec<u8> {
        let size = u32::try_from(2 * samples.len()).unwrap();
        let frame = 2 * channels;
        let mut file =
            [&b"RIFF"[..], &(size + 36).to_le_bytes(), b"WAVEfmt \x10\0\0\0\x01\0"].concat();
        file.extend([channels, 0]);
        file.extend(RATE.to_le_bytes());
        file.extend((RATE * u32::from(frame)).to_le_bytes());
        file.extend([frame, 0, 16, 0]);
        file.extend(b"data");
        file.extend(size.to_le_bytes());
        file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        file
    }

    #[test]
    fn channels_are_as_loud_as_they_are_on_average() {
        let file = wav(2, &[16_384, 0, 16_384, 8_192, 0, -16_384]);

        assert_eq!(decoded(&file).unwrap(), [0.25, 0.375, -0.25]);
    }

    #[test]
    fn what_is_longer_than_half_a_minute_is_refused() {
        let longest = vec![1; 30 * 16_000];
        assert_eq!(decoded(&wav(1, &longest)).unwrap().len(), longest.len());

        let error = decoded(&wav(1, &[longest, vec![1; 16]].concat())).unwrap_err();
        assert!(error.to_string().contains("longer than 30 s"), "{error}");
    }
}
