//! A full queue: whose items give way, and to whom.

use paceline_batch::{
    Batcher, Dropped, Failure, Key, Landing, Moment, Next, Refused, Scheduler, Settings, Tag,
};
use proptest::prelude::*;

const ROOM: usize = 12;

fn settings() -> Settings {
    Settings {
        max_items: Some(ROOM),
        queue_items: Some(ROOM),
        queue_bytes: Some(1200),
        ..Settings::default()
    }
}

fn scheduler() -> Scheduler<u64> {
    Scheduler::new(settings().validate().expect("valid settings"))
}

/// What a client asks for, under a key.
fn tag(client: u64, key: u8) -> Tag {
    Tag { client: Some(client), key: Key::of(&key), ..Tag::default() }
}

/// Offers so many items of one client, and says how many were taken. Payloads name the client.
fn offer(scheduler: &mut Scheduler<u64>, n_items: usize, tag: &Tag) -> usize {
    let client = tag.client.unwrap_or_default();
    (0..n_items).filter(|_| scheduler.offer(client, tag, None, Moment::START).is_ok()).count()
}

/// Who gave way since this was last asked, in that order.
fn gave_way(scheduler: &mut Scheduler<u64>) -> Vec<u64> {
    let left = scheduler.take_left().into_iter();
    left.map(|(client, why)| {
        assert_eq!(why, Dropped::GaveWay);
        client
    })
    .collect()
}

#[test]
fn nobody_gives_way_to_what_would_take_too_many() {
    let settings = Settings { queue_items: Some(1000), queue_bytes: Some(1000), ..settings() };
    let mut scheduler: Scheduler<u64> = Scheduler::new(settings.validate().unwrap());
    assert_eq!(offer(&mut scheduler, 1000, &Tag { bytes: 1, ..tag(1, 0) }), 1000);

    assert_eq!(offer(&mut scheduler, 1, &Tag { bytes: 65, ..tag(2, 0) }), 0);
    assert_eq!((gave_way(&mut scheduler), scheduler.n_waiting()), (vec![], 1000));
    assert_eq!(offer(&mut scheduler, 1, &Tag { bytes: 64, ..tag(2, 0) }), 1);
    assert_eq!((gave_way(&mut scheduler).len(), scheduler.n_waiting()), (64, 937));
}

#[test]
fn whoever_floods_gives_way_until_all_have_the_same() {
    let mut scheduler = scheduler();
    assert_eq!(offer(&mut scheduler, 50, &tag(1, 0)), ROOM, "alone, one may have it all");

    assert_eq!(offer(&mut scheduler, 50, &tag(2, 0)), ROOM / 2);
    assert_eq!(gave_way(&mut scheduler), vec![1; ROOM / 2]);
    assert_eq!(offer(&mut scheduler, 50, &tag(3, 0)), ROOM / 3);
    let mut gave = gave_way(&mut scheduler);
    gave.sort_unstable();
    assert_eq!(gave, [1, 1, 2, 2]);

    assert_eq!(offer(&mut scheduler, 50, &tag(1, 0)), 0, "they do not take turns to push");
    assert_eq!(scheduler.n_waiting(), ROOM);
    assert_eq!(scheduler.stats().items_dropped(Dropped::GaveWay), 10);
}

#[test]
fn keys_of_one_client_share_what_it_has() {
    let mut scheduler = scheduler();
    offer(&mut scheduler, ROOM, &tag(1, 0));

    assert_eq!(offer(&mut scheduler, 50, &tag(1, 7)), ROOM / 2);
    assert_eq!(gave_way(&mut scheduler).len(), ROOM / 2);

    // Many keys are no more than one client.
    for key in 10..40 {
        offer(&mut scheduler, 1, &tag(1, key));
    }
    assert_eq!(offer(&mut scheduler, 50, &tag(2, 0)), ROOM / 2);
}

#[test]
fn the_newest_gives_way_and_the_oldest_keeps_its_turn() {
    let mut scheduler = scheduler();
    for number in 0..ROOM as u64 {
        scheduler.offer(number, &tag(1, 0), None, Moment::START).expect("there is room");
    }
    scheduler.offer(100, &tag(2, 0), None, Moment::START).expect("another's newest gives way");
    scheduler.offer(101, &tag(2, 0), None, Moment::START).expect("another's newest gives way");

    let left: Vec<u64> = scheduler.take_left().into_iter().map(|(number, _)| number).collect();
    assert_eq!(left, [11, 10]);
    let Next::Batch(batch) = scheduler.next(Moment::START) else { panic!("a batch") };
    let gone: Vec<u64> = batch.boarded.iter().map(|item| item.payload).collect();
    assert_eq!(gone, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 101]);
}

