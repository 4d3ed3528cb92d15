//! What a stream says about its audio before the first byte, and what it turned out to be.

use crate::{Bounds, DecodeError, Encoding};

/// What is known of a stream's audio before its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// How it is encoded.
    pub encoding: Encoding,
    /// What raw samples are; containers say it themselves, and what they say holds.
    pub format: Option<Format>,
}

impl Source {
    /// Raw samples, interleaved.
    #[must_use]
    pub const fn raw(encoding: Encoding, rate: u32, channels: u16) -> Self {
        Self { encoding, format: Some(Format { rate, channels }) }
    }

    /// A container, which carries its own rate and channels.
    #[must_use]
    pub const fn container(encoding: Encoding) -> Self {
        Self { encoding, format: None }
    }
}

/// Rate and channels of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Frames a second.
    pub rate: u32,
    /// Samples a frame.
    pub channels: u16,
}

impl Format {
    /// The same, if it is within `bounds`.
    ///
    /// # Errors
    /// If rate or channels are out of bounds.
    pub fn within(self, bounds: &Bounds) -> Result<Self, DecodeError> {
        let Self { rate, channels } = self;
        if !bounds.rates.contains(&rate) {
            let (lowest, highest) = (*bounds.rates.start(), *bounds.rates.end());
            return Err(DecodeError::Rate { rate, lowest, highest });
        }
        if channels == 0 || channels > bounds.max_channels {
            return Err(DecodeError::Channels { channels, most: bounds.max_channels });
        }
        Ok(self)
    }
}
