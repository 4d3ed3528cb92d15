//! Memory that is shared with a worker: an anonymous file whose size is sealed.
//!
//! It has no name, so nobody else finds it and nothing is left of it when both sides are gone. It
//! is written and read here with plain system calls, never mapped: what a worker does to its side
//! can change the bytes that are read, but not where or whether they are read.

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use bytes::Bytes;
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    io::{Errno, pread, pwritev},
};

use crate::spare::Spare;

/// The least that is made: a small call's worth. Pages that are not used cost nothing.
pub(crate) const MIN: usize = 1 << 20;
/// The most that one call's requests or results may take.
pub(crate) const MAX: usize = 1 << 31;
/// Most pieces that one system call takes.
const MAX_PIECES: usize = 1024;

/// Memory that is shared with a worker.
#[derive(Debug)]
pub(crate) struct Segment {
    file: OwnedFd,
    size: usize,
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
        Ok(Self { file, size })
    }

    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Writes pieces one after the other from the start on.
    pub(crate) fn write(&self, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut at = 0;
        // Drops what is empty, so that nothing written means that nothing could be.
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let now = &pieces[..pieces.len().min(MAX_PIECES)];
            match pwritev(&self.file, now, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n_written) => {
                    at += n_written as u64;
                    IoSlice::advance_slices(&mut pieces, n_written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Copies the first `n_bytes` out, once. The caller has checked that there are as many.
    pub(crate) fn read(&self, n_bytes: usize, spare: &Spare) -> io::Result<Bytes> {
        spare.fill(n_bytes, |copy| {
            let mut at = 0;
            while at < n_bytes {
                match pread(&self.file, &mut copy[at..], at as u64) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(n_read) => at += n_read,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        })
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_pieces_is_read_whole() {
        let segment = Segment::create(10).unwrap();
        let numbers: Vec<[u8; 2]> = (0..3000_u16).map(u16::to_le_bytes).collect();
        let mut pieces: Vec<IoSlice<'_>> = numbers.iter().map(|n| IoSlice::new(n)).collect();

        segment.write(&mut pieces).unwrap();

        assert_eq!(segment.read(6000, &Spare::default()).unwrap(), numbers.concat());
    }

    #[test]
    fn nobody_can_change_its_size() {
        let segment = Segment::create(10).unwrap();

        assert_eq!(ftruncate(&segment, 0), Err(Errno::PERM));
        assert_eq!(ftruncate(&segment, 2 * MIN as u64), Err(Errno::PERM));
        assert!(Segment::create(MAX + 1).is_err());
    }
}
