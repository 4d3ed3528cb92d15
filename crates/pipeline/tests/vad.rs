//! Voice detection as a service: what it answers is what the kernel alone answers, whoever else is
//! there.

use std::{num::NonZeroUsize, time::Duration};

use futures_util::future::join_all;
use paceline_audio::{
    segment::{SegmentEvent, SegmentSettings, Segmenter},
    silero::{Rate, Silero, StreamState},
};
use paceline_batch::Refused;
use paceline_pipeline::{VoiceDetector, VoiceError, VoiceSettings, VoiceStream};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

fn detector(shards: usize, queue_items: usize) -> VoiceDetector {
    VoiceDetector::start(VoiceSettings {
        shards: NonZeroUsize::new(shards),
        queue_items: NonZeroUsize::new(queue_items),
        ..VoiceSettings::default()
    })
    .unwrap()
}

/// Sound that is different for each stream.
fn sound(random: &mut SmallRng, n_samples: usize) -> Vec<f32> {
    let (pitch, loud) = (random.random_range(0.01..0.5_f32), random.random_range(0.0..0.5_f32));
    (0..n_samples)
        .map(|at| (at as f32 * pitch).sin() * loud + random.random_range(-0.2..0.2))
        .collect()
}

fn kernel(silero: &mut Silero, samples: &[f32]) -> Vec<f32> {
    let mut state = StreamState::default();
    let frames = samples.chunks_exact(silero.rate().frame());
    let mut one = |frame| {
        let mut probability = [0.0];
        silero.detect(&[frame], &mut [&mut state], &mut probability);
        probability[0]
    };
    frames.map(&mut one).collect()
}

/// Sends whole frames, some at a time, sometimes without waiting for the answer.
async fn stream(mut voice: VoiceStream, samples: &[f32], seed: u64) -> Vec<f32> {
    let mut random = SmallRng::seed_from_u64(seed);
    let frame = voice.rate().frame();
    let (mut probabilities, mut tickets) = (Vec::new(), Vec::new());
    let mut rest = samples;
    while frame <= rest.len() {
        let n_frames = random.random_range(1..=5).min(rest.len() / frame);
        let (frames, later) = rest.split_at(n_frames * frame);
        rest = later;
        tickets.push(voice.submit(frames.to_vec()).await.unwrap());
        if random.random_bool(0.6) {
            for ticket in tickets.drain(..) {
                probabilities.extend(ticket.await.unwrap());
            }
            tokio::task::yield_now().await;
        }
    }
    drop(voice);
    for ticket in tickets {
        probabilities.extend(ticket.await.unwrap());
    }
    probabilities
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_streams_each_get_what_the_kernel_alone_answers() {
    // A queue far shorter than what is sent, so that submitting waits.
    let detector = detector(3, 64);
    let mut random = SmallRng::seed_from_u64(7);
    let rates = [Rate::Hz8000, Rate::Hz16000];
    let sounds: Vec<_> = (0..2000)
        .map(|number| (rates[number % 2], sound(&mut random, 512 * (3 + number % 10))))
        .collect();

    let streams = sounds.iter().zip(0..);
    let streams = streams.map(|((rate, sound), seed)| stream(detector.open(*rate), sound, seed));
    let answers = join_all(streams).await;

    let mut kernels = rates.map(Silero::new);
    for (number, ((_, sound), answer)) in sounds.iter().zip(answers).enumerate() {
        assert_eq!(answer, kernel(&mut kernels[number % 2], sound), "stream {number}");
    }
    let stats = detector.stats();
    assert!(stats.iter().all(|shard| 0 < shard.accepted), "every shard has streams");
}

#[tokio::test]
async fn what_is_not_whole_frames_is_refused_by_what_would_be() {
    let mut voice = detector(1, 32).open(Rate::Hz16000);
    for samples in [0, 511, 513, 33 * 512] {
        let refused = voice.detect(vec![0.0; samples]).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "{samples} samples are not 1 to 32 whole frames of 512 samples; send whole frames"
            )
        );
    }
    assert_eq!(voice.detect(vec![0.0; 32 * 512]).await.unwrap().len(), 32);
}

