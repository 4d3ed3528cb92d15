//! A frame handle: where in shared memory a frame lies, in about forty bytes of text.
//!
//! `door-1f3a9c:17:4711:20480` is the frame in slot 17 of ring `door-1f3a9c`, the 4711th that was
//! written to that slot, of 20480 bytes.

use std::{fmt, str::FromStr};

/// Longest name of a ring.
pub const MAX_RING: usize = 64;

/// Where a frame lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// The ring.
    pub ring: String,
    /// The slot in it.
    pub slot: u64,
    /// How many frames were written to the slot, this one included. A slot that says otherwise holds
    /// another frame by now.
    pub generation: u64,
    /// Bytes of the frame.
    pub len: u64,
}

/// Text that is no handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame handle is ring:slot:generation:length, such as door-1f3a9c:17:4711:20480")]
pub struct NotAHandle;

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.ring, self.slot, self.generation, self.len)
    }
}

impl FromStr for Handle {
    type Err = NotAHandle;

    fn from_str(text: &str) -> Result<Self, NotAHandle> {
        let mut parts = text.split(':');
        let ring = parts.next().filter(|ring| is_ring(ring)).ok_or(NotAHandle)?.to_owned();
        let mut number = || -> Result<u64, NotAHandle> {
            parts.next().and_then(|part| part.parse().ok()).ok_or(NotAHandle)
        };
        let (slot, generation, len) = (number()?, number()?, number()?);
        match parts.next() {
            None => Ok(Self { ring, slot, generation, len }),
            Some(_) => Err(NotAHandle),
        }
    }
}

/// Whether a ring may be called so; names become part of a path.
pub(crate) fn is_ring(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_RING).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_handle_leads_back_to_itself(
            ring in "[a-zA-Z0-9_-]{1,64}", slot: u64, generation: u64, len: u64)
        {
            let handle = Handle { ring, slot, generation, len };
            prop_assert_eq!(handle.to_string().parse(), Ok(handle));
        }

        #[test]
        fn no_text_is_a_path(text in "\\PC{0,40}") {
            if let Ok(handle) = text.parse::<Handle>() {
                prop_assert!(is_ring(&handle.ring));
            }
        }
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        for text in ["", "a", "a:1:2", "a:1:2:3:4", "../a:1:2:3", "a:-1:2:3", ":1:2:3", "a/b:1:2:3"]
        {
            assert_eq!(text.parse::<Handle>(), Err(NotAHandle), "{text}");
        }
    }
}
