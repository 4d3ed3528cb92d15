//! Where memory comes from.
//!
//! Requests are many small allocations on several threads, which mimalloc serves in half the time.
//! The crate of that name asks for every alignment by name, which for anything larger than a
//! kilobyte is the long way; what mimalloc gives is aligned for nearly everything as it is.
#![expect(unsafe_code, reason = "an allocator is")]

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::c_void,
};

use libmimalloc_sys as mi;

/// What every allocation is aligned to, however small.
const ALWAYS: usize = 8;

/// mimalloc.
pub(crate) struct Allocator;

// SAFETY: memory is taken from mimalloc and goes back to it, of the size that is asked for and
// aligned as is asked for: by name, or because all of it is.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two may be asked for.
        unsafe {
            if layout.align() <= ALWAYS {
                mi::mi_malloc(layout.size()).cast()
            } else {
                mi::mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if layout.align() <= ALWAYS {
                mi::mi_zalloc(layout.size()).cast()
            } else {
                mi::mi_zalloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: the caller has it from here, and does not use it any more.
        unsafe { mi::mi_free(memory.cast::<c_void>()) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller has it from here, and goes on with what comes back.
        unsafe {
            if layout.align() <= ALWAYS {
                mi::mi_realloc(memory.cast(), size).cast()
            } else {
                mi::mi_realloc_aligned(memory.cast(), size, layout.align()).cast()
            }
        }
    }
}
