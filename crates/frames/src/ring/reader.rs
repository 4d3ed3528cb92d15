//! The server's end of all rings: copies a frame out, or says why it cannot be had.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::OFlags;

use super::{Layout, MAGIC, PREFIX, STATE};
use crate::Handle;

/// Most rings that are kept open.
const MAX_OPEN: usize = 1024;

/// Why a frame cannot be had. It cannot be had later either.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its slot holds a later frame.
    #[error("the frame was overwritten before it was read; a ring with more slots keeps it longer")]
    Overwritten,
    /// There is no such ring here.
    #[error("ring `{0}` is not on this machine, or its producer is long gone")]
    NoRing(String),
    /// A file that is no ring, or a handle that does not fit it.
    #[error("the handle does not fit ring `{0}`")]
    Misfit(String),
    /// The system.
    #[error("ring `{0}` cannot be read: {1}")]
    Io(String, io::Error),
}

/// Reads frames by their handles.
#[derive(Debug)]
pub struct Reader {
    folder: PathBuf,
    open: Mutex<HashMap<String, Arc<Open>>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    layout: Layout,
}

impl Reader {
    /// Reads rings of this folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, open: Mutex::default() }
    }

    /// Copies a frame. The handle comes from a stranger; its length was bounded by the caller.
    ///
    /// # Errors
    ///
    /// When the frame cannot be had.
    pub fn read(&self, handle: &Handle) -> Result<Vec<u8>, ReadError> {
        let ring = self.ring(&handle.ring)?;
        let Layout { slot_bytes, slots } = ring.layout;
        let length = usize::try_from(handle.len).ok().filter(|_| handle.len <= slot_bytes);
        let (Some(length), true) = (length, handle.slot < slots) else {
            return Err(ReadError::Misfit(handle.ring.clone()));
        };
        let failed = |error| ReadError::Io(handle.ring.clone(), error);
        let at = ring.layout.start(handle.slot);
        let mut frame = vec![0; length];
        ring.check(handle, at)?;
        ring.file.read_exact_at(&mut frame, at + STATE).map_err(failed)?;
        // ORDER: looked at again after the copy, so that a frame that was written over meanwhile is
        // noticed.
        ring.check(handle, at)?;
        Ok(frame)
    }

    /// Closes all rings, so that those whose files are gone give their memory back.
    pub fn close_all(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn ring(&self, name: &str) -> Result<Arc<Open>, ReadError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ring) = open.get(name) {
            return Ok(Arc::clone(ring));
        }
        // Whoever has that many at once pays for opening them again.
        if MAX_OPEN <= open.len() {
            open.clear();
        }
        let ring = Arc::new(Open::new(&self.folder.join(format!("{PREFIX}{name}")), name)?);
        open.insert(name.to_owned(), Arc::clone(&ring));
        Ok(ring)
    }
}

impl Open {
    fn new(path: &std::path::Path, name: &str) -> Result<Self, ReadError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => ReadError::NoRing(name.to_owned()),
            _ => ReadError::Io(name.to_owned(), error),
        };
        let mut options = OpenOptions::new();
        let no_links = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = options.read(true).custom_flags(no_links).open(path).map_err(failed)?;
        let mut head = [0; 24];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        let (magic, sizes) = head.split_at(MAGIC.len());
        let mut numbers = sizes.chunks_exact(8).map(number);
        let layout = match (numbers.next(), numbers.next()) {
            (Some(slot_bytes), Some(slots)) if magic == MAGIC => Layout { slot_bytes, slots },
            _ => return Err(ReadError::Misfit(name.to_owned())),
        };
        // Sizes whose product would not fit are no sizes.
        let fits = layout.slot_bytes < 1 << 32 && layout.slots < 1 << 24;
        if fits { Ok(Self { file, layout }) } else { Err(ReadError::Misfit(name.to_owned())) }
    }

    fn check(&self, handle: &Handle, at: u64) -> Result<(), ReadError> {
        let mut state = [0; 8];
        let read = self.file.read_exact_at(&mut state, at);
        read.map_err(|error| ReadError::Io(handle.ring.clone(), error))?;
        let expected = handle.generation.checked_mul(2);
        let is_it = expected == Some(u64::from_le_bytes(state));
        is_it.then_some(()).ok_or(ReadError::Overwritten)
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
