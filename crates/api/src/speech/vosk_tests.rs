//! One reply to each message, and every utterance in one of them.

use paceline_pipeline::speech::{EndReason, Report, Span, Transcript};

use super::*;
use crate::speech::dialect::Order;

fn list(orders: &mut Orders) -> Vec<Order> {
    std::iter::from_fn(|| orders.next()).collect()
}

fn tell(vosk: &mut Vosk, heard: Heard) -> Vec<Value> {
    let mut orders = Orders::default();
    vosk.event(heard, &mut orders);
    let text = |order| match order {
        Order::Say(text) => serde_json::from_str(&text).ok(),
        _ => None,
    };
    list(&mut orders).into_iter().filter_map(text).collect()
}

fn ask(vosk: &mut Vosk, text: &str) -> Vec<Order> {
    let mut orders = Orders::default();
    vosk.text(text, &mut orders);
    list(&mut orders)
}

fn hear(vosk: &mut Vosk) -> Vec<Order> {
    let mut orders = Orders::default();
    vosk.audio(Bytes::from_static(&[0; 640]), &mut orders);
    list(&mut orders)
}

fn spoken(text: &str) -> Heard {
    let span = Span { start: 0, end: 16_000 };
    Heard::Final(Final { channel: 0, span, text: text.to_owned(), ended: EndReason::Silence })
}

#[test]
fn each_message_has_one_reply_and_each_utterance_is_in_one() {
    let mut vosk = Vosk::default();
    let span = Span { start: 0, end: 8000 };
    hear(&mut vosk);
    assert_eq!(tell(&mut vosk, Heard::Room), [json!({"partial": ""})]);
    assert!(tell(&mut vosk, Heard::Room).is_empty(), "nothing was asked");
    hear(&mut vosk);
    tell(
        &mut vosk,
        Heard::Interim { channel: 0, span, said: Transcript { text: "he".to_owned(), stable: 0 } },
    );
    assert_eq!(tell(&mut vosk, Heard::Room), [json!({"partial": "he"})]);
    assert!(tell(&mut vosk, spoken("hello")).is_empty());
    assert!(tell(&mut vosk, spoken("there")).is_empty());
    hear(&mut vosk);
    assert_eq!(tell(&mut vosk, Heard::Room), [json!({"text": "hello"})]);
    assert_eq!(ask(&mut vosk, "{\"eof\" : 1}"), [Order::Finish, Order::Close(Farewell::DONE)]);
    tell(&mut vosk, spoken("world"));
    assert_eq!(tell(&mut vosk, Heard::Ended(Report::default())), [json!({"text": "there world"})]);
}

#[test]
fn a_configuration_says_the_rate_and_whether_words_are_listed() {
    let mut vosk = Vosk::default();
    let config =
        r#"{ "config" : { "sample_rate" : 16000.000000, "words": true, "max_alternatives": 0 } }"#;
    assert!(ask(&mut vosk, config).is_empty(), "the original does not answer it");
    let opened = hear(&mut vosk);
    let Order::Open(terms, _) = &opened[0] else { panic!("{opened:?}") };
    assert_eq!(terms.source, Source::raw(Encoding::S16le, 16_000, 1));
    tell(&mut vosk, spoken("hello you"));

    let reply = &tell(&mut vosk, Heard::Room)[0];

    assert_eq!(reply["result"][1]["word"], "you");
    for field in ["conf", "start", "end"] {
        assert!(reply["result"][0][field].is_number(), "{field}");
    }
}

#[test]
fn a_reset_is_answered_with_everything_and_the_stream_goes_on() {
    let mut vosk = Vosk::default();
    hear(&mut vosk);
    tell(&mut vosk, Heard::Room);
    assert_eq!(ask(&mut vosk, "{\"reset\":1}"), [Order::Flush]);
    tell(&mut vosk, spoken("so far"));
    assert_eq!(tell(&mut vosk, Heard::Flushed), [json!({"text": "so far"})]);
    assert!(matches!(&hear(&mut vosk)[..], [Order::Push(_)]), "the same session");
}
