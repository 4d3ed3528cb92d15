//! Who hears what when: first sound, gaps and who goes first, exactly.

use std::time::Duration;

use paceline_batch::{PolicyName, Settings};
use paceline_pipeline::synthesis::{Pace, Session, SynthesisSettings};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, shape};

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
