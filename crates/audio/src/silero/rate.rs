//! The two sample rates that the detector knows, and what follows from them.

/// A sample rate that the detector knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rate {
    /// 8000 samples a second.
    Hz8000,
    /// 16000 samples a second.
    Hz16000,
}

impl Rate {
    /// Samples a second.
    #[must_use]
    pub const fn hertz(self) -> u32 {
        match self {
            Self::Hz8000 => 8_000,
            Self::Hz16000 => 16_000,
        }
    }

    /// Samples in a frame: 32 ms.
    #[must_use]
    pub const fn frame(self) -> usize {
        match self {
            Self::Hz8000 => 256,
            Self::Hz16000 => 512,
        }
    }

    /// Samples before a frame that the detector sees with it: 4 ms.
    #[must_use]
    pub const fn context(self) -> usize {
        self.frame() / 8
    }

    /// Samples as seconds, for people; everything else counts samples.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact for the first 17,000 years")]
    pub fn seconds(self, samples: u64) -> f64 {
        samples as f64 / f64::from(self.hertz())
    }

    /// Whole samples in so much time, rounded down.
    #[must_use]
    pub fn samples(self, time: std::time::Duration) -> u64 {
        let samples = time.as_nanos() * u128::from(self.hertz()) / 1_000_000_000;
        u64::try_from(samples).unwrap_or(u64::MAX)
    }
}

impl TryFrom<u32> for Rate {
    type Error = UnknownRate;

    fn try_from(hertz: u32) -> Result<Self, UnknownRate> {
        match hertz {
            8_000 => Ok(Self::Hz8000),
            16_000 => Ok(Self::Hz16000),
            other => Err(UnknownRate(other)),
        }
    }
}

/// A sample rate that the detector does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("voice detection knows 8000 and 16000 samples a second, not {0}; resample to one of these")]
pub struct UnknownRate(pub u32);
