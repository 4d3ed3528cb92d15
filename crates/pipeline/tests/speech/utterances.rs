//! Rounds in which utterances are looked for, on real speech.

use std::time::Duration;

use bytes::Bytes;
use paceline_pipeline::speech::{
    Encoding, EndReason, Event, SegmentSettings, Source, SpeechLimits, Style, Terms, Utterances,
};

use crate::rig::{
    Rig, bytes, hear, segments, terms, until_ended, until_flushed, until_waiting, words,
};

/// Where the three utterances of the recording are, with [`settings`].
const PLACES: [(u64, u64); 3] = [(0, 35_840), (43_136, 70_656), (76_928, 176_000)];

fn recording() -> Bytes {
    Bytes::from_static(include_bytes!("../../../audio/tests/golden/jfk.wav"))
}

fn found(utterances: Utterances) -> Terms {
    let settings = SegmentSettings {
        pre_speech_pad: Duration::from_millis(600),
        post_speech_pad: Duration::ZERO,
        ..SegmentSettings::default()
    };
    let utterances = Utterances { settings: settings.validate().unwrap(), ..utterances };
    Terms { source: Source::container(Encoding::Wav), ..terms(Style::Segmented(utterances)) }
}

#[tokio::test]
async fn utterances_are_told_where_they_are_and_why_they_ended() {
    let rig = Rig::new(SpeechLimits::default());
    let mut session = rig.speech.open(found(Utterances::default())).unwrap();

    let events = hear(&mut session, recording(), 32_000).await;

    let mut expected = Vec::new();
    let mut told = Vec::new();
    for (start, end) in PLACES {
        let reason = if end == 176_000 { EndReason::Flushed } else { EndReason::Silence };
        expected.extend([(start, None), (end, None), (end, Some(reason))]);
    }
    for event in &events {
        match event {
            Event::Active { at, .. } | Event::Inactive { at, .. } => told.push((*at, None)),
            Event::Segment { span, ended, is_final, transcript, .. } => {
                assert_eq!(*is_final, Some(true));
                let said = transcript.as_ref().unwrap();
                assert_eq!(said.stable(), span.n_samples().to_string());
                told.push((span.end, *ended));
            }
            Event::Room | Event::Ended(_) => {}
            other => panic!("{other:?}"),
        }
    }
    told.sort_by_key(|(at, ended)| (*at, ended.is_some()));
    assert_eq!(told, expected);
    let stats = rig.speech.stats();
    assert_eq!((stats.judged, stats.samples), (176_000 / 512 * 512, 176_000));
    assert_eq!((stats.segments, stats.superseded), (3, 0));
    let [round] = &rig.speech.rounds()[..] else { panic!("there is one round") };
    assert!(round.is_segmented && !round.is_active);
}

#[tokio::test]
async fn an_utterance_under_way_is_told_and_then_its_last_word() {
    let rig = Rig::new(SpeechLimits::default());
    let interim = Some(Duration::from_millis(500));
    let told = Utterances { interim, ..Utterances::default() };
    let mut session = rig.speech.open(found(told)).unwrap();

    // Somebody speaks, and no more is sent before that is told.
    let mut bytes = recording();
    session.push(bytes.split_to(48_000));
    let mut events = Vec::new();
    while !matches!(events.last(), Some(Event::Segment { .. })) {
        events.push(session.next().await);
    }
    events.extend(hear(&mut session, bytes, 32_000).await);

    let finals: Vec<(u64, u64)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Segment { span, is_final: Some(true), transcript, .. } => {
                let said = transcript.as_ref().unwrap();
                assert_eq!(said.stable, said.text.len(), "the last word does not change");
                Some((span.start, span.end))
            }
            Event::Segment { is_final, transcript, .. } => {
                assert_eq!(*is_final, Some(false));
                let said = transcript.as_ref().unwrap();
                assert!(said.stable < said.text.len(), "said once, it may change: {said:?}");
                None
            }
            _ => None,
        })
        .collect();
    assert_eq!(finals, PLACES);
    let n_interim = segments(&events).len() - finals.len();
    assert!(0 < n_interim, "{events:?}");
    assert_eq!(rig.speech.stats().segments, segments(&events).len() as u64);
}

