//! Rounds of a Wyoming client, event by event.

use paceline_pipeline::speech::{EndReason, Report, Span};

use super::*;
use crate::speech::{dialect::Order, heard::Final};

fn list(orders: &mut Orders) -> Vec<Order> {
    std::iter::from_fn(|| orders.next()).collect()
}

fn said(orders: Vec<Order>) -> Vec<(String, Value)> {
    let text = |order| match order {
        Order::Say(text) => serde_json::from_str::<Value>(&text).ok(),
        _ => None,
    };
    let split = |each: Value| (each["type"].as_str().unwrap().to_owned(), each["data"].clone());
    orders.into_iter().filter_map(text).map(split).collect()
}

fn ask(wyoming: &mut Wyoming, message: &Value) -> Vec<Order> {
    let mut orders = Orders::default();
    wyoming.text(&message.to_string(), &mut orders);
    list(&mut orders)
}

fn tell(wyoming: &mut Wyoming, heard: Heard) -> Vec<(String, Value)> {
    let mut orders = Orders::default();
    wyoming.event(heard, &mut orders);
    said(list(&mut orders))
}

fn spoken(text: &str) -> Heard {
    let span = Span { start: 0, end: 16_000 };
    Heard::Final(Final { channel: 0, span, text: text.to_owned(), ended: EndReason::Silence })
}

#[test]
fn a_round_is_told_as_it_comes_and_then_whole() {
    let mut wyoming = Wyoming::default();
    for _round in 0..2 {
        let start =
            json!({"type": "audio-start", "data": {"rate": 22_050, "width": 2, "channels": 2}});
        assert!(ask(&mut wyoming, &start).is_empty());
        let mut orders = Orders::default();
        wyoming.audio(Bytes::from_static(&[0; 8]), &mut orders);
        let opened = list(&mut orders);
        let Order::Open(terms, _) = &opened[0] else { panic!("{opened:?}") };
        assert_eq!(terms.source, Source::raw(Encoding::S16le, 22_050, 2));
        let mut all = tell(&mut wyoming, spoken("Turn on"));
        all.extend(tell(&mut wyoming, spoken("the light.")));
        assert_eq!(ask(&mut wyoming, &json!({"type": "audio-stop"})), [Order::Finish]);
        all.extend(tell(&mut wyoming, Heard::Ended(Report::default())));

        let kinds: Vec<&str> = all.iter().map(|(kind, _)| &**kind).collect();
        assert_eq!(
            kinds,
            [
                "transcript-start",
                "transcript-chunk",
                "transcript-chunk",
                "transcript",
                "transcript-stop"
            ]
        );
        let chunks: String = all
            .iter()
            .filter(|(kind, _)| kind == "transcript-chunk")
            .map(|(_, data)| data["text"].as_str().unwrap())
            .collect();
        assert_eq!(chunks, "Turn on the light.");
        assert_eq!(all[3].1["text"], "Turn on the light.");
    }
}

#[test]
fn a_round_without_audio_has_an_empty_transcript() {
    let told = said(ask(&mut Wyoming::default(), &json!({"type": "audio-stop"})));
    let kinds: Vec<&str> = told.iter().map(|(kind, _)| &**kind).collect();
    assert_eq!(kinds, ["transcript-start", "transcript", "transcript-stop"]);
}

#[test]
fn it_says_what_it_can_do() {
    let served = Chosen { name: "m".to_owned(), version: "1".to_owned(), is_named: true };
    let mut wyoming = Wyoming { served: Some(served), ..Wyoming::default() };

    let told = said(ask(&mut wyoming, &json!({"type": "describe"})));

    let (kind, info) = &told[0];
    assert_eq!(kind, "info");
    for about in [&info["asr"][0], &info["asr"][0]["models"][0]] {
        for field in ["name", "attribution", "installed", "description", "version"] {
            assert!(about.get(field).is_some(), "{field}");
        }
    }
    assert_eq!(info["asr"][0]["models"][0]["languages"], json!(["en"]));
}

#[test]
fn nonsense_is_passed_over_and_a_ping_is_answered() {
    let mut wyoming = Wyoming::default();
    assert!(ask(&mut wyoming, &json!({"type": "dance"})).is_empty());
    let pong = said(ask(&mut wyoming, &json!({"type": "ping", "data": {"text": "x"}})));
    assert_eq!(pong, [("pong".to_owned(), json!({"text": "x"}))]);
    let wrong = json!({"type": "audio-start", "data": {"width": 1}});
    assert_eq!(said(ask(&mut wyoming, &wrong))[0].0, "error");
}
