//! Rounds in which every sample goes to the model.

use bytes::Bytes;
use paceline_batch::Key;
use paceline_pipeline::{
    RequestSpan, Tracer,
    speech::{
        Encoding, Event, Report, Source, Span, SpeechError, SpeechLimits, Style, Terms, Utterances,
        Value, Values,
    },
};
use paceline_types::{ErrorCode, TraceContext};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::rig::{
    DEADLY, Rig, UNBEARABLE, bytes, hear, segments, terms, until_ended, until_flushed,
    until_waiting,
};

fn report(events: &[Event]) -> &Report {
    let Some(Event::Ended(report)) = events.last() else { panic!("{events:?}") };
    report
}

/// Where segments of one channel are, if they follow each other.
fn whole(events: &[Event], channel: usize) -> Span {
    let mut whole = Span { start: 0, end: 0 };
    for (_, span, text, stable) in segments(events).iter().filter(|found| found.0 == channel) {
        assert_eq!(span.start, whole.end, "the next one begins where the last one ended");
        assert_eq!(*text, span.n_samples().to_string(), "the model heard all of it");
        assert_eq!(*stable, text.len(), "it is the last word");
        whole.end = span.end;
    }
    whole
}

#[tokio::test]
async fn every_sample_is_answered_once_however_it_is_sent() {
    let rig = Rig::new(SpeechLimits::default());
    let audio = bytes(&vec![0.25; 40_000]);

    for (at, chunk) in [1001, 16_000, 16 << 10, 100_000, audio.len()].into_iter().enumerate() {
        let mut session = rig.open(Style::Simple);
        let events = hear(&mut session, audio.clone(), chunk).await;

        assert_eq!(whole(&events, 0), Span { start: 0, end: 40_000 }, "in chunks of {chunk}");
        assert_eq!(session.n_channels(), 1);
        assert_eq!((report(&events).ending.frames, report(&events).unread), (40_000, 0));
        let stats = rig.speech.stats();
        let n_rounds = at as u64 + 1;
        assert_eq!((stats.rounds, stats.samples), (n_rounds, 40_000 * n_rounds));
        assert_eq!((stats.failed, stats.cancelled, stats.judged), (0, 0, 0));
        assert_eq!(stats.model.samples, 40_000 * n_rounds);
        assert!(0 < stats.model.nanos && 0 < stats.decode.nanos);
        let nanos = stats.model.busy_seconds() * 1e9;
        assert!((nanos - stats.model.nanos as f64).abs() < 1.0, "{nanos} ns");
    }
}

#[tokio::test]
async fn each_channel_is_answered_alone_unless_they_are_mixed() {
    let rig = Rig::new(SpeechLimits::default());
    let stereo = Source::raw(Encoding::F32le, 16_000, 2);
    // The second channel is the one that the model fails on; mixed, there is none.
    let audio = bytes(&[0.75, UNBEARABLE].repeat(8_000));

    let mut apart = rig.speech.open(Terms { source: stereo, ..terms(Style::Simple) }).unwrap();
    let events = hear(&mut apart, audio.clone(), audio.len()).await;
    assert_eq!((apart.n_channels(), whole(&events, 0).end), (2, 8_000));
    assert!(segments(&events).iter().all(|(channel, ..)| *channel == 0));
    let failed = events.iter().filter(|event| matches!(event, Event::Lost { channel: 1, .. }));
    assert_eq!(failed.count() as u64, rig.speech.stats().failed);

    let mixed = Terms { source: stereo, mix: true, ..terms(Style::Simple) };
    let mut mixed = rig.speech.open(mixed).unwrap();
    let events = hear(&mut mixed, audio.clone(), audio.len()).await;
    assert_eq!((mixed.n_channels(), whole(&events, 0).end), (1, 8_000));
}

