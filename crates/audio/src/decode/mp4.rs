//! AAC in MPEG-4 (M4A, MP4): whole files and fragments.
//!
//! A whole file has an index (`moov`) that says where its packets are. If the index comes first, as
//! it does in files made for streaming, packets are decoded as they come. If it comes last, the
//! audio before it is held, up to `Bounds::max_held_bytes`; more is refused. Fragments have small
//! indexes of their own (`moof`) and need no holding.

mod index;

use crate::DecodeError;

use super::{
    codec::Codec,
    window::{Container, Step, To},
};

use index::{Cursor, Fragment, Movie};

/// A fragment's index is a few bytes per packet.
const LONGEST_FRAGMENT_INDEX: u64 = 1 << 20;
/// No AAC packet is longer.
const LONGEST_PACKET: usize = 64 << 10;

/// Reads the first AAC track.
#[derive(Debug, Default)]
pub(super) struct Mp4 {
    /// Bytes taken so far: offsets in indexes count from the start of the file.
    at: u64,
    state: State,
    codec: Option<Codec>,
    movie: Option<Movie>,
    /// The packets still to come that an index has told of.
    cursor: Option<Cursor>,
    /// Audio that came before its index, and where in the file it began.
    held: Vec<u8>,
    held_at: u64,
    longest: usize,
}

#[derive(Debug, Default)]
enum State {
    /// Between boxes.
    #[default]
    Boxes,
    /// In audio whose index is still to come: so many bytes are left of it.
    Held(u64),
    /// In audio whose index is known, up to this place in the file.
    Media(u64),
}

impl Container for Mp4 {
    fn step(&mut self, bytes: &[u8], _: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        let step = match &mut self.state {
            State::Boxes => self.next_box(bytes, to)?,
            State::Held(left) => {
                let taken =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                if self.held.len() + taken > to.output.bounds.max_held_bytes {
                    let limit = to.output.bounds.max_held_bytes;
                    return Err(DecodeError::IndexAtEnd { limit });
                }
                self.held.extend_from_slice(&bytes[..taken]);
                *left -= taken as u64;
                if *left == 0 {
                    self.state = State::Boxes;
                }
                Step::Took(taken as u64)
            }
            State::Media(end) => {
                let end = *end;
                self.media(end, bytes, to)?
            }
        };
        if let Step::Took(n_bytes) = step {
            self.at = self.at.saturating_add(n_bytes);
        }
        Ok(step)
    }

    fn longest(&self) -> usize {
        self.longest.max(LONGEST_PACKET)
    }
}

impl Mp4 {
    fn media(&mut self, end: u64, bytes: &[u8], to: &mut To<'_>) -> Result<Step, DecodeError> {
        let next = self.cursor.as_mut().and_then(Cursor::next).filter(|(offset, _)| *offset < end);
        let Some((offset, size)) = next else {
            self.state = State::Boxes;
            return Ok(Step::Took(end - self.at));
        };
        if offset < self.at {
            return Err(to.unsupported("its packets are not in the order of their place"));
        }
        if offset > self.at {
            return Ok(Step::Took(offset - self.at));
        }
        if size > LONGEST_PACKET {
            return Err(to.malformed("a packet is longer than any may be"));
        }
        let Some(packet) = bytes.get(..size) else { return Ok(Step::Wait) };
        decode(self.codec.as_mut(), packet, to)?;
        if let Some(cursor) = &mut self.cursor {
            cursor.advance();
        }
        Ok(Step::Took(size as u64))
    }

