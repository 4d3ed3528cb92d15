//! What audio may come in as, by the names people write.

use std::{fmt, str::FromStr};

/// How audio is encoded: raw samples, a container that says more about itself, or either, to be
/// found out from the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A container; which one is read from its first bytes.
    Auto,
    /// Signed 16-bit little-endian samples.
    S16le,
    /// Signed 24-bit little-endian samples, three bytes each.
    S24le,
    /// Signed 32-bit little-endian samples.
    S32le,
    /// 32-bit little-endian floating-point samples.
    F32le,
    /// G.711 mu-law, one byte a sample.
    Mulaw,
    /// G.711 A-law, one byte a sample.
    Alaw,
    /// RIFF WAVE (also RF64) with PCM, float, mu-law or A-law samples.
    Wav,
    /// FLAC in its own container.
    Flac,
    /// MPEG audio layer III, with or without ID3 tags.
    Mp3,
    /// AAC in ADTS frames.
    Aac,
    /// AAC in MPEG-4: M4A and MP4, whole or fragmented.
    M4a,
    /// Opus in Ogg.
    Ogg,
    /// Opus in WebM or Matroska.
    Webm,
}

/// Every encoding with the names it goes by; the first is the one we write.
const NAMES: &[(Encoding, &[&str])] = &[
    (Encoding::Auto, &["auto"]),
    (Encoding::S16le, &["s16le", "linear16", "pcm_s16le", "pcm16", "s16"]),
    (Encoding::S24le, &["s24le", "linear24", "pcm_s24le", "pcm24", "s24"]),
    (Encoding::S32le, &["s32le", "linear32", "pcm_s32le", "pcm32", "s32"]),
    (Encoding::F32le, &["f32le", "pcm_f32le", "f32", "float32"]),
    (Encoding::Mulaw, &["mulaw", "pcm_mulaw", "pcmu", "ulaw", "mu-law", "g711_ulaw"]),
    (Encoding::Alaw, &["alaw", "pcm_alaw", "pcma", "a-law", "g711_alaw"]),
    (Encoding::Wav, &["wav", "wave"]),
    (Encoding::Flac, &["flac"]),
    (Encoding::Mp3, &["mp3", "mpga", "mpeg"]),
    (Encoding::Aac, &["aac", "adts"]),
    (Encoding::M4a, &["m4a", "mp4"]),
    (Encoding::Ogg, &["ogg", "opus", "ogg-opus", "ogg_opus", "oga"]),
    (Encoding::Webm, &["webm", "mkv", "mka", "matroska"]),
];

impl Encoding {
    /// Every encoding, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(encoding, _)| *encoding)
    }

    /// The name we write.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Every name that is understood, the one we write first.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        let found = NAMES.iter().find(|(encoding, _)| *encoding == self);
        found.map(|(_, names)| *names).expect("every encoding is in the table; a test sees to it")
    }

    /// Bytes of one sample of a raw encoding; `None` for containers.
    #[must_use]
    pub const fn sample_bytes(self) -> Option<usize> {
        match self {
            Self::Mulaw | Self::Alaw => Some(1),
            Self::S16le => Some(2),
            Self::S24le => Some(3),
            Self::S32le | Self::F32le => Some(4),
            _ => None,
        }
    }

    /// Whether the bytes are bare samples, which say neither rate nor channels.
    #[must_use]
    pub const fn is_raw(self) -> bool {
        self.sample_bytes().is_some()
    }

    /// What decoding costs; [`Encoding::Auto`] is heavy because it may turn out to be.
    #[must_use]
    pub const fn cost(self) -> Cost {
        if self.is_raw() || matches!(self, Self::Wav) { Cost::Light } else { Cost::Heavy }
    }
}

/// Where decoding should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// A few microseconds for a chunk of ordinary size: decode where you are.
    Light,
    /// A real codec: decode off the threads that serve sockets.
    Heavy,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(written: &str) -> Result<Self, UnknownEncoding> {
        let wanted = written.trim();
        let known = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(wanted));
        let found = NAMES.iter().find(|(_, names)| known(names));
        found
            .map(|(encoding, _)| *encoding)
            .ok_or_else(|| UnknownEncoding { written: wanted.chars().take(32).collect() })
    }
}

/// A name that no encoding goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEncoding {
    written: String,
}

impl std::error::Error for UnknownEncoding {}

impl fmt::Display for UnknownEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no encoding is called `{}`; there are ", self.written.escape_debug())?;
        for (i, encoding) in Encoding::all().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{encoding}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_encoding_and_to_no_other() {
        for encoding in Encoding::all() {
            for name in encoding.names() {
                assert_eq!(name.parse(), Ok(encoding));
                assert_eq!(name.to_uppercase().parse(), Ok(encoding));
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_exist() {
        let error = "speex\n".parse::<Encoding>().unwrap_err().to_string();
        assert!(error.contains("`speex`"), "{error}");
        for encoding in Encoding::all() {
            assert!(error.contains(encoding.name()), "{error}");
        }
        assert!("x".repeat(10_000).parse::<Encoding>().unwrap_err().to_string().len() < 300);
    }
}
