//! Everything at once on real threads: random arrivals, cancels, failures, panics, executors that
//! die, and a close in the middle. Every accepted item gets exactly one answer, and it is its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use paceline_batch::{
    Batcher, Call, Cause, Executor, Failure, Key, Priority, Reply, Runner, Settings, Tag,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Doubles; sometimes fails, panics, replies in reverse or is slow.
struct Moody {
    random: ChaCha8Rng,
    /// Whether it is one that may wait.
    waits: bool,
}

impl Executor<u64, u64, u64> for Moody {
    async fn execute(
        &mut self,
        call: &Call<'_, u64, u64, u64>,
        replies: &mut Vec<Reply<u64, u64>>,
    ) -> Result<(), Cause> {
        match self.random.random_range(0..100) {
            0..5 => return Err(Cause::from(Box::from("moody"))),
            5..8 => panic!("moody"),
            8..30 if self.waits => tokio::task::yield_now().await,
            _ => {}
        }
        let key = call.key;
        for rider in call.riders() {
            assert_eq!(Key::of(&(rider.item % 3)), key, "keys never share a call");
            let state = rider.state.map(|state| state + 1);
            replies.push(Reply { id: rider.id, outcome: Ok(rider.item * 2), state });
        }
        if self.random.random_bool(0.3) {
            replies.reverse();
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Ledger {
    accepted: AtomicU64,
    answered: AtomicU64,
    cancelled: AtomicU64,
}

async fn client(number: u64, batcher: Batcher<u64, u64, u64>, ledger: Arc<Ledger>) {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let lane = batcher.open_lane(0);
    for n in 0..300 {
        let item = number * 1000 + n;
        let tag = Tag {
            key: Key::of(&(item % 3)),
            stream: Some(number % 4),
            priority: Priority::level(random.random_range(0..3)),
            timeout: random
                .random_bool(0.2)
                .then(|| Duration::from_micros(random.random_range(1..3000))),
            ..Tag::default()
        };
        let submitted = match random.random_range(0..3) {
            0 => batcher.try_submit(item, &tag),
            1 => lane.submit(item, &tag).await,
            _ => batcher.submit(item, &tag).await,
        };
        let Ok(ticket) = submitted else { continue };
        ledger.accepted.fetch_add(1, Ordering::Relaxed);
        if random.random_bool(0.15) {
            if random.random_bool(0.5) {
                tokio::task::yield_now().await;
            }
            drop(ticket);
            ledger.cancelled.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        match ticket.await {
            Ok(result) => assert_eq!(result, item * 2, "an answer is its item's own"),
            Err(Failure::WrongReplies(wrong)) => panic!("{wrong}"),
            Err(_) => {}
        }
        ledger.answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_accepted_item_gets_exactly_one_answer_of_its_own() {
    for seed in 0..8 {
        everything_at_once(seed, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn and_so_it_does_from_executors_that_are_lent() {
    for seed in 0..8 {
        everything_at_once(seed, true).await;
    }
}

/// With three executors, the first of which dies if it is not lent.
async fn everything_at_once(seed: u64, is_lent: bool) {
    let settings = Settings { max_items: Some(8), queue_items: Some(16), ..Settings::default() };
    let (batcher, timekeeper) = Batcher::pair(settings.validate().unwrap());
    let timekeeper = tokio::spawn(timekeeper.run());
    let runners: Vec<_> = (0..3_u64)
        .map(|number| {
            let random = ChaCha8Rng::seed_from_u64(seed * 10 + number);
            let runner = Runner::new(batcher.attach(), Moody { random, waits: !is_lent });
            if !is_lent {
                return tokio::spawn(runner.run());
            }
            let (ended, how) = tokio::sync::oneshot::channel();
            runner.lend(|end| drop(ended.send(end)));
            tokio::spawn(async { how.await.unwrap() })
        })
        .collect();
    let ledger = Arc::new(Ledger::default());
    let clients: Vec<_> = (0..12)
        .map(|number| tokio::spawn(client(number, batcher.clone(), Arc::clone(&ledger))))
        .collect();
    // One executor dies under way, and later the batcher closes under load.
    let answered = async |n: u64| {
        let is_over = || clients.iter().all(tokio::task::JoinHandle::is_finished);
        while ledger.answered.load(Ordering::Relaxed) < n && !is_over() {
            tokio::task::yield_now().await;
        }
    };
    answered(300).await;
    if !is_lent {
        runners[0].abort();
    }
    answered(1000).await;
    batcher.close();

    for client in clients {
        client.await.unwrap();
    }
    drop(batcher);
    for runner in runners.into_iter().skip(usize::from(!is_lent)) {
        runner.await.unwrap().unwrap();
    }
    timekeeper.await.unwrap();
    let [accepted, answered, cancelled] = [&ledger.accepted, &ledger.answered, &ledger.cancelled]
        .map(|count| count.load(Ordering::Relaxed));
    assert_eq!(accepted, answered + cancelled);
    assert!(1000 <= answered);
}
