//! MP3 and AAC (ADTS): a stream of frames that each say how long they are.

use crate::{DecodeError, Format};

use super::{
    codec::Codec,
    window::{Container, Step, To},
};

/// Bytes in a row in which no frame begins before the stream is given up.
const MOST_JUNK: u64 = 64 << 10;
/// Frames that an MP3 decoder lags behind its encoder.
const MP3_DELAY: u64 = 529;

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mp3,
    Adts,
}

/// Reads frames, and whatever stands between them.
#[derive(Debug)]
pub(super) struct Mpeg {
    kind: Kind,
    codec: Option<Codec>,
    /// Whether the last frame ended here, so that one must begin.
    in_step: bool,
    junk: u64,
}

impl Mpeg {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, codec: None, in_step: false, junk: 0 }
    }

    fn frame(&mut self, frame: &Frame, bytes: &[u8], to: &mut To<'_>) -> Result<Step, DecodeError> {
        let n_bytes = frame.n_bytes as u64;
        self.in_step = true;
        self.junk = 0;
        to.output.open(frame.format)?;
        if self.codec.is_none() {
            self.codec = match self.kind {
                Kind::Mp3 => Codec::mp3(),
                Kind::Adts => Codec::aac(&frame.config),
            };
            if self.codec.is_none() {
                return Err(to.unsupported("AAC other than LC with one or two channels"));
            }
            if self.kind == Kind::Mp3
                && let Some(info) = Info::read(bytes, frame)
            {
                to.output.skip(info.skip);
                if let Some(until) = info.until {
                    to.output.until(until);
                }
                return to.pass(n_bytes);
            }
        }
        if let Some(codec) = &mut self.codec {
            codec.decode(&bytes[frame.header_bytes..], frame.n_frames, to)?;
        }
        Ok(Step::Took(n_bytes))
    }

    fn junk(&mut self, n_bytes: u64, to: &mut To<'_>) -> Result<Step, DecodeError> {
        if self.in_step {
            to.output.damaged += 1;
        }
        self.in_step = false;
        self.junk += n_bytes;
        if self.junk > MOST_JUNK {
            return Err(to.malformed("no frame begins in a long stretch of it"));
        }
        to.pass(n_bytes)
    }
}

impl Container for Mpeg {
    fn step(&mut self, bytes: &[u8], at_end: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        let Some(start) = bytes.first_chunk::<10>() else { return Ok(Step::Wait) };
        if let [b'I', b'D', b'3', _, _, flags, a, b, c, d] = *start {
            let footer = if flags & 0x10 == 0 { 0 } else { 10 };
            let size = [a, b, c, d].iter().fold(0, |size, byte| size << 7 | u64::from(byte & 0x7f));
            return to.pass(10 + size + footer);
        }
        if start.starts_with(b"TAG") {
            return to.pass(128);
        }
        let Some(frame) = Frame::read(self.kind, bytes) else { return self.junk(1, to) };
        if self.in_step || at_end {
            return match bytes.get(..frame.n_bytes) {
                Some(bytes) => self.frame(&frame, bytes, to),
                None => Ok(Step::Wait),
            };
        }
        // Anything may look like the start of a frame; two in a row are one.
        let Some(next) = bytes.get(frame.n_bytes..frame.n_bytes + 7) else { return Ok(Step::Wait) };
        match Frame::read(self.kind, next) {
            Some(next) if next.format.rate == frame.format.rate => {
                self.frame(&frame, &bytes[..frame.n_bytes], to)
            }
            _ => self.junk(1, to),
        }
    }

    fn longest(&self) -> usize {
        16 << 10
    }
}

/// What the header of a frame says.
#[derive(Debug)]
struct Frame {
    format: Format,
    n_bytes: usize,
    n_frames: usize,
    /// Bytes before what the codec wants to see.
    header_bytes: usize,
    /// What the codec must know first (AAC).
    config: [u8; 2],
}

impl Frame {
    fn read(kind: Kind, bytes: &[u8]) -> Option<Self> {
        match kind {
            Kind::Mp3 => Self::mp3(bytes),
            Kind::Adts => Self::adts(bytes),
        }
    }

