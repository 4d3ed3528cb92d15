//! Which container it is, from its first bytes.

use crate::Encoding;

/// Bytes that tell.
pub(super) const ENOUGH: usize = 12;

/// The container that begins with `bytes`.
pub(super) fn sniff(bytes: &[u8]) -> Option<Encoding> {
    match bytes {
        [b'R', b'I', b'F', b'F', ..]
        | [b'R', b'F', b'6', b'4', ..]
        | [b'B', b'W', b'6', b'4', ..] => Some(Encoding::Wav),
        [b'f', b'L', b'a', b'C', ..] => Some(Encoding::Flac),
        [b'O', b'g', b'g', b'S', ..] => Some(Encoding::Ogg),
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Some(Encoding::Webm),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some(Encoding::M4a),
        [b'I', b'D', b'3', ..] => Some(Encoding::Mp3),
        // The layer, which is 0 for AAC only.
        [0xff, second, ..] if second & 0xf6 == 0xf0 => Some(Encoding::Aac),
        [0xff, second, ..] if second & 0xe6 == 0xe2 => Some(Encoding::Mp3),
        _ => None,
    }
}
