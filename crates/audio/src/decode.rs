//! The decoder: bytes in any chunking to planar samples at one rate.

mod pcm;

use crate::{Bounds, Cost, DecodeError, Format, Sink, Source};

use pcm::Pcm;

/// Decodes one stream.
///
/// Bytes may come in any chunking: the samples are the same, bit for bit. After an error the
/// decoder takes no more.
#[derive(Debug)]
pub struct Decoder {
    pcm: Pcm,
    cost: Cost,
    over: bool,
}

/// What became of a stream that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ending {
    /// Frames given to the sink, at the rate that was asked for.
    pub frames: u64,
    /// Packets that could not be decoded; silence of the same length stands in for each.
    pub damaged: u64,
    /// Bytes at the end that made no whole sample or packet.
    pub left_over: u64,
}

impl Decoder {
    /// A decoder of `source` that gives samples at `rate`. Costs next to nothing until bytes come.
    ///
    /// # Errors
    /// If `source` is out of `bounds`, or raw without saying its rate and channels.
    pub fn new(source: Source, rate: u32, bounds: &Bounds) -> Result<Self, DecodeError> {
        let encoding = source.encoding;
        let format = source.format.ok_or(DecodeError::FormatMissing { encoding })?;
        let format = format.within(bounds)?;
        if format.rate != rate || !encoding.is_raw() {
            return Err(DecodeError::Unsupported { encoding, what: "not decoded yet" });
        }
        Ok(Self { pcm: Pcm::new(encoding, format), cost: encoding.cost(), over: false })
    }

    /// Decodes `bytes`, which may begin and end anywhere.
    ///
    /// # Errors
    /// If they are not what was announced, or out of bounds. What was decoded before is in `sink`.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), DecodeError> {
        if self.over {
            return Err(DecodeError::Over);
        }
        self.pcm.push(bytes, sink);
        Ok(())
    }

    /// Gives what is still held back. The stream is over then.
    ///
    /// # Errors
    /// If the stream ended before there was any audio, though there were bytes.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Result<Ending, DecodeError> {
        let _ = sink;
        if std::mem::replace(&mut self.over, true) {
            return Err(DecodeError::Over);
        }
        Ok(self.pcm.ending())
    }

    /// Rate and channels of what came in; `None` until a container has said so.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        Some(self.pcm.format())
    }

    /// Where `push` and `finish` should run.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.cost
    }
}
