//! The segmenter's rules by example, and its laws by property.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const FRAME: u64 = 512;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Each sample says where it is.
fn audio(samples: u64) -> Vec<f32> {
    (0..samples).map(|at| at as f32).collect()
}

fn settings(change: impl FnOnce(&mut SegmentSettings)) -> ValidSettings {
    let mut settings = SegmentSettings::default();
    change(&mut settings);
    settings.validate().unwrap()
}

/// Pushes audio in chunks of these sizes, over and over, and scores its frames as they come.
fn run(
    segmenter: &mut Segmenter,
    audio: &[f32],
    probabilities: &[f32],
    chunks: &[usize],
) -> Vec<SegmentEvent> {
    let mut events = Vec::new();
    let mut probabilities = probabilities.iter();
    let mut chunks = chunks.iter().cycle();
    let mut rest = audio;
    let Rules { pre_pad, max_utterance, .. } = segmenter.rules;
    while !rest.is_empty() {
        let (mut chunk, later) = rest.split_at(rest.len().min(*chunks.next().unwrap()));
        rest = later;
        while !chunk.is_empty() {
            chunk = &chunk[segmenter.push(chunk)..];
            let unscored = (MAX_UNSCORED + 1) * segmenter.rate().frame();
            assert!(segmenter.held() < pre_pad + max_utterance + unscored as u64);
            for _ in 0..segmenter.unscored(usize::MAX).len() / segmenter.rate().frame() {
                segmenter.score(*probabilities.next().unwrap(), &mut events);
            }
        }
    }
    events
}

/// Events of frames with these probabilities, and what is held at the end.
fn play(settings: ValidSettings, probabilities: &[f32]) -> (Vec<SegmentEvent>, Segmenter) {
    let mut segmenter = Segmenter::new(settings, Rate::Hz16000);
    let samples = audio(probabilities.len() as u64 * FRAME);
    let events = run(&mut segmenter, &samples, probabilities, &[100_000]);
    (events, segmenter)
}

fn frames(parts: &[(usize, f32)]) -> Vec<f32> {
    parts.iter().flat_map(|&(n, probability)| std::iter::repeat_n(probability, n)).collect()
}

/// Where an event is, and that its samples are those of that place.
fn place(event: &SegmentEvent) -> (u64, Option<u64>) {
    match event {
        SegmentEvent::SpeechStart { start } => (*start, None),
        SegmentEvent::SpeechEnd { start, end, samples, .. } => {
            let expected: Vec<f32> = (*start..*end).map(|at| at as f32).collect();
            assert_eq!(*samples, expected, "samples of {start}..{end}");
            (*start, Some(*end))
        }
    }
}

/// Each utterance begins once and ends once, none is empty, none has a sample of another, and one
/// that was cut goes on where it was cut.
fn assert_whole_and_apart(events: &[SegmentEvent]) {
    let mut begun = None;
    let mut last_end = 0;
    for event in events {
        match event {
            SegmentEvent::SpeechStart { start } => {
                assert_eq!(begun, None, "two starts");
                assert!(last_end <= *start, "an overlap");
                begun = Some(*start);
            }
            SegmentEvent::SpeechEnd { start, end, reason, .. } => {
                assert_eq!(begun, Some(*start), "a gap");
                assert!(start < end, "an empty utterance");
                place(event);
                begun = (*reason == EndReason::TooLong).then_some(*end);
                last_end = *end;
            }
        }
    }
    assert_eq!(begun, None, "an utterance without an end");
}

#[test]
fn speech_is_believed_with_the_fourth_frame_and_ends_with_the_nineteenth_silent_one() {
    // 90 ms are passed by three frames after the first, 600 ms by nineteen frames.
    let (events, segmenter) = play(ValidSettings::default(), &frames(&[(30, 0.1), (3, 0.9)]));
    assert_eq!((events.len(), segmenter.is_speaking()), (0, false));

    let (events, segmenter) =
        play(ValidSettings::default(), &frames(&[(30, 0.1), (4, 0.9), (18, 0.1)]));
    assert_eq!(events, [SegmentEvent::SpeechStart { start: 30 * FRAME - 6400 }]);
    assert!(segmenter.is_speaking());

    let (events, segmenter) =
        play(ValidSettings::default(), &frames(&[(30, 0.1), (4, 0.9), (19, 0.1)]));
    assert_eq!(place(&events[1]), (30 * FRAME - 6400, Some(34 * FRAME + 4800)));
    assert!(!segmenter.is_speaking());
}

