//! Opus in Ogg.

use crate::DecodeError;

use super::{
    opus::{Head, Opus},
    window::{Container, Step, To},
};

const LONGEST_PAGE: usize = 27 + 255 + 255 * 255;
/// A packet may go over many pages; one of Opus never needs to.
const LONGEST_PACKET: usize = 128 << 10;
const FIRST_PAGE: u8 = 2;
const LAST_PAGE: u8 = 4;
/// The position of a page on which no packet ends.
const NOWHERE: u64 = u64::MAX;

/// Reads the first Opus stream of an Ogg, and those chained to it.
#[derive(Debug, Default)]
pub(super) struct Ogg {
    stream: Option<Stream>,
    /// The stream's packet that goes on with the next page.
    partial: Vec<u8>,
    is_lost: bool,
}

#[derive(Debug)]
struct Stream {
    serial: [u8; 4],
    opus: Opus,
    head: Head,
    /// Packets since the header; the first is tags.
    n_packets: u64,
    /// Frames decoded, and the page position that says the same.
    decoded: u64,
    position: Option<u64>,
    /// Frames given to the output before this stream.
    before: u64,
}

struct Page<'a> {
    flags: u8,
    position: u64,
    serial: [u8; 4],
    lacing: &'a [u8],
    body: &'a [u8],
    n_bytes: usize,
}

impl Container for Ogg {
    fn step(&mut self, bytes: &[u8], _: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        if !bytes.starts_with(b"OggS") {
            if bytes.len() < 4 && b"OggS".starts_with(bytes) {
                return Ok(Step::Wait);
            }
            if self.stream.is_none() {
                return Err(to.malformed("it does not begin with OggS"));
            }
            return self.lose(to);
        }
        let Some(page) = Page::read(bytes) else { return Ok(Step::Wait) };
        if !page.is_sound(bytes) {
            return self.lose(to);
        }
        self.is_lost = false;
        self.page(&page, to)?;
        Ok(Step::Took(page.n_bytes as u64))
    }

    fn longest(&self) -> usize {
        LONGEST_PAGE
    }
}

impl Ogg {
    /// Goes on to the next place where a page may begin.
    fn lose(&mut self, to: &mut To<'_>) -> Result<Step, DecodeError> {
        if !self.is_lost {
            to.output.damaged += 1;
        }
        self.is_lost = true;
        self.partial.clear();
        to.pass(1)
    }

    fn page(&mut self, page: &Page<'_>, to: &mut To<'_>) -> Result<(), DecodeError> {
        if page.flags & FIRST_PAGE != 0 {
            return self.begin(page, to);
        }
        let Some(stream) = self.stream.as_mut().filter(|stream| stream.serial == page.serial)
        else {
            return Ok(());
        };
        if page.flags & LAST_PAGE != 0 && page.position != NOWHERE {
            // The last page says where in its last packet the audio ends.
            let end = match stream.position {
                Some(position) => stream.decoded + page.position.saturating_sub(position),
                None => page.position,
            };
            let heard = end.saturating_sub(u64::from(stream.head.pre_skip));
            to.output.until(stream.before + heard);
        }
        let mut at = 0;
        for &length in page.lacing {
            let piece = &page.body[at..at + usize::from(length)];
            at += usize::from(length);
            if length == 255 || !self.partial.is_empty() {
                self.partial.extend_from_slice(piece);
            }
            if self.partial.len() > LONGEST_PACKET && stream.n_packets > 0 {
                return Err(to.malformed("a packet is longer than any may be"));
            }
            if length == 255 {
                // Tags may be long (pictures); nothing of them is wanted.
                if stream.n_packets == 0 {
                    to.output.header(255)?;
                    self.partial.truncate(1);
                }
                continue;
            }
            let packet = if self.partial.is_empty() { piece } else { &self.partial };
            if stream.n_packets > 0 {
                stream.decoded += stream.opus.decode(packet, 0, to)?;
            } else {
                to.output.header(u64::from(length))?;
            }
            stream.n_packets += 1;
            self.partial.clear();
        }
        if page.position != NOWHERE && stream.n_packets > 1 {
            stream.position = Some(page.position);
        }
        Ok(())
    }

    fn begin(&mut self, page: &Page<'_>, to: &mut To<'_>) -> Result<(), DecodeError> {
        let Some(head) = Head::read(page.body) else {
            // Something else in the same file; only if it comes alone is it missed.
            if self.stream.is_none()
                && [b"\x01vorbis".as_slice(), b"\x7fFLAC", b"Speex"]
                    .iter()
                    .any(|magic| page.body.starts_with(magic))
            {
                return Err(to.unsupported("Vorbis, FLAC or Speex in Ogg; Opus is decoded"));
            }
            return Ok(());
        };
        let opus = Opus::open(&head, to)?;
        let before = to.output.begin();
        self.partial.clear();
        let serial = page.serial;
        self.stream =
            Some(Stream { serial, opus, head, n_packets: 0, decoded: 0, position: None, before });
        Ok(())
    }
}

impl<'a> Page<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.get(..27)?;
        let lacing = bytes.get(27..27 + usize::from(header[26]))?;
        let body = 27 + lacing.len();
        let n_bytes = body + lacing.iter().map(|length| usize::from(*length)).sum::<usize>();
        Some(Self {
            flags: header[5],
            position: u64::from_le_bytes(*header[6..].first_chunk()?),
            serial: *header[14..].first_chunk()?,
            lacing,
            body: bytes.get(body..n_bytes)?,
            n_bytes,
        })
    }

    fn is_sound(&self, bytes: &[u8]) -> bool {
        // The checksum counts itself as zeros.
        let counted = bytes[..self.n_bytes].iter().enumerate();
        let counted = counted.map(|(at, byte)| if (22..26).contains(&at) { 0 } else { *byte });
        let crc =
            counted.fold(0, |crc, byte| crc << 8 ^ CRC[usize::from((crc >> 24) as u8 ^ byte)]);
        bytes[4] == 0 && u32::to_le_bytes(crc) == bytes[22..26]
    }
}

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation, reason = "below 256")]
        let mut crc = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 0 { crc << 1 } else { crc << 1 ^ 0x04c1_1db7 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
