//! The decoder: bytes in any chunking to planar samples at one rate.
//!
//! Each container is a small reader of our own that takes one whole thing at a time from a bounded
//! window of bytes (`window.rs` says why); packets are decoded by `symphonia` (FLAC, MP3, AAC) and
//! `ropus` (Opus); `output.rs` holds all of them to the bounds and brings them to one rate.

mod codec;
mod flac;
mod mp4;
mod mpeg;
mod ogg;
mod opus;
mod output;
mod pcm;
mod sniff;
mod wav;
mod webm;
mod window;

use crate::{Bounds, Cost, DecodeError, Encoding, Format, Sink, Source};

use output::Output;
use pcm::{Pcm, Sample};
use window::{Container, To, Window};

/// Decodes one stream.
///
/// Bytes may come in any chunking: the samples are the same, bit for bit. What is held is a packet
/// or a header at most (but for an M4A with its index at the end, see
/// [`Bounds::max_held_bytes`]). After an error the decoder takes no more.
#[derive(Debug)]
pub struct Decoder {
    stage: Stage,
    window: Window,
    output: Output,
}

#[derive(Debug)]
enum Stage {
    /// The first bytes of a container that is not known yet.
    Sniffing(Vec<u8>),
    Reading(Box<dyn Container>),
    Over,
}

/// What became of a stream that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ending {
    /// Frames given to the sink, at the rate that was asked for.
    pub frames: u64,
    /// Packets that could not be decoded, each of which silence of the same length stands in for,
    /// and places where the stream was broken.
    pub damaged: u64,
    /// Bytes at the end that made no whole sample or packet.
    pub left_over: u64,
}

impl Decoder {
    /// A decoder of `source` that gives samples at `rate`. Holds next to nothing until bytes come.
    ///
    /// # Errors
    /// If `source` is out of `bounds`, or raw without saying its rate and channels.
    pub fn new(source: Source, rate: u32, bounds: &Bounds) -> Result<Self, DecodeError> {
        let encoding = source.encoding;
        let mut output = Output::new(encoding, rate, bounds.clone());
        let stage = match Sample::of(encoding) {
            Some(sample) => {
                let format = source.format.ok_or(DecodeError::FormatMissing { encoding })?;
                output.open(format)?;
                Stage::Reading(Box::new(Pcm::new(sample, format)))
            }
            None => container(encoding).map_or(Stage::Sniffing(Vec::new()), Stage::Reading),
        };
        Ok(Self { stage, window: Window::default(), output })
    }

    /// Decodes `bytes`, which may begin and end anywhere.
    ///
    /// # Errors
    /// If they are not what was announced, or out of bounds. What was decoded before is in `sink`.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), DecodeError> {
        let pushed = self.try_push(bytes, sink);
        if pushed.is_err() {
            self.stage = Stage::Over;
            self.window = Window::default();
        }
        pushed
    }

    /// Gives what is still held back. The stream is over then.
    ///
    /// # Errors
    /// If the stream ended before there was any audio, though there were bytes.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> Result<Ending, DecodeError> {
        if let Stage::Sniffing(first) = &mut self.stage
            && !first.is_empty()
        {
            let first = std::mem::take(first);
            self.begin(&first, sink)?;
        }
        let mut left_over = 0;
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Sniffing(_) => {}
            Stage::Reading(mut container) => {
                let mut to = To { output: &mut self.output, sink };
                left_over = self.window.finish(&mut *container, &mut to)?;
                self.window = Window::default();
            }
            Stage::Over => return Err(DecodeError::Over),
        }
        if self.output.format().is_none() && (left_over > 0 || self.output.bytes > 0) {
            return Err(DecodeError::EndsInHeader { encoding: self.output.encoding });
        }
        Ok(self.output.finish(left_over, sink))
    }

    /// Rate and channels of what came in; `None` until a container has said so.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.output.format()
    }

    /// How it is encoded; [`Encoding::Auto`] until the first bytes have shown it.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.output.encoding
    }

    /// Where `push` and `finish` should run.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.encoding().cost()
    }

    fn try_push(&mut self, mut bytes: &[u8], sink: &mut dyn Sink) -> Result<(), DecodeError> {
        if let Stage::Sniffing(first) = &mut self.stage {
            let missing = (sniff::ENOUGH - first.len()).min(bytes.len());
            first.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if first.len() < sniff::ENOUGH {
                return Ok(());
            }
            let first = std::mem::take(first);
            self.begin(&first, sink)?;
        }
        let Stage::Reading(container) = &mut self.stage else { return Err(DecodeError::Over) };
        let mut to = To { output: &mut self.output, sink };
        self.window.push(&mut **container, bytes, &mut to)
    }

    /// Goes on with what the first bytes show the container to be.
    fn begin(&mut self, first: &[u8], sink: &mut dyn Sink) -> Result<(), DecodeError> {
        let found = sniff::sniff(first).ok_or(DecodeError::UnknownContainer)?;
        let mut container = container(found).ok_or(DecodeError::UnknownContainer)?;
        self.output.encoding = found;
        let mut to = To { output: &mut self.output, sink };
        self.window.push(&mut *container, first, &mut to)?;
        self.stage = Stage::Reading(container);
        Ok(())
    }
}

/// The reader of a container; `None` for what is not one.
fn container(encoding: Encoding) -> Option<Box<dyn Container>> {
    Some(match encoding {
        Encoding::Wav => Box::<wav::Wav>::default(),
        Encoding::Flac => Box::<flac::Flac>::default(),
        Encoding::Mp3 => Box::new(mpeg::Mpeg::new(mpeg::Kind::Mp3)),
        Encoding::Aac => Box::new(mpeg::Mpeg::new(mpeg::Kind::Adts)),
        Encoding::M4a => Box::<mp4::Mp4>::default(),
        Encoding::Ogg => Box::<ogg::Ogg>::default(),
        Encoding::Webm => Box::<webm::Webm>::default(),
        _ => return None,
    })
}
