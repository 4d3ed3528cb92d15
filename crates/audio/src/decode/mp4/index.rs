//! Where in an MPEG-4 its packets are: the tables of `moov` and `moof`, kept as they come.

use crate::Format;

use super::{super::mpeg::AAC_RATES, read_head};

/// What `moov` says about the first AAC track.
#[derive(Debug)]
pub(super) struct Movie {
    pub(super) format: Format,
    /// The codec's configuration, as plain AAC-LC.
    pub(super) config: Vec<u8>,
    /// Frames that the encoder added at the start, and frames that are meant after them.
    pub(super) skip: u64,
    pub(super) until: Option<u64>,
    track: u32,
    default_size: u32,
    sizes: Sizes,
    chunks: Vec<(u64, u32)>,
}

/// Sizes of packets: one for all, or a table of big-endian numbers.
#[derive(Debug, Clone)]
enum Sizes {
    Same { size: u32, n_packets: u32 },
    Each(Vec<u8>),
}

impl Sizes {
    fn get(&self, packet: usize) -> Option<usize> {
        match self {
            Self::Same { size, n_packets } => {
                (packet < *n_packets as usize).then_some(*size as usize)
            }
            Self::Each(table) => u32_at(table, packet * 4).map(|size| size as usize),
        }
    }
}

impl Movie {
    pub(super) fn read(moov: &[u8]) -> Option<Self> {
        let tracks = boxes(moov).filter(|(kind, _)| kind == b"trak");
        let mut movie = tracks.filter_map(|(_, trak)| Self::track(trak)).next()?;
        if let Some(mvex) = child(moov, b"mvex") {
            let extends = boxes(mvex).filter(|(kind, _)| kind == b"trex").map(|(_, body)| body);
            let mut ours = extends.filter(|body| u32_at(body, 4) == Some(movie.track));
            movie.default_size = ours.next().and_then(|body| u32_at(body, 16)).unwrap_or(0);
        }
        Some(movie)
    }

    fn track(trak: &[u8]) -> Option<Self> {
        let mdia = child(trak, b"mdia")?;
        let stbl = child(child(mdia, b"minf")?, b"stbl")?;
        let stsd = child(stbl, b"stsd")?;
        let (_, entry) = boxes(stsd.get(8..)?).find(|(kind, _)| kind == b"mp4a")?;
        let config = Config::read(entry)?;
        let tkhd = child(trak, b"tkhd")?;
        let track = u32_at(tkhd, if tkhd.first() == Some(&1) { 20 } else { 12 })?;
        let mdhd = child(mdia, b"mdhd")?;
        let timescale = u32_at(mdhd, if mdhd.first() == Some(&1) { 20 } else { 12 })?;
        // Times are in units of the track; for HE-AAC those are half a frame of what is decoded.
        let frames = |time: u64| {
            let frames = u128::from(time) * u128::from(config.format.rate);
            u64::try_from(frames / u128::from(timescale.max(1))).unwrap_or(u64::MAX)
        };
        let skip = child(trak, b"edts").and_then(|edts| child(edts, b"elst")).map_or(0, first_edit);
        let total = child(stbl, b"stts").map_or(0, total_time);
        Some(Self {
            format: config.format,
            config: config.bytes,
            skip: frames(skip),
            until: (total > skip).then(|| frames(total - skip)),
            track,
            default_size: 0,
            sizes: read_sizes(child(stbl, b"stsz")?)?,
            chunks: read_chunks(stbl)?,
        })
    }

    /// What fragments still need of it.
    pub(super) fn without_packets(mut self) -> Self {
        self.sizes = Sizes::Same { size: 0, n_packets: 0 };
        self.chunks = Vec::new();
        self
    }
}

/// The packets of one `moof`.
#[derive(Debug)]
pub(super) struct Fragment {
    sizes: Sizes,
    chunks: Vec<(u64, u32)>,
}