#[tokio::test]
async fn words_become_stable_as_an_utterance_goes_on_and_anew_in_the_next() {
    for keeps_stable in [false, true] {
        let rig = Rig::new(SpeechLimits::default());
        let interim = Some(Duration::from_millis(500));
        let told = Utterances { interim, keeps_stable, ..Utterances::default() };
        let terms = Terms { model: Some("wordy".to_owned()), ..found(told) };
        let mut session = rig.speech.open(terms).unwrap();
        let mut bytes = recording();

        // How much of it is sent before the next result is waited for, two bytes a sample.
        let mut stable = Vec::new();
        let mut n_sent = 0;
        for n_samples in [8_704, 16_896, 25_088, 48_000, 57_000] {
            session.push(bytes.split_to(2 * (n_samples - n_sent)));
            n_sent = n_samples;
            loop {
                match session.next().await {
                    Event::Segment { is_final, transcript, .. } => {
                        stable.push((is_final.unwrap(), transcript.unwrap().stable().to_owned()));
                        if is_final == Some(n_samples == 48_000) {
                            break;
                        }
                    }
                    Event::Room | Event::Active { .. } | Event::Inactive { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }

        let (last, others) = stable.split_last().unwrap();
        assert_eq!(*last, (false, String::new()), "what the next begins with was said once");
        let (whole, others) = others.split_last().unwrap();
        assert_eq!(*whole, (true, words(usize::try_from(PLACES[0].1).unwrap())));
        assert!(others.iter().all(|(is_final, _)| !is_final), "{others:?}");
        assert_eq!(others[..2], [(false, String::new()), (false, String::new())]);
        assert_eq!(others[2].1, "word0 word1", "said three times");
    }
}

#[tokio::test]
async fn a_single_utterance_ends_the_round_though_the_client_would_go_on() {
    let rig = Rig::new(SpeechLimits::default());
    let single = Utterances { single: true, ..Utterances::default() };
    for is_flushed in [false, true] {
        let mut session = rig.speech.open(found(single)).unwrap();
        session.push(recording());
        if is_flushed {
            session.flush();
        }

        let events = until_ended(&mut session).await;

        let [(_, span, ..)] = &segments(&events)[..] else { panic!("{events:?}") };
        assert_eq!((span.start, span.end), PLACES[0]);
        assert!(!session.has_room());
    }
}

#[tokio::test]
async fn a_single_utterance_of_one_channel_ends_the_round_though_another_is_behind() {
    let limits = SpeechLimits { max_backlog: Duration::from_millis(10), ..SpeechLimits::default() };
    let rig = Rig::new(limits);
    let single = Utterances { single: true, ..Utterances::default() };
    let stereo = Source::raw(Encoding::S16le, 16_000, 2);
    let mut session = rig.speech.open(Terms { source: stereo, ..found(single) }).unwrap();
    // Nobody speaks on the other one.
    let header = recording().len() - 2 * 176_000;
    let both: Bytes = recording()[header..].chunks(2).flat_map(|s| [s[0], s[1], 0, 0]).collect();

    session.push(both);
    let events = until_ended(&mut session).await;

    let [(0, span, ..)] = &segments(&events)[..] else { panic!("{events:?}") };
    assert_eq!((span.start, span.end), PLACES[0]);
    let Some(Event::Ended(report)) = events.last() else { panic!("{events:?}") };
    assert!(0 < report.unread, "what nobody had room for by then is left: {report:?}");
}

#[tokio::test]
async fn a_flush_ends_the_last_utterance_of_what_was_sent_and_no_other() {
    let limits = SpeechLimits { max_backlog: Duration::from_millis(10), ..SpeechLimits::default() };
    let rig = Rig::new(limits);
    let mut session = rig.speech.open(found(Utterances::default())).unwrap();

    session.push(recording());
    session.flush();
    let events = until_flushed(&mut session).await;

    let spans: Vec<_> =
        segments(&events).iter().map(|found| (found.1.start, found.1.end)).collect();
    assert_eq!(spans, PLACES);
}

#[tokio::test]
async fn the_last_word_goes_before_what_is_said_meanwhile_of_others() {
    let rig = Rig::new(SpeechLimits::default());
    let model = rig.speech.model(None).unwrap();
    let busy = rig.gate.shut();
    let (mut first, mut last) = (rig.open(Style::Simple), rig.open(Style::Simple));
    first.push(bytes(&[0.5; 100]));
    until_waiting(&mut first, &model, 0).await;
    let interim = Some(Duration::from_millis(500));
    let told = Utterances { interim, ..Utterances::default() };
    let mut speaking = rig.speech.open(found(told)).unwrap();
    speaking.push(recording().split_to(2 * 8_704));
    until_waiting(&mut speaking, &model, 1).await;
    last.push(bytes(&[0.5; 50]));
    until_waiting(&mut last, &model, 2).await;
    drop(busy);

    for session in [&mut first, &mut speaking, &mut last] {
        assert!(matches!(session.next().await, Event::Segment { .. }));
    }

    let order: Vec<usize> = rig.gate.passed().into_iter().map(|(n_samples, _)| n_samples).collect();
    assert_eq!(order, [100, 50, 8_192], "an interim result is the last to be worked on");
}

#[tokio::test]
async fn an_interim_result_that_comes_too_late_is_withdrawn_and_counted() {
    let rig = Rig::new(SpeechLimits::default());
    let interim = Some(Duration::from_millis(500));
    let told = Utterances { interim, ..Utterances::default() };
    let mut session = rig.speech.open(found(told)).unwrap();
    let busy = rig.gate.shut();
    let mut bytes = recording();

    session.push(bytes.split_to(100_000));
    let mut events = Vec::new();
    while !matches!(events.last(), Some(Event::Inactive { .. })) {
        events.push(session.next().await);
    }
    drop(busy);

    events.extend(hear(&mut session, bytes, 32_000).await);
    let first = &segments(&events)[0];
    assert_eq!((first.1.start, first.1.end), PLACES[0], "the last word comes first");
    assert!(1 <= rig.speech.stats().superseded);
}

#[tokio::test]
async fn a_single_utterance_ends_the_round_and_what_follows_is_not_heard() {
    let rig = Rig::new(SpeechLimits::default());
    let single = Utterances { single: true, ..Utterances::default() };
    let mut session = rig.speech.open(found(single)).unwrap();

    let events = hear(&mut session, recording(), 352_078).await;

    let Some(Event::Ended(report)) = events.last() else { panic!("{events:?}") };
    let [(_, span, ..)] = &segments(&events)[..] else { panic!("{events:?}") };
    assert_eq!((span.start, span.end), PLACES[0]);
    let n_judged = 176_000 - report.ignored;
    let known = PLACES[0].1..PLACES[0].1 + 16_000;
    assert!(known.contains(&n_judged), "it had ended long before {n_judged}");
    assert_eq!((report.ending.frames, report.unread), (176_000, 0));
    assert!(!session.has_room());
}

#[tokio::test]
async fn frames_that_nobody_judges_are_told_as_our_fault_and_the_round_ends_well() {
    let rig = Rig::new(SpeechLimits::default());
    rig.voices.close();
    let mut session = rig.speech.open(found(Utterances::default())).unwrap();

    let events = hear(&mut session, recording(), 352_078).await;

    let mut end = 0;
    for event in &events {
        match event {
            Event::Lost { span, lost, .. } => {
                assert_eq!((span.start, &*lost.message), (end, "Internal server error"));
                end = span.end;
            }
            Event::Room | Event::Ended(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(end, 176_000 / 512 * 512, "all of it was lost");
}