    fn mp3(bytes: &[u8]) -> Option<Self> {
        const V1: [u32; 16] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0];
        const V2: [u32; 16] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0];
        let &[0xff, b, c, d] = bytes.first_chunk::<4>()? else { return None };
        // Eleven bits of sync, and layer III.
        if b & 0xe6 != 0xe2 {
            return None;
        }
        let (bitrates, n_frames, divisor) = match (b >> 3) & 3 {
            0 => (&V2, 576, 4),
            2 => (&V2, 576, 2),
            3 => (&V1, 1152, 1),
            _ => return None,
        };
        let rate = [44_100, 48_000, 32_000].get(usize::from((c >> 2) & 3))? / divisor;
        let bitrate = bitrates[usize::from(c >> 4)] * 1000;
        if bitrate == 0 {
            return None;
        }
        let n_bytes = n_frames / 8 * bitrate / rate + u32::from((c >> 1) & 1);
        let channels = if d >> 6 == 3 { 1 } else { 2 };
        Some(Self {
            format: Format { rate, channels },
            n_bytes: n_bytes as usize,
            n_frames: n_frames as usize,
            header_bytes: 0,
            config: [0; 2],
        })
    }

    fn adts(bytes: &[u8]) -> Option<Self> {
        let &[0xff, b, c, d, e, f, g] = bytes.first_chunk::<7>()? else { return None };
        // Twelve bits of sync, layer 0; LC; one block a frame.
        if b & 0xf6 != 0xf0 || c >> 6 != 1 || g & 3 != 0 {
            return None;
        }
        let index = (c >> 2) & 0xf;
        let rate = *AAC_RATES.get(usize::from(index))?;
        let channels = (c & 1) << 2 | d >> 6;
        let n_bytes = usize::from(d & 3) << 11 | usize::from(e) << 3 | usize::from(f >> 5);
        let header_bytes = if b & 1 == 0 { 9 } else { 7 };
        (n_bytes > header_bytes).then_some(Self {
            format: Format { rate, channels: u16::from(channels) },
            n_bytes,
            n_frames: 1024,
            header_bytes,
            config: [2 << 3 | index >> 1, index << 7 | channels << 3],
        })
    }
}

/// Rates of AAC, by their index.
pub(super) const AAC_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];

/// The first frame of many MP3s: no audio, but how much of the rest is.
struct Info {
    skip: u64,
    until: Option<u64>,
}

impl Info {
    fn read(bytes: &[u8], frame: &Frame) -> Option<Self> {
        // The tag stands where the samples would, after the side information.
        let tag = [36, 21, 13].iter().filter_map(|at| bytes.get(*at..));
        let mut tag = tag.filter(|tag| tag.starts_with(b"Xing") || tag.starts_with(b"Info"));
        let tag = match tag.next() {
            Some(tag) => tag,
            None if bytes.get(36..40) == Some(b"VBRI") => {
                return Some(Self { skip: 0, until: None });
            }
            None => return None,
        };
        let flags = *tag.get(7)?;
        let n_packets = (flags & 1 != 0).then(|| tag.get(8..12)).flatten();
        let n_packets = n_packets.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        let fields = [(1, 4), (2, 4), (4, 100), (8, 4)];
        let lame = fields.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, size)| size);
        let lame = 8 + lame.sum::<usize>();
        let Some(&[a, b, c]) = tag.get(lame + 21..lame + 24) else {
            return Some(Self { skip: 0, until: None });
        };
        let delay = u64::from(a) << 4 | u64::from(b >> 4);
        let padding = u64::from(b & 0xf) << 8 | u64::from(c);
        if delay == 0 {
            return Some(Self { skip: 0, until: None });
        }
        let all = n_packets.map(|n_packets| u64::from(n_packets) * frame.n_frames as u64);
        let until = all.map(|all| all.saturating_sub(delay + padding));
        Some(Self { skip: delay + MP3_DELAY, until })
    }
}
