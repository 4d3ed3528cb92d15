//! Keys that left cost nothing, counted in bytes that are really held.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicIsize, Ordering},
};

use paceline_batch::{Key, Landing, Moment, Next, Scheduler, Settings, Tag};

/// Counts the bytes that are held. This file has one test, so nobody else's are counted.
struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "a global allocator can be written no other way")]
// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn ten_thousand_keys_used_once_leave_nothing_behind() {
    let settings = Settings { queue_items: Some(20_000), ..Settings::default() };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    let before = HELD.load(Ordering::Relaxed);

    for number in 0..10_000_u32 {
        let tag = Tag { key: Key::of(&number), ..Tag::default() };
        scheduler.offer(number, &tag, None, Moment::START).unwrap();
    }
    let crowded = HELD.load(Ordering::Relaxed);
    while let Next::Batch(batch) = scheduler.next(Moment::START) {
        scheduler.finish(batch.flight, Landing::default(), [], Moment::START);
    }
    let after = HELD.load(Ordering::Relaxed);

    assert!(before + 1_000_000 < crowded, "the crowd did take memory");
    assert!(after <= before + 4096, "{before} bytes before, {after} after");
}