#[tokio::test]
async fn what_a_codec_holds_is_answered_as_well() {
    let rig = Rig::new(SpeechLimits::default());
    let file = Bytes::from_static(include_bytes!("../../../audio/tests/fixtures/speech.flac"));
    let container = Terms { source: Source::container(Encoding::Auto), ..terms(Style::Simple) };

    let mut heard = Vec::new();
    for chunk in [1000, 4 << 10, 5000, file.len()] {
        let mut session = rig.speech.open(container.clone()).unwrap();
        assert_eq!(session.n_channels(), 0, "nobody knows yet");
        let events = hear(&mut session, file.clone(), chunk).await;
        assert_eq!(report(&events).ending.frames, whole(&events, 0).end);
        heard.push(whole(&events, 0).end);
    }

    assert!(heard.iter().all(|n_samples| *n_samples == heard[0]), "{heard:?}");
    assert!(16_000 < heard[0], "seconds of speech, of which {} samples were heard", heard[0]);
}

#[tokio::test]
async fn a_flush_is_told_once_everything_before_it_is_answered() {
    let rig = Rig::new(SpeechLimits::default());
    let mut session = rig.open(Style::Simple);

    for n_flushed in 1..=3 {
        session.push(bytes(&[0.5; 100]));
        session.flush();
        assert!(!session.has_room(), "not before it is flushed");
        let events = until_flushed(&mut session).await;
        let ends: Vec<u64> = segments(&events).iter().map(|found| found.1.end).collect();
        assert_eq!(ends, [100 * n_flushed]);
        assert!(session.has_room(), "and then there is room again");
    }

    session.flush();
    session.finish();
    assert!(!session.has_room(), "nothing more is wanted");
    let events = until_ended(&mut session).await;
    let [Event::Flushed, Event::Ended(report)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(report.ending.frames, 300);
}

#[tokio::test]
async fn a_round_that_was_not_sent_anything_just_ends() {
    let rig = Rig::new(SpeechLimits::default());
    let mut session = rig.open(Style::Simple);
    session.finish();

    let events = until_ended(&mut session).await;

    assert_eq!((events.len(), report(&events)), (1, &Report::default()));
}

#[tokio::test]
async fn a_busy_model_stops_the_client_and_says_when_there_is_room() {
    let limits = SpeechLimits {
        stream_in_flight: 2,
        max_backlog: Duration::from_millis(10),
        ..SpeechLimits::default()
    };
    let rig = Rig::new(limits);
    let mut session = rig.open(Style::Simple);
    let busy = rig.gate.shut();

    // Two segments are with the model, and the third waits.
    for _ in 0..2 {
        session.push(bytes(&[0.5; 160]));
        assert!(!session.has_room(), "it is as much as may wait");
        let next = session.next().await;
        assert!(matches!(next, Event::Room) && session.has_room(), "the model has it: {next:?}");
    }
    session.push(bytes(&[0.5; 160]));
    assert!(!session.has_room());
    assert_eq!(session.n_waiting(), 160);
    let next = tokio::time::timeout(Duration::ZERO, session.next()).await;
    assert!(next.is_err(), "the model is busy: {next:?}");
    let [round] = &rig.speech.rounds()[..] else { panic!("there is one round") };
    assert_eq!((round.samples, round.waiting, round.segments), (480, 160, 0));
    assert_eq!((round.heard(), round.behind()), (Duration::from_millis(30), limits.max_backlog));
    assert_eq!((&*round.model, round.is_segmented), ("plain", false));
    drop(busy);

    let first = session.next().await;
    assert!(matches!(first, Event::Segment { .. }), "{first:?}");
    let mut events = vec![first];
    while !matches!(events.last(), Some(Event::Room)) {
        events.push(session.next().await);
    }
    assert!(session.has_room());
    session.finish();
    events.extend(until_ended(&mut session).await);
    assert_eq!(whole(&events, 0).end, 480);
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Room)).count(), 1);
    assert_eq!(rig.speech.rounds()[0].segments, 3);
    drop(session);
    assert!(rig.speech.rounds().is_empty());
}

#[tokio::test]
async fn whoever_leaves_takes_what_is_with_the_model_along() {
    let rig = Rig::new(SpeechLimits::default());
    let mut session = rig.open(Style::Simple);
    let busy = rig.gate.shut();
    for _ in 0..2 {
        session.push(bytes(&[0.5; 160]));
        let next = tokio::time::timeout(Duration::ZERO, session.next()).await;
        assert!(next.is_err(), "the model is busy: {next:?}");
    }

    drop(session);

    assert_eq!(rig.speech.stats().cancelled, 2);
    drop(busy);
}