impl Fragment {
    /// Reads a `moof` that begins at `at`.
    pub(super) fn read(moof: &[u8], movie: &Movie, at: u64) -> Option<Self> {
        let (mut sizes, mut chunks) = (Vec::new(), Vec::new());
        for (_, traf) in boxes(moof).filter(|(kind, _)| kind == b"traf") {
            let tfhd = child(traf, b"tfhd")?;
            if u32_at(tfhd, 4)? != movie.track {
                continue;
            }
            let flags = u32_at(tfhd, 0)? & 0xff_ffff;
            let mut fields = tfhd.get(8..)?;
            let mut field = |flag: u32, n_bytes: usize| -> Option<&[u8]> {
                let (field, rest) =
                    fields.split_at_checked(if flags & flag == 0 { 0 } else { n_bytes })?;
                fields = rest;
                Some(field)
            };
            let base = field(0x01, 8)?;
            let base = u64_at(base, 0).unwrap_or(at);
            (field(0x02, 4)?, field(0x08, 4)?);
            let default = u32_at(field(0x10, 4)?, 0).unwrap_or(movie.default_size);
            let mut offset = base;
            for (_, trun) in boxes(traf).filter(|(kind, _)| kind == b"trun") {
                let before = sizes.len();
                let (start, run) = read_run(trun, default, base, offset, &mut sizes)?;
                let n_packets = u32::try_from((sizes.len() - before) / 4).ok()?;
                chunks.push((start, n_packets));
                offset = start.checked_add(run)?;
            }
        }
        Some(Self { sizes: Sizes::Each(sizes), chunks })
    }
}

/// Appends the sizes of a `trun`; returns where it begins and how long it is.
fn read_run(
    trun: &[u8],
    default: u32,
    base: u64,
    offset: u64,
    sizes: &mut Vec<u8>,
) -> Option<(u64, u64)> {
    let flags = u32_at(trun, 0)? & 0xff_ffff;
    let n_packets = u32_at(trun, 4)? as usize;
    let mut at = 8;
    let mut start = offset;
    if flags & 0x01 != 0 {
        let offset = i32::from_be_bytes(*trun.get(at..)?.first_chunk()?);
        start = base.checked_add_signed(i64::from(offset))?;
        at += 4;
    }
    at += if flags & 0x04 != 0 { 4 } else { 0 };
    let width = |flag: u32| if flags & flag == 0 { 0 } else { 4 };
    let (before, row) = (width(0x100), width(0x100) + width(0x200) + width(0x400) + width(0x800));
    // Without a table there is nothing to bound the number of packets by.
    if n_packets > trun.len().max(4096) {
        return None;
    }
    let mut run = 0;
    for packet in 0..n_packets {
        let size = match flags & 0x200 {
            0 => default,
            _ => u32_at(trun, at + packet * row + before)?,
        };
        sizes.extend(size.to_be_bytes());
        run += u64::from(size);
    }
    Some((start, run))
}

/// Goes through packets in the order of an index.
#[derive(Debug)]
pub(super) struct Cursor {
    sizes: Sizes,
    chunks: std::vec::IntoIter<(u64, u32)>,
    /// Where the next packet is, and how many of its chunk are left, itself included.
    offset: u64,
    left: u32,
    packet: usize,
}

impl Cursor {
    pub(super) fn movie(movie: &Movie) -> Self {
        Self::new(movie.sizes.clone(), movie.chunks.clone())
    }

    pub(super) fn fragment(fragment: Fragment) -> Self {
        Self::new(fragment.sizes, fragment.chunks)
    }

    fn new(sizes: Sizes, chunks: Vec<(u64, u32)>) -> Self {
        Self { sizes, chunks: chunks.into_iter(), offset: 0, left: 0, packet: 0 }
    }

    /// Offset and size of the next packet.
    pub(super) fn next(&mut self) -> Option<(u64, usize)> {
        while self.left == 0 {
            (self.offset, self.left) = self.chunks.next()?;
        }
        Some((self.offset, self.sizes.get(self.packet)?))
    }

    /// Goes to the one after it.
    pub(super) fn advance(&mut self) {
        self.offset += self.sizes.get(self.packet).unwrap_or(0) as u64;
        self.left -= 1;
        self.packet += 1;
    }
}

struct Config {
    format: Format,
    bytes: Vec<u8>,
}

