//! Items that say by when they are wanted: they wait for company as long as they can, go in the
//! order in which they are wanted, and are never dropped.

use std::time::Duration;

use paceline_batch::{FireReason, Landing, Moment, Next, PolicyName, Scheduler, Settings, Tag};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Moment {
    Moment::at(ms(millis))
}

/// A device whose calls take 50, 70 and 150 ms at 1, 8 and 32 items.
fn scheduler(policy: PolicyName, max_wait: u64) -> Scheduler<u32> {
    let settings = Settings {
        policy,
        max_items: Some(32),
        max_wait: Some(ms(max_wait)),
        ..Settings::default()
    };
    let mut scheduler = Scheduler::new(settings.validate().unwrap());
    for (rows, takes) in [(1, 50), (8, 70), (32, 150)] {
        scheduler.learn(0, rows, ms(takes));
    }
    scheduler
}

fn offer(scheduler: &mut Scheduler<u32>, item: u32, wanted: u64, now: u64) {
    let tag = Tag { wanted: Some(ms(wanted)), ..Tag::default() };
    scheduler.offer(item, &tag, None, at(now)).unwrap();
}

fn pull(scheduler: &mut Scheduler<u32>, now: u64) -> Result<(Vec<u32>, FireReason), Moment> {
    match scheduler.next(at(now)) {
        Next::Batch(batch) => {
            let items = batch.boarded.iter().map(|item| item.payload).collect();
            let landing = Landing { took: None, failed: 0, late: 0 };
            scheduler.finish(batch.flight, landing, [], at(now));
            Ok((items, batch.facts.fired))
        }
        Next::HoldUntil(until) => Err(until),
        Next::Nothing => Err(Moment::NEVER),
    }
}

#[test]
fn what_is_wanted_at_once_goes_at_once_and_what_is_wanted_later_waits_for_company() {
    let mut scheduler = scheduler(PolicyName::Adaptive, 1000);
    offer(&mut scheduler, 1, 0, 0);
    assert_eq!(pull(&mut scheduler, 0), Ok((vec![1], FireReason::FastPath)));

    offer(&mut scheduler, 2, 600, 0);
    let until = pull(&mut scheduler, 0).unwrap_err();
    // Two rows take 53 ms, and a full call of 150 ms may just have begun, and another come first.
    assert!(at(240) < until && until < at(250), "{until:?}");
    offer(&mut scheduler, 3, 600, 100);
    assert!(pull(&mut scheduler, 100).is_err());
    assert_eq!(pull(&mut scheduler, 400), Ok((vec![2, 3], FireReason::Deadline)));
}

#[test]
fn nothing_is_held_longer_than_the_longest_wait() {
    let mut scheduler = scheduler(PolicyName::Adaptive, 20);
    offer(&mut scheduler, 1, 5000, 0);
    offer(&mut scheduler, 2, 5000, 0);

    assert_eq!(pull(&mut scheduler, 0), Err(at(20)));
    assert_eq!(pull(&mut scheduler, 20), Ok((vec![1, 2], FireReason::WaitOver)));
}

#[test]
fn whoever_runs_dry_first_goes_first_and_takes_the_others_along() {
    let mut scheduler = scheduler(PolicyName::Adaptive, 1000);
    for item in 0..40 {
        offer(&mut scheduler, item, 900 - u64::from(item), 0);
    }
    offer(&mut scheduler, 100, 100, 0);
    offer(&mut scheduler, 101, 0, 0);

    let (first, fired) = pull(&mut scheduler, 0).unwrap();
    assert_eq!((first.len(), fired), (32, FireReason::Full));
    assert_eq!(first[..4], [101, 100, 39, 38]);
    assert!(pull(&mut scheduler, 50).is_err(), "the others are early");
    assert_eq!(pull(&mut scheduler, 1000).unwrap().0.len(), 10);
}

#[test]
fn an_item_that_is_late_is_late_and_not_lost() {
    let mut scheduler = scheduler(PolicyName::Adaptive, 1000);
    offer(&mut scheduler, 1, 10, 0);
    scheduler.expire(at(60_000));

    assert_eq!(pull(&mut scheduler, 60_000).unwrap().0, [1]);
    assert!(!scheduler.has_left());
}

#[test]
fn the_fixed_policy_knows_no_wishes() {
    let mut scheduler = scheduler(PolicyName::Fixed, 50);
    offer(&mut scheduler, 1, 5000, 0);
    offer(&mut scheduler, 2, 0, 1);

    assert_eq!(pull(&mut scheduler, 1), Err(at(50)));
    assert_eq!(pull(&mut scheduler, 50), Ok((vec![1, 2], FireReason::WaitOver)));
}
