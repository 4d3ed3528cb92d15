//! What a stranger's audio may ask for.

use std::{ops::RangeInclusive, time::Duration};

/// Bounds on what is decoded. They hold while decoding, sample by sample, whatever a header claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Rates that are taken, in Hz.
    pub rates: RangeInclusive<u32>,
    /// The most channels of a stream.
    pub max_channels: u16,
    /// The longest a stream may last, in audio time.
    pub max_duration: Duration,
    /// The most samples that one encoded byte may become, on average over the stream once it has
    /// lasted a minute. Silence compresses well (FLAC: hundreds; Opus: a thousand), so this is
    /// generous; it stops what was made to explode.
    pub max_expansion: u32,
    /// The most bytes of tags, indexes and other things that are not audio, all together.
    pub max_header_bytes: u64,
    /// The most bytes of an M4A that are held because its index comes after its audio; one that
    /// needs more is refused. 0 refuses them all.
    pub max_held_bytes: usize,
}

impl Default for Bounds {
    /// 8 to 192 kHz, 8 channels, 24 hours, 4096 samples a byte, 4 MiB of headers, 4 MiB held.
    fn default() -> Self {
        Self {
            rates: 8_000..=192_000,
            max_channels: 8,
            max_duration: Duration::from_secs(24 * 60 * 60),
            max_expansion: 4096,
            max_header_bytes: 4 << 20,
            max_held_bytes: 4 << 20,
        }
    }
}
