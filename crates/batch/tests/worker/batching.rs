//! When batches leave, to the millisecond.

use std::time::Duration;

use paceline_batch::{Batcher, FireReason, Key, PolicyName, Refused, Runner, Settings, Tag};
use tokio::time::{Instant, sleep};

use crate::{Echo, millis, start};

fn seed_rules() -> Settings {
    Settings {
        policy: PolicyName::Fixed,
        max_items: Some(32),
        max_wait: Some(millis(50)),
        ..Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_item_on_an_idle_device_goes_at_once() {
    let batcher = start(&Settings::default(), &Echo::taking(10), 1);
    let began = Instant::now();

    let ticket = batcher.submit(7, &Tag::default()).await.unwrap();
    let (result, ride) = ticket.with_ride().await.unwrap();

    assert_eq!((result, ride.fired), (7, FireReason::FastPath));
    assert_eq!(began.elapsed(), millis(10));
    assert_eq!((ride.items, ride.position, ride.took), (1, 0, millis(10)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_keeps_growing_while_the_device_is_busy() {
    let echo = Echo::taking(10);
    let batcher = start(&Settings::default(), &echo, 1);

    let mut tickets = vec![batcher.try_submit(0, &Tag::default()).unwrap()];
    sleep(millis(1)).await;
    for item in 1..=5 {
        tickets.push(batcher.try_submit(item, &Tag::default()).unwrap());
        sleep(millis(1)).await;
    }
    for (item, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.await.unwrap() as usize, item);
    }

    assert_eq!(echo.calls(), [vec![0], vec![1, 2, 3, 4, 5]]);
}

#[tokio::test(start_paused = true)]
async fn fixed_rules_fire_a_lone_item_after_two_milliseconds() {
    let batcher = start(&seed_rules(), &Echo::taking(10), 1);
    let began = Instant::now();

    let (_, ride) = batcher.try_submit(1, &Tag::default()).unwrap().with_ride().await.unwrap();

    assert_eq!((ride.fired, ride.waited), (FireReason::FastPath, millis(2)));
    assert_eq!(began.elapsed(), millis(12));

    // The device looks again for the next one too, however long it slept.
    sleep(millis(100)).await;
    let (_, ride) = batcher.try_submit(2, &Tag::default()).unwrap().with_ride().await.unwrap();
    assert_eq!(ride.waited, millis(2));
}

#[tokio::test(start_paused = true)]
async fn a_device_that_sleeps_for_one_queue_looks_earlier_for_another() {
    let batcher = start(&seed_rules(), &Echo::taking(10), 1);
    let key = |key: u8| Tag { key: Key::of(&key), ..Tag::default() };
    let pair = [1, 2].map(|item| batcher.try_submit(item, &key(1)).unwrap());
    sleep(millis(10)).await;

    let (_, lone) = batcher.try_submit(3, &key(2)).unwrap().with_ride().await.unwrap();

    assert_eq!(lone.waited, millis(2));
    for ticket in pair {
        assert_eq!(ticket.with_ride().await.unwrap().1.waited, millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn devices_are_counted_by_their_seats_while_they_are_there() {
    let (batcher, _timekeeper) = Batcher::<u32, u32>::pair(Settings::default().validate().unwrap());
    let devices = [batcher.attach(), batcher.attach_seats(3), batcher.attach_seats(0)];
    assert_eq!(batcher.explain().devices, 5);

    let [_one, three, _none] = devices;
    drop(three);
    assert_eq!(batcher.explain().devices, 2);
}

#[tokio::test(start_paused = true)]
async fn fixed_rules_wait_from_the_first_items_arrival() {
    let batcher = start(&seed_rules(), &Echo::taking(10), 1);

    let first = batcher.try_submit(1, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let second = batcher.try_submit(2, &Tag::default()).unwrap();
    let (_, first) = first.with_ride().await.unwrap();
    let (_, second) = second.with_ride().await.unwrap();

    assert_eq!((first.fired, first.items), (FireReason::WaitOver, 2));
    assert_eq!((first.waited, second.waited), (millis(50), millis(49)));
}

#[tokio::test(start_paused = true)]
async fn fixed_rules_fire_early_at_four_fifths_of_the_cap() {
    let batcher = start(&seed_rules(), &Echo::taking(10), 1);
    let began = Instant::now();

    let tickets: Vec<_> =
        (0..25).map(|item| batcher.try_submit(item, &Tag::default()).unwrap()).collect();
    for ticket in tickets {
        let (_, ride) = ticket.with_ride().await.unwrap();
        assert_eq!((ride.fired, ride.items), (FireReason::Early, 25));
    }

    assert_eq!(began.elapsed(), millis(10));
}

#[tokio::test(start_paused = true)]
async fn different_keys_never_share_a_call_and_equal_content_does() {
    let echo = Echo::taking(10);
    let batcher = start(&Settings::default(), &echo, 1);
    let voice = |name: &str, steps: u32| Tag { key: Key::of(&(name, steps)), ..Tag::default() };

    let blocker = batcher.try_submit(0, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let tickets = [
        batcher.try_submit(1, &voice("ada", 5)).unwrap(),
        batcher.try_submit(2, &voice("ada", 10)).unwrap(),
        batcher.try_submit(3, &voice(&String::from("ada"), 5)).unwrap(),
        batcher.try_submit(4, &voice("bob", 5)).unwrap(),
    ];
    blocker.await.unwrap();
    for ticket in tickets {
        ticket.await.unwrap();
    }

    assert_eq!(echo.calls(), [vec![0], vec![1, 3], vec![2], vec![4]]);
}

#[tokio::test(start_paused = true)]
async fn several_batches_are_under_way_at_once_and_no_more_than_executors() {
    let settings = Settings { max_items: Some(1), ..Settings::default() };
    let batcher = start(&settings, &Echo::taking(10), 3);
    let began = Instant::now();

    let tickets: Vec<_> =
        (0..7).map(|item| batcher.try_submit(item, &Tag::default()).unwrap()).collect();
    sleep(millis(5)).await;
    assert_eq!(batcher.stats().in_flight, 3);
    for ticket in tickets {
        ticket.await.unwrap();
    }

    assert_eq!(began.elapsed(), millis(30));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once_and_a_patient_submitter_gets_the_next_place() {
    let settings = Settings { max_items: Some(2), queue_items: Some(2), ..Settings::default() };
    let batcher = start(&settings, &Echo::taking(10), 1);
    let running = batcher.try_submit(0, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let waiting = [1, 2].map(|item| batcher.try_submit(item, &Tag::default()).unwrap());

    assert_eq!(batcher.try_submit(3, &Tag::default()).unwrap_err(), Refused::QueueFull(2));
    let began = Instant::now();
    let patient = batcher.submit(4, &Tag::default()).await.unwrap();

    assert_eq!(began.elapsed(), millis(9), "it was let in when the next batch left");
    assert_eq!(patient.await.unwrap(), 4);
    running.await.unwrap();
    for ticket in waiting {
        ticket.await.unwrap();
    }
    assert_eq!(batcher.stats().refused_full, 2);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_fit_is_refused_with_what_would() {
    let settings = Settings {
        max_items: Some(4),
        max_cost: Some(100),
        queue_bytes: Some(1000),
        ..Settings::default()
    };
    let batcher = start(&settings, &Echo::taking(10), 1);
    let refused = |tag: Tag| batcher.try_submit(0, &tag).unwrap_err();

    assert_eq!(
        refused(Tag { rows: 5, ..Tag::default() }).to_string(),
        "the item has 5 rows, and a batch has at most 4"
    );
    assert_eq!(
        refused(Tag { cost: 101, ..Tag::default() }).to_string(),
        "the item costs 101, and a batch costs at most 100"
    );
    assert!(matches!(
        refused(Tag { bytes: 1001, ..Tag::default() }),
        Refused::TooManyBytes { bytes: 1001, max: 1000 }
    ));
    assert_eq!(batcher.stats().refused_too_large, 3);
    let largest = Tag { rows: 4, cost: 100, bytes: 1000, ..Tag::default() };
    assert_eq!(batcher.try_submit(1, &largest).unwrap().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_happens_where_it_pays() {
    // Eight clients that all come back within a moment of their answers, 20 ms a call: serving
    // the first alone would keep the other seven waiting.
    let echo = Echo::taking(20);
    let batcher = start(&Settings { max_items: Some(32), ..Settings::default() }, &echo, 1);
    let clients: Vec<_> = (0..8_u32)
        .map(|client| {
            let batcher = batcher.clone();
            tokio::spawn(async move {
                for _ in 0..40 {
                    sleep(std::time::Duration::from_micros(100 + 50 * u64::from(client))).await;
                    batcher.submit(client, &Tag::default()).await.unwrap().await.unwrap();
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }

    let last: Vec<usize> = echo.calls().iter().rev().take(20).map(Vec::len).collect();
    assert!(7 * 20 <= last.iter().sum::<usize>(), "mostly all eight ride together: {last:?}");
}

#[tokio::test(start_paused = true)]
async fn two_groups_of_clients_become_one() {
    // Eight clients start half a call after eight others. Left to themselves the groups would
    // alternate for ever, each call half empty.
    let echo = Echo::taking(50);
    let batcher = start(&Settings { max_items: Some(16), ..Settings::default() }, &echo, 1);
    for rows in [1, 16] {
        batcher.learn(0, rows, echo.fixed);
    }
    let clients: Vec<_> = (0..16_u32)
        .map(|client| {
            let batcher = batcher.clone();
            tokio::spawn(async move {
                sleep(std::time::Duration::from_millis(25 * u64::from(client % 2))).await;
                for _ in 0..30 {
                    sleep(std::time::Duration::from_micros(100 + 20 * u64::from(client))).await;
                    batcher.submit(client, &Tag::default()).await.unwrap().await.unwrap();
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }

    let sizes: Vec<usize> = echo.calls().iter().map(Vec::len).collect();
    assert!(sizes.iter().skip(10).take(15).all(|&size| size == 16), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crowd_that_was_just_answered_rides_with_whoever_waited_meanwhile() {
    let echo = Echo::taking(10);
    let batcher = start(&Settings::default(), &echo, 1);
    let crowd: Vec<_> = (0..4)
        .map(|item| {
            let ticket = batcher.try_submit(item, &Tag::default()).unwrap();
            let batcher = batcher.clone();
            tokio::spawn(async move {
                ticket.await.unwrap();
                batcher.submit(item + 10, &Tag::default()).await.unwrap().await.unwrap()
            })
        })
        .collect();
    sleep(millis(1)).await;

    let other = batcher.try_submit(99, &Tag::default()).unwrap();

    assert_eq!(other.await.unwrap(), 99);
    for client in crowd {
        client.await.unwrap();
    }
    assert_eq!(echo.calls(), [vec![0, 1, 2, 3], vec![99, 10, 11, 12, 13]]);
}

#[tokio::test(start_paused = true)]
async fn what_landed_is_told_from_the_oldest_on() {
    let batcher = start(&Settings::default(), &Echo::taking(10), 1);
    for item in 0..3 {
        batcher.submit(item, &Tag::default()).await.unwrap().await.unwrap();
    }
    sleep(millis(1)).await;

    let sequences = |landed: Vec<paceline_batch::BatchRecord>| {
        landed.iter().map(|record| record.sequence).collect::<Vec<_>>()
    };
    assert_eq!(sequences(batcher.landed_after(1, 10)), [2, 3]);
    assert_eq!(batcher.landed_after(2, 10)[0].facts.number, 3);
    assert_eq!(batcher.age(), millis(31));
    let stats = batcher.stats();
    assert_eq!((stats.failed, stats.failed_calls, stats.late), (0, 0, 0));
}

#[test]
fn a_runner_with_a_thread_of_its_own_is_woken_for_items_and_ends_when_closed() {
    let (batcher, _timekeeper) = Batcher::<u32, u32>::pair(Settings::default().validate().unwrap());
    let puller = batcher.attach();
    puller.learn(0, 1, millis(1));
    assert_eq!(batcher.explain().latencies[0].means, [(1, millis(1))]);
    let executor = paceline_batch::from_fn(|items: &mut dyn ExactSizeIterator<Item = &u32>| {
        Ok(items.map(|item| item + 1).collect())
    });
    let runner = std::thread::spawn(move || Runner::new(puller, executor).run_blocking());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        // Each finds the thread asleep, or about to be.
        for item in 0..100 {
            let ticket = batcher.submit(item, &Tag::default()).await.unwrap();
            let answer = tokio::time::timeout(Duration::from_secs(20), ticket).await;
            assert_eq!(answer.expect("an answer").unwrap(), item + 1);
        }
    });

    batcher.close();
    runner.join().unwrap().unwrap();
}
