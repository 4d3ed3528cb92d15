//! FLAC: its frames do not say how long they are, so each is found by its checksum.

use crate::{DecodeError, Format};

use super::{
    codec::Codec,
    window::{Container, Step, To},
};

/// A frame header is at most this long.
const HEADER: usize = 16;

/// Reads a native FLAC stream.
#[derive(Debug, Default)]
pub(super) struct Flac {
    state: State,
    codec: Option<Codec>,
    longest: usize,
    /// Of the frame that is being looked for the end of: bytes seen, and their checksum.
    seen: usize,
    crc: u16,
    is_lost: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Marker,
    Metadata,
    Frames,
}

impl Container for Flac {
    fn step(&mut self, bytes: &[u8], at_end: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        match self.state {
            State::Marker => {
                let Some(marker) = bytes.first_chunk::<10>() else { return Ok(Step::Wait) };
                if let [b'I', b'D', b'3', _, _, _, size @ ..] = marker {
                    let size = size.iter().fold(0, |size, byte| size << 7 | u64::from(byte & 0x7f));
                    return to.pass(10 + size);
                }
                if !marker.starts_with(b"fLaC") {
                    return Err(to.malformed("it does not begin with fLaC"));
                }
                self.state = State::Metadata;
                to.pass(4)
            }
            State::Metadata => self.metadata(bytes, to),
            State::Frames => self.frame(bytes, at_end, to),
        }
    }

    fn longest(&self) -> usize {
        self.longest.max(64)
    }
}

impl Flac {
    fn metadata(&mut self, bytes: &[u8], to: &mut To<'_>) -> Result<Step, DecodeError> {
        let Some(&[kind, a, b, c]) = bytes.first_chunk::<4>() else { return Ok(Step::Wait) };
        let size = u32::from_be_bytes([0, a, b, c]);
        if kind & 0x7f == 0 && self.codec.is_none() {
            let Some(info) = bytes.get(4..38) else { return Ok(Step::Wait) };
            if size != 34 {
                return Err(to.malformed("its stream information is of the wrong size"));
            }
            self.open(info, to)?;
        }
        if self.codec.is_none() {
            return Err(to.malformed("its stream information is missing"));
        }
        if kind & 0x80 != 0 {
            self.state = State::Frames;
        }
        to.pass(4 + u64::from(size))
    }

    fn open(&mut self, info: &[u8], to: &mut To<'_>) -> Result<(), DecodeError> {
        let rate = u32::from_be_bytes([0, info[10], info[11], info[12]]) >> 4;
        let channels = u16::from((info[12] >> 1) & 7) + 1;
        to.output.open(Format { rate, channels })?;
        let bits = usize::from((info[12] & 1) << 4 | info[13] >> 4) + 1;
        let block = usize::from(u16::from_be_bytes([info[2], info[3]]));
        // As long as if nothing were compressed, and one bit more for the difference of channels.
        self.longest = (block * usize::from(channels) * (bits + 1)).div_ceil(8) + 256;
        self.codec = Codec::flac(info);
        if self.codec.is_none() {
            return Err(to.malformed("its stream information makes no sense"));
        }
        Ok(())
    }

    /// Takes a frame: what has a checksum of zero and is followed by the header of the next.
    fn frame(&mut self, bytes: &[u8], at_end: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        if bytes.len() < HEADER {
            return Ok(Step::Wait);
        }
        let Some(n_frames) = block_size(bytes) else { return self.pass_over(to) };
        self.is_lost = false;
        while self.seen + HEADER <= bytes.len() {
            if self.crc == 0 && self.seen > 0 && begins(&bytes[self.seen..], bytes) {
                return self.take(&bytes[..self.seen], n_frames, to);
            }
            self.crc = crc16(self.crc, bytes[self.seen]);
            self.seen += 1;
        }
        let rest = bytes[self.seen..].iter();
        if at_end && rest.fold(self.crc, |crc, byte| crc16(crc, *byte)) == 0 {
            return self.take(bytes, n_frames, to);
        }
        if !at_end && bytes.len() < self.longest() {
            return Ok(Step::Wait);
        }
        // The frame is damaged: silence for it, and on with the next, if one can be found.
        let mut starts = 1..=bytes.len() - HEADER;
        let Some(next) = starts.find(|start| begins(&bytes[*start..], bytes)) else {
            return if at_end { Ok(Step::Wait) } else { self.pass_over(to) };
        };
        (self.seen, self.crc) = (0, 0);
        to.output.silence(n_frames, to.sink)?;
        Ok(Step::Took(next as u64))
    }

    /// Goes on to the next place where a frame may begin.
    fn pass_over(&mut self, to: &mut To<'_>) -> Result<Step, DecodeError> {
        if !self.is_lost {
            to.output.damaged += 1;
        }
        (self.seen, self.crc, self.is_lost) = (0, 0, true);
        to.pass(1)
    }

    fn take(
        &mut self,
        frame: &[u8],
        n_frames: usize,
        to: &mut To<'_>,
    ) -> Result<Step, DecodeError> {
        (self.seen, self.crc) = (0, 0);
        if let Some(codec) = &mut self.codec {
            codec.decode(frame, n_frames, to)?;
        }
        Ok(Step::Took(frame.len() as u64))
    }
}

/// Whether `bytes` begin with the header of a frame of the same stream as `frame`.
fn begins(bytes: &[u8], frame: &[u8]) -> bool {
    bytes[..2] == frame[..2] && block_size(bytes).is_some()
}

/// The frames of the block whose header `bytes` begins with, if it is one.
fn block_size(bytes: &[u8]) -> Option<usize> {
    let &[0xff, sync, sizes, channels, number, ..] = bytes else { return None };
    if sync & 0xfe != 0xf8 || channels & 1 != 0 {
        return None;
    }
    // A number as UTF-8 writes it, in up to seven bytes.
    let n_number = match number.leading_ones() {
        0 => 1,
        ones @ 2..=7 => ones as usize,
        _ => return None,
    };
    let after = bytes.get(4 + n_number..)?;
    let (n_frames, n_size) = match sizes >> 4 {
        0 => return None,
        1 => (192, 0),
        code @ 2..=5 => (576 << (code - 2), 0),
        6 => (usize::from(*after.first()?) + 1, 1),
        7 => (usize::from(u16::from_be_bytes(*after.first_chunk()?)) + 1, 2),
        code => (256 << (code - 8), 0),
    };
    let n_rate = match sizes & 0xf {
        12 => 1,
        13 | 14 => 2,
        15 => return None,
        _ => 0,
    };
    let n_bytes = 4 + n_number + n_size + n_rate;
    let crc = bytes.get(..=n_bytes)?.iter().fold(0, |crc, byte| crc8(crc, *byte));
    (crc == 0).then_some(n_frames)
}

const fn crc8(mut crc: u8, byte: u8) -> u8 {
    crc ^= byte;
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 };
        bit += 1;
    }
    crc
}

fn crc16(crc: u16, byte: u8) -> u16 {
    crc << 8 ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)]
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation, reason = "below 256")]
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
