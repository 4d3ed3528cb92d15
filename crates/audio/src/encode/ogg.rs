//! Opus in Ogg as a stream: packets of 20 ms, a page for as many as come together.

use ropus::{Application, Bitrate, Channels, Encoder, Signal};

const RATE: u32 = 48_000;
/// Samples in a packet.
const PACKET: usize = 960;
/// Packets in a page at most: a page's table has 255 places, and a packet of speech needs two.
const PAGE_PACKETS: usize = 50;
const SERIAL: u32 = 1;
const LARGEST_PACKET: usize = 1275;

pub(super) struct OggOpus {
    encoder: Encoder,
    held: Vec<f32>,
    packets: Vec<Vec<u8>>,
    /// Samples so far, those that a decoder skips at the beginning too.
    position: u64,
    n_pages: u32,
    n_in: u64,
}

/// The two pages before any sound.
pub(super) fn headers() -> Vec<u8> {
    let mut head = b"OpusHead\x01\x01".to_vec();
    head.extend(SKIP.to_le_bytes());
    head.extend(RATE.to_le_bytes());
    head.extend([0, 0, 0]);
    let mut tags = b"OpusTags".to_vec();
    let vendor = b"paceline";
    tags.extend(8_u32.to_le_bytes());
    tags.extend(vendor);
    tags.extend(0_u32.to_le_bytes());
    let mut bytes = page(&[head], 0, 0, 2);
    bytes.extend(page(&[tags], 0, 1, 0));
    bytes
}

/// What an encoder looks ahead, which a decoder skips.
const SKIP: u16 = 312;

impl OggOpus {
    pub(super) fn new() -> Option<Self> {
        let encoder = Encoder::builder(RATE, Channels::Mono, Application::Audio)
            .bitrate(Bitrate::Bits(32_000))
            .signal(Signal::Voice)
            .complexity(5)
            .build()
            .ok()?;
        let (held, packets) = (Vec::new(), Vec::new());
        Some(Self { encoder, held, packets, position: 0, n_pages: 2, n_in: 0 })
    }

    pub(super) fn push(&mut self, samples: &[f32], bytes: &mut Vec<u8>) {
        self.n_in += samples.len() as u64;
        self.held.extend_from_slice(samples);
        while PACKET <= self.held.len() {
            let rest = self.held.split_off(PACKET);
            let packet = std::mem::replace(&mut self.held, rest);
            self.packet(&packet);
            if PAGE_PACKETS <= self.packets.len() {
                self.page(bytes, 0);
            }
        }
        if !self.packets.is_empty() {
            self.page(bytes, 0);
        }
    }

    pub(super) fn finish(&mut self, bytes: &mut Vec<u8>) {
        // Until everything that went in has come out behind what is skipped.
        let due = self.n_in + u64::from(SKIP);
        while self.position < due {
            let mut packet = std::mem::take(&mut self.held);
            packet.resize(PACKET, 0.0);
            self.packet(&packet);
        }
        // The end cuts off what was added.
        self.position = due;
        self.page(bytes, 4);
    }

    fn packet(&mut self, samples: &[f32]) {
        let mut packet = vec![0; LARGEST_PACKET];
        // Samples of a good size always encode; were they not to, a lost packet is bridged.
        let n_bytes = self.encoder.encode_float(samples, &mut packet).unwrap_or(0);
        packet.truncate(n_bytes);
        self.packets.push(packet);
        self.position += PACKET as u64;
    }

    fn page(&mut self, bytes: &mut Vec<u8>, flags: u8) {
        let packets = std::mem::take(&mut self.packets);
        bytes.extend(page(&packets, self.position, self.n_pages, flags));
        self.n_pages += 1;
    }
}

impl std::fmt::Debug for OggOpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OggOpus").field("position", &self.position).finish_non_exhaustive()
    }
}

/// One page of whole packets.
fn page(packets: &[Vec<u8>], position: u64, number: u32, flags: u8) -> Vec<u8> {
    let mut lacing = Vec::new();
    for packet in packets {
        lacing.extend(std::iter::repeat_n(255_u8, packet.len() / 255));
        lacing.push(u8::try_from(packet.len() % 255).unwrap_or(0));
    }
    let mut bytes = b"OggS\x00".to_vec();
    bytes.push(flags);
    bytes.extend(position.to_le_bytes());
    bytes.extend(SERIAL.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.push(u8::try_from(lacing.len()).unwrap_or(255));
    bytes.extend(lacing);
    bytes.extend(packets.iter().flatten());
    let crc = crc32(&bytes);
    bytes[22..26].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |crc, byte| {
        let crc = crc ^ u32::from(*byte) << 24;
        (0..8).fold(
            crc,
            |crc, _| {
                if crc & 0x8000_0000 == 0 { crc << 1 } else { crc << 1 ^ 0x04c1_1db7 }
            },
        )
    })
}
