//! Items that come on board between steps, and each is answered with the step that ends it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use paceline_batch::{
    Batcher, Cause, Done, Dropped, Failure, ItemId, Settings, Stepper, Stepping, Tag, WrongReplies,
};
use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use crate::{millis, within};

/// What an item is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// Is answered with its number after so many steps.
    Steps(u32, u32),
    /// Is not taken on board.
    Refused,
    /// Panics in its second step.
    Panics,
    /// Is answered twice.
    Twice,
}

const STEP: Duration = Duration::from_millis(10);

/// Takes a step with everybody on board, and remembers how many there were.
#[derive(Debug, Clone, Default)]
struct Walker {
    aboard: Vec<(ItemId, Walk, u32)>,
    crowds: Arc<Mutex<Vec<usize>>>,
}

impl Stepping<Walk, u32> for Walker {
    fn board(&mut self, id: ItemId, item: &Walk) -> Result<(), Cause> {
        if *item == Walk::Refused {
            return Err(Cause::from(Box::from("no")));
        }
        self.aboard.push((id, *item, 0));
        Ok(())
    }

    async fn step(&mut self, done: &mut Vec<Done<u32>>) {
        self.crowds.lock().unwrap().push(self.aboard.len());
        sleep(STEP).await;
        for (id, walk, steps) in &mut self.aboard {
            *steps += 1;
            match *walk {
                Walk::Steps(number, last) if *steps == last => done.push((*id, Ok(number))),
                Walk::Twice => done.extend([(*id, Ok(0)), (*id, Ok(0))]),
                _ => {}
            }
        }
        let has_panicked = |walk: &(ItemId, Walk, u32)| walk.1 == Walk::Panics && walk.2 == 2;
        assert!(!self.aboard.iter().any(has_panicked), "panics, as it was told to");
        self.aboard.retain(|(id, ..)| !done.iter().any(|(done, _)| done == id));
    }

    fn leave(&mut self, id: ItemId) {
        let n_aboard = self.aboard.len();
        self.aboard.retain(|(aboard, ..)| *aboard != id);
        assert_eq!(self.aboard.len() + 1, n_aboard, "only those on board leave");
    }

    async fn recover(&mut self) -> Result<(), Cause> {
        self.aboard.clear();
        Ok(())
    }
}

fn start(seats: usize) -> (Batcher<Walk, u32>, Walker) {
    let settings = Settings { max_items: Some(1), ..Settings::default() };
    let (batcher, timekeeper) = Batcher::pair(settings.validate().unwrap());
    let walker = Walker::default();
    tokio::spawn(timekeeper.run());
    tokio::spawn(Stepper::new(batcher.attach_seats(seats), walker.clone()).run());
    (batcher, walker)
}

