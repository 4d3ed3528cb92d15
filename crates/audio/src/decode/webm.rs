//! Opus in WebM or Matroska, as browsers record it: sizes may be unknown, clusters come live.

use crate::DecodeError;

use super::{
    opus::{Head, Opus},
    window::{Container, Step, To},
};

const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const TRACKS: u32 = 0x1654_ae6b;
const TRACK: u32 = 0xae;
const TRACK_NUMBER: u32 = 0xd7;
const CODEC: u32 = 0x86;
const CODEC_PRIVATE: u32 = 0x63a2;
const AUDIO: u32 = 0xe1;
const CHANNELS: u32 = 0x9f;
const CLUSTER: u32 = 0x1f43_b675;
const CLUSTER_TIME: u32 = 0xe7;
const POSITION: u32 = 0xa7;
const PREVIOUS_SIZE: u32 = 0xab;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;
const DISCARD: u32 = 0x75a2;

/// A block of audio is far shorter; a longer one is of another track.
const LONGEST_BLOCK: u64 = 256 << 10;

/// Reads the first Opus track.
#[derive(Debug, Default)]
pub(super) struct Webm {
    track: Option<(u64, Opus)>,
    /// Whether the first bytes were those of the format.
    begun: bool,
    longest: usize,
}

/// The head of an element: what it is, where its body begins, how long that is if it says so.
#[derive(Debug, Clone, Copy)]
struct Element {
    id: u32,
    head: usize,
    size: Option<u64>,
}

impl Container for Webm {
    fn step(&mut self, bytes: &[u8], _: bool, to: &mut To<'_>) -> Result<Step, DecodeError> {
        let element = match Element::read(bytes) {
            Ok(Some(element)) => element,
            Ok(None) => return Ok(Step::Wait),
            Err(()) => return Err(to.malformed("an element has no proper head")),
        };
        if !self.begun && element.id != EBML {
            return Err(to.malformed("it does not begin with an EBML header"));
        }
        self.begun = true;
        let head = element.head as u64;
        if matches!(element.id, SEGMENT | CLUSTER) {
            // Their parts are read as they come.
            return Ok(Step::Took(head));
        }
        let Some(size) = element.size else {
            return Err(to.malformed("an element of unknown size is neither segment nor cluster"));
        };
        let whole = head.saturating_add(size);
        match element.id {
            TRACKS => {
                if whole > to.output.bounds.max_header_bytes {
                    return to.pass(whole);
                }
                self.longest = usize::try_from(whole).unwrap_or(usize::MAX);
                let Some(body) = element.body(bytes) else { return Ok(Step::Wait) };
                self.tracks(body, to)?;
                to.pass(whole)
            }
            SIMPLE_BLOCK | BLOCK_GROUP | BLOCK => self.block(element, whole, bytes, to),
            CLUSTER_TIME | POSITION | PREVIOUS_SIZE => Ok(Step::Took(whole)),
            _ => to.pass(whole),
        }
    }

    fn longest(&self) -> usize {
        self.longest.max(usize::try_from(LONGEST_BLOCK).unwrap_or(usize::MAX) + 16)
    }
}

impl Webm {
    fn tracks(&mut self, body: &[u8], to: &mut To<'_>) -> Result<(), DecodeError> {
        if self.track.is_some() {
            return Ok(());
        }
        for track in parts(body).filter(|(id, _)| *id == TRACK).map(|(_, body)| body) {
            let part = |wanted| parts(track).find(|(id, _)| *id == wanted).map(|(_, body)| body);
            if part(CODEC).is_none_or(|codec| !codec.starts_with(b"A_OPUS")) {
                continue;
            }
            let number = part(TRACK_NUMBER).map_or(1, number);
            let audio = part(AUDIO).unwrap_or_default();
            let channels = parts(audio).find(|(id, _)| *id == CHANNELS);
            let channels = channels.map_or(1, |(_, body)| number_of(body));
            let head = part(CODEC_PRIVATE).map_or_else(|| Head::plain(channels), Head::read);
            let head = head.ok_or_else(|| to.malformed("its Opus header makes no sense"))?;
            self.track = Some((number, Opus::open(&head, to)?));
            return Ok(());
        }
        Err(to.unsupported("no track of it is Opus"))
    }

