//! Who hears what when: first sound, gaps and who goes first, exactly.

use std::time::Duration;

use paceline_batch::{PolicyName, Settings};
use paceline_pipeline::synthesis::{Pace, PlainText, Session, SynthesisSettings};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, Serving, shape};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn settings(policy: PolicyName) -> Settings {
    Settings { policy, max_items: Some(32), max_wait: Some(ms(50)), ..Settings::default() }
}

/// When each chunk came, after the beginning.
async fn times(mut session: Session, began: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    while let Some(chunk) = session.next().await {
        chunk.unwrap();
        times.push(began.elapsed());
    }
    times
}

#[tokio::test(start_paused = true)]
async fn a_lone_listener_hears_the_first_sound_after_one_call_and_no_gap() {
    let rig = Rig::new(shape(), settings(PolicyName::Adaptive));
    let began = Instant::now();
    let times = times(rig.speak(&"x".repeat(150), "v1", 5).unwrap(), began).await;

    assert_eq!(times.len(), 10);
    assert_eq!(times[0], ms(50));
    let stats = rig.synthesis.stats();
    assert_eq!((stats.gaps, stats.gap_free, stats.chunks), (0, 1, 10));
    assert_eq!(stats.sound, ms(6000));
    assert!(times[9] < ms(1500), "nobody else listens, so it is made ahead: {times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_counted_with_its_exact_length() {
    let pace = Pace { ahead: Duration::ZERO, ..Pace::default() };
    let settings = SynthesisSettings { pace, ..SynthesisSettings::default() };
    let rig = Rig::with(shape(), self::settings(PolicyName::Adaptive), settings, &[]);
    let mut session = rig.speak(&"x".repeat(30), "v1", 5).unwrap();

    session.next().await.unwrap().unwrap();
    // The listener's connection stalls: 600 ms are played, and the next chunk is not taken.
    sleep(ms(1000)).await;
    let second = session.next().await.unwrap().unwrap();
    let late = second.gap.unwrap();
    assert!(ms(400) <= late && late <= ms(450), "{late:?}");
    assert!(session.next().await.is_none());
    let stats = rig.synthesis.stats();
    assert_eq!((stats.gaps, stats.gap_free, stats.silence), (1, 0, late));
}

#[tokio::test(start_paused = true)]
async fn who_has_sound_ahead_lets_those_go_first_who_have_none() {
    let one = Settings { max_items: Some(1), ..settings(PolicyName::Adaptive) };
    let rig = Rig::new(shape(), one);
    let began = Instant::now();
    let mut listeners = Vec::new();
    // The first has its second chunk made ahead; with its third it waits among these. The last comes
    // after that was asked for, and has heard nothing.
    for (voice, after) in [("v1", 0), ("v2", 60), ("v3", 61), ("v4", 110)] {
        sleep(ms(after).saturating_sub(began.elapsed())).await;
        let text = "x".repeat(if after == 0 { 60 } else { 10 });
        listeners.push(tokio::spawn(times(rig.speak(&text, voice, 5).unwrap(), began)));
    }

    let mut first = Vec::new();
    for listener in listeners {
        first.push(listener.await.unwrap()[0]);
    }
    assert_eq!(first, [50, 150, 200, 250].map(ms));
}

#[tokio::test(start_paused = true)]
async fn the_next_sentence_of_who_has_sound_ahead_is_read_after_the_first_of_others() {
    let token_batch = Settings { max_items: Some(1), ..settings(PolicyName::Adaptive) };
    let token_curve = |_| ms(200);
    let serving = Serving { token_batch, token_curve, ..settings(PolicyName::Adaptive).into() };
    let rig = Rig::new(shape(), serving);
    let pair = rig.synthesis.pair(None).unwrap();
    let reader = Box::new(PlainText { max_sentence: 40 });
    rig.synthesis.add("tokens", pair.settings().clone(), reader).unwrap();
    let began = Instant::now();
    let long = "This is the first of three sentences. And this one is the second of them. \
                And this is how it ends.";
    let mut listeners = Vec::new();
    for (text, voice, after) in
        [(long, "v1", 0), ("One.", "v2", 300), ("Two.", "v3", 310), ("Three.", "v4", 410)]
    {
        sleep(ms(after).saturating_sub(began.elapsed())).await;
        listeners.push(tokio::spawn(times(rig.speak(text, voice, 5).unwrap(), began)));
    }

    let mut first = Vec::new();
    for listener in listeners {
        first.push(listener.await.unwrap()[0]);
    }
    // Each is read in 200 ms, and the third sentence of the first waits from 400 ms on.
    assert_eq!(first, [250, 650, 850, 1050].map(ms));
}
