//! Samples to bytes, as a stream: for sound that leaves before its end is known.

mod flac;
mod g711;
mod ogg;

use crate::{Resampler, encode::flac::Flac, encode::ogg::OggOpus};

/// What sound is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// Signed 16-bit little-endian samples, bare.
    Pcm,
    /// The same in a WAV of unknown length.
    Wav,
    /// G.711 mu-law, bare.
    Mulaw,
    /// G.711 A-law, bare.
    Alaw,
    /// FLAC of unknown length.
    Flac,
    /// Opus in Ogg.
    Ogg,
}

impl Container {
    /// Every one, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Wav, Self::Pcm, Self::Flac, Self::Ogg, Self::Mulaw, Self::Alaw];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pcm => "pcm",
            Self::Wav => "wav",
            Self::Mulaw => "mulaw",
            Self::Alaw => "alaw",
            Self::Flac => "flac",
            Self::Ogg => "opus",
        }
    }
}

/// Sound that cannot be sent so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rate} Hz cannot be sent; 4000 to 192000 can")]
pub struct EncodeError {
    rate: u32,
}

/// One stream of mono sound on its way out.
#[derive(Debug)]
pub struct Encoder {
    resampler: Option<Resampler>,
    sink: Sink,
    has_begun: bool,
    rate: u32,
}

#[derive(Debug)]
enum Sink {
    Pcm,
    Wav,
    Mulaw,
    Alaw,
    Flac(Flac),
    Ogg(Box<OggOpus>),
}

impl Encoder {
    /// For sound of `rate_in`, sent as `container` at `rate_out`, or at its own rate where that is
    /// left out. Opus is always sent at 48 kHz.
    ///
    /// # Errors
    ///
    /// When there is no such rate.
    pub fn new(
        container: Container,
        rate_in: u32,
        rate_out: Option<u32>,
    ) -> Result<Self, EncodeError> {
        let rate = match container {
            Container::Ogg => 48_000,
            _ => rate_out.unwrap_or(rate_in),
        };
        if !(4_000..=192_000).contains(&rate) || !(4_000..=192_000).contains(&rate_in) {
            return Err(EncodeError { rate });
        }
        let sink = match container {
            Container::Pcm => Sink::Pcm,
            Container::Wav => Sink::Wav,
            Container::Mulaw => Sink::Mulaw,
            Container::Alaw => Sink::Alaw,
            Container::Flac => Sink::Flac(Flac::new(rate)),
            Container::Ogg => Sink::Ogg(Box::new(OggOpus::new().ok_or(EncodeError { rate })?)),
        };
        let resampler = (rate != rate_in).then(|| Resampler::new(rate_in, rate, 1));
        Ok(Self { resampler, sink, has_begun: false, rate })
    }

    /// Samples in a second of what is sent.
    #[must_use]
    pub const fn rate(&self) -> u32 {
        self.rate
    }

    /// Takes samples and gives the bytes that they settle.
    pub fn push(&mut self, samples: &[f32]) -> Vec<u8> {
        let mut bytes = self.begin();
        match &mut self.resampler {
            None => self.sink.write(samples, &mut bytes),
            Some(resampler) => {
                let mut planes: Vec<Vec<f32>> = Vec::new();
                resampler.push(&[samples], &mut planes);
                for plane in &planes {
                    self.sink.write(plane, &mut bytes);
                }
            }
        }
        bytes
    }

    /// Gives the rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut bytes = self.begin();
        if let Some(resampler) = &mut self.resampler {
            let mut planes: Vec<Vec<f32>> = Vec::new();
            resampler.finish(&mut planes);
            for plane in &planes {
                self.sink.write(plane, &mut bytes);
            }
        }
        match &mut self.sink {
            Sink::Flac(flac) => flac.finish(&mut bytes),
            Sink::Ogg(ogg) => ogg.finish(&mut bytes),
            Sink::Pcm | Sink::Wav | Sink::Mulaw | Sink::Alaw => {}
        }
        bytes
    }

    fn begin(&mut self) -> Vec<u8> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Vec::new();
        }
        match &self.sink {
            Sink::Wav => wav_header(self.rate).to_vec(),
            Sink::Flac(flac) => flac.header(),
            Sink::Ogg(_) => ogg::headers(),
            Sink::Pcm | Sink::Mulaw | Sink::Alaw => Vec::new(),
        }
    }
}

impl Sink {
    fn write(&mut self, samples: &[f32], bytes: &mut Vec<u8>) {
        match self {
            Self::Pcm | Self::Wav => {
                bytes.extend(samples.iter().flat_map(|sample| to_i16(*sample).to_le_bytes()));
            }
            Self::Mulaw => bytes.extend(samples.iter().map(|sample| g711::mulaw(to_i16(*sample)))),
            Self::Alaw => bytes.extend(samples.iter().map(|sample| g711::alaw(to_i16(*sample)))),
            Self::Flac(flac) => flac.push(samples, bytes),
            Self::Ogg(ogg) => ogg.push(samples, bytes),
        }
    }
}

