//! Tickets that are dropped.

use paceline_batch::{Dropped, Settings, Tag};
use tokio::time::sleep;

use crate::{Echo, millis, start};

#[tokio::test(start_paused = true)]
async fn a_dropped_ticket_takes_its_item_out_before_it_is_run_and_is_counted() {
    let echo = Echo::taking(10);
    let batcher = start(&Settings::default(), &echo, 1);
    let running = batcher.try_submit(0, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let kept = batcher.try_submit(1, &Tag { bytes: 10, ..Tag::default() }).unwrap();
    let dropped = batcher.try_submit(2, &Tag { bytes: 90, ..Tag::default() }).unwrap();

    drop(dropped);

    let stats = batcher.stats();
    assert_eq!((stats.waiting_items, stats.waiting_bytes), (1, 10), "its room is free at once");
    assert_eq!(stats.items_dropped(Dropped::Cancelled), 1);
    running.await.unwrap();
    kept.await.unwrap();
    assert_eq!(echo.calls(), [vec![0], vec![1]]);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_ticket_while_its_batch_runs_harms_nobody() {
    let batcher = start(&Settings::default(), &Echo::taking(10), 1);
    let gone = batcher.try_submit(1, &Tag::default()).unwrap();
    sleep(millis(5)).await;
    let other = batcher.try_submit(2, &Tag::default()).unwrap();

    drop(gone);

    assert_eq!(other.await.unwrap(), 2);
    assert_eq!(batcher.stats().items_dropped(Dropped::Cancelled), 0, "it had left already");
}

#[tokio::test(start_paused = true)]
async fn a_submitter_that_gives_up_waiting_for_room_leaves_no_trace() {
    let settings = Settings { max_items: Some(1), queue_items: Some(1), ..Settings::default() };
    let batcher = start(&settings, &Echo::taking(10), 1);
    let running = batcher.try_submit(0, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let waiting = batcher.try_submit(1, &Tag::default()).unwrap();

    let impatient = tokio::time::timeout(millis(1), batcher.submit(2, &Tag::default())).await;
    let patient = batcher.submit(3, &Tag::default()).await.unwrap();

    assert!(impatient.is_err());
    assert_eq!(patient.await.unwrap(), 3);
    running.await.unwrap();
    waiting.await.unwrap();
    assert_eq!(batcher.stats().accepted, 3);
}