fn submit(batcher: &Batcher<Walk, u32>, walk: Walk) -> paceline_batch::Ticket<u32> {
    batcher.try_submit(walk, &Tag::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_neighbour_s_long_sentence() {
    let (batcher, _) = start(4);
    let began = Instant::now();
    let long = submit(&batcher, Walk::Steps(1, 100));
    sleep(millis(55)).await;

    let (answer, ride) = submit(&batcher, Walk::Steps(2, 2)).with_ride().await.unwrap();

    // It came on board with the step that began at 60 ms, and had two.
    assert_eq!((answer, began.elapsed()), (2, millis(80)));
    assert_eq!((ride.items, ride.waited, ride.took), (2, millis(5), millis(20)));
    assert_eq!(long.await.unwrap(), 1);
    assert_eq!(began.elapsed(), millis(1000));
}

#[tokio::test(start_paused = true)]
async fn there_are_never_more_on_board_than_seats() {
    let (batcher, walker) = start(3);
    let tickets: Vec<_> = (0..10).map(|n| submit(&batcher, Walk::Steps(n, 1 + n % 4))).collect();
    for (number, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.await.unwrap(), number);
    }

    let crowds = walker.crowds.lock().unwrap();
    assert_eq!(crowds.iter().max(), Some(&3));
    // No seat was empty while somebody waited, and nobody had more steps than they needed.
    assert_eq!(crowds[..6], [3; 6]);
    assert_eq!(crowds.iter().sum::<usize>(), 23);
    // A step is a batch of those on board.
    let rows = batcher.stats().batch_rows;
    assert_eq!((rows.count(), rows.sum()), (crowds.len() as u64, 23));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_frees_the_seat_at_once() {
    let (batcher, _) = start(1);
    let long = submit(&batcher, Walk::Steps(1, 100));
    let next = submit(&batcher, Walk::Steps(2, 1));
    sleep(millis(15)).await;
    let left = Instant::now();
    drop(long);

    assert_eq!(next.await.unwrap(), 2);
    assert_eq!(left.elapsed(), millis(15));
    let stats = batcher.stats();
    assert_eq!((stats.items_dropped(Dropped::Cancelled), stats.failed_calls), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_late_is_put_off_and_told_so() {
    let (batcher, _) = start(1);
    let late = batcher.try_submit(Walk::Steps(1, 100), &within(25)).unwrap();
    let next = submit(&batcher, Walk::Steps(2, 1));
    let began = Instant::now();

    assert!(matches!(late.await, Err(Failure::Expired)));
    assert_eq!(began.elapsed(), millis(30));
    assert_eq!(next.await.unwrap(), 2);
    assert_eq!(batcher.stats().items_dropped(Dropped::Expired), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_done_after_the_deadline_is_late_and_who_is_done_on_it_is_not() {
    for (timeout, n_late) in [(21, 0), (20, 0), (19, 1)] {
        let (batcher, _) = start(1);
        let ticket = batcher.try_submit(Walk::Steps(1, 2), &within(timeout)).unwrap();
        assert_eq!(ticket.await.unwrap(), 1);
        sleep(millis(1)).await;
        assert_eq!(batcher.stats().late, n_late, "{timeout} ms");
    }
}

/// Is done with everybody after one step, at once.
#[derive(Debug, Default)]
struct Sprinter(Vec<(ItemId, u32)>);

impl Stepping<u32, u32> for Sprinter {
    fn board(&mut self, id: ItemId, item: &u32) -> Result<(), Cause> {
        self.0.push((id, *item));
        Ok(())
    }

    async fn step(&mut self, done: &mut Vec<Done<u32>>) {
        done.extend(self.0.drain(..).map(|(id, item)| (id, Ok(item))));
    }

    fn leave(&mut self, id: ItemId) {
        self.0.retain(|(aboard, _)| *aboard != id);
    }

    async fn recover(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}

#[test]
fn a_stepper_with_a_thread_of_its_own_serves_until_closed() {
    let settings = Settings { max_items: Some(1), ..Settings::default() };
    let (batcher, _timekeeper) = Batcher::<u32, u32>::pair(settings.validate().unwrap());
    let stepper = Stepper::new(batcher.attach_seats(2), Sprinter::default());
    let stepper = std::thread::spawn(move || stepper.run_blocking());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let tickets = [1, 2, 3].map(|item| batcher.try_submit(item, &Tag::default()).unwrap());
        for (ticket, item) in tickets.into_iter().zip(1..) {
            let answer = tokio::time::timeout(Duration::from_secs(20), ticket).await;
            assert_eq!(answer.expect("an answer").unwrap(), item);
        }
    });

    batcher.close();
    stepper.join().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "each item of a stepper is a call of its own")]
async fn a_batcher_that_makes_larger_calls_is_refused() {
    let (batcher, _timekeeper) =
        Batcher::<Walk, u32>::pair(Settings::default().validate().unwrap());

    drop(Stepper::new(batcher.attach_seats(2), Walker::default()));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_one_item_s_own() {
    let (batcher, _) = start(4);
    let good = submit(&batcher, Walk::Steps(1, 3));
    let refused = submit(&batcher, Walk::Refused);

    assert_eq!(refused.await.unwrap_err().to_string(), "the model failed: no");
    assert_eq!(good.await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_those_on_board_and_nobody_before_or_after() {
    let (batcher, _) = start(4);
    let first = submit(&batcher, Walk::Steps(1, 1));
    let second = submit(&batcher, Walk::Steps(2, 2));
    let beside = submit(&batcher, Walk::Steps(3, 9));
    let bad = submit(&batcher, Walk::Panics);

    assert_eq!(first.await.unwrap(), 1);
    // It was done in the very step that panicked.
    assert_eq!(second.await.unwrap(), 2);
    assert!(matches!(bad.await, Err(Failure::Panicked)));
    assert!(matches!(beside.await, Err(Failure::Panicked)));
    assert_eq!(submit(&batcher, Walk::Steps(4, 3)).await.unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_nobody_fails_those_on_board() {
    let (batcher, _) = start(4);
    let beside = submit(&batcher, Walk::Steps(1, 9));
    let twice = submit(&batcher, Walk::Twice);

    assert_eq!(twice.await.unwrap(), 0);
    let failure = beside.await.unwrap_err();
    assert!(matches!(failure, Failure::WrongReplies(WrongReplies::UnknownItem)), "{failure}");
    assert_eq!(submit(&batcher, Walk::Steps(4, 3)).await.unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_at_the_close_is_served() {
    let (batcher, _) = start(2);
    let tickets: Vec<_> = (0..6).map(|n| submit(&batcher, Walk::Steps(n, 3))).collect();
    batcher.close();
    drop(batcher);

    for (number, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.await.unwrap(), number);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arrivals, lengths, leavings, refusals and panics in any order, on one device or two.
    #[test]
    fn everybody_gets_one_answer_and_it_is_their_own(
        plan in prop::collection::vec((0..30_u64, 0..20_u32, 1..12_u32, 0..60_u64), 1..40),
        seats in 1..5_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (batcher, walker) = start(seats);
            tokio::spawn(Stepper::new(batcher.attach_seats(seats), walker.clone()).run());
            let mut clients = Vec::new();
            for (number, (gap, kind, steps, patience)) in (0..).zip(plan) {
                sleep(millis(gap)).await;
                let walk = match kind {
                    0 => Walk::Panics,
                    1 => Walk::Refused,
                    _ => Walk::Steps(number, steps),
                };
                let ticket = submit(&batcher, walk);
                clients.push(tokio::spawn(async move {
                    if kind == 2 {
                        // This one does not wait for its answer.
                        return tokio::time::timeout(millis(patience), ticket).await.ok();
                    }
                    Some(ticket.await)
                }));
            }
            for (number, client) in (0..).zip(clients) {
                match client.await.unwrap() {
                    Some(Ok(answer)) => assert_eq!(answer, number),
                    Some(Err(Failure::Panicked | Failure::Model(_))) | None => {}
                    Some(Err(failure)) => panic!("{failure}"),
                }
            }
            assert!(walker.crowds.lock().unwrap().iter().all(|crowd| *crowd <= seats));
            sleep(millis(200)).await;
            assert_eq!(batcher.stats().in_flight, 0);
        });
    }
}
