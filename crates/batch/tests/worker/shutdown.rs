//! Closing, and executors that die.

use paceline_batch::{Batcher, Failure, FireReason, PolicyName, Refused, Runner, Settings, Tag};
use tokio::time::{Instant, sleep};

use crate::{Echo, millis, start};

#[tokio::test(start_paused = true)]
async fn closing_flushes_everything_at_once_and_refuses_the_rest() {
    let settings = Settings {
        policy: PolicyName::Fixed,
        max_items: Some(4),
        max_wait: Some(millis(10_000)),
        ..Settings::default()
    };
    let batcher = start(&settings, &Echo::taking(10), 1);
    let tickets: Vec<_> =
        (0..2).map(|item| batcher.try_submit(item, &Tag::default()).unwrap()).collect();
    sleep(millis(5)).await;
    let began = Instant::now();

    batcher.close();

    assert_eq!(batcher.try_submit(9, &Tag::default()).unwrap_err(), Refused::Closed);
    for ticket in tickets {
        let (_, ride) = ticket.with_ride().await.unwrap();
        assert_eq!(ride.fired, FireReason::Drain);
    }
    assert_eq!(began.elapsed(), millis(10));
}

#[tokio::test(start_paused = true)]
async fn runners_and_timekeeper_end_when_the_last_handle_is_gone() {
    let (batcher, timekeeper) = Batcher::pair(Settings::default().validate().unwrap());
    let timekeeper = tokio::spawn(timekeeper.run());
    let runners =
        [0, 1].map(|_| tokio::spawn(Runner::new(batcher.attach(), Echo::taking(10)).run()));
    let ticket = batcher.try_submit(1, &Tag::default()).unwrap();
    let lane = batcher.open_lane(());

    drop(batcher);
    assert_eq!(ticket.await.unwrap(), 1);
    assert!(!timekeeper.is_finished(), "a lane can still submit");
    drop(lane);

    for runner in runners {
        runner.await.unwrap().unwrap();
    }
    timekeeper.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_dies_mid_batch_answers_its_items_and_spares_the_others() {
    let (batcher, timekeeper) = Batcher::pair(Settings::default().validate().unwrap());
    tokio::spawn(timekeeper.run());
    let doomed = tokio::spawn(Runner::new(batcher.attach(), Echo::taking(1000)).run());
    let lost = batcher.try_submit(1, &Tag::default()).unwrap();
    sleep(millis(5)).await;
    tokio::spawn(Runner::new(batcher.attach(), Echo::taking(10)).run());
    let waiting = batcher.try_submit(2, &Tag::default()).unwrap();

    doomed.abort();

    assert!(matches!(lost.await, Err(Failure::ExecutorGone)));
    assert_eq!(waiting.await.unwrap(), 2);
    assert_eq!(batcher.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn when_the_last_executor_dies_nobody_waits_for_ever() {
    let (batcher, timekeeper) = Batcher::pair(Settings::default().validate().unwrap());
    tokio::spawn(timekeeper.run());
    let only = tokio::spawn(Runner::new(batcher.attach(), Echo::taking(1000)).run());
    let running = batcher.try_submit(1, &Tag::default()).unwrap();
    sleep(millis(5)).await;
    let waiting = batcher.try_submit(2, &Tag::default()).unwrap();

    only.abort();

    assert!(matches!(running.await, Err(Failure::ExecutorGone)));
    assert!(matches!(waiting.await, Err(Failure::ExecutorGone)));
    assert_eq!(batcher.try_submit(3, &Tag::default()).unwrap_err(), Refused::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_is_given_up_loses_no_item() {
    let (batcher, _timekeeper) = Batcher::<u32, u32>::pair(Settings::default().validate().unwrap());
    let mut first = batcher.attach();
    let mut second = batcher.attach();
    {
        // Both wait; the one that is woken never looks.
        let mut waiting = tokio_test::task::spawn(first.pull());
        let mut other = tokio_test::task::spawn(second.pull());
        assert!(waiting.poll().is_pending());
        assert!(other.poll().is_pending());
        let _ticket = batcher.try_submit(1, &Tag::default()).unwrap();
        assert!(other.is_woken() && !waiting.is_woken());
        drop(other);
        assert!(waiting.is_woken());
        assert!(waiting.poll().is_ready());
    }
}