#[test]
fn both_thresholds_are_strict_and_between_them_what_was_goes_on() {
    let (events, _) = play(ValidSettings::default(), &frames(&[(40, 0.5)]));
    assert_eq!(events, [], "0.5 does not begin");

    let (events, segmenter) = play(ValidSettings::default(), &frames(&[(4, 0.6), (200, 0.35)]));
    assert_eq!(events.len(), 1, "0.35 does not end");
    assert_eq!(segmenter.silence(), 0);
}

#[test]
fn times_must_be_passed_not_reached() {
    // Of exactly three and ten frames.
    let settings = settings(|settings| {
        settings.min_speech_time = ms(96);
        settings.redemption_time = ms(320);
    });
    assert_eq!(play(settings, &frames(&[(4, 0.9)])).0, []);
    assert_eq!(play(settings, &frames(&[(5, 0.9)])).0.len(), 1);
    assert_eq!(play(settings, &frames(&[(5, 0.9), (10, 0.1)])).0.len(), 1);
    assert_eq!(play(settings, &frames(&[(5, 0.9), (11, 0.1)])).0.len(), 2);
}

#[test]
fn frames_that_were_flushed_before_they_were_judged_begin_nothing() {
    let mut segmenter = Segmenter::new(ValidSettings::default(), Rate::Hz16000);
    let mut events = run(&mut segmenter, &audio(5 * FRAME), &[0.9; 5], &[5 * 512]);
    assert_eq!(segmenter.push(&vec![0.0; 10 * 512]), 10 * 512);
    segmenter.flush(&mut events);
    for _ in 0..10 {
        segmenter.score(0.9, &mut events);
    }

    assert_eq!(events.len(), 2, "begun and flushed");
    assert_eq!(segmenter.held(), 0, "and nothing of it is kept");
}

#[test]
fn a_click_is_forgotten_without_a_word() {
    let (events, _) =
        play(ValidSettings::default(), &frames(&[(3, 0.9), (1, 0.1), (3, 0.9), (40, 0.1)]));

    // The fourth frame is silent, but time is up for it: it confirms. A click one frame shorter
    // does not.
    assert_eq!(place(&events[0]), (0, None));
    let (events, _) =
        play(ValidSettings::default(), &frames(&[(2, 0.9), (1, 0.1), (3, 0.9), (40, 0.1)]));
    assert_eq!(place(&events[0]), (0, None));
    let (events, _) = play(ValidSettings::default(), &frames(&[(2, 0.9), (40, 0.1)]));
    assert_eq!(events, []);
}

#[test]
fn padding_after_speech_lengthens_it_exactly() {
    for pad in [0, 1, 100, 600, 601, 2000] {
        let settings = settings(|settings| settings.post_speech_pad = ms(pad));
        let (events, _) = play(settings, &frames(&[(10, 0.9), (19, 0.1)]));

        // Up to the silence that ends it.
        assert_eq!(place(&events[1]), (0, Some(10 * FRAME + pad.min(600) * 16)));
    }
}

#[test]
fn segments_do_not_overlap_whatever_the_padding() {
    let settings = settings(|settings| {
        settings.redemption_time = ms(200);
        settings.post_speech_pad = ms(200);
        settings.pre_speech_pad = ms(1000);
    });
    let (events, _) = play(settings, &frames(&[(10, 0.9), (7, 0.1), (10, 0.9), (7, 0.1)]));
    let ends: Vec<_> = events.iter().map(place).filter(|(_, end)| end.is_some()).collect();

    let first_end = 10 * FRAME + 3200;
    assert_eq!(ends, [(0, Some(first_end)), (first_end, Some(27 * FRAME + 3200))]);
}

#[test]
fn no_redemption_ends_with_the_first_silent_frame() {
    let settings = settings(|settings| settings.redemption_time = Duration::ZERO);
    let (events, _) = play(settings, &frames(&[(3, 0.9), (1, 0.1)]));

    assert_eq!(
        events.iter().map(place).collect::<Vec<_>>(),
        [(0, None), (0, Some(3 * FRAME))],
        "begun and ended by one frame"
    );
}

#[test]
fn what_is_held_in_silence_is_the_padding_and_memory_stays_flat_for_an_hour() {
    let mut segmenter = Segmenter::new(ValidSettings::default(), Rate::Hz16000);
    let chunk = vec![0.0; 16_000];
    let mut n_bytes = 0;
    for second in 0..3600 {
        let silence = vec![0.1; 32];
        assert_eq!(run(&mut segmenter, &chunk, &silence, &[320]), []);
        assert!(segmenter.held() < 6400 + FRAME);
        if second == 2 {
            n_bytes = segmenter.tape.n_bytes();
        }
    }
    assert_eq!(segmenter.tape.n_bytes(), n_bytes);
    assert!(n_bytes <= 2 * (6400 + 512) + 4 * (512 + 1024), "{n_bytes}");
}

