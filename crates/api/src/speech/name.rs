//! Names that are made up here, and names of models that others made up.

use std::{
    collections::hash_map::RandomState, fmt::Write as _, hash::BuildHasher as _, time::SystemTime,
};

use paceline_pipeline::speech::Speech;
use sha2::{Digest as _, Sha256};

use crate::ApiError;

/// A name that nobody else has, in the form of a UUID.
pub(super) fn fresh() -> String {
    let half = || RandomState::new().hash_one(0_u8);
    uuid((u128::from(half()) << 64 | u128::from(half())).to_be_bytes(), 4)
}

/// The same UUID whenever the same text is named.
pub(super) fn of(text: &str) -> String {
    let digest = Sha256::digest(text);
    uuid(std::array::from_fn(|at| digest[at]), 8)
}

fn uuid(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let groups = [0..4, 4..6, 6..8, 8..10, 10..16].map(|group| hex(&bytes[group]));
    groups.join("-")
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// The time of day, as RFC 3339 writes it.
pub(super) fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// How names of hosted models begin. Programs that were written for those ask for them.
const HOSTED: [&str; 12] = [
    "nova",
    "flux",
    "enhanced",
    "base",
    "general",
    "whisper",
    "gpt-",
    "distil-",
    "meeting",
    "phonecall",
    "voicemail",
    "vosk",
];

/// The model that a client means: one that is served here, or, where it names a hosted one or
/// none, the server's choice.
///
/// # Errors
///
/// When there is no such model, or it does not take audio.
pub(super) fn model(speech: &Speech, named: Option<&str>) -> Result<Chosen, ApiError> {
    let named = named.filter(|name| !name.is_empty());
    let own = speech.model(named);
    let is_hosted = named.is_some_and(|name| HOSTED.iter().any(|start| name.starts_with(start)));
    let (found, is_ours) = match own {
        Err(_) if is_hosted => (speech.model(None), false),
        own => (own, named.is_some()),
    };
    let model = found.map_err(|error| ApiError::new(error.code(), error.to_string()))?;
    let facts = model.facts();
    Ok(Chosen {
        name: facts.name.clone(),
        version: facts.version.to_string(),
        is_named: is_ours || named.is_none(),
    })
}

/// A model that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) version: String,
    /// Whether it is what the client asked for.
    pub(super) is_named: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_uuids_and_only_fresh_ones_differ() {
        let (one, other) = (fresh(), fresh());
        assert_ne!(one, other);
        assert_eq!(of("m"), of("m"));
        assert_ne!(of("m"), of("n"));
        for name in [one, other, of("m")] {
            let parts: Vec<usize> = name.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{name}");
            assert!("89ab".contains(&name[19..20]), "{name}");
        }
        assert_eq!(&fresh()[14..15], "4");
    }
}