impl Config {
    /// Reads the configuration in an `mp4a` entry. Of HE-AAC the core is kept, which is LC at half
    /// the rate: speech is all there.
    fn read(entry: &[u8]) -> Option<Self> {
        let esds = entry.windows(4).position(|kind| kind == b"esds")?;
        let mut rest = entry.get(esds + 8..)?;
        let config = loop {
            let (&tag, after) = rest.split_first()?;
            let n_size = after.iter().take(3).take_while(|byte| **byte & 0x80 != 0).count() + 1;
            let body = after.get(n_size..)?;
            match tag {
                // An elementary stream: its id, and which further fields there are.
                3 => rest = body.get(3..).filter(|_| body[2] & 0xe0 == 0)?,
                // How it is decoded: 0x40 is MPEG-4 audio, 0x66 to 0x68 MPEG-2 AAC.
                4 if matches!(body.first()?, 0x40 | 0x66..=0x68) => rest = body.get(13..)?,
                5 => break body.get(..usize::from(*after.get(n_size - 1)?).min(body.len()))?,
                _ => return None,
            }
        };
        let mut bits = Bits { bytes: config, at: 0 };
        let kind = bits.take(5)?;
        let mut rate = bits.rate()?;
        let channels = bits.take(4)?;
        if matches!(kind, 5 | 29) {
            // Spectral band replication: the rate above was that of the core already.
            bits.rate()?;
            if bits.take(5)? != 2 {
                return None;
            }
        } else if kind != 2 {
            return None;
        }
        let index = AAC_RATES.iter().position(|known| *known == rate);
        let index = u8::try_from(index?).ok()?;
        rate = AAC_RATES[usize::from(index)];
        let channels = u8::try_from(channels).ok()?;
        let bytes = vec![2 << 3 | index >> 1, index << 7 | channels << 3];
        Some(Self { format: Format { rate, channels: u16::from(channels) }, bytes })
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, n_bits: usize) -> Option<u32> {
        let mut value = 0;
        for at in self.at..self.at + n_bits {
            let bit = self.bytes.get(at / 8)? >> (7 - at % 8) & 1;
            value = value << 1 | u32::from(bit);
        }
        self.at += n_bits;
        Some(value)
    }

    fn rate(&mut self) -> Option<u32> {
        match self.take(4)? {
            15 => self.take(24),
            index => AAC_RATES.get(index as usize).copied(),
        }
    }
}

fn read_sizes(stsz: &[u8]) -> Option<Sizes> {
    let (size, n_packets) = (u32_at(stsz, 4)?, u32_at(stsz, 8)?);
    if size != 0 {
        return Some(Sizes::Same { size, n_packets });
    }
    let table = stsz.get(12..)?;
    let n_bytes = (n_packets as usize).checked_mul(4)?.min(table.len());
    Some(Sizes::Each(table[..n_bytes].to_vec()))
}

/// Chunks of packets: where each is, and how many it has.
fn read_chunks(stbl: &[u8]) -> Option<Vec<(u64, u32)>> {
    let (table, wide) = match child(stbl, b"stco") {
        Some(table) => (table, false),
        None => (child(stbl, b"co64")?, true),
    };
    let stsc = child(stbl, b"stsc")?;
    let n_chunks = u32_at(table, 4)? as usize;
    let mut runs = (0..u32_at(stsc, 4)? as usize)
        .map_while(|run| Some((u32_at(stsc, 8 + run * 12)?, u32_at(stsc, 12 + run * 12)?)))
        .peekable();
    let mut n_packets = 0;
    let offset = |chunk: usize| {
        if wide {
            u64_at(table, 8 + chunk * 8)
        } else {
            u32_at(table, 8 + chunk * 4).map(u64::from)
        }
    };
    let chunks = (0..n_chunks).map_while(|chunk| {
        while let Some((_, n)) = runs.next_if(|(first, _)| *first as usize <= chunk + 1) {
            n_packets = n;
        }
        Some((offset(chunk)?, n_packets))
    });
    Some(chunks.collect())
}

/// The time at which the first part that is not empty begins.
fn first_edit(elst: &[u8]) -> u64 {
    let wide = elst.first() == Some(&1);
    let n_edits = u32_at(elst, 4).unwrap_or(0).min(16) as usize;
    let starts = (0..n_edits).filter_map(|edit| {
        if wide {
            u64_at(elst, 16 + edit * 20)
        } else {
            u32_at(elst, 12 + edit * 12).map(u64::from)
        }
    });
    let empty = if wide { u64::MAX } else { u64::from(u32::MAX) };
    starts.filter(|start| *start != empty).next().unwrap_or(0)
}

fn total_time(stts: &[u8]) -> u64 {
    let n_runs = u32_at(stts, 4).unwrap_or(0) as usize;
    let runs = (0..n_runs)
        .map_while(|run| Some((u32_at(stts, 8 + run * 8)?, u32_at(stts, 12 + run * 8)?)));
    runs.fold(0, |sum, (n, time)| sum.saturating_add(u64::from(n) * u64::from(time)))
}

/// The boxes in a box.
fn boxes(mut bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (kind, head, size) = read_head(bytes)?;
        let size = size.map_or(bytes.len(), |size| usize::try_from(size).unwrap_or(usize::MAX));
        let body = bytes.get(head..size)?;
        bytes = &bytes[size..];
        Some((kind, body))
    })
}

fn child<'a>(bytes: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(bytes).find(|(kind, _)| kind == wanted).map(|(_, body)| body)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
