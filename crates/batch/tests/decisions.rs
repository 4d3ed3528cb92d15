//! What the scheduler reckons with when it lets items in and batches go, to the millisecond.

use std::time::Duration;

use paceline_batch::{
    Buckets, Dropped, FireReason, FlightId, Key, Landing, Moment, Next, PolicyName, Priority,
    Refused, Scheduler, Settings, Tag,
};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Moment {
    Moment::at(ms(millis))
}

/// At most four in a call, which takes 10 ms however many they are.
fn scheduler() -> Scheduler<u32> {
    let settings = Settings { max_items: Some(4), ..Settings::default() };
    let mut scheduler = Scheduler::new(settings.validate().expect("valid settings"));
    scheduler.learn(0, 1, ms(10));
    scheduler.learn(0, 4, ms(10));
    scheduler
}

fn offer(scheduler: &mut Scheduler<u32>, tag: &Tag, now: u64) -> Result<(), Refused> {
    scheduler.offer(0, tag, None, at(now)).map(drop).map_err(|(refused, _)| refused)
}

/// The shortest timeout in milliseconds with which such an item is let in; it is taken out again.
fn soonest(scheduler: &mut Scheduler<u32>, tag: &Tag, now: u64) -> u64 {
    let is_let_in = |timeout: &u64| {
        let tag = Tag { timeout: Some(ms(*timeout)), ..*tag };
        match scheduler.offer(0, &tag, None, at(now)) {
            Ok(id) => scheduler.withdraw(id, at(now)).is_some(),
            Err((refused, _)) => {
                assert_eq!(refused, Refused::Hopeless);
                false
            }
        }
    };
    (1..1000).find(is_let_in).expect("a second is enough")
}

