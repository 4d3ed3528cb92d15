//! Stateful streams.

use std::sync::{Arc, Mutex};

use paceline_batch::{Batcher, Call, Cause, Executor, Failure, Reply, Runner, Settings, Tag};
use tokio::time::sleep;

use crate::millis;

/// Adds each item to its lane's sum. Fails on 13, panics on 99.
#[derive(Debug, Clone, Default)]
struct Sum {
    calls: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Executor<u32, u32, u32> for Sum {
    async fn execute(
        &mut self,
        call: &Call<'_, u32, u32, u32>,
        replies: &mut Vec<Reply<u32, u32>>,
    ) -> Result<(), Cause> {
        self.calls.lock().unwrap().push(call.riders().map(|rider| *rider.item).collect());
        sleep(millis(10)).await;
        for rider in call.riders() {
            assert!(*rider.item != 99, "the model panics, as it was told to");
            let sum = rider.state.unwrap() + rider.item;
            replies.push(if *rider.item == 13 {
                Reply::error(rider.id, Cause::from(Box::from("unlucky")))
            } else {
                Reply { id: rider.id, outcome: Ok(sum), state: Some(sum) }
            });
        }
        Ok(())
    }
}

fn start(n_executors: usize) -> (Batcher<u32, u32, u32>, Sum) {
    let (batcher, timekeeper) = Batcher::pair(Settings::default().validate().unwrap());
    let sum = Sum::default();
    tokio::spawn(timekeeper.run());
    for _ in 0..n_executors {
        tokio::spawn(Runner::new(batcher.attach(), sum.clone()).run());
    }
    (batcher, sum)
}

#[tokio::test(start_paused = true)]
async fn lanes_ride_together_and_each_finds_the_state_it_left() {
    let (batcher, sum) = start(2);
    let lanes = [100, 200, 300].map(|state| batcher.open_lane(state));

    let mut tickets = Vec::new();
    for item in [1, 2, 3] {
        for lane in &lanes {
            tickets.push(lane.try_submit(item, &Tag::default()).unwrap());
        }
    }
    let mut sums = Vec::new();
    for ticket in tickets {
        sums.push(ticket.await.unwrap());
    }

    assert_eq!(sums, [101, 201, 301, 103, 203, 303, 106, 206, 306]);
    assert!(sum.calls.lock().unwrap().len() <= 6, "different lanes share calls");
}

#[tokio::test(start_paused = true)]
async fn a_failure_or_a_panic_leaves_the_state_as_it_was() {
    let (batcher, _) = start(1);
    let lane = batcher.open_lane(5);

    let answers = [1, 13, 99, 2].map(|item| lane.try_submit(item, &Tag::default()).unwrap());
    let [good, unlucky, panicked, next] = answers;

    assert_eq!(good.await.unwrap(), 6);
    assert!(matches!(unlucky.await, Err(Failure::Model(_))));
    assert!(matches!(panicked.await, Err(Failure::Panicked)));
    assert_eq!(next.await.unwrap(), 8);
}

#[tokio::test(start_paused = true)]
async fn the_state_goes_with_the_lane_and_its_last_item() {
    let (batcher, timekeeper) =
        Batcher::<u32, u32, Arc<()>>::pair(Settings::default().validate().unwrap());
    tokio::spawn(timekeeper.run());
    let mut puller = batcher.attach();
    let state = Arc::new(());
    let idle = batcher.open_lane(Arc::clone(&state));
    let busy = batcher.open_lane(Arc::clone(&state));
    let ticket = busy.try_submit(1, &Tag::default()).unwrap();

    drop(idle);
    assert_eq!(Arc::strong_count(&state), 2, "the idle one's is gone");
    drop(busy);
    assert_eq!(Arc::strong_count(&state), 2, "the other's is still wanted");
    drop(puller.pull().await);
    assert!(matches!(ticket.await, Err(Failure::ExecutorGone)));
    assert_eq!(Arc::strong_count(&state), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lane_outlives_the_last_executor_s_end() {
    let (batcher, timekeeper) =
        Batcher::<u32, u32, Arc<()>>::pair(Settings::default().validate().unwrap());
    tokio::spawn(timekeeper.run());
    let mut puller = batcher.attach();
    let state = Arc::new(());
    let lane = batcher.open_lane(Arc::clone(&state));
    let [running, waiting] = [1, 2].map(|item| lane.try_submit(item, &Tag::default()).unwrap());
    let flight = puller.pull().await;

    drop(puller);
    assert!(matches!(waiting.await, Err(Failure::ExecutorGone)), "nobody will run it");
    drop(flight);
    assert!(matches!(running.await, Err(Failure::ExecutorGone)));
    drop(lane);
    assert_eq!(Arc::strong_count(&state), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_item_does_not_stop_its_lane() {
    let (batcher, sum) = start(1);
    let lane = batcher.open_lane(0);
    let running = lane.try_submit(1, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let cancelled = lane.try_submit(10, &Tag::default()).unwrap();
    let last = lane.try_submit(100, &Tag::default()).unwrap();

    drop(cancelled);
    drop(lane);

    assert_eq!(running.await.unwrap(), 1);
    assert_eq!(last.await.unwrap(), 101, "a lane's items outlive its handle");
    assert_eq!(*sum.calls.lock().unwrap(), [[1], [100]]);
}
