//! Memory that results are copied into, used again: a large allocation of its own for every call
//! would cost as much as the copy, because the system hands it out page by page and cleared.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Most bytes that are kept for later, in all. Answers that are on their way to slow clients are many.
const MAX_KEPT: usize = 128 << 20;
/// What is smaller than this, the allocator has at hand.
const MIN_KEPT: usize = 128 << 10;

/// Buffers that wait to be used again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    /// A buffer of so many bytes that `fill` fills, whole, or fails to. It comes back here when
    /// nobody looks at it any more.
    pub(crate) fn fill<E>(
        &self,
        n_bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        if !(MIN_KEPT..=MAX_KEPT).contains(&n_bytes) {
            let mut buffer = vec![0; n_bytes];
            fill(&mut buffer)?;
            return Ok(buffer.into());
        }
        let mut lent = Lent { buffer: self.take(n_bytes), home: self.clone() };
        fill(&mut lent.buffer[..n_bytes])?;
        // What another call left behind is cut off.
        Ok(Bytes::from_owner(lent).slice(..n_bytes))
    }

    fn take(&self, n_bytes: usize) -> Vec<u8> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The last to come back is the likeliest to be in the processor's caches.
        let fits = kept.iter().rposition(|buffer| n_bytes <= buffer.len());
        // The next call's results are likely to be a little larger or smaller.
        fits.map_or_else(|| vec![0; n_bytes + n_bytes / 8], |at| kept.remove(at))
    }
}

/// A buffer that somebody looks at.
struct Lent {
    buffer: Vec<u8>,
    home: Spare,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n_kept: usize = kept.iter().map(Vec::len).sum();
        if n_kept + self.buffer.len() <= MAX_KEPT {
            kept.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let spare = Spare::default();
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
        let spare = Spare::default();
        let lent: Vec<_> = (0..5).map(|_| filled(&spare, MAX_KEPT / 4, 1)).collect();
        drop((lent, filled(&spare, MAX_KEPT + 1, 1), filled(&spare, 3, 1)));

        assert_eq!(spare.0.lock().unwrap().len(), 3, "each is an eighth larger than was asked for");
    }
}
