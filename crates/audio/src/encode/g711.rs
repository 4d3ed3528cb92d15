//! G.711: a 16-bit sample in a byte, finer where it is quiet.

/// As mu-law.
pub(super) fn mulaw(sample: i16) -> u8 {
    const BIAS: i32 = 0x84;
    let sign = if sample < 0 { 0x80 } else { 0 };
    let size = (i32::from(sample).abs() + BIAS).min(32_767);
    // The place of the highest bit, counted from the eighth.
    let segment = 24 - size.leading_zeros().min(24);
    let step = size >> (segment + 3) & 15;
    !byte(sign | i32::try_from(segment).unwrap_or(0) << 4 | step)
}

/// As A-law.
pub(super) fn alaw(sample: i16) -> u8 {
    let sign = if sample < 0 { 0 } else { 0x80 };
    let size = if sample < 0 { -(i32::from(sample) + 1) } else { i32::from(sample) } >> 3;
    let segment = 27_u32.saturating_sub(size.leading_zeros());
    let step = if segment == 0 { size >> 1 } else { size >> segment } & 15;
    byte(sign | i32::try_from(segment).unwrap_or(0) << 4 | step) ^ 0x55
}

/// Eight bits are all that either has.
fn byte(bits: i32) -> u8 {
    bits.to_le_bytes()[0]
}
