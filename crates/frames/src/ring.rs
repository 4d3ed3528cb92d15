//! Frames in memory that producer and server share: a ring of slots in a file of `/dev/shm`.
//!
//! The producer writes a frame into the next slot and then announces it with a [`Handle`]; it never
//! waits for anybody. A slot says how often it was written. The reader looks before and after it
//! copied, so what it gets is the frame that was announced or nothing, never parts of two.
//!
//! Neither side maps the file. Both use plain reads and writes, so a producer that cuts its file short
//! makes an error and not a signal, and what is checked cannot change afterwards.
//!
//! ```text
//! 0      magic, bytes of a slot, number of slots
//! 4096   slot 0: state, bytes of a frame...   (slots begin at multiples of 64)
//! ```
//!
//! A state is twice the generation, plus one while the slot is being written. The producer holds a
//! lock on the file for as long as it lives. Frames of one that died can still be read; whoever looks
//! next ([`sweep`]) removes rings that nobody holds and that were not written for a while.

mod reader;

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::handle::{Handle, MAX_RING, is_ring};
pub use reader::{ReadError, Reader};

/// Where rings are, unless somebody says otherwise.
pub const FOLDER: &str = "/dev/shm";
/// What the name of every ring's file begins with.
const PREFIX: &str = "paceline-ring-";
const MAGIC: &[u8; 8] = b"PLRING01";
/// Where the slots begin.
const SLOTS_AT: u64 = 4096;
/// Bytes before the frame in a slot.
const STATE: u64 = 8;
/// Slots begin at multiples of this.
const ALIGN: u64 = 64;
/// How long a ring stays whose producer is gone.
const KEPT_FOR: Duration = Duration::from_mins(1);

/// Why there is no ring, or no room in it.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A name that cannot be one.
    #[error("a ring's name has 1 to {max} letters, digits, `-` and `_`", max = MAX_RING - 9)]
    BadName,
    /// No slots, or slots of nothing.
    #[error("a ring needs at least one slot, and a slot at least one byte")]
    Empty,
    /// A frame that fits no slot.
    #[error("the frame has {actual} bytes, and a slot of the ring {max}")]
    TooLarge {
        /// Of the frame.
        actual: usize,
        /// Of a slot.
        max: u64,
    },
    /// The system.
    #[error("the ring in shared memory: {0}")]
    Io(#[from] io::Error),
}

/// How a ring's file is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    slot_bytes: u64,
    slots: u64,
}

impl Layout {
    fn stride(self) -> u64 {
        (STATE + self.slot_bytes).next_multiple_of(ALIGN)
    }

    /// Where a slot begins.
    fn start(self, slot: u64) -> u64 {
        SLOTS_AT + slot * self.stride()
    }
}

/// A producer's end of a ring.
#[derive(Debug)]
pub struct Ring {
    name: String,
    path: PathBuf,
    file: File,
    layout: Layout,
    written: u64,
}

impl Ring {
    /// Makes a ring of `slots` frames of at most `slot_bytes` each in `folder`. `name` is made unique,
    /// so that a producer that starts again writes into another ring than the one it left behind.
    ///
    /// # Errors
    ///
    /// When the name or the size makes no sense, or there is no room.
    pub fn create(
        folder: &Path,
        name: &str,
        slot_bytes: u64,
        slots: u64,
    ) -> Result<Self, RingError> {
        let name = format!("{name}-{:08x}", rand::random::<u32>());
        if !is_ring(&name) {
            return Err(RingError::BadName);
        }
        if slot_bytes == 0 || slots == 0 {
            return Err(RingError::Empty);
        }
        sweep(folder);
        let path = folder.join(format!("{PREFIX}{name}"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from)?;
        let layout = Layout { slot_bytes, slots };
        file.set_len(layout.start(slots))?;
        let mut head = MAGIC.to_vec();
        head.extend(slot_bytes.to_le_bytes());
        head.extend(slots.to_le_bytes());
        file.write_all_at(&head, 0)?;
        Ok(Self { name, path, file, layout, written: 0 })
    }

    /// Writes a frame over the oldest and says where it is.
    ///
    /// # Errors
    ///
    /// When the frame fits no slot, or memory is short.
    pub fn write(&mut self, frame: &[u8]) -> Result<Handle, RingError> {
        let len = frame.len() as u64;
        if self.layout.slot_bytes < len {
            return Err(RingError::TooLarge { actual: frame.len(), max: self.layout.slot_bytes });
        }
        let slot = self.written % self.layout.slots;
        let generation = self.written / self.layout.slots + 1;
        let at = self.layout.start(slot);
        self.file.write_all_at(&(2 * generation + 1).to_le_bytes(), at)?;
        self.file.write_all_at(frame, at + STATE)?;
        self.file.write_all_at(&(2 * generation).to_le_bytes(), at)?;
        self.written += 1;
        Ok(Handle { ring: self.name.clone(), slot, generation, len })
    }

    /// Its name, as handles have it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes it with all frames that were not read yet. Without this it stays for a minute after
    /// its producer is gone.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn remove(self) -> Result<(), RingError> {
        Ok(fs::remove_file(&self.path)?)
    }
}

/// Removes rings whose producers are gone and that were not written for a minute.
pub fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PREFIX) && is_abandoned(&path).unwrap_or(false) {
            // Somebody else may have removed it meanwhile, or may have to.
            drop(fs::remove_file(&path));
        }
    }
}

fn is_abandoned(path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    let no_links = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.read(true).custom_flags(no_links).open(path)?;
    let facts = file.metadata()?;
    let age = SystemTime::now().duration_since(facts.modified()?).unwrap_or(Duration::ZERO);
    // Who holds it for writing lives.
    let is_free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
    Ok(facts.is_file() && is_free && KEPT_FOR <= age)
}

#[cfg(test)]
mod tests;