#[test]
fn memory_counts_as_places_do() {
    let mut scheduler = scheduler();
    let heavy = Tag { bytes: 400, ..tag(1, 0) };
    assert_eq!(offer(&mut scheduler, 5, &heavy), 3);

    let light = Tag { bytes: 10, ..tag(2, 0) };
    assert_eq!(offer(&mut scheduler, 1, &light), 1, "one of those with much gives way");
    assert_eq!(gave_way(&mut scheduler), [1]);
    assert_eq!(offer(&mut scheduler, 3, &light), 3, "and what it left is enough for more");
    assert!(gave_way(&mut scheduler).is_empty());

    let too_much = Tag { bytes: 1000, ..tag(3, 0) };
    assert_eq!(offer(&mut scheduler, 1, &too_much), 0, "it would have more than those it pushes");
    assert!(gave_way(&mut scheduler).is_empty(), "and nobody leaves for nothing");
}

#[test]
fn whoever_has_no_client_neither_pushes_nor_gives_way() {
    let mut scheduler = scheduler();
    offer(&mut scheduler, ROOM, &Tag::default());
    assert_eq!(offer(&mut scheduler, 1, &tag(1, 0)), 0);

    let mut scheduler = self::scheduler();
    offer(&mut scheduler, ROOM, &tag(1, 0));
    assert_eq!(offer(&mut scheduler, 1, &Tag::default()), 0);
    assert!(gave_way(&mut scheduler).is_empty());
}

#[test]
fn what_is_hopeless_pushes_nobody() {
    let mut scheduler = scheduler();
    scheduler.learn(0, 1, std::time::Duration::from_secs(1));
    offer(&mut scheduler, ROOM, &tag(1, 0));

    let timeout = Some(std::time::Duration::from_millis(1));
    let refused = scheduler.offer(2, &Tag { timeout, ..tag(2, 0) }, None, Moment::START);
    assert!(refused.is_err());
    assert!(!scheduler.has_left());
}

proptest! {
    /// Whatever came and went before, whoever waits with least is refused only where nobody waits
    /// with two more.
    #[test]
    fn nobody_is_refused_beside_one_who_waits_with_more(
        steps in prop::collection::vec((0_u64..4, 0_u8..3, 0_u8..8), 1..200),
    ) {
        let mut scheduler = scheduler();
        let mut waiting = [0_usize; 4];
        for (client, key, step) in steps {
            if step == 0 {
                if let Next::Batch(batch) = scheduler.next(Moment::START) {
                    for item in &batch.boarded {
                        waiting[usize::try_from(item.payload).unwrap()] -= 1;
                    }
                    scheduler.finish(batch.flight, Landing::default(), [], Moment::START);
                }
                continue;
            }
            let offered = scheduler.offer(client, &tag(client, key), None, Moment::START);
            let of = usize::try_from(client).unwrap();
            match offered {
                Ok(_) => waiting[of] += 1,
                Err((refused, _)) => {
                    prop_assert_eq!(refused, Refused::QueueFull(ROOM));
                    let most = waiting.iter().max().copied().unwrap_or_default();
                    prop_assert!(most < waiting[of] + 2, "{:?}, {} was refused", waiting, client);
                }
            }
            for client in gave_way(&mut scheduler) {
                waiting[usize::try_from(client).unwrap()] -= 1;
            }
            prop_assert_eq!(waiting.iter().sum::<usize>(), scheduler.n_waiting());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_gave_way_is_told_at_once() {
    let limits = settings().validate().expect("valid settings");
    let (batcher, _timekeeper) = Batcher::<u32, u32>::pair(limits);
    // Nobody takes anything out.
    let _device = batcher.attach();
    let flood: Vec<_> =
        (0..ROOM).map(|_| batcher.try_submit(1, &tag(1, 0)).expect("there is room")).collect();

    let _other = batcher.try_submit(2, &tag(2, 0)).expect("the newest gives way");

    let newest = flood.into_iter().next_back().expect("it was taken in");
    let failure = newest.await.expect_err("it gave way");
    assert!(matches!(failure, Failure::GaveWay), "{failure}");
    assert_eq!(failure.code(), paceline_types::ErrorCode::Overloaded);
}
