//! Deadlines: kept while devices are busy, and aware of how long calls take.

use paceline_batch::{Dropped, Failure, Refused, Settings, Tag};
use tokio::time::{Instant, sleep};

use crate::{Echo, millis, start, within};

#[tokio::test(start_paused = true)]
async fn a_timeout_fires_on_time_while_every_device_is_busy() {
    let batcher = start(&Settings::default(), &Echo::taking(60_000), 1);
    let _running = batcher.try_submit(0, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let began = Instant::now();

    let late = batcher.try_submit(1, &within(250)).unwrap();
    let sooner = batcher.try_submit(2, &within(100)).unwrap();

    assert!(matches!(sooner.await, Err(Failure::Expired)));
    assert!((millis(100)..=millis(105)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(matches!(late.await, Err(Failure::Expired)));
    assert!((millis(250)..=millis(255)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(batcher.stats().items_dropped(Dropped::Expired), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_deadline_is_counted_late_and_one_on_time_is_not() {
    let batcher = start(&Settings::default(), &Echo::taking(10), 1);
    let tickets = [5, 6, 10, 20].map(|timeout| batcher.try_submit(0, &within(timeout)).unwrap());

    for ticket in tickets {
        assert_eq!(ticket.with_ride().await.unwrap().1.items, 4);
    }
    sleep(millis(1)).await;

    assert_eq!((batcher.stats().late, batcher.stats().deadline_misses()), (2, 2));
    assert_eq!(batcher.landed_after(0, 1)[0].late, 2);
}

#[tokio::test(start_paused = true)]
async fn what_can_no_longer_make_it_is_dropped_and_the_batch_stays_large() {
    let echo = Echo::taking(20);
    let batcher = start(&Settings::default(), &echo, 1);
    for rows in [1, 2, 4, 8] {
        batcher.learn(0, rows, millis(18));
    }
    let running = batcher.try_submit(0, &Tag::default()).unwrap();
    sleep(millis(1)).await;

    // By what is known, it can be done. But the call under way takes longer than was known, and
    // when the device is free, the 18 ms that are left are not enough.
    let doomed = batcher.try_submit(1, &within(37)).unwrap();
    let others: Vec<_> =
        (2..6).map(|item| batcher.try_submit(item, &within(100)).unwrap()).collect();
    running.await.unwrap();

    assert!(matches!(doomed.await, Err(Failure::TooLate)));
    for other in others {
        other.await.unwrap();
    }
    assert_eq!(echo.calls(), [vec![0], vec![2, 3, 4, 5]]);
    assert_eq!(batcher.stats().items_dropped(Dropped::TooLate), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_make_it_at_all_is_refused_at_the_door() {
    let batcher = start(&Settings::default(), &Echo::taking(20), 1);
    batcher.learn(0, 1, millis(20));

    assert_eq!(batcher.try_submit(1, &within(19)).unwrap_err(), Refused::Hopeless);
    let possible = batcher.try_submit(2, &within(21)).unwrap();
    sleep(millis(1)).await;
    assert_eq!(
        batcher.try_submit(3, &within(30)).unwrap_err(),
        Refused::Hopeless,
        "the device is busy for another 19 ms"
    );

    assert_eq!(possible.await.unwrap(), 2);
    assert_eq!(batcher.stats().refused_hopeless, 2);
}

#[tokio::test(start_paused = true)]
async fn the_earlier_deadline_goes_first() {
    let echo = Echo::taking(10);
    let settings = Settings { max_items: Some(1), ..Settings::default() };
    let batcher = start(&settings, &echo, 1);
    let running = batcher.try_submit(0, &Tag::default()).unwrap();
    sleep(millis(1)).await;

    let tickets = [(1, 500), (2, 100), (3, 300)]
        .map(|(item, timeout)| batcher.try_submit(item, &within(timeout)).unwrap());
    running.await.unwrap();
    for ticket in tickets {
        ticket.await.unwrap();
    }

    assert_eq!(echo.calls(), [[0], [2], [3], [1]]);
}
