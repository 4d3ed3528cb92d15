//! FLAC as a stream: fixed predictors and Rice codes, each block as it is full.
//!
//! Nothing that needs the whole: no length, no checksum of all samples, no seek table.

use super::to_i16;

/// Samples in a block, but for the last.
const BLOCK: usize = 4096;
const BLOCK_FIELD: [u8; 2] = [16, 0];

#[derive(Debug)]
pub(super) struct Flac {
    rate: u32,
    held: Vec<i32>,
    n_blocks: u32,
}

impl Flac {
    pub(super) const fn new(rate: u32) -> Self {
        Self { rate, held: Vec::new(), n_blocks: 0 }
    }

    pub(super) fn header(&self) -> Vec<u8> {
        let mut bytes = b"fLaC\x80\x00\x00\x22".to_vec();
        bytes.extend(BLOCK_FIELD);
        bytes.extend(BLOCK_FIELD);
        bytes.extend([0; 6]);
        // 20 bits of rate, 3 of channels less one, 5 of bits less one, 36 of an unknown length.
        let packed = u64::from(self.rate) << 44 | 15 << 36;
        bytes.extend(packed.to_be_bytes());
        bytes.extend([0; 16]);
        bytes
    }

    pub(super) fn push(&mut self, samples: &[f32], bytes: &mut Vec<u8>) {
        self.held.extend(samples.iter().map(|sample| i32::from(to_i16(*sample))));
        while BLOCK <= self.held.len() {
            let rest = self.held.split_off(BLOCK);
            let block = std::mem::replace(&mut self.held, rest);
            self.block(&block, bytes);
        }
    }

    pub(super) fn finish(&mut self, bytes: &mut Vec<u8>) {
        let block = std::mem::take(&mut self.held);
        if !block.is_empty() {
            self.block(&block, bytes);
        }
    }

    fn block(&mut self, block: &[i32], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let mut bits = Bits::default();
        // Sync and fixed block sizes; 16 bits of size behind, the stream's rate; mono, 16 bits.
        bits.put(0b1111_1111_1111_1000, 16);
        bits.put(0b0111_0000, 8);
        bits.put(0b0000_1000, 8);
        utf8_like(self.n_blocks, &mut bits);
        bits.put(u32::try_from(block.len() - 1).unwrap_or(0), 16);
        self.n_blocks += 1;
        let mut head = bits.bytes.clone();
        head.push(crc8(&head));
        bytes.extend(&head);
        let mut bits = Bits::default();
        subframe(block, &mut bits);
        bytes.extend(bits.finish());
        let crc = crc16(&bytes[start..]);
        bytes.extend(crc.to_be_bytes());
    }
}

/// One channel of a block: the fixed predictor that leaves least, and what it leaves.
fn subframe(block: &[i32], bits: &mut Bits) {
    let mut left = block.to_vec();
    let (mut best, mut best_order, mut best_sum) = (left.clone(), 0, sum(&left));
    for order in 1..=4_usize.min(block.len() - 1) {
        for at in (order..left.len()).rev() {
            left[at] -= left[at - 1];
        }
        let now = sum(&left[order..]);
        if now < best_sum {
            (best_sum, best_order) = (now, order);
            best.clone_from(&left);
        }
    }
    bits.put(8 | u32::try_from(best_order).unwrap_or(0), 7);
    bits.put(0, 1);
    for sample in &block[..best_order] {
        bits.put_signed(*sample, 16);
    }
    let rest = &best[best_order..];
    // Rice codes of one partition: the parameter that fits the mean.
    let mean = best_sum / rest.len().max(1) as u64;
    let parameter = (mean * 2 + 1).ilog2().min(14);
    bits.put(0, 2);
    bits.put(0, 4);
    bits.put(parameter, 4);
    for value in rest {
        let folded = (value << 1 ^ value >> 31).cast_unsigned();
        for _ in 0..folded >> parameter {
            bits.put(0, 1);
        }
        bits.put(1, 1);
        bits.put(folded & ((1 << parameter) - 1), parameter);
    }
}

fn sum(values: &[i32]) -> u64 {
    values.iter().map(|value| u64::from(value.unsigned_abs())).sum()
}

/// A number as FLAC writes that of a block: as UTF-8 would, further.
fn utf8_like(number: u32, bits: &mut Bits) {
    if number < 0x80 {
        bits.put(number, 8);
        return;
    }
    let n_more = (number.ilog2() - 1) / 5;
    let first = !(0xff_u32 >> (n_more + 1)) & 0xff | number >> (6 * n_more);
    bits.put(first, 8);
    for at in (0..n_more).rev() {
        bits.put(0x80 | number >> (6 * at) & 0x3f, 8);
    }
}

#[derive(Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    held: u64,
    n_held: u32,
}

impl Bits {
    fn put(&mut self, value: u32, n_bits: u32) {
        self.held = self.held << n_bits | u64::from(value);
        self.n_held += n_bits;
        while 8 <= self.n_held {
            self.n_held -= 8;
            self.bytes.push((self.held >> self.n_held & 255).try_into().unwrap_or(0));
        }
    }

    fn put_signed(&mut self, value: i32, n_bits: u32) {
        self.put(value.cast_unsigned() & ((1 << n_bits) - 1), n_bits);
    }

    fn finish(mut self) -> Vec<u8> {
        if 0 < self.n_held {
            self.put(0, 8 - self.n_held);
        }
        self.bytes
    }
}

fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 })
    })
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let crc = crc ^ u16::from(*byte) << 8;
        (0..8).fold(crc, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 })
    })
}
