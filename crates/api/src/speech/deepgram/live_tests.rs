//! Events to Deepgram's messages, one by one.

use std::time::Duration;

use paceline_pipeline::speech::{Encoding, Lost, Report, Source};
use paceline_types::ErrorCode;
use serde_json::{Value, json};

use super::*;
use crate::speech::{dialect::Order, name::Chosen};

fn query() -> Query {
    Query {
        model: Chosen { name: "m".to_owned(), version: "1".to_owned(), is_named: true },
        source: Source::raw(Encoding::S16le, 16_000, 1),
        multichannel: false,
        interim_results: true,
        endpointing: Some(Duration::from_millis(600)),
        utterance_end: None,
        vad_events: true,
        utterances: false,
    }
}

/// A stream of which something was heard.
fn open(query: Query) -> Live {
    let mut live = Live::new(query, "id");
    let mut orders = Orders::default();
    live.audio(Bytes::from_static(b"abcd"), &mut orders);
    let orders = list(&mut orders);
    assert!(matches!(&orders[..], [Order::Open(..), Order::Push(_)]), "{orders:?}");
    live
}

fn list(orders: &mut Orders) -> Vec<Order> {
    std::iter::from_fn(|| orders.next()).collect()
}

fn tell(live: &mut Live, heard: Heard) -> Vec<Value> {
    let mut orders = Orders::default();
    live.event(heard, &mut orders);
    said(list(&mut orders))
}

fn ask(live: &mut Live, text: &str) -> Vec<Order> {
    let mut orders = Orders::default();
    live.text(text, &mut orders);
    list(&mut orders)
}

fn said(orders: Vec<Order>) -> Vec<Value> {
    let text = |order| match order {
        Order::Say(text) => serde_json::from_str(&text).ok(),
        _ => None,
    };
    orders.into_iter().filter_map(text).collect()
}

fn spoken(text: &str, ended: EndReason) -> Heard {
    let span = Span { start: 16_000, end: 32_000 };
    Heard::Final(Final { channel: 0, span, text: text.to_owned(), ended })
}

#[test]
fn a_result_has_every_field_that_the_strictest_client_asks_for() {
    let results = tell(&mut open(query()), spoken("Hello, World", EndReason::Silence));

    let about = json!({
        "request_id": "id",
        "model_info": {"name": "m", "version": "1", "arch": "m"},
        "model_uuid": name::of("m 1"),
    });
    let words = json!([
        {"word": "hello", "start": 1.0, "end": 1.538, "confidence": 1.0, "punctuated_word": "Hello,"},
        {"word": "world", "start": 1.538, "end": 2.0, "confidence": 1.0, "punctuated_word": "World"},
    ]);
    let expected = json!({
        "type": "Results", "channel_index": [0, 1], "start": 1.0, "duration": 1.0,
        "is_final": true, "speech_final": true, "from_finalize": false,
        "channel": {"alternatives": [{
            "transcript": "Hello, World", "confidence": 1.0, "words": words}]},
        "metadata": about,
    });
    assert_eq!(results, [expected]);
}

#[test]
fn a_silence_ends_speech_where_that_was_asked_and_a_cut_never_does() {
    let speech_final =
        |query, ended| tell(&mut open(query), spoken("a", ended))[0]["speech_final"] == true;
    let never = || Query { endpointing: None, ..query() };

    assert!(speech_final(query(), EndReason::Silence));
    assert!(!speech_final(never(), EndReason::Silence));
    assert!(!speech_final(query(), EndReason::TooLong));
    assert!(speech_final(never(), EndReason::Flushed));
}