/// 44 bytes that announce mono 16-bit samples and say by the largest sizes that nobody knows yet
/// how many.
#[must_use]
pub fn wav_header(rate: u32) -> [u8; 44] {
    let mut header = [0; 44];
    let mut at = 0;
    let parts: [&[u8]; 13] = [
        b"RIFF",
        &u32::MAX.to_le_bytes(),
        b"WAVE",
        b"fmt ",
        &16_u32.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &rate.to_le_bytes(),
        &(rate * 2).to_le_bytes(),
        &2_u16.to_le_bytes(),
        &16_u16.to_le_bytes(),
        b"data",
        &u32::MAX.to_le_bytes(),
    ];
    for part in parts {
        header[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    header
}

/// What is no number is silence; what is too loud is as loud as can be.
#[expect(clippy::cast_possible_truncation, reason = "clamped")]
pub(crate) fn to_i16(sample: f32) -> i16 {
    let sample = if sample.is_finite() { sample } else { 0.0 };
    (sample.clamp(-1.0, 1.0) * 32767.0).round() as i16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, Decoder, Encoding, Source};

    fn tone(n: usize, rate: f32) -> Vec<f32> {
        (0..n).map(|at| 0.5 * (at as f32 * 440.0 * std::f32::consts::TAU / rate).sin()).collect()
    }

    fn sent(container: Container, sound: &[f32], chunk: usize, rate: Option<u32>) -> Vec<u8> {
        let mut encoder = Encoder::new(container, 16_000, rate).unwrap();
        let mut bytes: Vec<u8> = sound.chunks(chunk).flat_map(|part| encoder.push(part)).collect();
        bytes.extend(encoder.finish());
        bytes
    }

    fn heard(bytes: &[u8], source: Source) -> Vec<f32> {
        let mut decoder = Decoder::new(source, 16_000, &Bounds::default()).unwrap();
        let mut planes: Vec<Vec<f32>> = Vec::new();
        decoder.push(bytes, &mut planes).unwrap();
        decoder.finish(&mut planes).unwrap();
        planes.swap_remove(0)
    }

    fn source(container: Container) -> Source {
        match container {
            Container::Pcm => Source::raw(Encoding::S16le, 16_000, 1),
            Container::Mulaw => Source::raw(Encoding::Mulaw, 16_000, 1),
            Container::Alaw => Source::raw(Encoding::Alaw, 16_000, 1),
            _ => Source::container(Encoding::Auto),
        }
    }

    #[test]
    fn our_own_decoders_hear_what_was_sent_whatever_it_was_cut_into() {
        let sound = tone(20_000, 16_000.0);
        for (container, loss) in [
            (Container::Pcm, 1e-4),
            (Container::Wav, 1e-4),
            (Container::Flac, 1e-4),
            (Container::Mulaw, 0.03),
            (Container::Alaw, 0.03),
        ] {
            let whole = sent(container, &sound, 20_000, None);
            assert_eq!(whole, sent(container, &sound, 777, None), "{container:?}");
            let heard = heard(&whole, source(container));
            assert_eq!(heard.len(), sound.len(), "{container:?}");
            let worst = heard.iter().zip(&sound).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < loss, "{container:?}: {worst}");
        }
    }

    #[test]
    fn flac_is_smaller_than_its_samples() {
        let sound = tone(20_000, 16_000.0);
        let flac = sent(Container::Flac, &sound, 9600, None).len();
        assert!(flac < 32_000, "{flac} of 40000 bytes");
    }

    #[test]
    fn opus_sounds_alike_and_is_as_long() {
        let sound = tone(32_000, 16_000.0);
        let bytes = sent(Container::Ogg, &sound, 9600, None);
        assert!(bytes.len() < 16_000, "{} bytes for two seconds", bytes.len());
        let heard = heard(&bytes, source(Container::Ogg));
        assert!(heard.len().abs_diff(sound.len()) < 400, "{} of {}", heard.len(), sound.len());
        let (mut same, mut own) = (0.0, 0.0);
        for (a, b) in heard[4000..28_000].iter().zip(&sound[4000..28_000]) {
            same += f64::from(a * b);
            own += f64::from(b * b);
        }
        assert!(same / own > 0.8, "{}", same / own);
    }

    #[test]
    fn other_rates_last_as_long_and_what_is_no_number_is_silence() {
        for (rate, n_samples) in [(8000, 8000), (24_000, 24_000), (48_000, 48_000)] {
            let bytes = sent(Container::Pcm, &tone(16_000, 16_000.0), 333, Some(rate));
            assert_eq!(bytes.len(), n_samples * 2);
        }
        assert_eq!(sent(Container::Pcm, &[f32::NAN, 9.0, -9.0], 3, None), [0, 0, 255, 127, 1, 128]);
        assert!(Encoder::new(Container::Wav, 16_000, Some(1)).is_err());
    }

    #[test]
    fn a_wav_of_unknown_length_has_forty_four_bytes_before_its_samples() {
        let header = wav_header(24_000);
        assert_eq!(header[4..8], [255; 4]);
        assert_eq!(header[40..44], [255; 4]);
        assert_eq!(header[24..28], 24_000_u32.to_le_bytes());
    }
}