#[tokio::test]
async fn a_stream_that_leaves_takes_what_waits_of_it_along() {
    let detector = detector(1, 4096);
    let mut busy = Vec::new();
    for _ in 0..64 {
        let mut voice = detector.open(Rate::Hz16000);
        busy.push(voice.submit(vec![0.1; 32 * 512]).await.unwrap());
    }
    let mut leaving = detector.open(Rate::Hz16000);
    let mut tickets = Vec::new();
    for _ in 0..100 {
        tickets.push(leaving.submit(vec![0.1; 32 * 512]).await.unwrap());
    }

    drop(tickets);
    drop(leaving);

    let waiting = detector.stats()[0].waiting_items;
    assert!(waiting <= 64, "{waiting} items wait, and 64 of them for somebody");
    for answer in join_all(busy).await {
        assert_eq!(answer.unwrap().len(), 32);
    }
    assert_eq!(detector.stats()[0].waiting_items, 0);
}

#[tokio::test]
async fn closing_judges_what_was_accepted_and_takes_no_more() {
    let detector = detector(2, 4096);
    let mut voices: Vec<_> = (0..100).map(|_| detector.open(Rate::Hz16000)).collect();
    let mut tickets = Vec::new();
    for voice in &mut voices {
        tickets.push(voice.submit(vec![0.1; 4 * 512]).await.unwrap());
    }

    detector.close();

    for ticket in tickets {
        assert_eq!(ticket.await.unwrap().len(), 4);
    }
    let refused = voices[0].detect(vec![0.0; 512]).await;
    assert!(matches!(refused, Err(VoiceError::Refused(Refused::Closed))));
}

#[tokio::test]
async fn speech_is_found_where_it_is_however_the_file_is_sent() {
    let detector = detector(2, 4096);
    let file = include_bytes!("../../audio/tests/golden/jfk.wav");
    let data = file.windows(4).position(|name| name == b"data").unwrap() + 8;
    let samples: Vec<f32> = file[data..]
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32768.0)
        .collect();

    // With these pads the places are known.
    let settings = SegmentSettings {
        pre_speech_pad: Duration::from_millis(600),
        post_speech_pad: Duration::ZERO,
        ..SegmentSettings::default()
    };
    let settings = settings.validate().unwrap();
    let mut found = Vec::new();
    for chunk in [480, 496, 1600, 777, samples.len()] {
        let mut voice = detector.open(Rate::Hz16000);
        let mut segmenter = Segmenter::new(settings, Rate::Hz16000);
        let mut events = Vec::new();
        for mut chunk in samples.chunks(chunk) {
            while !chunk.is_empty() {
                chunk = &chunk[segmenter.push(chunk)..];
                let frames = segmenter.unscored(usize::MAX);
                if frames.is_empty() {
                    continue;
                }
                for probability in voice.detect(frames).await.unwrap() {
                    segmenter.score(probability, &mut events);
                }
            }
        }
        segmenter.flush(&mut events);
        found.push(events);
    }

    assert!(found.iter().all(|events| *events == found[0]));
    let places: Vec<_> = found[0]
        .iter()
        .map(|event| match event {
            SegmentEvent::SpeechStart { start } => (*start, None),
            SegmentEvent::SpeechEnd { start, end, samples: cut, .. } => {
                assert_eq!(
                    *cut,
                    samples[usize::try_from(*start).unwrap()..usize::try_from(*end).unwrap()]
                );
                (*start, Some(*end))
            }
        })
        .collect();
    // As the rules give it for the probabilities of ONNX Runtime.
    let (first, second, third) = ((0, 35_840), (43_136, 70_656), (76_928, 176_000));
    let expected = [first, second, third].map(|(start, end)| [(start, None), (start, Some(end))]);
    assert_eq!(places, expected.concat());
}

#[tokio::test]
async fn a_stream_is_opened_where_fewest_are() {
    let detector = detector(2, 4096);
    let judged = async |voice: &mut VoiceStream| {
        let before = detector.stats();
        voice.detect(vec![0.0; 512]).await.unwrap();
        let after = detector.stats();
        (0..2).find(|&shard| before[shard].accepted < after[shard].accepted).unwrap()
    };
    let mut voices: Vec<_> = (0..4).map(|_| detector.open(Rate::Hz16000)).collect();
    let mut places = Vec::new();
    for voice in &mut voices {
        places.push(judged(voice).await);
    }
    assert_eq!(places, [0, 1, 0, 1]);

    // Both of the second shard leave.
    voices.remove(3);
    voices.remove(1);
    for _ in 0..2 {
        voices.push(detector.open(Rate::Hz16000));
        assert_eq!(judged(voices.last_mut().unwrap()).await, 1);
    }
}
