//! Models that fail, panic or reply wrongly.

use std::error::Error as _;

use paceline_batch::{Batcher, Failure, Settings, Tag, Ticket, WrongReplies};
use tokio::time::sleep;

use crate::{Echo, Outcome, millis, start};

/// Submits `n_items` that ride in one batch, and gives the answers.
async fn answers(batcher: &Batcher<u32, u32>, n_items: u32) -> Vec<Result<u32, Failure>> {
    let blocker = batcher.try_submit(u32::MAX, &Tag::default()).unwrap();
    sleep(millis(1)).await;
    let tickets: Vec<Ticket<u32>> =
        (0..n_items).map(|item| batcher.try_submit(item, &Tag::default()).unwrap()).collect();
    drop(blocker.await);
    let mut answers = Vec::new();
    for ticket in tickets {
        answers.push(ticket.await);
    }
    answers
}

fn settings() -> Settings {
    Settings { max_items: Some(64), ..Settings::default() }
}

#[tokio::test(start_paused = true)]
async fn one_bad_item_fails_alone_within_a_bound_of_calls() {
    let echo = Echo::taking(1)
        .with_rule(|items| if items.contains(&11) { Outcome::Fails } else { Outcome::Good });
    let batcher = start(&settings(), &echo, 1);

    let answers = answers(&batcher, 32).await;

    for (item, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(result) => assert_eq!(result as usize, item),
            Err(failure) => {
                assert_eq!(item, 11);
                assert_eq!(failure.source().unwrap().to_string(), "bad batch");
            }
        }
    }
    // The batch, then two halves for each of the five times that 32 can be halved.
    assert_eq!(echo.calls().len(), 1 + 1 + 10);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_always_fails_costs_a_bounded_number_of_calls() {
    let echo = Echo::taking(1).with_rule(|_| Outcome::Fails);
    let batcher = start(&settings(), &echo, 1);

    let answers = answers(&batcher, 64).await;

    assert!(answers.iter().all(|answer| matches!(answer, Err(Failure::Model(_)))));
    assert_eq!(echo.calls().len(), 1 + 1 + 16);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_fails_by_itself_needs_no_further_call() {
    let echo = Echo::taking(1).with_rule(|_| Outcome::ItemFails(3));
    let batcher = start(&settings(), &echo, 1);

    let answers = answers(&batcher, 8).await;

    let failed: Vec<usize> = answers
        .iter()
        .enumerate()
        .filter(|(_, answer)| answer.is_err())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(failed, [3]);
    assert_eq!(echo.calls().len(), 2);
    sleep(millis(1)).await;
    let stats = batcher.stats();
    assert_eq!((stats.failed, stats.failed_calls), (1, 0));
    let record = batcher.landed_after(1, 1)[0];
    assert_eq!((record.items, record.failed, record.took), (8, 1, millis(1)));
}

#[tokio::test(start_paused = true)]
async fn only_a_whole_call_with_a_good_answer_teaches_how_long_calls_take() {
    let nothing_good = Echo::taking(1).with_rule(|items| Outcome::ItemFails(items[0]));
    let batcher = start(&settings(), &nothing_good, 1);
    assert!(batcher.try_submit(1, &Tag::default()).unwrap().await.is_err());
    sleep(millis(1)).await;
    assert_eq!(batcher.explain().latencies, []);

    let halves_good = Echo::taking(1)
        .with_rule(|items| if items.len() == 4 { Outcome::Fails } else { Outcome::Good });
    let batcher = start(&settings(), &halves_good, 1);
    assert!(answers(&batcher, 4).await.iter().all(Result::is_ok));
    sleep(millis(1)).await;
    assert_eq!(batcher.explain().latencies[0].means, [(1, millis(1))], "the blocker's alone");
    assert_eq!(batcher.stats().failed_calls, 1);
}

#[tokio::test(start_paused = true)]
async fn replies_in_any_order_reach_their_items() {
    let echo = Echo::taking(1).with_rule(|_| Outcome::Reversed);
    let batcher = start(&settings(), &echo, 1);

    let answers = answers(&batcher, 9).await;

    for (item, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap() as usize, item);
    }
}

#[tokio::test(start_paused = true)]
async fn too_few_or_twin_replies_are_an_error_and_never_a_shifted_answer() {
    for (rule, expected) in [
        (
            (|_| Outcome::OneShort) as fn(&[u32]) -> Outcome,
            WrongReplies::Count { expected: 1, actual: 0 },
        ),
        (
            |items| if items.len() == 1 { Outcome::OneShort } else { Outcome::Twin },
            WrongReplies::Count { expected: 1, actual: 0 },
        ),
    ] {
        let batcher = start(&settings(), &Echo::taking(1).with_rule(rule), 1);

        for answer in answers(&batcher, 4).await {
            let Err(Failure::WrongReplies(wrong)) = answer else { panic!("{answer:?}") };
            assert_eq!(wrong, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_batch_and_the_executor_goes_on() {
    let echo = Echo::taking(1)
        .with_rule(|items| if items.contains(&2) { Outcome::Panics } else { Outcome::Good });
    let batcher = start(&settings(), &echo, 1);

    let answers = answers(&batcher, 4).await;

    assert!(answers.iter().all(|answer| matches!(answer, Err(Failure::Panicked))));
    assert_eq!(echo.calls().len(), 2, "what panicked is not tried again");
    assert_eq!(batcher.submit(9, &Tag::default()).await.unwrap().await.unwrap(), 9);
}
