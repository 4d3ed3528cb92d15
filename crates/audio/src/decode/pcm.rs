//! Raw samples.

use crate::{Encoding, Ending, Format, Sink};

const BLOCK_FRAMES: usize = 1024;

/// Turns interleaved raw samples into planes, keeping a frame that is split between chunks.
#[derive(Debug)]
pub(super) struct Pcm {
    encoding: Encoding,
    format: Format,
    partial: Vec<u8>,
    planes: Vec<Vec<f32>>,
    frames: u64,
}

impl Pcm {
    pub(super) fn new(encoding: Encoding, format: Format) -> Self {
        let planes = vec![Vec::new(); usize::from(format.channels)];
        Self { encoding, format, partial: Vec::new(), planes, frames: 0 }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], sink: &mut dyn Sink) {
        let frame = self.encoding.sample_bytes().unwrap_or(1) * self.planes.len();
        if !self.partial.is_empty() {
            let missing = (frame - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.partial.len() < frame {
                return;
            }
            let whole = std::mem::take(&mut self.partial);
            self.block(&whole, sink);
        }
        let whole = bytes.len() - bytes.len() % frame;
        for block in bytes[..whole].chunks(frame * BLOCK_FRAMES) {
            self.block(block, sink);
        }
        self.partial.extend_from_slice(&bytes[whole..]);
    }

    pub(super) fn ending(&self) -> Ending {
        Ending { frames: self.frames, damaged: 0, left_over: self.partial.len() as u64 }
    }

    fn block(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        let sample_bytes = self.encoding.sample_bytes().unwrap_or(1);
        let n_channels = self.planes.len();
        for (channel, plane) in self.planes.iter_mut().enumerate() {
            let samples = bytes.chunks_exact(sample_bytes).skip(channel).step_by(n_channels);
            plane.clear();
            plane.extend(samples.map(|bytes| sample(self.encoding, bytes)));
        }
        self.frames += self.planes[0].len() as u64;
        let planes: Vec<&[f32]> = self.planes.iter().map(Vec::as_slice).collect();
        sink.take(&planes);
    }
}

fn sample(encoding: Encoding, bytes: &[u8]) -> f32 {
    match (encoding, bytes) {
        (Encoding::S16le, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32768.0,
        (Encoding::F32le, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        _ => 0.0,
    }
}