#[test]
fn voice_is_told_where_it_was_asked_for() {
    let voice = || Heard::Active { channel: 0, at: 8000 };
    let started = json!({"type": "SpeechStarted", "channel": [0, 1], "timestamp": 0.5});

    assert_eq!(tell(&mut open(query()), voice()), [started]);
    assert!(tell(&mut open(Query { vad_events: false, ..query() }), voice()).is_empty());
    let paused = tell(&mut open(query()), Heard::Paused { channel: 0, since: 24_000 });
    assert_eq!(paused, [json!({"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 1.5})]);
}

#[test]
fn a_finalize_is_always_answered_by_one_result_that_says_so() {
    let mut live = open(query());
    assert_eq!(ask(&mut live, r#"{"type":"Finalize"}"#), [Order::Flush]);
    let earlier = tell(&mut live, spoken("a", EndReason::Silence));
    let last = tell(&mut live, spoken("b", EndReason::Flushed));
    assert_eq!(earlier[0]["from_finalize"], false);
    assert_eq!(last[0]["from_finalize"], true);
    assert!(tell(&mut live, Heard::Flushed).is_empty(), "it was said");

    // Nothing is under way this time.
    ask(&mut live, r#"{"type":"Finalize","channel":0}"#);
    let empty = tell(&mut live, Heard::Flushed);
    assert_eq!(empty.len(), 1);
    assert_eq!((&empty[0]["from_finalize"], &empty[0]["start"]), (&json!(true), &json!(2.0)));
    assert_eq!(empty[0]["channel"]["alternatives"][0]["transcript"], "");

    let mut silent = Live::new(query(), "id");
    let at_once = said(ask(&mut silent, r#"{"type":"Finalize"}"#));
    assert_eq!(at_once[0]["from_finalize"], true, "also before any audio");
}

#[test]
fn each_channel_answers_a_finalize() {
    let source = Source::raw(Encoding::S16le, 16_000, 2);
    let mut live = open(Query { multichannel: true, source, ..query() });
    ask(&mut live, r#"{"type":"Finalize"}"#);
    tell(&mut live, spoken("b", EndReason::Flushed));

    let rest = tell(&mut live, Heard::Flushed);

    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["channel_index"], json!([1, 2]));
}

#[test]
fn a_close_gives_metadata_and_then_1000() {
    for message in [r#"{"type":"CloseStream"}"#, r#"{ "type": "CloseStream" }"#] {
        let mut live = open(query());
        let orders = ask(&mut live, message);
        assert_eq!(orders, [Order::Finish, Order::Close(Farewell::DONE)]);
        let mut report = Report::default();
        report.ending.frames = 24_000;
        let metadata = &tell(&mut live, Heard::Ended(report))[0];
        assert_eq!(metadata["type"], "Metadata");
        assert_eq!(metadata["duration"], 1.5);
        assert_eq!(metadata["channels"], 1);
        // Of `abcd`.
        assert!(
            metadata["sha256"].as_str().unwrap().starts_with("88d4266fd4e6338d13b845fcf289579d")
        );
        for field in ["transaction_key", "request_id", "created"] {
            assert!(metadata[field].is_string(), "{field}");
        }
    }
    let mut orders = Orders::default();
    let mut untouched = Live::new(query(), "id");
    untouched.audio(Bytes::new(), &mut orders);
    let orders = list(&mut orders);
    assert!(matches!(&orders[..], [Order::Say(_), Order::Close(Farewell::DONE)]), "{orders:?}");
}

#[test]
fn what_cannot_be_decoded_ends_in_1008_with_its_code() {
    let mut live = open(query());
    let mut orders = Orders::default();
    live.event(Heard::Undecodable(ErrorCode::InvalidInput, "no audio".to_owned()), &mut orders);

    let orders = list(&mut orders);

    let Some(Order::Close(farewell)) = orders.last() else { panic!("{orders:?}") };
    assert_eq!(farewell.code, 1008);
    assert!(farewell.reason.starts_with("DATA-0000"));
    for (why, start) in [(Parting::Idle, "NET-0001"), (Parting::Overloaded, "NET-0000")] {
        let farewell = live.farewell(why, &mut Orders::default());
        assert!(farewell.code == 1011 && farewell.reason.starts_with(start));
        assert!(farewell.reason.len() <= 123, "a close frame holds no more");
    }
}

#[test]
fn what_has_no_result_is_told_and_its_place_is_kept() {
    let lost = Lost { code: ErrorCode::ModelFailed, message: "broken".to_owned() };
    let span = Span { start: 0, end: 16_000 };
    let ended = Some(EndReason::Silence);

    let told = tell(&mut open(query()), Heard::Lost { channel: 0, span, ended, lost });

    assert_eq!(told[0]["type"], "Error");
    assert!(told[0]["description"].as_str().unwrap().contains("broken"));
    assert_eq!((&told[1]["is_final"], &told[1]["duration"]), (&json!(true), &json!(1.0)));
}

#[test]
fn what_is_not_understood_is_told_and_a_hundred_times_is_enough() {
    let mut live = open(query());
    for _ in 0..99 {
        let orders = ask(&mut live, "{\"type\":\"Dance\"}");
        assert!(matches!(&orders[..], [Order::Say(_)]), "{orders:?}");
    }
    let orders = ask(&mut live, "nonsense");
    assert!(orders.contains(&Order::Finish), "{orders:?}");
    assert!(ask(&mut live, r#"{"type":"KeepAlive"}"#).is_empty());
}

#[test]
fn a_configuration_is_answered_either_way() {
    let mut live = open(query());
    let nothing = said(ask(&mut live, r#"{"type":"Configure"}"#));
    let terms = said(ask(&mut live, r#"{"type":"Configure","keyterms":["a"]}"#));

    assert_eq!(nothing, [json!({"type": "ConfigureSuccess", "request_id": "id"})]);
    assert_eq!(terms[0]["type"], "ConfigureFailure");
    assert!(terms[0]["description"].as_str().unwrap().starts_with("keyterms"));
}
