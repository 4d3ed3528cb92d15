//! Keys and crowds that left cost nothing, counted in bytes that are really held.

use paceline_batch::{Key, Landing, Moment, Next, Scheduler, Settings, Tag};
use paceline_testkit::Counting;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// One test, because there is one count for all that run at once.
#[test]
fn what_has_left_leaves_nothing_behind() {
    ten_thousand_keys_used_once();
    a_crowd_of_one_key_while_others_wait();
}

fn ten_thousand_keys_used_once() {
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

fn a_crowd_of_one_key_while_others_wait() {
    let settings = Settings { queue_items: Some(20_000), ..Settings::default() };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    // Two of a lane: the first is under way, the second waits for that.
    let lane = scheduler.open_lane(());
    for number in 0..2 {
        let tag = Tag { key: Key::of(&1), ..Tag::default() };
        scheduler.offer(number, &tag, Some(lane), Moment::START).unwrap();
    }
    let Next::Batch(_under_way) = scheduler.next(Moment::START) else { panic!("one can go") };
    let timeout = Some(std::time::Duration::from_secs(1));
    for number in 0..10_000 {
        let tag = Tag { timeout, ..Tag::default() };
        scheduler.offer(number, &tag, None, Moment::START).unwrap();
    }
    let crowded = MEMORY.held();
    while 1 < scheduler.n_waiting() {
        let Next::Batch(batch) = scheduler.next(Moment::START) else { panic!("they wait") };
        scheduler.finish(batch.flight, Landing::default(), [], Moment::START);
    }
    let after = MEMORY.held();

    // Two rings, of contenders and of deadlines, with 24 bytes a place.
    assert!(after + 2 * 10_000 * 24 <= crowded, "{crowded} bytes in the crowd, {after} after");
}