    fn block(
        &mut self,
        element: Element,
        whole: u64,
        bytes: &[u8],
        to: &mut To<'_>,
    ) -> Result<Step, DecodeError> {
        let Some((number, opus)) = &mut self.track else {
            return Err(to.malformed("its audio comes before its tracks"));
        };
        if whole > LONGEST_BLOCK {
            // Not audio. A group is entered: what is in it is passed over one by one.
            let taken = if element.id == BLOCK_GROUP { element.head as u64 } else { whole };
            return Ok(Step::Took(taken));
        }
        let Some(body) = element.body(bytes) else { return Ok(Step::Wait) };
        let (block, discard) = if element.id == BLOCK_GROUP {
            let part = |wanted| parts(body).find(|(id, _)| *id == wanted).map(|(_, body)| body);
            (part(BLOCK).unwrap_or_default(), part(DISCARD).map_or(0, number_of_frames))
        } else {
            (body, 0)
        };
        if let Some((track, packets)) = read_block(block)
            && track == *number
        {
            let last = packets.len().saturating_sub(1);
            for (at, packet) in packets.into_iter().enumerate() {
                opus.decode(packet, if at == last { discard } else { 0 }, to)?;
            }
        }
        Ok(Step::Took(whole))
    }
}

impl Element {
    /// Reads a head: `None` if it is not whole yet.
    fn read(bytes: &[u8]) -> Result<Option<Self>, ()> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let n_id = first.leading_zeros() as usize + 1;
        if n_id > 4 {
            return Err(());
        }
        let Some(id) = bytes.get(..n_id) else { return Ok(None) };
        let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
        let Some(&first) = bytes.get(n_id) else { return Ok(None) };
        if first == 0 {
            return Err(());
        }
        let Some((size, n_size)) = vint(&bytes[n_id..]) else { return Ok(None) };
        let unknown = size == (1 << (7 * n_size)) - 1;
        Ok(Some(Self { id, head: n_id + n_size, size: (!unknown).then_some(size) }))
    }

    fn body<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let size = usize::try_from(self.size?).ok()?;
        bytes.get(self.head..self.head.checked_add(size)?)
    }
}

/// A number that says itself how many bytes it has.
fn vint(bytes: &[u8]) -> Option<(u64, usize)> {
    let n_bytes = bytes.first()?.leading_zeros() as usize + 1;
    let bytes = bytes.get(..n_bytes).filter(|_| n_bytes <= 8)?;
    let value = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    Some((value & ((1 << (7 * n_bytes)) - 1), n_bytes))
}

/// The parts of an element that is here as a whole.
fn parts(mut bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let element = Element::read(bytes).ok().flatten()?;
        let body = element.body(bytes)?;
        bytes = &bytes[element.head + body.len()..];
        Some((element.id, body))
    })
}

fn number(body: &[u8]) -> u64 {
    body.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn number_of(body: &[u8]) -> u8 {
    u8::try_from(number(body)).unwrap_or(0)
}

/// Nanoseconds to frames; a negative number, which would add some, is none.
fn number_of_frames(body: &[u8]) -> usize {
    let negative = body.first().is_some_and(|byte| byte & 0x80 != 0);
    let nanoseconds = if negative { 0 } else { u128::from(number(body)) };
    usize::try_from((nanoseconds * 48_000 + 500_000_000) / 1_000_000_000).unwrap_or(usize::MAX)
}

/// The track of a block and the packets in it.
fn read_block(block: &[u8]) -> Option<(u64, Vec<&[u8]>)> {
    let (track, n_track) = vint(block)?;
    let &[_, _, flags, ref body @ ..] = block.get(n_track..)? else { return None };
    let lacing = (flags >> 1) & 3;
    if lacing == 0 {
        return Some((track, vec![body]));
    }
    let (n_packets, mut body) = body.split_first().map(|(n, body)| (usize::from(*n) + 1, body))?;
    let mut sizes: Vec<usize> = Vec::with_capacity(n_packets);
    while lacing != 2 && sizes.len() + 1 < n_packets {
        let size = if lacing == 1 {
            let more = body.iter().take_while(|byte| **byte == 255).count();
            let size = more * 255 + usize::from(*body.get(more)?);
            body = &body[more + 1..];
            size
        } else {
            let (value, n_bytes) = vint(body)?;
            body = &body[n_bytes..];
            let value = i64::try_from(value).ok()?;
            let bias = (1_i64 << (7 * n_bytes - 1)) - 1;
            match sizes.last() {
                None => usize::try_from(value).ok()?,
                Some(last) => usize::try_from(i64::try_from(*last).ok()? + value - bias).ok()?,
            }
        };
        sizes.push(size);
    }
    if lacing == 2 {
        sizes = vec![body.len() / n_packets; n_packets - 1];
    }
    let mut packets = Vec::with_capacity(n_packets);
    for size in sizes {
        let (packet, rest) = body.split_at_checked(size)?;
        packets.push(packet);
        body = rest;
    }
    packets.push(body);
    Some((track, packets))
}
