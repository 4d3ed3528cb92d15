//! Memory that large tensors are copied into, used again: a large allocation of its own for every one
//! would cost as much as the copy, because the system hands it out page by page and cleared.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// What is smaller than this, the allocator has at hand.
const MIN_KEPT: usize = 128 << 10;

/// Buffers that wait to be used again.
#[derive(Debug, Clone)]
pub struct Spare(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    /// Most bytes that are kept for later, in all.
    max_kept: usize,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Spare {
    /// Keeps at most so many bytes for later.
    #[must_use]
    pub fn new(max_kept: usize) -> Self {
        Self(Arc::new(Shelf { max_kept, buffers: Mutex::default() }))
    }

    /// A buffer of so many bytes that `fill` fills, whole, or fails to. It comes back here when
    /// nobody looks at it any more.
    ///
    /// # Errors
    /// What `fill` fails with.
    pub fn fill<E>(
        &self,
        n_bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        let mut room = self.room(n_bytes);
        if room.buffer.len() < n_bytes {
            room.buffer.resize(n_bytes, 0);
        }
        fill(&mut room.buffer[..n_bytes])?;
        room.n_filled = n_bytes;
        Ok(room.into())
    }

    /// Room for so many bytes, or more, that come piece by piece. Until they come it costs nothing, so
    /// who promises many takes no memory.
    #[must_use]
    pub fn room(&self, n_bytes: usize) -> Room {
        let is_kept = (MIN_KEPT..=self.0.max_kept).contains(&n_bytes);
        let buffer = if is_kept { self.0.take(n_bytes) } else { Vec::with_capacity(n_bytes) };
        Room { buffer, n_filled: 0, home: is_kept.then(|| Arc::clone(&self.0)) }
    }
}

impl Shelf {
    fn take(&self, n_bytes: usize) -> Vec<u8> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        // The last to come back is the likeliest to be in the processor's caches.
        let fits = buffers.iter().rposition(|buffer| n_bytes <= buffer.capacity());
        // What comes next is likely to be a little larger or smaller.
        fits.map_or_else(|| Vec::with_capacity(n_bytes + n_bytes / 8), |at| buffers.remove(at))
    }
}

/// A buffer that is filled from its beginning on, and then looked at.
#[derive(Debug)]
pub struct Room {
    /// As long as it ever was: what another has left behind is written over, and never seen.
    buffer: Vec<u8>,
    n_filled: usize,
    home: Option<Arc<Shelf>>,
}

impl Room {
    /// Appends a piece.
    pub fn push(&mut self, piece: &[u8]) {
        let left_behind = &mut self.buffer[self.n_filled..];
        let (over, beyond) = piece.split_at(piece.len().min(left_behind.len()));
        left_behind[..over.len()].copy_from_slice(over);
        self.buffer.extend_from_slice(beyond);
        self.n_filled += piece.len();
    }
}

/// What was filled in.
impl From<Room> for Bytes {
    fn from(mut room: Room) -> Self {
        if room.home.is_some() {
            return Self::from_owner(room);
        }
        room.buffer.truncate(room.n_filled);
        std::mem::take(&mut room.buffer).into()
    }
}

impl AsRef<[u8]> for Room {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.n_filled]
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let Some(home) = &self.home else { return };
        let mut buffers = home.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let n_kept: usize = buffers.iter().map(Vec::capacity).sum();
        if n_kept + self.buffer.capacity() <= home.max_kept {
            buffers.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_KEPT: usize = 8 << 20;

    /// So many bytes of one value.
    fn filled(spare: &Spare, n_bytes: usize, value: u8) -> Bytes {
        let fill = |buffer: &mut [u8]| {
            buffer.fill(value);
            Ok::<(), ()>(())
        };
        spare.fill(n_bytes, fill).unwrap()
    }

    #[test]
    fn a_buffer_is_used_again_once_nobody_looks_at_it() {
        let spare = Spare::new(MAX_KEPT);
        let bytes = filled(&spare, MIN_KEPT + 9, 7);
        let place = bytes.as_ptr();
        let part = bytes.slice(10..20);
        drop(bytes);

        let other = filled(&spare, MIN_KEPT, 1);
        assert_ne!(other.as_ptr(), place, "somebody still looks at a part");
        drop(part);

        let again = filled(&spare, MIN_KEPT, 2);
        assert_eq!((again.as_ptr(), again.len()), (place, MIN_KEPT));
        assert!(again.iter().all(|byte| *byte == 2) && other.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn no_more_is_kept_than_is_allowed() {
        let spare = Spare::new(MAX_KEPT);
        let lent: Vec<_> = (0..5).map(|_| filled(&spare, MAX_KEPT / 4, 1)).collect();
        drop((lent, filled(&spare, MAX_KEPT + 1, 1), filled(&spare, 3, 1)));

        assert_eq!(
            spare.0.buffers.lock().unwrap().len(),
            3,
            "each is an eighth larger than was asked for"
        );
    }

    #[test]
    fn room_that_is_only_promised_is_not_touched() {
        let room = Spare::new(MAX_KEPT).room(2 * MIN_KEPT);

        assert_eq!((room.buffer.len(), room.buffer.capacity() >= 2 * MIN_KEPT), (0, true));
    }

    #[test]
    fn pieces_are_appended_whether_or_not_there_was_room_for_them() {
        let spare = Spare::new(MAX_KEPT);
        drop(filled(&spare, 2 * MIN_KEPT, 9));
        let pieces = [vec![1; 3], Vec::new(), vec![2; MIN_KEPT], vec![3; 2]];

        for n_bytes in [0, 5, MIN_KEPT] {
            let mut room = spare.room(n_bytes);
            for piece in &pieces {
                room.push(piece);
            }
            assert_eq!(Bytes::from(room), pieces.concat(), "{n_bytes}");
        }
    }
}