    fn next_box(&mut self, bytes: &[u8], to: &mut To<'_>) -> Result<Step, DecodeError> {
        let Some((kind, head, size)) = read_head(bytes) else {
            return Ok(Step::Wait);
        };
        // The last box of a file need not say where it ends.
        let size = size.unwrap_or(u64::MAX - self.at);
        if size < head as u64 {
            return Err(to.malformed("a box has no proper size"));
        }
        let first = self.at == 0;
        match &kind {
            b"moov" => {
                if size > to.output.bounds.max_header_bytes {
                    return to.pass(size);
                }
                self.longest = usize::try_from(size).unwrap_or(usize::MAX);
                let Some(body) = bytes.get(head..self.longest) else { return Ok(Step::Wait) };
                self.open(body, to)?;
                to.pass(size)
            }
            b"moof" => {
                if size > LONGEST_FRAGMENT_INDEX {
                    return Err(to.malformed("the index of a fragment is too long"));
                }
                let end = usize::try_from(size).unwrap_or(usize::MAX);
                self.longest = self.longest.max(end);
                let Some(body) = bytes.get(head..end) else { return Ok(Step::Wait) };
                let Some(movie) = &self.movie else {
                    return Err(to.malformed("a fragment comes before the index"));
                };
                let fragment = Fragment::read(body, movie, self.at);
                let fragment =
                    fragment.ok_or_else(|| to.malformed("the index of a fragment is damaged"))?;
                self.cursor = Some(Cursor::fragment(fragment));
                Ok(Step::Took(size))
            }
            b"mdat" if self.movie.is_none() => {
                if !self.held.is_empty() {
                    return Err(to.unsupported("its audio is in several parts before its index"));
                }
                self.held_at = self.at + head as u64;
                self.state = State::Held(size - head as u64);
                // What is to be held and cannot be is refused before it is sent.
                let limit = to.output.bounds.max_held_bytes;
                if size - head as u64 > limit as u64 {
                    return Err(DecodeError::IndexAtEnd { limit });
                }
                Ok(Step::Took(head as u64))
            }
            b"mdat" => {
                self.state = State::Media(self.at.saturating_add(size));
                Ok(Step::Took(head as u64))
            }
            _ if first && &kind != b"ftyp" && !kind.iter().all(u8::is_ascii_alphanumeric) => {
                Err(to.malformed("it does not begin with a box"))
            }
            b"sidx" | b"styp" | b"emsg" | b"prft" => Ok(Step::Took(size)),
            _ => to.pass(size),
        }
    }

    fn open(&mut self, moov: &[u8], to: &mut To<'_>) -> Result<(), DecodeError> {
        if self.movie.is_some() {
            return Ok(());
        }
        let movie = Movie::read(moov).ok_or_else(|| to.unsupported("no track of it is AAC"))?;
        to.output.open(movie.format)?;
        to.output.skip(movie.skip);
        if let Some(until) = movie.until {
            to.output.until(until);
        }
        self.codec = Codec::aac(&movie.config);
        if self.codec.is_none() {
            return Err(to.unsupported("AAC other than LC with one or two channels"));
        }
        let mut cursor = Cursor::movie(&movie);
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            while let Some((offset, size)) = cursor.next() {
                let start =
                    offset.checked_sub(self.held_at).and_then(|at| usize::try_from(at).ok());
                let packet = start.and_then(|start| held.get(start..start.checked_add(size)?));
                // What is not there was cut off.
                let Some(packet) = packet else { break };
                decode(self.codec.as_mut(), packet, to)?;
                cursor.advance();
            }
        } else {
            self.cursor = Some(cursor);
        }
        self.movie = Some(movie.without_packets());
        Ok(())
    }
}

fn decode(codec: Option<&mut Codec>, packet: &[u8], to: &mut To<'_>) -> Result<(), DecodeError> {
    match codec {
        Some(codec) => codec.decode(packet, 1024, to),
        None => Ok(()),
    }
}

/// Kind, bytes before the body, and whole size of the box at the start of `bytes`; `None` if there
/// are too few. A size that is not given, which is for the last box of a file, is `None`.
fn read_head(bytes: &[u8]) -> Option<([u8; 4], usize, Option<u64>)> {
    let &[a, b, c, d, ref kind @ ..] = bytes.first_chunk::<8>()?;
    match u32::from_be_bytes([a, b, c, d]) {
        0 => Some((*kind, 8, None)),
        1 => {
            let size = u64::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
            Some((*kind, 16, Some(size)))
        }
        size => Some((*kind, 8, Some(u64::from(size)))),
    }
}
