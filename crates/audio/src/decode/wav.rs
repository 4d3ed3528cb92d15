//! WAV, as real files are: extensible headers, chunks in any order and of odd sizes, sizes that a
//! program writing to a pipe could not know, ends that are cut off.

use crate::{DecodeError, Format};

use super::{
    pcm::{Pcm, Sample},
    window::{Container, Step, To},
};

/// A `fmt ` chunk is 16, 18 or 40 bytes; what claims more is not one.
const LONGEST_FORMAT: usize = 1024;

/// Reads a RIFF WAVE (or RF64) stream.
#[derive(Debug, Default)]
pub(super) struct Wav {
    state: State,
    pcm: Option<Pcm>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Riff,
    /// Between chunks.
    Chunk,
    /// In the samples: so many bytes are left, or as many as come.
    Data(Option<u64>),
    /// After the samples: nothing more is audio.
    Over,
}

impl Container for Wav {
    fn step(&mut self, bytes: &[u8], at_end: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        match self.state {
            State::Riff => {
                let Some(header) = bytes.first_chunk::<12>() else { return Ok(Step::Wait) };
                if !matches!(&header[..4], b"RIFF" | b"RF64" | b"BW64") || &header[8..] != b"WAVE" {
                    return Err(to.malformed("it does not begin with RIFF and WAVE"));
                }
                self.state = State::Chunk;
                to.pass(12)
            }
            State::Chunk => self.chunk(bytes, at_end, to),
            State::Data(left) => {
                let pcm = self.pcm.as_mut().ok_or_else(|| to.malformed("data before format"))?;
                let most = left.map_or(bytes.len(), |left| {
                    usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()))
                });
                let taken = pcm.take(&bytes[..most], to)? as u64;
                if taken == 0 && left.is_some_and(|left| left <= bytes.len() as u64) {
                    // Less than a frame is left of a chunk that ends here.
                    self.state = State::Over;
                    return Ok(Step::Took(left.unwrap_or(0)));
                }
                self.state = State::Data(left.map(|left| left - taken));
                Ok(if taken == 0 { Step::Wait } else { Step::Took(taken) })
            }
            State::Over => Ok(Step::Took(bytes.len() as u64)),
        }
    }

    fn longest(&self) -> usize {
        self.pcm.as_ref().map_or(LONGEST_FORMAT + 8, |pcm| pcm.longest().max(LONGEST_FORMAT + 8))
    }
}

impl Wav {
    fn chunk(&mut self, bytes: &[u8], at_end: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        let Some(&[a, b, c, d, size @ ..]) = bytes.first_chunk::<8>() else {
            return Ok(Step::Wait);
        };
        let size = u32::from_le_bytes(size);
        match &[a, b, c, d] {
            b"data" => {
                if self.pcm.is_none() {
                    return Err(to.malformed("the samples come before the format chunk"));
                }
                // Who writes to a pipe cannot know the size and leaves 0 or the greatest number
                // (RF64 does the latter on purpose): then the samples go on to the end.
                let unknown = size == 0 || size >= u32::MAX - 0x200;
                self.state = State::Data((!unknown).then_some(u64::from(size)));
                to.pass(8)
            }
            b"fmt " => {
                let n_bytes = size as usize;
                if !(16..=LONGEST_FORMAT).contains(&n_bytes) {
                    return Err(to.malformed("its format chunk is of no known size"));
                }
                let Some(chunk) = bytes.get(8..8 + n_bytes) else { return Ok(Step::Wait) };
                let (sample, format) = read_format(chunk, to)?;
                to.output.open(format)?;
                self.pcm = Some(Pcm::new(sample, format));
                to.pass(8 + n_bytes as u64 + u64::from(size % 2))
            }
            _ if at_end && self.pcm.is_none() => Ok(Step::Wait),
            // Chunks are padded to an even size.
            _ => to.pass(8 + u64::from(size) + u64::from(size % 2)),
        }
    }
}

fn read_format(chunk: &[u8], to: &To<'_>) -> Result<(Sample, Format), DecodeError> {
    let u16_at = |at: usize| u16::from_le_bytes([chunk[at], chunk[at + 1]]);
    let (channels, block, bits) = (u16_at(2), u16_at(12), u16_at(14));
    let rate = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
    let tag = match u16_at(0) {
        // Extensible: the tag is the start of a GUID.
        0xfffe if chunk.len() >= 26 => u16_at(24),
        0xfffe => return Err(to.malformed("its extensible format chunk is too short")),
        tag => tag,
    };
    let sample = match (tag, bits) {
        (1, 1..=8) => Sample::U8,
        (1, 9..=16) => Sample::S16,
        (1, 17..=24) => Sample::S24,
        (1, 25..=32) => Sample::S32,
        (3, 32) => Sample::F32,
        (3, 64) => Sample::F64,
        (6, _) => Sample::Alaw,
        (7, _) => Sample::Mulaw,
        (1 | 3, _) => return Err(to.unsupported("samples of this many bits")),
        _ => return Err(to.unsupported("a codec other than PCM, float, mu-law and A-law")),
    };
    if usize::from(block) != sample.n_bytes() * usize::from(channels) {
        return Err(to.malformed("its block size is not that of its samples"));
    }
    Ok((sample, Format { rate, channels }))
}
