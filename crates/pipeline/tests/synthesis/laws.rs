//! Nothing is mixed, lost, padded or put in another order, whoever shares whose calls.

use paceline_batch::{Buckets, PolicyName, Settings};
use paceline_pipeline::synthesis::{ChunkShape, SynthesisError, SynthesisSettings};
use paceline_types::ErrorCode;
use proptest::{collection::vec, prelude::*};
use tokio::task::JoinSet;

use crate::rig::{Rig, all, expected, shape};

/// One listener: what, in which voice, with how many steps, and after how many milliseconds.
type Wish = (String, u8, u8, u64);

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    vec(("[a-z][a-z ]{0,90}", 0_u8..3, 1_u8..3, 0_u64..900), 1..10)
}

fn shapes() -> impl Strategy<Value = ChunkShape> {
    (1_usize..20, 1_usize..20, 1_usize..60).prop_map(|(chunk, first_chunk, context)| ChunkShape {
        chunk,
        first_chunk,
        context,
        ..shape()
    })
}

fn settings(is_fixed: bool, has_buckets: bool, max_items: usize) -> Settings {
    Settings {
        policy: if is_fixed { PolicyName::Fixed } else { PolicyName::Adaptive },
        buckets: if has_buckets { Buckets::PowersOfTwo } else { Buckets::None },
        max_items: Some(max_items),
        ..Settings::default()
    }
}

fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn everybody_hears_exactly_what_was_asked_for(
        wishes in wishes(),
        shape in shapes(),
        (is_fixed, has_buckets) in any::<(bool, bool)>(),
        max_items in 1_usize..12,
    ) {
        paused().block_on(async move {
            let rig = Rig::new(shape, settings(is_fixed, has_buckets, max_items));
            let mut listeners = JoinSet::new();
            for (text, voice, steps, after) in wishes {
                let synthesis = rig.speak(&text, &format!("v{voice}"), steps);
                listeners.spawn(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(after)).await;
                    (all(synthesis.unwrap()).await.unwrap(), expected(&text, voice, steps))
                });
            }
            while let Some(heard) = listeners.join_next().await {
                let (heard, expected) = heard.unwrap();
                prop_assert_eq!(heard.len(), expected.len());
                let wrong = heard.iter().zip(&expected).position(|(heard, due)| heard != due);
                prop_assert_eq!(wrong, None, "of {} samples", heard.len());
            }
            prop_assert!(rig.calls().iter().all(|items| *items <= max_items));
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn equal_voices_share_calls_and_different_ones_never_do() {
    let text = "fourteen tokens";
    for (voices, steps, calls) in [
        (["v1", "v1", "v1"], [5, 5, 5], vec![3]),
        (["v1", "v2", "v1"], [5, 5, 5], vec![2, 1]),
        (["v1", "v1", "v1"], [5, 6, 5], vec![2, 1]),
    ] {
        let rig = Rig::new(shape(), settings(false, false, 8));
        // Somebody is already being served, so that what comes meanwhile may go together.
        let first = tokio::spawn(all(rig.speak("before", "v7", 5).unwrap()));
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let mut listeners = JoinSet::new();
        for (voice, steps) in voices.into_iter().zip(steps) {
            listeners.spawn(all(rig.speak(text, voice, steps).unwrap()));
        }
        first.await.unwrap().unwrap();
        while let Some(heard) = listeners.join_next().await {
            heard.unwrap().unwrap();
        }
        let mut shared = rig.calls().split_off(1);
        shared.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(shared, calls, "{voices:?} {steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_voice_registered_twice_shares_calls_with_itself() {
    let rig = Rig::new(shape(), settings(false, false, 8));
    let pair = rig.synthesis.pair(None).unwrap();
    let content = || [("embedding".to_owned(), [6.0][..].into())].into_iter().collect();
    let ann = pair.register(&rig.models, "ann", content()).unwrap();
    pair.delete("ann").unwrap();
    let again = pair.register(&rig.models, "ann", content()).unwrap();
    assert_eq!(ann.id, again.id);

    let first = tokio::spawn(all(rig.speak("before", "v7", 5).unwrap()));
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    let one = tokio::spawn(all(rig.speak("hello", "ann", 5).unwrap()));
    let two = tokio::spawn(all(rig.speak("world", "v6", 5).unwrap()));
    first.await.unwrap().unwrap();
    assert_eq!(one.await.unwrap().unwrap(), expected("hello", 6, 5));
    assert_eq!(two.await.unwrap().unwrap(), expected("world", 6, 5));
    assert_eq!(rig.calls(), [1, 2], "another object, the same content");
}

#[tokio::test(start_paused = true)]
async fn one_bad_item_spares_its_batch() {
    let rig = Rig::new(shape(), settings(false, false, 8));
    let first = tokio::spawn(all(rig.speak("before", "v1", 5).unwrap()));
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    let bad = tokio::spawn(all(rig.speak("bad \u{7}", "v1", 5).unwrap()));
    let good = tokio::spawn(all(rig.speak("good", "v1", 5).unwrap()));

    first.await.unwrap().unwrap();
    let error = bad.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ModelFailed);
    assert!(error.to_string().contains("a token that cannot be spoken"), "{error}");
    assert_eq!(good.await.unwrap().unwrap(), expected("good", 1, 5));
    let stats = rig.synthesis.stats();
    assert_eq!((stats.finished, stats.failed, stats.listening), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_costs_the_vocoder_nothing_more() {
    let rig = Rig::new(shape(), settings(false, false, 8));
    let first = tokio::spawn(all(rig.speak("before", "v1", 5).unwrap()));
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    let gone = tokio::spawn(all(rig.speak(&"x".repeat(300), "v2", 5).unwrap()));
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    first.await.unwrap().unwrap();
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;

    assert_eq!(rig.calls(), [1], "what waited was withdrawn");
    let stats = rig.synthesis.stats();
    assert_eq!((stats.cancelled, stats.listening), (1, 0));
    assert_eq!(stats.batchers[1].1.waiting_items, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_answered_with_what_is() {
    let limits =
        SynthesisSettings { max_listeners: 1, max_text: 10, ..SynthesisSettings::default() };
    let rig = Rig::with(shape(), settings(false, false, 8), limits, &[]);

    let refused = rig.speak("hello", "nobody", 5).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NotFound);
    assert!(refused.to_string().ends_with("there are v0, v1, v2, v3, v4, v5, v6, v7"), "{refused}");
    let refused = rig.speak("hello", "v1", 9).unwrap_err().to_string();
    assert_eq!(refused, "diffusion_steps is 9; it must be from 1 to 7");
    assert!(matches!(rig.speak("  ", "v1", 5), Err(SynthesisError::NothingToSay)));
    assert!(matches!(rig.speak("far too long", "v1", 5), Err(SynthesisError::TooLong { .. })));
    let _listens = rig.speak("hello", "v1", 5).unwrap();
    assert_eq!(rig.speak("hello", "v1", 5).unwrap_err().code(), ErrorCode::Overloaded);
}
