//! Opus packets to samples, for Ogg and WebM. Decoded at 48 kHz, the rate of all its timing.

use std::fmt;

use ropus::OpusMSDecoder;

use crate::{DecodeError, Format};

use super::{
    pcm::{from_s16, tamed},
    window::To,
};

const RATE: u32 = 48_000;

/// The header of an Opus stream, as Ogg and WebM both carry it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    pub(super) channels: u16,
    /// Frames at the start that are not meant to be heard.
    pub(super) pre_skip: u16,
    gain: f32,
    streams: u8,
    coupled: u8,
    mapping: Vec<u8>,
}

impl Head {
    /// Reads an `OpusHead`; `None` if it is not one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(b"OpusHead")?;
        let &[version, channels, a, b, _, _, _, _, c, d, family] = rest.first_chunk()?;
        if version >= 16 || channels == 0 {
            return None;
        }
        let (streams, coupled, mapping) = match (family, &rest[11..]) {
            (0, _) if channels <= 2 => (1, channels - 1, vec![0, 1]),
            (1..=255, [streams, coupled, mapping @ ..]) => (*streams, *coupled, mapping.to_vec()),
            _ => return None,
        };
        let mut mapping = mapping.get(..usize::from(channels))?.to_vec();
        if family == 1 {
            mapping = in_order(&mapping);
        }
        let n_decoded = u16::from(streams) + u16::from(coupled);
        let known = |to: &u8| *to == 255 || u16::from(*to) < n_decoded;
        if streams == 0 || coupled > streams || n_decoded > 255 || !mapping.iter().all(known) {
            return None;
        }
        let gain = f32::from(i16::from_le_bytes([c, d])) / 256.0;
        Some(Self {
            channels: u16::from(channels),
            pre_skip: u16::from_le_bytes([a, b]),
            gain: 10_f32.powf(gain / 20.0),
            streams,
            coupled,
            mapping,
        })
    }

    /// One stream of one or two channels, as when nothing else is said.
    pub(super) fn plain(channels: u8) -> Option<Self> {
        let bytes = [b"OpusHead", &[1, channels, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]].concat();
        Self::read(&bytes)
    }
}

/// Channels of surround sound in the order of WAV and FLAC; Opus has that of Vorbis.
fn in_order(mapping: &[u8]) -> Vec<u8> {
    let order: &[usize] = match mapping.len() {
        3 => &[0, 2, 1],
        5 => &[0, 2, 1, 3, 4],
        6 => &[0, 2, 1, 5, 3, 4],
        7 => &[0, 2, 1, 6, 5, 3, 4],
        8 => &[0, 2, 1, 7, 5, 6, 3, 4],
        _ => return mapping.to_vec(),
    };
    order.iter().map(|at| mapping[*at]).collect()
}

/// Decodes one stream's packets.
pub(super) struct Opus {
    decoder: Box<OpusMSDecoder>,
    gain: f32,
    n_channels: usize,
    samples: Vec<i16>,
    planes: Vec<Vec<f32>>,
}

impl Opus {
    /// A decoder for what `head` says; the output is opened for it.
    pub(super) fn open(head: &Head, to: &mut To<'_>) -> Result<Self, DecodeError> {
        to.output.open(Format { rate: RATE, channels: head.channels })?;
        to.output.skip(u64::from(head.pre_skip));
        let (streams, coupled) = (i32::from(head.streams), i32::from(head.coupled));
        let channels = i32::from(head.channels);
        let decoder = OpusMSDecoder::new(48_000, channels, streams, coupled, &head.mapping);
        let decoder = decoder.map_err(|_| to.malformed("its Opus header makes no sense"))?;
        let n_channels = usize::from(head.channels);
        Ok(Self {
            decoder: Box::new(decoder),
            gain: head.gain,
            n_channels,
            samples: Vec::new(),
            planes: vec![Vec::new(); n_channels],
        })
    }

    /// Decodes a packet but for the last `trim` frames; returns its whole length in frames.
    pub(super) fn decode(
        &mut self,
        packet: &[u8],
        trim: usize,
        to: &mut To<'_>,
    ) -> Result<u64, DecodeError> {
        let n_frames = packet_frames(packet);
        self.samples.clear();
        self.samples.resize(n_frames * self.n_channels, 0);
        let (Ok(size), Ok(length)) = (i32::try_from(n_frames), i32::try_from(packet.len())) else {
            return Err(to.malformed("a packet is too long"));
        };
        let decoded = match n_frames {
            0 => Err(0),
            _ => self.decoder.decode(Some(packet), length, &mut self.samples, size, false),
        };
        let Ok(Ok(decoded)) = decoded.map(usize::try_from) else {
            to.output.silence(n_frames.saturating_sub(trim), to.sink)?;
            return Ok(n_frames as u64);
        };
        let kept = decoded.min(n_frames).saturating_sub(trim);
        for (channel, plane) in self.planes.iter_mut().enumerate() {
            let samples = self.samples.iter().skip(channel).step_by(self.n_channels).take(kept);
            plane.clear();
            plane.extend(samples.map(|sample| tamed(from_s16(*sample) * self.gain)));
        }
        let planes: Vec<&[f32]> = self.planes.iter().map(Vec::as_slice).collect();
        to.output.take(&planes, to.sink)?;
        Ok(decoded as u64)
    }
}

impl fmt::Debug for Opus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opus").field("n_channels", &self.n_channels).finish_non_exhaustive()
    }
}

/// How many frames a packet decodes to at 48 kHz; 0 if it is not a packet.
fn packet_frames(packet: &[u8]) -> usize {
    let Some(&toc) = packet.first() else { return 0 };
    let config = usize::from(toc >> 3);
    let frame = match config {
        0..=11 => [480, 960, 1920, 2880][config % 4],
        12..=15 => [480, 960][config % 2],
        _ => [120, 240, 480, 960][config % 4],
    };
    let n_frames = match (toc & 3, packet.get(1)) {
        (0, _) => 1,
        (1 | 2, _) => 2,
        (_, Some(count)) => usize::from(count & 0x3f),
        (_, None) => 0,
    };
    // No packet lasts longer than 120 ms.
    Some(frame * n_frames).filter(|n_frames| *n_frames <= 5760).unwrap_or(0)
}
