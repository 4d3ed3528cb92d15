//! Keys that left cost nothing, counted in bytes that are really held.

use paceline_batch::{Key, Landing, Moment, Next, Scheduler, Settings, Tag};
use paceline_testkit::Counting;

#[global_allocator]
static MEMORY: Counting = Counting::new();

#[test]
fn ten_thousand_keys_used_once_leave_nothing_behind() {
    let settings = Settings { queue_items: Some(20_000), ..Settings::default() };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    let before = MEMORY.held();

    for number in 0..10_000_u32 {
        let tag = Tag { key: Key::of(&number), ..Tag::default() };
        scheduler.offer(number, &tag, None, Moment::START).unwrap();
    }
    let crowded = MEMORY.held();
    while let Next::Batch(batch) = scheduler.next(Moment::START) {
        scheduler.finish(batch.flight, Landing::default(), [], Moment::START);
    }
    let after = MEMORY.held();

    assert!(before + 1_000_000 < crowded, "the crowd did take memory");
    assert!(after <= before + 4096, "{before} bytes before, {after} after");
}