#[test]
fn audio_of_any_kind_comes_out_as_it_went_in() {
    let noise = |at: u64, step: f32| ((at * 7919 % 2003) as f32 - 1001.0) * step;
    let halves: Vec<f32> = (0..60 * FRAME)
        .map(|at| match at / (20 * FRAME) {
            // 16-bit audio, then such that is not, then the first again.
            1 => noise(at, 1e-4),
            _ => noise(at, 1.0 / 32_768.0),
        })
        .collect();
    for first in [10_usize, 22, 30, 41, 50] {
        let mut segmenter = Segmenter::new(ValidSettings::default(), Rate::Hz16000);
        let mut probabilities = vec![0.0; 60];
        probabilities[first..].fill(0.9);
        let mut events = run(&mut segmenter, &halves, &probabilities, &[700]);
        segmenter.flush(&mut events);
        let Some(SegmentEvent::SpeechEnd { start, end, samples, .. }) = events.last() else {
            panic!("somebody spoke: {events:?}")
        };
        let [from, to] = [start, end].map(|at| usize::try_from(*at).unwrap());
        assert_eq!((from, to), (first * 512 - 6400.min(first * 512), halves.len()));
        let same = samples.iter().zip(&halves[from..to]).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same && samples.len() == to - from, "{first}");
    }
}

#[test]
fn speech_that_is_not_yet_believed_keeps_its_padding() {
    // Without the padding of a candidate, its start would be cut off by trimming.
    let settings = settings(|settings| settings.min_speech_time = ms(2000));
    let (events, segmenter) = play(settings, &frames(&[(30, 0.1), (62, 0.9)]));
    assert_eq!(events, []);
    assert_eq!(segmenter.held(), 6400 + 62 * FRAME);
}

#[test]
fn a_flush_takes_everything_and_the_stream_goes_on_where_it_was() {
    let mut segmenter = Segmenter::new(ValidSettings::default(), Rate::Hz16000);
    let samples = audio(60 * FRAME + 100);
    let mut events = run(&mut segmenter, &samples[..10 * 512 + 100], &[0.9; 10], &[1000]);
    segmenter.flush(&mut events);
    segmenter.flush(&mut events);
    let flushed: Vec<_> = events.iter().map(place).collect();
    assert_eq!(flushed, [(0, None), (0, Some(10 * FRAME + 100))], "once");
    assert!(!segmenter.is_speaking());

    let rest = frames(&[(10, 0.9), (40, 0.1)]);
    let events = run(&mut segmenter, &samples[10 * 512 + 100..], &rest, &[1000]);
    let places: Vec<_> = events.iter().map(place).collect();
    let start = 10 * FRAME + 100;
    assert_eq!(
        places,
        [(start, None), (start, Some(20 * FRAME + 4800))],
        "no sample is sent twice"
    );
}

#[test]
fn a_long_utterance_is_cut_where_it_is_least_like_speech() {
    let mut probabilities = frames(&[(1000, 0.9)]);
    // 30 s are 937.5 frames; the last three seconds before that are looked at.
    probabilities[800] = 0.1;
    probabilities[900] = 0.6;
    probabilities[920] = 0.4;
    let (events, segmenter) = play(ValidSettings::default(), &probabilities);

    let cut = 920 * FRAME + 256;
    assert_eq!(place(&events[1]), (0, Some(cut)));
    let SegmentEvent::SpeechEnd { reason, .. } = events[1] else { unreachable!() };
    assert_eq!(reason, EndReason::TooLong);
    assert_eq!(events.len(), 2, "speech goes on without a start of its own");
    let speech = segmenter.speech().unwrap();
    assert_eq!((speech.start, speech.end), (cut, 1000 * FRAME));
    assert_eq!(speech.since(0).concat(), speech.to_vec());
    assert_eq!(speech.to_vec()[0], cut as f32);
    assert_eq!(speech.since(1000 * FRAME - 3).concat().len(), 3);
}

#[test]
fn a_push_takes_what_there_is_room_for() {
    let mut segmenter = Segmenter::new(ValidSettings::default(), Rate::Hz8000);
    let samples = audio(1_000_000);
    let n_taken = segmenter.push(&samples);

    assert_eq!(n_taken, 33 * 256 - 1);
    assert_eq!(segmenter.push(&samples), 0);
    assert_eq!(segmenter.unscored(3).len(), 3 * 256);
    assert_eq!(segmenter.unscored(usize::MAX).len(), 32 * 256);
    segmenter.score(0.0, &mut Vec::new());
    assert_eq!(segmenter.push(&samples), 256);
}

