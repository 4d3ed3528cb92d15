//! Why audio could not be decoded.

use std::time::Duration;

use paceline_types::ErrorCode;
use thiserror::Error;

use crate::Encoding;

/// Why audio could not be decoded. The stream it happened to gives no more samples.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Raw samples were announced without rate and channels.
    #[error("{encoding} audio carries neither rate nor channels; say both")]
    FormatMissing {
        /// The raw encoding.
        encoding: Encoding,
    },
    /// The first bytes are of no known container.
    #[error(
        "the audio is in no known container (wav, flac, mp3, aac, m4a, ogg, webm); raw samples need their encoding named"
    )]
    UnknownContainer,
    /// A rate out of bounds.
    #[error("a rate of {rate} Hz is not within {lowest} to {highest} Hz")]
    Rate {
        /// The rate of the stream.
        rate: u32,
        /// The lowest that is taken.
        lowest: u32,
        /// The highest that is taken.
        highest: u32,
    },
    /// No channels, or too many.
    #[error("{channels} channels are not within 1 to {most}")]
    Channels {
        /// The channels of the stream.
        channels: u16,
        /// The most that are taken.
        most: u16,
    },
    /// The stream lasts too long.
    #[error("the audio is longer than {} s", limit.as_secs())]
    TooLong {
        /// The longest that is taken.
        limit: Duration,
    },
    /// A few bytes became too many samples.
    #[error("the audio decodes to more than {limit} samples a byte")]
    Expansion {
        /// The most samples per byte.
        limit: u32,
    },
    /// Too much of the stream is not audio.
    #[error("the headers of the {encoding} audio are longer than {limit} bytes")]
    HeaderTooLong {
        /// The container.
        encoding: Encoding,
        /// The most bytes that are taken.
        limit: u64,
    },
    /// The index of an M4A comes after its audio, which is more than may be held.
    #[error(
        "the m4a has its index after its audio, of which at most {limit} bytes are held; write it with the index first (ffmpeg: -movflags +faststart)"
    )]
    IndexAtEnd {
        /// The most bytes that are held.
        limit: usize,
    },
    /// The bytes break the rules of their container or codec.
    #[error("the {encoding} audio is malformed: {what}")]
    Malformed {
        /// The container.
        encoding: Encoding,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The audio is well-formed, but not of a kind that is decoded here.
    #[error("the {encoding} audio is of a kind that is not decoded: {what}")]
    Unsupported {
        /// The container.
        encoding: Encoding,
        /// What it holds.
        what: &'static str,
    },
    /// The stream ended before there was any audio.
    #[error("the {encoding} audio ends within its header")]
    EndsInHeader {
        /// The container.
        encoding: Encoding,
    },
    /// Rate or channels changed in the middle of a stream.
    #[error(
        "the {encoding} audio changes its rate or channels midway; start a new stream for that"
    )]
    FormatChanged {
        /// The container.
        encoding: Encoding,
    },
    /// Bytes came after the decoder had failed or finished.
    #[error("the decoder is at its end and takes no more audio")]
    Over,
}

impl DecodeError {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::Over => ErrorCode::Internal,
            _ => ErrorCode::InvalidInput,
        }
    }
}
