//! Raw samples, bare or in a WAV.

use crate::{DecodeError, Encoding, Format};

use super::window::{Container, Step, To};

/// Frames turned into planes at once.
const BLOCK_FRAMES: usize = 1024;

/// How one sample is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    U8,
    S16,
    S24,
    S32,
    F32,
    F64,
    Mulaw,
    Alaw,
}

impl Sample {
    pub(super) fn of(encoding: Encoding) -> Option<Self> {
        match encoding {
            Encoding::S16le => Some(Self::S16),
            Encoding::S24le => Some(Self::S24),
            Encoding::S32le => Some(Self::S32),
            Encoding::F32le => Some(Self::F32),
            Encoding::Mulaw => Some(Self::Mulaw),
            Encoding::Alaw => Some(Self::Alaw),
            _ => None,
        }
    }

    pub(super) const fn n_bytes(self) -> usize {
        match self {
            Self::U8 | Self::Mulaw | Self::Alaw => 1,
            Self::S16 => 2,
            Self::S24 => 3,
            Self::S32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "samples become f32, whatever they were"
    )]
    fn read(self, bytes: &[u8], plane: &mut Vec<f32>, channel: usize, n_channels: usize) {
        /// Samples of one channel through one function: the match is outside the loop.
        fn each<const N: usize>(
            bytes: &[u8],
            plane: &mut Vec<f32>,
            (channel, n_channels): (usize, usize),
            value: impl Fn([u8; N]) -> f32,
        ) {
            let samples = bytes.as_chunks::<N>().0.iter().skip(channel).step_by(n_channels);
            plane.extend(samples.map(|bytes| value(*bytes)));
        }
        let of = (channel, n_channels);
        match self {
            Self::U8 => each(bytes, plane, of, |[a]| (f32::from(a) - 128.0) / 128.0),
            Self::S16 => each(bytes, plane, of, |b| from_s16(i16::from_le_bytes(b))),
            Self::S24 => each(bytes, plane, of, |[a, b, c]| {
                i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0
            }),
            Self::S32 => {
                each(bytes, plane, of, |b| i32::from_le_bytes(b) as f32 / 2_147_483_648.0);
            }
            Self::F32 => each(bytes, plane, of, |b| tamed(f32::from_le_bytes(b))),
            Self::F64 => each(bytes, plane, of, |b| tamed(f64::from_le_bytes(b) as f32)),
            Self::Mulaw => each(bytes, plane, of, |[a]| mulaw(a)),
            Self::Alaw => each(bytes, plane, of, |[a]| alaw(a)),
        }
    }
}

/// A 16-bit sample as a number from -1 up to, but not including, 1.
pub(super) fn from_s16(sample: i16) -> f32 {
    f32::from(sample) / 32_768.0
}

/// A sample that was a float already: what is no number is silence, what is too loud is cut.
pub(super) fn tamed(sample: f32) -> f32 {
    if sample.is_finite() { sample.clamp(-1.0, 1.0) } else { 0.0 }
}

/// G.711 mu-law: sign, three bits of exponent, four of mantissa, all inverted, with a bias of 33.
fn mulaw(byte: u8) -> f32 {
    let byte = !byte;
    let magnitude = ((i16::from(byte & 0x0f) << 3) + 0x84) << ((byte >> 4) & 7);
    let magnitude = magnitude - 0x84;
    from_s16(if byte & 0x80 == 0 { magnitude } else { -magnitude })
}

/// G.711 A-law: the same idea with every other bit inverted, and no bias in the lowest segment.
fn alaw(byte: u8) -> f32 {
    let byte = byte ^ 0x55;
    let mantissa = (i16::from(byte & 0x0f) << 4) + 8;
    let magnitude = match (byte >> 4) & 7 {
        0 => mantissa,
        exponent => (mantissa + 0x100) << (exponent - 1),
    };
    from_s16(if byte & 0x80 == 0 { -magnitude } else { magnitude })
}

/// Turns interleaved samples into planes.
#[derive(Debug)]
pub(super) struct Pcm {
    sample: Sample,
    planes: Vec<Vec<f32>>,
    frame_bytes: usize,
}

impl Pcm {
    pub(super) fn new(sample: Sample, format: Format) -> Self {
        let planes = vec![Vec::new(); usize::from(format.channels)];
        let frame_bytes = sample.n_bytes() * planes.len();
        Self { sample, planes, frame_bytes }
    }

    /// Takes the whole frames at the start of `bytes`; returns how many bytes they were.
    pub(super) fn take(&mut self, bytes: &[u8], to: &mut To<'_>) -> Result<usize, DecodeError> {
        let n_frames = (bytes.len() / self.frame_bytes).min(BLOCK_FRAMES);
        if n_frames == 0 {
            return Ok(0);
        }
        let (taken, n_channels) = (n_frames * self.frame_bytes, self.planes.len());
        for (channel, plane) in self.planes.iter_mut().enumerate() {
            plane.clear();
            self.sample.read(&bytes[..taken], plane, channel, n_channels);
        }
        let planes: Vec<&[f32]> = self.planes.iter().map(Vec::as_slice).collect();
        to.output.take(&planes, to.sink)?;
        Ok(taken)
    }
}

impl Container for Pcm {
    fn step(&mut self, bytes: &[u8], _: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        match self.take(bytes, to)? {
            0 => Ok(Step::Wait),
            taken => Ok(Step::Took(taken as u64)),
        }
    }

    fn longest(&self) -> usize {
        self.frame_bytes * BLOCK_FRAMES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(sample: Sample, bytes: &[u8]) -> f32 {
        let mut plane = Vec::new();
        sample.read(bytes, &mut plane, 0, 1);
        plane[0]
    }

    #[test]
    fn full_scale_is_within_one() {
        assert_eq!(one(Sample::S16, &i16::MIN.to_le_bytes()), -1.0);
        assert_eq!(one(Sample::S16, &i16::MAX.to_le_bytes()), 32_767.0 / 32_768.0);
        assert_eq!(one(Sample::S24, &[0, 0, 0x80]), -1.0);
        assert!(one(Sample::S24, &[0xff, 0xff, 0x7f]) < 1.0);
        assert_eq!(one(Sample::S32, &i32::MIN.to_le_bytes()), -1.0);
        assert!(one(Sample::S32, &i32::MAX.to_le_bytes()) <= 1.0);
        assert_eq!(one(Sample::U8, &[0]), -1.0);
        assert_eq!(one(Sample::U8, &[128]), 0.0);
        for wild in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(one(Sample::F32, &wild.to_le_bytes()), 0.0);
        }
        assert_eq!(one(Sample::F32, &7.0_f32.to_le_bytes()), 1.0);
        assert_eq!(one(Sample::F64, &(-7.0_f64).to_le_bytes()), -1.0);
    }

    #[test]
    fn companded_samples_are_those_of_the_standard() {
        // Values of the G.711 decoding tables, scaled to 16 bits.
        for (byte, value) in [(0x00, -32_124), (0x80, 32_124), (0xff, 0), (0x7f, 0), (0xf0, 120)] {
            assert_eq!(one(Sample::Mulaw, &[byte]), from_s16(value), "mu-law {byte:#x}");
        }
        for (byte, value) in [(0x55, -8), (0xd5, 8), (0x2a, -32_256), (0xaa, 32_256), (0x80, 5504)]
        {
            assert_eq!(one(Sample::Alaw, &[byte]), from_s16(value), "A-law {byte:#x}");
        }
    }
}