/// Probabilities that stay for a while, as those of speech do.
fn probabilities() -> impl Strategy<Value = Vec<f32>> {
    let run = (1_usize..60, 0_u8..4, 0.0_f32..1.0).prop_map(|(n, kind, any)| {
        let level = [0.05, 0.4, 0.95, any][usize::from(kind)];
        (0..n).map(|at| level + (at % 7) as f32 * 0.001).collect::<Vec<_>>()
    });
    prop::collection::vec(run, 1..40).prop_map(|runs| runs.concat())
}

fn any_settings() -> impl Strategy<Value = ValidSettings> {
    let seconds = (0_u64..=2000, 0_u64..=1500, 0.0_f64..=1.0, 0_u64..=400, 5_000_u64..12_000);
    (0.01_f32..0.99, 0.0_f32..=1.0, seconds).prop_map(
        |(positive, share, (pre, redemption, post, min, max))| {
            let settings = SegmentSettings {
                positive_threshold: positive,
                negative_threshold: (positive * share).max(0.01),
                pre_speech_pad: ms(pre),
                post_speech_pad: ms(redemption).mul_f64(post),
                redemption_time: ms(redemption),
                min_speech_time: ms(min),
                max_utterance: ms(max),
            };
            settings.validate().unwrap_or_default()
        },
    )
}

/// What a session may do with a segmenter.
#[derive(Debug, Clone)]
enum Deed {
    Push(usize),
    Score(usize, f32),
    Flush,
    Set(ValidSettings),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        8 => (1_usize..20_000).prop_map(Deed::Push),
        8 => (1_usize..40, prop::sample::select(vec![0.05, 0.4, 0.95, f32::NAN]))
            .prop_map(|(n, probability)| Deed::Score(n, probability)),
        1 => Just(Deed::Flush),
        1 => any_settings().prop_map(Deed::Set),
    ];
    prop::collection::vec(deed, 1..120)
}

proptest! {
    #[test]
    fn whatever_is_done_utterances_are_whole_and_apart(deeds in deeds()) {
        let mut segmenter = Segmenter::new(ValidSettings::default(), Rate::Hz16000);
        let mut events = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Push(n) => {
                    let from = segmenter.received();
                    let samples: Vec<_> = (from..from + n as u64).map(|at| at as f32).collect();
                    prop_assert!(segmenter.push(&samples) <= n);
                }
                Deed::Score(n, probability) => {
                    for _ in 0..n.min(segmenter.unscored(usize::MAX).len() / 512) {
                        segmenter.score(probability, &mut events);
                    }
                }
                Deed::Flush => segmenter.flush(&mut events),
                Deed::Set(settings) => segmenter.set(settings),
            }
        }
        segmenter.flush(&mut events);
        assert_whole_and_apart(&events);
    }

    #[test]
    fn any_chunking_gives_the_same_events(
        settings in any_settings(),
        probabilities in probabilities(),
        chunks in prop::collection::vec(1_usize..8000, 1..20),
        tail in 0_u64..512,
    ) {
        let samples = audio(probabilities.len() as u64 * FRAME + tail);
        let mut whole = Segmenter::new(settings, Rate::Hz16000);
        let mut parts = Segmenter::new(settings, Rate::Hz16000);
        let mut expected = run(&mut whole, &samples, &probabilities, &[usize::MAX]);
        let mut events = run(&mut parts, &samples, &probabilities, &chunks);
        whole.flush(&mut expected);
        parts.flush(&mut events);

        prop_assert_eq!(events, expected);
    }

    #[test]
    fn no_sample_is_lost_or_doubled_and_memory_is_bounded(
        settings in any_settings(),
        probabilities in probabilities(),
        chunk in 1_usize..4000,
    ) {
        let samples = audio(probabilities.len() as u64 * FRAME);
        let mut segmenter = Segmenter::new(settings, Rate::Hz16000);
        let mut events = run(&mut segmenter, &samples, &probabilities, &[chunk]);
        segmenter.flush(&mut events);

        let limits = *settings.get();
        let most = Rate::Hz16000.samples(limits.max_utterance) + FRAME;
        assert_whole_and_apart(&events);
        for event in &events {
            if let (start, Some(end)) = place(event) {
                prop_assert!(end - start <= most);
            }
        }
        prop_assert!(segmenter.held() <= Rate::Hz16000.samples(limits.pre_speech_pad) + FRAME);
    }
}
