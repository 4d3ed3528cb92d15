//! What may be asked of a pair, and what is said of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use paceline_batch::Settings;
use paceline_pipeline::{
    Models,
    synthesis::{
        PairSettings, PlainText, Request, Synthesis, SynthesisError, SynthesisSettings, reference,
    },
};

use tokio::{task::JoinSet, time::sleep};

use crate::rig::{Rig, Serving, all, expected, shape};

fn asked(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = Request { text: "hello".to_owned(), ..Request::default() };
    change(&mut request);
    request
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_checked_without_speaking() {
    let rig = Rig::new(shape(), Settings::default());
    let check = |change: fn(&mut Request)| rig.synthesis.check(&asked(change));

    check(|_| {}).unwrap();
    check(|request| request.model = Some("tokens".to_owned())).unwrap();
    let refused = check(|request| request.model = Some("nobody".to_owned())).unwrap_err();
    assert_eq!(refused.to_string(), "there is no speaking model `nobody`; there are tokens");
    for spoken in ["en", "EN", "en-US", "en_GB"] {
        rig.synthesis.check(&asked(|request| request.language = Some(spoken.to_owned()))).unwrap();
    }
    for foreign in ["de", "e", "eng", "de-en"] {
        let request = asked(|request| request.language = Some(foreign.to_owned()));
        let refused = rig.synthesis.check(&request).unwrap_err().to_string();
        assert_eq!(refused, format!("language `{foreign}` is not spoken; en are"));
    }
    check(|request| request.parameters = BTreeMap::from([("speed".to_owned(), 1.0)])).unwrap();
    let fast = check(|request| request.parameters = BTreeMap::from([("speed".to_owned(), 1.5)]));
    assert!(fast.unwrap_err().to_string().contains("speaks at one speed"));
    assert_eq!(rig.synthesis.stats().started, 0);
}

#[tokio::test(start_paused = true)]
async fn a_text_may_be_as_long_as_it_says_and_who_finds_no_place_is_counted() {
    let limits =
        SynthesisSettings { max_listeners: 1, max_text: 5, ..SynthesisSettings::default() };
    let rig = Rig::with(shape(), Settings::default(), limits.clone(), &[]);
    assert_eq!(*rig.synthesis.settings(), limits);

    let listens = rig.speak("hällo", "v1", 5).unwrap();
    assert!(matches!(rig.speak("hälloo", "v1", 5), Err(SynthesisError::TooLong { .. })));
    for _ in 0..2 {
        assert!(matches!(rig.speak("hello", "v1", 5), Err(SynthesisError::Full)));
    }
    let stats = rig.synthesis.stats();
    assert_eq!((stats.started, stats.refused, stats.listening), (1, 2, 1));
    drop(listens);
    assert_eq!(rig.synthesis.stats().listening, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pair_says_who_it_is_and_is_replaced_by_its_name() {
    let rig = Rig::new(shape(), Settings::default());
    let pair = rig.synthesis.pair(None).unwrap();
    assert_eq!((pair.name(), pair.settings().vocoder.as_str()), ("tokens", "vocoder"));
    let voices = pair.voices();
    let ids: Vec<&str> = voices.iter().map(|voice| voice.id.as_str()).collect();
    assert_eq!(ids, ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"]);

    let settings = PairSettings { languages: vec!["de".to_owned()], ..pair.settings().clone() };
    rig.synthesis.add("tokens", settings, Box::new(PlainText { max_sentence: 0 })).unwrap();

    let pairs = rig.synthesis.pairs();
    assert_eq!(pairs.len(), 1, "there is one of a name");
    assert_eq!(pairs[0].settings().languages, ["de"]);
    assert_eq!(all(rig.speak("still", "v2", 5).unwrap()).await.unwrap(), expected("still", 2, 5));
}

#[test]
fn where_nobody_speaks_everybody_is_told_so() {
    let synthesis = Synthesis::new(Arc::new(Models::default()), SynthesisSettings::default());

    for model in [None, Some("tokens")] {
        assert!(matches!(synthesis.pair(model), Err(SynthesisError::None)), "{model:?}");
    }
}

#[test]
fn a_reference_is_read_at_the_rate_that_is_asked_for_and_not_for_ever() {
    let recording = include_bytes!("../../../audio/tests/golden/jfk.wav");

    let samples = reference(recording, 16_000).unwrap();
    assert_eq!(samples.len(), 176_000);
    assert!(samples.iter().any(|sample| 0.1 < sample.abs()), "somebody speaks");
    let seconds = reference(recording, 8_000).unwrap().len() as f64 / 8_000.0;
    assert!((seconds - 11.0).abs() < 0.01, "{seconds} s");

    // Six times the same is longer than a minute.
    let data = 78;
    let mut long = recording[..data].to_vec();
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    long[data - 4..data].copy_from_slice(&u32::MAX.to_le_bytes());
    (0..6).for_each(|_| long.extend_from_slice(&recording[data..]));
    let refused = reference(&long, 16_000).unwrap_err().to_string();
    assert_eq!(refused, format!("the audio is longer than {} s", Duration::from_mins(1).as_secs()));
}

#[tokio::test(start_paused = true)]
async fn sentences_are_spoken_one_after_the_other_and_counted_as_one_request() {
    let rig = Rig::new(shape(), Settings::default());
    let pair = rig.synthesis.pair(None).unwrap();
    let reader = Box::new(PlainText { max_sentence: 40 });
    rig.synthesis.add("tokens", pair.settings().clone(), reader).unwrap();
    let sentences = [
        "The first of them is here.",
        "The second one comes after it.",
        "And this is how it ends.",
    ];

    let mut session = rig.speak(&sentences.join(" "), "v3", 5).unwrap();
    assert_eq!(session.sample_rate(), shape().sample_rate);
    let mut sound = Vec::new();
    while let Some(chunk) = session.next().await {
        sound.extend(chunk.unwrap().samples);
    }

    let whole: Vec<f32> = sentences.iter().flat_map(|part| expected(part, 3, 5)).collect();
    assert_eq!(sound, whole);
    assert_eq!(session.heard().sound, shape().time(sound.len() as u64));
    let stats = rig.synthesis.stats();
    let n_tokens: usize = sentences.iter().map(|sentence| sentence.len()).sum();
    assert_eq!((stats.started, stats.finished, stats.tokens), (1, 1, n_tokens as u64));
    assert_eq!((stats.first_token.count(), stats.first_chunk.count()), (1, 1));
    assert_eq!(stats.first_chunk.sum(), Duration::from_millis(50).as_nanos(), "one call");
    assert_eq!(stats.chunk_latency.count(), stats.chunks);
}

fn muttering() -> Serving {
    Serving {
        mutters: true,
        token_curve: |_| Duration::from_millis(50),
        ..Settings::default().into()
    }
}

#[tokio::test(start_paused = true)]
async fn a_speed_is_allowed_where_one_of_the_models_takes_it() {
    let rig = Rig::new(shape(), muttering());
    let at = |speed| {
        let parameters = BTreeMap::from([("speed".to_owned(), speed)]);
        rig.synthesis.check(&asked(|request| request.parameters = parameters))
    };

    for speed in [0.5, 1.0, 1.5, 2.0] {
        at(speed).unwrap();
    }
    assert!(at(2.5).unwrap_err().to_string().contains("from 0.5 to 2"));
}

#[tokio::test(start_paused = true)]
async fn texts_are_read_together_unless_what_changes_their_tokens_differs() {
    for (speeds, calls) in [([1.0, 1.0], vec![1, 2]), ([1.0, 2.0], vec![1, 1, 1])] {
        let rig = Rig::new(shape(), muttering());
        let mut listeners = JoinSet::new();
        // While the first is read, the others come.
        for speed in [1.5, speeds[0], speeds[1]] {
            let parameters = BTreeMap::from([("speed".to_owned(), speed)]);
            let request = asked(|request| request.parameters = parameters);
            listeners.spawn(all(rig.synthesis.open(&request).unwrap()));
            sleep(Duration::from_millis(10)).await;
        }
        while let Some(heard) = listeners.join_next().await {
            assert_eq!(heard.unwrap().unwrap(), expected("hello", 0, 5));
        }

        assert_eq!(*rig.token_calls.lock().unwrap(), calls, "{speeds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sentence_without_tokens_is_passed_over_and_is_not_the_first_token() {
    let rig = Rig::new(shape(), muttering());
    let pair = rig.synthesis.pair(None).unwrap();
    let reader = Box::new(PlainText { max_sentence: 40 });
    rig.synthesis.add("tokens", pair.settings().clone(), reader).unwrap();
    let sentences = ["* Nothing of this is ever heard.", "But this one is heard by everybody."];

    let heard = all(rig.speak(&sentences.join(" "), "v3", 5).unwrap()).await.unwrap();

    assert_eq!(heard, expected(sentences[1], 3, 5));
    let stats = rig.synthesis.stats();
    assert_eq!((stats.first_token.count(), stats.tokens), (1, sentences[1].len() as u64));
    assert_eq!(stats.first_token.sum(), Duration::from_millis(100).as_nanos(), "after two calls");
}

#[tokio::test(start_paused = true)]
async fn tokens_that_come_all_at_once_are_all_kept() {
    let rig = Rig::new(shape(), Settings::default());
    let text = "a long sentence that goes on and on, ".repeat(20);

    let heard = all(rig.speak(&text, "v1", 5).unwrap()).await.unwrap();

    assert_eq!(heard.len(), expected(&text, 1, 5).len());
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_finds_the_queue_full_waits_for_room() {
    let batch = Settings { max_items: Some(1), queue_items: Some(1), ..Settings::default() };
    let rig = Rig::new(shape(), batch);
    let mut listeners = JoinSet::new();
    for voice in 0_u8..6 {
        let session = rig.speak("hello", &format!("v{voice}"), 5).unwrap();
        listeners.spawn(async move { (voice, all(session).await) });
    }

    while let Some(heard) = listeners.join_next().await {
        let (voice, heard) = heard.unwrap();
        assert_eq!(heard.unwrap(), expected("hello", voice, 5));
    }
}