#[tokio::test]
async fn a_segment_without_a_result_is_told_in_the_models_words_and_the_round_goes_on() {
    let rig = Rig::new(SpeechLimits::default());
    let mut session = rig.open(Style::Simple);

    let mut told = Vec::new();
    for first in [UNBEARABLE, DEADLY, 0.5] {
        session.push(bytes(&[first; 160]));
        told.push(session.next().await);
    }

    let [Event::Lost { span, lost, ended: None, .. }, Event::Lost { lost: fault, .. }, good] =
        &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!(*span, Span { start: 0, end: 160 });
    assert_eq!((lost.code, &*lost.message), (ErrorCode::ModelFailed, "that was too loud"));
    assert_ne!(fault.code, ErrorCode::ModelFailed);
    assert!(matches!(good, Event::Segment { span: Span { start: 320, end: 480 }, .. }));
    let stats = rig.speech.stats();
    assert_eq!((stats.segments, stats.failed), (1, 2));
    let [round] = &rig.speech.rounds()[..] else { panic!("there is one round") };
    assert_eq!((round.segments, round.failed), (1, 2));
}

#[tokio::test]
async fn what_cannot_be_decoded_ends_the_round_after_what_could() {
    let rig = Rig::new(SpeechLimits::default());
    let wav = Terms { source: Source::container(Encoding::Wav), ..terms(Style::Simple) };
    let mut session = rig.speech.open(wav).unwrap();

    session.push(Bytes::from(vec![b'x'; 40_000]));
    let events = until_ended(&mut session).await;

    let [Event::Undecodable(_), Event::Ended(report)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(report.unread, 40_000 - (16 << 10), "what came after the slice that was no audio");
    assert!(!session.has_room());
}

#[tokio::test]
async fn terms_that_cannot_be_met_are_refused_before_any_audio_comes() {
    let rig = Rig::new(SpeechLimits::default());
    let named = |model: &str| Terms { model: Some(model.to_owned()), ..terms(Style::Simple) };
    let told = |interim| {
        terms(Style::Segmented(Utterances { interim: Some(interim), ..Utterances::default() }))
    };

    for (terms, code) in [
        (named("nobody"), ErrorCode::NotFound),
        (named("stereo"), ErrorCode::Unsupported),
        (named("wide"), ErrorCode::Unsupported),
        (told(Duration::from_millis(199)), ErrorCode::InvalidInput),
        (told(Duration::from_millis(60_001)), ErrorCode::InvalidInput),
        (
            Terms { source: Source::raw(Encoding::S16le, 16_000, 0), ..terms(Style::Simple) },
            ErrorCode::InvalidInput,
        ),
    ] {
        let refused = rig.speech.open(terms).unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
    for interim in [200, 60_000].map(Duration::from_millis) {
        assert!(rig.speech.open(told(interim)).is_ok(), "{interim:?}");
    }
    assert_eq!(rig.speech.stats().rounds, 2, "of those that were refused, none began");
    assert_eq!(rig.speech.model(None).unwrap().facts().name, "plain");
    assert_eq!(rig.speech.model(Some("polyglot")).unwrap().facts().name, "polyglot");
}

#[tokio::test]
async fn a_model_that_asks_for_a_language_is_told_which() {
    let rig = Rig::new(SpeechLimits::default());
    let polyglot = || Terms { model: Some("polyglot".to_owned()), ..terms(Style::Simple) };
    let said = |value| [("language".to_owned(), value)].into_iter().collect();

    let german = rig.speech.open_with(polyglot(), said(Value::Text("de".to_owned())));
    let events = hear(&mut german.unwrap(), bytes(&[0.5; 100]), 400).await;
    assert_eq!(segments(&events)[0].2, "100de");
    let silent = rig.speech.open(polyglot());
    let events = hear(&mut silent.unwrap(), bytes(&[0.5; 100]), 400).await;
    assert_eq!(segments(&events)[0].2, "100");
    let refused = rig.speech.open_with(polyglot(), said(Value::Flag(true))).unwrap_err();
    assert!(matches!(refused, SpeechError::Value { .. }), "{refused}");
}

#[tokio::test]
async fn a_number_beside_the_audio_is_not_taken_for_audio() {
    let rig = Rig::new(SpeechLimits::default());
    let tuned = || Terms { model: Some("tuned".to_owned()), ..terms(Style::Simple) };

    for values in
        [Values::default(), [("beam".to_owned(), Value::Number(5.0))].into_iter().collect()]
    {
        let mut session = rig.speech.open_with(tuned(), values).unwrap();
        let events = hear(&mut session, bytes(&[0.5; 100]), 400).await;
        assert_eq!(segments(&events)[0].2, "100");
    }
}

#[tokio::test]
async fn there_are_so_many_places_and_who_finds_none_is_counted() {
    let rig = Rig::new(SpeechLimits { max_streams: 2, ..SpeechLimits::default() });

    let places = [rig.speech.admit(), rig.speech.admit()];
    assert!(places.iter().all(Option::is_some) && rig.speech.admit().is_none());
    let stats = rig.speech.stats();
    assert_eq!((stats.streams, stats.refused), (2, 1));
    drop(places);
    assert_eq!(rig.speech.stats().streams, 0);
    assert!(rig.speech.admit().is_some());
}

#[tokio::test]
async fn rounds_share_calls_unless_what_changes_the_answer_differs() {
    for (params, n_calls) in [([1, 1], 2), ([1, 2], 3)] {
        let rig = Rig::new(SpeechLimits::default());
        let model = rig.speech.model(None).unwrap();
        let busy = rig.gate.shut();
        let mut sessions = Vec::new();
        for params in [0, params[0], params[1]] {
            let terms = Terms { params: Key::of(&params), ..terms(Style::Simple) };
            let mut session = rig.speech.open(terms).unwrap();
            session.push(bytes(&[0.5; 160]));
            let next = tokio::time::timeout(Duration::ZERO, session.next()).await;
            assert!(next.is_err(), "the model is busy: {next:?}");
            sessions.push(session);
            while model.batch_stats().in_flight == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(model.batch_stats().waiting_items, 2);
        drop(busy);

        for session in &mut sessions {
            assert!(matches!(session.next().await, Event::Segment { .. }));
        }
        assert_eq!(model.batch_stats().batch_rows.count(), n_calls, "{params:?}");
    }
}

#[tokio::test]
async fn a_client_who_sends_much_does_not_keep_others_waiting() {
    let rig = Rig::new(SpeechLimits::default());
    let model = rig.speech.model(Some("narrow")).unwrap();
    let narrow = || Terms { model: Some("narrow".to_owned()), ..terms(Style::Simple) };
    let busy = rig.gate.shut();
    let (mut greedy, mut modest) =
        (rig.speech.open(narrow()).unwrap(), rig.speech.open(narrow()).unwrap());
    for n_waiting in 0..4 {
        greedy.push(bytes(&[0.25; 160]));
        until_waiting(&mut greedy, &model, n_waiting).await;
    }
    modest.push(bytes(&[0.5; 160]));
    until_waiting(&mut modest, &model, 4).await;
    drop(busy);

    assert!(matches!(modest.next().await, Event::Segment { .. }));
    for _ in 0..4 {
        assert!(matches!(greedy.next().await, Event::Segment { .. }));
    }

    let order: Vec<f32> = rig.gate.passed().into_iter().map(|(_, first)| first).collect();
    let place = order.iter().position(|first| *first == 0.5);
    assert!(place < Some(3), "it came last and is served by then: {order:?}");
}

#[tokio::test]
async fn a_segment_that_finds_the_queue_full_waits_for_room_and_is_not_lost() {
    let rig = Rig::new(SpeechLimits { stream_in_flight: 8, ..SpeechLimits::default() });
    let model = rig.speech.model(Some("narrow")).unwrap();
    let narrow = Terms { model: Some("narrow".to_owned()), ..terms(Style::Simple) };
    let mut session = rig.speech.open(narrow).unwrap();
    let busy = rig.gate.shut();
    for n_waiting in 0..8 {
        session.push(bytes(&[0.25; 160]));
        // One is with the model, four are in the queue.
        until_waiting(&mut session, &model, n_waiting.min(4)).await;
    }
    drop(busy);

    session.finish();
    let events = until_ended(&mut session).await;

    assert_eq!(whole(&events, 0).end, 8 * 160);
    assert_eq!(segments(&events).len(), 8);
}

#[tokio::test]
async fn what_is_asked_of_a_model_stands_in_the_clients_trace() {
    let rig = Rig::new(SpeechLimits::default());
    let keeper = Arc::new(Keeper::default());
    rig.models.trace_with(Arc::clone(&keeper) as Arc<dyn Tracer>);
    rig.models.replace("plain", vec![rig.speech.model(None).unwrap()]);

    for trace in [None, TraceContext::new(7, 3, true)] {
        let mut session = rig.speech.open(Terms { trace, ..terms(Style::Simple) }).unwrap();
        hear(&mut session, bytes(&[0.5; 100]), 400).await;
    }

    let spans = keeper.0.lock().unwrap();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((span.context.trace(), span.parent), (7, Some(3)));
}

/// Keeps the spans of those who are traced already.
#[derive(Default)]
struct Keeper(Mutex<Vec<RequestSpan>>);

impl Tracer for Keeper {
    fn samples(&self, _: u64) -> bool {
        false
    }

    fn keep(&self, span: RequestSpan) {
        self.0.lock().unwrap().push(span);
    }
}

#[tokio::test]
async fn the_time_of_a_call_is_counted_once_among_those_who_share_it() {
    let rig = Rig::new(SpeechLimits::default());
    let model = rig.speech.model(None).unwrap();
    let mut sessions = Vec::new();
    let busy = rig.gate.shut();
    // One is with the model, and four go together next.
    for n_waiting in 0..5 {
        let mut session = rig.open(Style::Simple);
        session.push(bytes(&[0.5; 160]));
        until_waiting(&mut session, &model, n_waiting).await;
        sessions.push(session);
    }
    drop(busy);
    for session in &mut sessions {
        assert!(matches!(session.next().await, Event::Segment { .. }));
    }

    // What a call took is known a moment after its items are answered.
    while model.batch_stats().execution.count() < 2 {
        tokio::task::yield_now().await;
    }
    let stats = model.batch_stats();
    assert_eq!((stats.execution.count(), stats.batch_rows.sum()), (2, 5));
    let (counted, took) = (u128::from(rig.speech.stats().model.nanos), stats.execution.sum());
    // Each share is rounded down.
    assert!((took.saturating_sub(4)..=took).contains(&counted), "{counted} of {took} ns");
}

#[tokio::test]
async fn what_was_sent_before_the_end_is_heard_also_where_there_was_no_room_for_it() {
    let limits = SpeechLimits {
        stream_in_flight: 1,
        max_backlog: Duration::from_millis(10),
        ..SpeechLimits::default()
    };
    let rig = Rig::new(limits);
    for is_flushed in [false, true] {
        let mut session = rig.open(Style::Simple);
        let busy = rig.gate.shut();
        session.push(bytes(&vec![0.5; 40_000]));
        if is_flushed {
            session.flush();
        } else {
            session.finish();
        }
        let next = tokio::time::timeout(Duration::ZERO, session.next()).await;
        assert!(next.is_err(), "the model is busy: {next:?}");
        drop(busy);

        let mut events = Vec::new();
        if is_flushed {
            events = until_flushed(&mut session).await;
            assert_eq!(whole(&events, 0).end, 40_000, "all that was sent before");
            session.finish();
        }
        events.extend(until_ended(&mut session).await);
        assert_eq!(whole(&events, 0), Span { start: 0, end: 40_000 });
        assert_eq!((report(&events).ending.frames, report(&events).unread), (40_000, 0));
    }
}

#[tokio::test]
async fn neither_a_flush_nor_the_end_is_told_before_what_a_codec_still_works_on() {
    let rig = Rig::new(SpeechLimits::default());
    let file = Bytes::from_static(include_bytes!("../../../audio/tests/fixtures/speech.flac"));
    let container = Terms { source: Source::container(Encoding::Auto), ..terms(Style::Simple) };
    let mut session = rig.speech.open(container).unwrap();

    session.push(file);
    session.flush();
    let mut events = until_flushed(&mut session).await;
    assert!(16_000 < whole(&events, 0).end, "seconds of speech: {events:?}");

    // The model has nothing to do any more; the decoder has its last word to say.
    session.finish();
    events.extend(until_ended(&mut session).await);
    assert_eq!(report(&events).ending.frames, whole(&events, 0).end);
    assert_ne!(report(&events).ending.frames, 0);
}