fn pull(scheduler: &mut Scheduler<u32>, now: u64) -> (usize, FireReason, FlightId) {
    match scheduler.next(at(now)) {
        Next::Batch(batch) => (batch.boarded.len(), batch.facts.fired, batch.flight),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_waits_for_its_own_items_and_for_nobody_elses() {
    let mut scheduler = scheduler();
    let stream = |stream| Tag { stream: Some(stream), ..Tag::default() };
    for _ in 0..8 {
        offer(&mut scheduler, &stream(1), 0).unwrap();
    }

    assert_eq!(soonest(&mut scheduler, &stream(1), 0), 30, "two calls ahead, and its own");
    assert_eq!(soonest(&mut scheduler, &stream(2), 0), 10);
    scheduler.set_devices(2);
    assert_eq!(soonest(&mut scheduler, &stream(1), 0), 20, "the two at once");
}

#[test]
fn whoever_goes_last_waits_for_all_and_whoever_does_not_may_go_first() {
    let mut scheduler = scheduler();
    for _ in 0..8 {
        offer(&mut scheduler, &Tag { timeout: Some(ms(28)), ..Tag::default() }, 0).unwrap();
    }
    let let_in = |scheduler: &mut Scheduler<u32>, timeout| {
        offer(scheduler, &Tag { timeout: Some(ms(timeout)), ..Tag::default() }, 0)
    };

    assert_eq!(let_in(&mut scheduler, 29), Err(Refused::Hopeless));
    assert_eq!(let_in(&mut scheduler, 28), Err(Refused::Hopeless), "after those as urgent as it");
    assert_eq!(let_in(&mut scheduler, 27), Ok(()));
    assert_eq!(let_in(&mut scheduler, 9), Err(Refused::Hopeless), "its own call takes longer");
    assert_eq!(let_in(&mut scheduler, 30), Ok(()));
}

#[test]
fn a_device_is_free_when_its_call_should_end_and_not_before_now() {
    let mut scheduler = scheduler();
    offer(&mut scheduler, &Tag::default(), 0).unwrap();
    pull(&mut scheduler, 0);

    assert_eq!(soonest(&mut scheduler, &Tag::default(), 4), 16);
    assert_eq!(soonest(&mut scheduler, &Tag::default(), 15), 10, "it is overdue");
    scheduler.set_devices(2);
    assert_eq!(soonest(&mut scheduler, &Tag::default(), 4), 10, "the other one is free");
    offer(&mut scheduler, &Tag::default(), 2).unwrap();
    pull(&mut scheduler, 2);
    assert_eq!(soonest(&mut scheduler, &Tag::default(), 4), 16, "the first of them to be");
}

#[test]
fn what_has_left_is_not_counted_towards_a_full_batch() {
    let settings = Settings { max_cost: Some(100), ..Settings::default() };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    for now in 0..200 {
        offer(&mut scheduler, &Tag::default(), now).unwrap();
        let (n_items, fired, flight) = pull(&mut scheduler, now);
        assert_eq!((n_items, fired), (1, FireReason::FastPath), "at {now}");
        scheduler.finish(flight, Landing::default(), [], at(now));
    }
}

#[test]
fn a_shorter_item_costs_what_it_is_padded_to() {
    let settings = Settings {
        max_items: Some(16),
        max_cost: Some(800),
        buckets: Buckets::Edges(vec![100, 400]),
        ..Settings::default()
    };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    for (length, cost, n_fit) in
        [(200, 200, 2), (400, 400, 2), (100, 100, 8), (99, 99, 8), (40, 20, 16)]
    {
        let tag = Tag { length, cost, ..Tag::default() };
        for _ in 0..16 {
            offer(&mut scheduler, &tag, 0).unwrap();
        }
        let (n_items, fired, _) = pull(&mut scheduler, 0);
        assert_eq!((n_items, fired), (n_fit, FireReason::Full), "{length} long");
        while let Next::Batch(_) = scheduler.next(at(0)) {}
    }
    // Beyond the last edge nothing is padded, and without a length nothing is known.
    for tag in
        [Tag { length: 500, cost: 800, ..Tag::default() }, Tag { cost: 800, ..Tag::default() }]
    {
        offer(&mut scheduler, &tag, 0).unwrap();
    }
    let dear = Tag { length: 399, cost: 799, ..Tag::default() };
    assert_eq!(offer(&mut scheduler, &dear, 0), Err(Refused::TooCostly { cost: 802, max: 800 }));
}

#[test]
fn rows_that_cost_less_in_a_call_of_their_own_than_in_padding_have_one() {
    let next_two = |rows_8: u64, n_waiting: u64| {
        let settings = Settings { sizes: vec![2, 4, 8], ..Settings::default() };
        let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
        for (rows, takes) in [(2, 5), (4, 10), (8, rows_8)] {
            scheduler.learn(0, rows, ms(takes));
        }
        // They come too seldom to be waited for.
        for number in 0..n_waiting {
            offer(&mut scheduler, &Tag::default(), 1000 * number).unwrap();
        }
        let (first, ..) = pull(&mut scheduler, 1000 * n_waiting - 999);
        (first, scheduler.n_waiting())
    };

    assert_eq!(next_two(40, 5), (4, 1));
    assert_eq!(next_two(14, 5), (5, 0), "one call is still cheaper");
    assert_eq!(next_two(18, 7), (7, 0), "so is it than two of four");
    assert_eq!(next_two(40, 8), (8, 0), "nothing is padded");
    assert_eq!(next_two(40, 1), (1, 0), "there is no smaller size");
}

#[test]
fn an_item_of_more_rows_than_a_smaller_size_has_is_not_left_behind_for_ever() {
    let settings = Settings { sizes: vec![2, 4, 8], ..Settings::default() };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    for (rows, takes) in [(2, 5), (4, 10), (8, 40)] {
        scheduler.learn(0, rows, ms(takes));
    }
    offer(&mut scheduler, &Tag { rows: 5, ..Tag::default() }, 0).unwrap();

    // Calls of four and of one would be shorter, but nobody can cut it.
    assert_eq!(pull(&mut scheduler, 0).0, 1);
}

/// A call takes 5 ms and half a millisecond more for each item; so many wait for so many devices.
fn crowd(n_items: usize, n_devices: usize, settings: Settings) -> Scheduler<u32> {
    let settings = Settings { max_items: Some(32), ..settings };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    scheduler.set_devices(n_devices);
    scheduler.learn(0, 1, Duration::from_micros(5_500));
    scheduler.learn(0, 32, ms(21));
    for _ in 0..n_items {
        offer(&mut scheduler, &Tag::default(), 0).unwrap();
    }
    scheduler
}

/// The sizes of all batches that leave at once, which never land.
fn leave(scheduler: &mut Scheduler<u32>, now: u64) -> Vec<usize> {
    let next = || match scheduler.next(at(now)) {
        Next::Batch(batch) => Some(batch.boarded.len()),
        _ => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn free_devices_share_a_crowd_where_its_items_gain_more_than_devices_lose() {
    let sizes = |n_items, n_devices| leave(&mut crowd(n_items, n_devices, Settings::default()), 1);

    assert_eq!(sizes(24, 1), [24]);
    assert_eq!(sizes(24, 2), [12, 12]);
    assert_eq!(sizes(25, 2), [13, 12]);
    assert_eq!(sizes(24, 3), [8, 8, 8]);
    assert_eq!(sizes(40, 2), [20, 20], "two calls it is anyway");
    assert_eq!(sizes(70, 2)[..2], [32, 32], "both are filled");
    assert_eq!(sizes(4, 2), [4], "(4 + 1) x 7 ms is less than (4 + 2) x 6 ms");
    assert_eq!(sizes(6, 2), [3, 3], "(6 + 1) x 8 ms is more than (6 + 2) x 6.5 ms");
}

#[test]
fn a_crowd_is_not_divided_for_devices_that_others_have_or_want() {
    let first = |n_busy: usize, n_keys: u64| {
        let mut scheduler = crowd(n_busy, 3, Settings::default());
        for _ in 0..n_busy {
            pull(&mut scheduler, 0);
        }
        for key in 0..n_keys {
            for _ in 0..12 {
                let tag = Tag { key: Key::of(&key), ..Tag::default() };
                offer(&mut scheduler, &tag, 1).unwrap();
            }
        }
        pull(&mut scheduler, 2).0
    };

    assert_eq!(first(0, 1), 4);
    assert_eq!(first(1, 1), 6);
    assert_eq!(first(0, 2), 6);
    assert_eq!(first(0, 3), 12);
    assert_eq!(first(0, 9), 12);
}

#[test]
fn a_crowd_that_is_divided_is_not_called_full_and_the_fixed_policy_divides_none() {
    let mut scheduler = crowd(32, 2, Settings::default());
    let (n_items, fired, _) = pull(&mut scheduler, 1);
    assert_eq!((n_items, fired), (16, FireReason::Early));

    let by_the_clock = Settings { policy: PolicyName::Fixed, ..Settings::default() };
    let (n_items, fired, _) = pull(&mut crowd(32, 2, by_the_clock), 1);
    assert_eq!((n_items, fired), (32, FireReason::Full));
}

#[test]
fn a_crowd_is_kept_together_once_calls_were_seen_to_slow_each_other_down() {
    let mut scheduler = crowd(0, 2, Settings::default());
    let mut sizes = Vec::new();
    for round in 0..40 {
        let now = 1000 * round;
        for _ in 0..24 {
            offer(&mut scheduler, &Tag::default(), now).unwrap();
        }
        let mut flights = Vec::new();
        while let Next::Batch(batch) = scheduler.next(at(now + 1)) {
            flights.push((batch.flight, batch.boarded.len() as u64));
        }
        sizes.push(flights[0].1);
        // Alone 5 ms and a half for each item; two take twice as long.
        let n_calls = flights.len() as u64;
        for (flight, n_items) in flights {
            let took = Duration::from_micros((5_000 + 500 * n_items) * n_calls);
            let landing = Landing { took: Some(took), ..Landing::default() };
            scheduler.finish(flight, landing, [], at(now + 1).after(took));
        }
    }

    assert_eq!((sizes[0], sizes[39]), (12, 24), "{sizes:?}");
    let n_divided = sizes.iter().filter(|size| **size == 12).count();
    assert!(n_divided < 20, "{sizes:?}");
}

#[test]
fn a_timer_that_would_fire_late_is_not_set() {
    // Four come within 300 µs, then nobody for 2 ms.
    let held = |resolution| {
        let mut scheduler: Scheduler<u32> = Scheduler::new(Settings::default().validate().unwrap());
        scheduler.set_resolution(resolution);
        scheduler.learn(0, 1, ms(1));
        scheduler.learn(0, 16, ms(1));
        let mut now = Moment::START;
        for round in 0..40 {
            for gap in [2000, 90, 90, 90] {
                now = now.after(Duration::from_micros(gap));
                scheduler.offer(0, &Tag::default(), None, now).unwrap();
            }
            if round < 39 {
                assert!(matches!(scheduler.next(now.after(ms(1))), Next::Batch(_)));
            }
        }
        scheduler.peek(now).is_err()
    };

    assert!(held(Duration::ZERO));
    assert!(held(Duration::from_micros(10)));
    assert!(!held(ms(1)));
}

#[test]
fn those_wanted_later_leave_time_for_every_other_queue() {
    // A call takes 20 ms, and one of four rows 50 ms.
    let until = |n_queues: u64, n_devices: usize| {
        let settings =
            Settings { max_items: Some(4), max_wait: Some(ms(5000)), ..Settings::default() };
        let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
        scheduler.set_devices(n_devices);
        for (rows, takes) in [(1, 20), (2, 30), (4, 50)] {
            scheduler.learn(0, rows, ms(takes));
        }
        for key in 0..n_queues {
            for _ in 0..2 {
                let tag = Tag { key: Key::of(&key), wanted: Some(ms(900)), ..Tag::default() };
                offer(&mut scheduler, &tag, 0).unwrap();
            }
        }
        scheduler.peek(at(0)).unwrap_err().since(Moment::START).as_millis()
    };

    // Its own call with one row more takes 40 ms; a full one may have begun, and as much again
    // may come; and so for each other queue's call of two.
    assert_eq!(until(1, 1), 900 - 40 - 2 * 50);
    assert_eq!(until(3, 1), 900 - 40 - 2 * (50 + 2 * 30));
    assert_eq!(until(3, 2), 900 - 40 - (50 + 2 * 30));
}

#[test]
fn a_queue_goes_first_as_soon_as_it_has_the_most_urgent_item() {
    let mut scheduler = scheduler();
    let tag = |key: u8, priority| Tag { key: Key::of(&key), priority, ..Tag::default() };
    offer(&mut scheduler, &tag(1, Priority::NORMAL), 0).unwrap();
    offer(&mut scheduler, &tag(2, Priority::NORMAL), 1).unwrap();
    offer(&mut scheduler, &tag(2, Priority::HIGH), 2).unwrap();

    let Next::Batch(first) = scheduler.next(at(2)) else { panic!("a device is free") };
    assert_eq!(first.facts.key, Key::of(&2_u8));
}

#[test]
fn what_is_too_late_for_the_batch_that_waits_is_dropped_until_the_rest_can_make_it() {
    let settings = Settings { max_items: Some(4), ..Settings::default() };
    let mut scheduler: Scheduler<u32> = Scheduler::new(settings.validate().unwrap());
    scheduler.learn(0, 1, ms(10));
    scheduler.learn(0, 4, ms(40));
    for item in 0..4 {
        let tag = Tag { timeout: Some(ms(30)), ..Tag::default() };
        scheduler.offer(item, &tag, None, at(0)).unwrap();
    }

    // Four would take 40 ms, three take 30.
    assert_eq!(pull(&mut scheduler, 0).0, 3);
    assert_eq!(scheduler.take_left(), [(0, Dropped::TooLate)]);
}

#[test]
fn a_batch_tells_what_of_it_was_asked_for() {
    let mut scheduler = scheduler();
    for (length, rows) in [(10, 2), (5, 1)] {
        offer(&mut scheduler, &Tag { length, rows, ..Tag::default() }, 0).unwrap();
    }
    let (_, _, flight) = pull(&mut scheduler, 3);
    scheduler.finish(flight, Landing { took: None, failed: 2, late: 1 }, [], at(8));

    let record = scheduler.landed_after(0, 1)[0];
    assert_eq!((record.useful_units, record.padded_units), (25, 30));
    assert_eq!((record.failed, record.late, record.took), (2, 1, ms(5)));
    assert_eq!((record.mean_wait, record.left), (ms(3), at(3)));
    let stats = scheduler.stats();
    assert_eq!((stats.failed, stats.late, stats.failed_calls), (2, 1, 1));
}
