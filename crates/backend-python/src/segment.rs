//! Memory that is shared with a worker: an anonymous file whose size is sealed.
//!
//! It has no name, so nobody else finds it and nothing is left of it when both sides are gone. It
//! is mapped, because a system call that copies goes page by page and takes more than twice as long.
//! No part of it is ever borrowed, only copied: what a worker does to its side can change the bytes
//! that are read, but not where or whether they are read. Nor can it take pages away for good: a page
//! that it gives up is there again, empty, when somebody reads it.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use bytes::Bytes;
use paceline_types::Spare;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vm_memory::{Bytes as _, FileOffset, MmapRegion, VolatileMemory as _};

/// The least that is made: a small call's worth. Pages that are not used cost nothing.
pub(crate) const MIN: usize = 1 << 20;
/// The most that one call's requests or results may take.
pub(crate) const MAX: usize = 1 << 31;

/// Memory that is shared with a worker.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Arc<File>,
    memory: MmapRegion,
}

impl Segment {
    /// Room for so many bytes and then some, so that it is not soon made again.
    pub(crate) fn create(n_bytes: usize) -> io::Result<Self> {
        let size = n_bytes.max(MIN).next_power_of_two();
        if MAX < size {
            let message = format!("{n_bytes} bytes in one call; at most {MAX} can be shared");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("paceline", flags)?;
        ftruncate(&file, size as u64)?;
        // Neither side can take the ground from under the other.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let file = Arc::new(File::from(file));
        let whole = FileOffset::from_arc(Arc::clone(&file), 0);
        let memory = MmapRegion::from_file(whole, size).map_err(io::Error::other)?;
        Ok(Self { file, memory })
    }

    pub(crate) fn size(&self) -> usize {
        self.memory.len()
    }

    /// Copies bytes in. The caller has made enough room.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.memory.as_volatile_slice().write_slice(bytes, at).map_err(io::Error::other)
    }

    /// Copies the first `n_bytes` out, once. The caller has checked that there are as many.
    pub(crate) fn read(&self, n_bytes: usize, spare: &Spare) -> io::Result<Bytes> {
        let memory = self.memory.as_volatile_slice();
        spare.fill(n_bytes, |copy| memory.read_slice(copy, 0).map_err(io::Error::other))
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::{Errno, pread},
    };

    use super::*;

    #[test]
    fn what_is_written_in_pieces_is_read_whole_on_either_side() {
        let segment = Segment::create(10).unwrap();
        let numbers: Vec<[u8; 2]> = (0..3000_u16).map(u16::to_le_bytes).collect();

        for (at, number) in numbers.iter().enumerate() {
            segment.write(2 * at, number).unwrap();
        }

        assert_eq!(segment.read(6000, &Spare::new(0)).unwrap(), numbers.concat());
        let mut other = vec![0; 6000];
        assert_eq!(pread(&segment, &mut other, 0), Ok(6000));
        assert_eq!(other, numbers.concat());
    }

    #[test]
    fn beyond_its_end_nothing_is_written_or_read() {
        let segment = Segment::create(10).unwrap();

        assert!(segment.write(MIN, &[1]).is_err() && segment.write(MIN - 1, &[1, 2]).is_err());
        assert!(segment.read(MIN + 1, &Spare::new(0)).is_err());
        segment.write(MIN - 1, &[1]).unwrap();
        assert_eq!(segment.read(MIN, &Spare::new(0)).unwrap().last(), Some(&1));
    }

    #[test]
    fn pages_that_the_other_side_gives_up_are_there_again() {
        let segment = Segment::create(10).unwrap();
        segment.write(0, &[7; 9000]).unwrap();

        let gives_up = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&segment, gives_up, 0, MIN as u64).unwrap();

        assert_eq!(segment.read(9000, &Spare::new(0)).unwrap(), [0; 9000][..]);
    }

    #[test]
    fn nobody_can_change_its_size() {
        let segment = Segment::create(10).unwrap();

        assert_eq!(ftruncate(&segment, 0), Err(Errno::PERM));
        assert_eq!(ftruncate(&segment, 2 * MIN as u64), Err(Errno::PERM));
        assert!(Segment::create(MAX + 1).is_err());
    }
}
