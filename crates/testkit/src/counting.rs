//! An allocator that counts, for tests and benches that say what something holds or how often it
//! asks for memory.
//!
//! ```
//! #[global_allocator]
//! static MEMORY: paceline_testkit::Counting = paceline_testkit::Counting::new();
//!
//! let before = MEMORY.held();
//! let held = vec![0_u8; 1000];
//! assert!(before + 1000 <= MEMORY.held());
//! drop(held);
//! ```

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed},
};

/// The system's allocator, counted. Whatever else runs in the process is counted too, so a file that
/// uses it has one test.
#[derive(Debug)]
pub struct Counting {
    held: AtomicIsize,
    most: AtomicIsize,
    n_allocations: AtomicU64,
}

impl Counting {
    /// Nothing counted yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a static needs it to be const")]
    pub const fn new() -> Self {
        Self {
            held: AtomicIsize::new(0),
            most: AtomicIsize::new(0),
            n_allocations: AtomicU64::new(0),
        }
    }

    /// Bytes that are held.
    pub fn held(&self) -> isize {
        self.held.load(Relaxed)
    }

    /// Most bytes that were held at once since [`forget_most`](Self::forget_most).
    pub fn most(&self) -> isize {
        self.most.load(Relaxed)
    }

    /// Begins anew to look for the most.
    pub fn forget_most(&self) {
        self.most.store(self.held(), Relaxed);
    }

    /// How often memory was asked for.
    pub fn n_allocations(&self) -> u64 {
        self.n_allocations.load(Relaxed)
    }
}

#[expect(unsafe_code, reason = "a global allocator can be written no other way")]
// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size().cast_signed();
        self.most.fetch_max(self.held.fetch_add(size, Relaxed) + size, Relaxed);
        self.n_allocations.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.held.fetch_sub(layout.size().cast_signed(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
