//! Executors that run on the threads of those who submit.

use std::{
    sync::{Arc, Mutex, OnceLock},
    task::Poll,
};

use paceline_batch::{
    Batcher, Call, Cause, Executor, Failure, FireReason, PolicyName, Reply, Runner, Settings, Tag,
    Ticket, from_fn,
};
use tokio::{sync::oneshot, time::Instant};

use crate::{Echo, Outcome, millis};

/// A batcher with one lent executor, and how that ended.
fn lent<E: Executor<u32, u32> + 'static>(
    settings: &Settings,
    executor: E,
) -> (Batcher<u32, u32>, oneshot::Receiver<Result<(), Cause>>) {
    let (batcher, timekeeper) = Batcher::pair(settings.validate().unwrap());
    tokio::spawn(timekeeper.run());
    let (ended, how) = oneshot::channel();
    Runner::new(batcher.attach(), executor).lend(|end| drop(ended.send(end)));
    (batcher, how)
}

/// The answer, which must be there already.
fn now<R>(ticket: Ticket<R>) -> Result<R, Failure> {
    match tokio_test::task::spawn(ticket).poll() {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it is not answered yet"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_is_run_where_it_is_submitted_before_submit_returns() {
    let threads: Arc<Mutex<Vec<_>>> = Arc::default();
    let seen = Arc::clone(&threads);
    let model = from_fn(move |items: &mut dyn ExactSizeIterator<Item = &u32>| {
        seen.lock().unwrap().push(std::thread::current().id());
        Ok(items.map(|item| item * 2).collect())
    });
    let (batcher, _) = lent(&Settings::default(), model);

    for item in 0..3 {
        assert_eq!(now(batcher.try_submit(item, &Tag::default()).unwrap()).unwrap(), item * 2);
    }
    let other = batcher.clone();
    let elsewhere = std::thread::spawn(move || {
        now(other.try_submit(9, &Tag::default()).unwrap()).unwrap();
        std::thread::current().id()
    });
    let elsewhere = elsewhere.join().unwrap();

    let here = std::thread::current().id();
    assert_eq!(*threads.lock().unwrap(), [here, here, here, elsewhere]);
    assert_eq!(batcher.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_answer_and_not_the_submitters() {
    let rule = |items: &[u32]| if items == [1] { Outcome::Panics } else { Outcome::Good };
    let (batcher, mut how) = lent(&Settings::default(), Echo::taking(0).with_rule(rule));

    let submit = |item| now(batcher.try_submit(item, &Tag::default()).unwrap());
    assert!(matches!(submit(1), Err(Failure::Panicked)));
    assert_eq!(submit(2).unwrap(), 2);
    assert!(how.try_recv().is_err(), "it goes on");

    drop(batcher);
    how.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_timekeeper_ends_what_it_holds() {
    let settings = Settings {
        policy: PolicyName::Fixed,
        max_wait: Some(millis(20)),
        fast_path_wait: Some(millis(3)),
        early_fire: None,
        ..Settings::default()
    };
    let (batcher, _) = lent(&settings, Echo::taking(0));
    let began = Instant::now();

    let (_, ride) = batcher.try_submit(1, &Tag::default()).unwrap().with_ride().await.unwrap();
    assert_eq!((ride.fired, began.elapsed()), (FireReason::FastPath, millis(3)));

    let [first, second] = [2, 3].map(|item| batcher.try_submit(item, &Tag::default()).unwrap());
    let (_, ride) = first.with_ride().await.unwrap();
    assert_eq!((ride.fired, ride.items), (FireReason::WaitOver, 2));
    assert_eq!(began.elapsed(), millis(23));
    second.await.unwrap();
}

/// Submits one more item with each call, as if others never stopped coming.
struct Crowd {
    batcher: Arc<OnceLock<Batcher<u32, u32>>>,
    calls: Arc<Mutex<Vec<u32>>>,
    tickets: Vec<Ticket<u32>>,
}

impl Executor<u32, u32> for Crowd {
    async fn execute(
        &mut self,
        call: &Call<'_, u32, u32>,
        replies: &mut Vec<Reply<u32>>,
    ) -> Result<(), Cause> {
        for rider in call.riders() {
            self.calls.lock().unwrap().push(*rider.item);
            replies.push(Reply::ok(rider.id, *rider.item));
            if *rider.item < 100 {
                let batcher = self.batcher.get().unwrap();
                self.tickets.push(batcher.try_submit(rider.item + 1, &Tag::default()).unwrap());
            }
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn who_came_with_one_item_is_not_kept_for_those_of_others() {
    let (home, calls) = (Arc::new(OnceLock::new()), Arc::<Mutex<Vec<u32>>>::default());
    let crowd =
        Crowd { batcher: Arc::clone(&home), calls: Arc::clone(&calls), tickets: Vec::new() };
    let (batcher, how) = lent(&Settings::default(), crowd);
    home.set(batcher.clone()).unwrap();

    let own = batcher.try_submit(1, &Tag::default()).unwrap();
    assert_eq!(now(own).unwrap(), 1);
    let n_calls = calls.lock().unwrap().len();
    assert!((1..20).contains(&n_calls), "{n_calls} calls for one item");

    while calls.lock().unwrap().len() < 100 {
        tokio::task::yield_now().await;
    }
    batcher.close();
    how.await.unwrap().unwrap();
    assert_eq!(*calls.lock().unwrap(), (1..=100).collect::<Vec<_>>());
}
