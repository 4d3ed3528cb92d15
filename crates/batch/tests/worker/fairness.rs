//! Streams, keys and priorities that compete.

use std::{collections::VecDeque, time::Duration};

use paceline_batch::{Batcher, Key, Priority, Settings, Tag};
use tokio::time::{Instant, sleep};

use crate::{Echo, millis, start};

/// Ten light clients for a second, 40 requests a second each; the slowest hundredth.
async fn p99_of_the_light_ones(batcher: &Batcher<u32, u32>, key: Key) -> Duration {
    let clients: Vec<_> = (0..10_u64)
        .map(|client| {
            let batcher = batcher.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                for _ in 0..40 {
                    sleep(Duration::from_micros(24_000 + client * 321)).await;
                    let began = Instant::now();
                    let tag = Tag { stream: Some(client), key, ..Tag::default() };
                    batcher.submit(0, &tag).await.unwrap().await.unwrap();
                    latencies.push(began.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.unwrap());
    }
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

/// One client that keeps more than a thousand items waiting.
fn flood(batcher: &Batcher<u32, u32>, tag: Tag) {
    let batcher = batcher.clone();
    tokio::spawn(async move {
        let mut tickets = VecDeque::new();
        loop {
            if let Ok(ticket) = batcher.try_submit(1, &tag) {
                tickets.push_back(ticket);
            } else {
                sleep(millis(1)).await;
            }
            if tickets.len() == 1500
                && let Some(oldest) = tickets.pop_front()
            {
                drop(oldest.await);
            }
        }
    });
}

/// 20 ms a call whatever its size, so that alone a light client waits for a call and its own.
fn contested() -> (Settings, Echo) {
    let settings = Settings { max_items: Some(32), queue_items: Some(2000), ..Settings::default() };
    (settings, Echo::taking(20))
}

#[tokio::test(start_paused = true)]
async fn a_flooding_stream_at_most_doubles_the_others_p99() {
    let (settings, echo) = contested();
    let alone = p99_of_the_light_ones(&start(&settings, &echo, 1), Key::ANY).await;

    let batcher = start(&settings, &echo, 1);
    flood(&batcher, Tag { stream: Some(99), ..Tag::default() });
    sleep(millis(5)).await;
    let beside = p99_of_the_light_ones(&batcher, Key::ANY).await;

    assert!(1000 < batcher.stats().waiting_items, "it does flood");
    assert!(beside <= alone * 2, "alone {alone:?}, beside a flood {beside:?}");
}

#[tokio::test(start_paused = true)]
async fn a_flooded_key_at_most_doubles_the_p99_of_others() {
    let (settings, echo) = contested();
    let alone = p99_of_the_light_ones(&start(&settings, &echo, 1), Key::of("a")).await;

    let batcher = start(&settings, &echo, 1);
    flood(&batcher, Tag { key: Key::of("b"), ..Tag::default() });
    sleep(millis(5)).await;
    let beside = p99_of_the_light_ones(&batcher, Key::of("a")).await;

    assert!(1000 < batcher.stats().waiting_items, "it does flood");
    assert!(beside <= alone * 2, "alone {alone:?}, beside a flood {beside:?}");
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_goes_first_and_a_lower_one_is_never_starved() {
    let echo = Echo::taking(100);
    let settings =
        Settings { max_items: Some(1), patience: Some(millis(1000)), ..Settings::default() };
    let batcher = start(&settings, &echo, 1);
    let tag = |priority| Tag { priority, ..Tag::default() };
    let _running = batcher.try_submit(0, &tag(Priority::NORMAL)).unwrap();
    sleep(millis(1)).await;
    let began = Instant::now();
    let low = batcher.try_submit(1, &tag(Priority::LOW)).unwrap();
    let urgent = batcher.clone();
    tokio::spawn(async move {
        // More urgent work than the device can do, for ever.
        loop {
            drop(urgent.try_submit(2, &tag(Priority::HIGH)).map(|ticket| tokio::spawn(ticket)));
            sleep(millis(80)).await;
        }
    });

    low.await.unwrap();

    let waited = began.elapsed();
    assert!(millis(1500) < waited, "two levels of patience come first: {waited:?}");
    assert!(waited < millis(3500), "and then it is its turn: {waited:?}");
}
