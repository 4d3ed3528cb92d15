//! A realtime session, message by message.

use paceline_pipeline::speech::{Lost, Report, Span, Transcript};
use paceline_types::ErrorCode;

use super::*;
use crate::speech::dialect::Order;

fn session() -> Realtime {
    let choose = |named: Option<&str>| Ok(named.unwrap_or("m").to_owned());
    Realtime::new(Box::new(choose), None, false)
}

fn list(orders: &mut Orders) -> Vec<Order> {
    std::iter::from_fn(|| orders.next()).collect()
}

fn said(orders: Vec<Order>) -> Vec<Value> {
    let text = |order| match order {
        Order::Say(text) => serde_json::from_str(&text).ok(),
        _ => None,
    };
    orders.into_iter().filter_map(text).collect()
}

/// The last word of each message's type.
fn kinds(messages: &[Value]) -> Vec<&str> {
    let types = messages.iter().filter_map(|message| message["type"].as_str());
    types.filter_map(|kind| kind.rsplit('.').next()).collect()
}

fn ask(session: &mut Realtime, message: &Value) -> Vec<Order> {
    let mut orders = Orders::default();
    session.text(&message.to_string(), &mut orders);
    list(&mut orders)
}

fn tell(session: &mut Realtime, heard: Heard) -> Vec<Value> {
    let mut orders = Orders::default();
    session.event(heard, &mut orders);
    said(list(&mut orders))
}

/// A second of silence.
fn append(session: &mut Realtime) -> Vec<Order> {
    let audio = BASE64_STANDARD.encode(vec![0; 48_000]);
    ask(session, &json!({"type": "input_audio_buffer.append", "audio": audio}))
}

fn spoken(text: &str, ended: EndReason) -> Heard {
    let span = Span { start: 0, end: 16_000 };
    Heard::Final(Final { channel: 0, span, text: text.to_owned(), ended })
}

const ACTIVE: Heard = Heard::Active { channel: 0, at: 1600 };
const INACTIVE: Heard = Heard::Inactive { channel: 0, at: 16_000 };

fn manual() -> Realtime {
    let mut session = session();
    let none = json!({"audio": {"input": {"turn_detection": null}}});
    let told = said(ask(&mut session, &json!({"type": "session.update", "session": none})));
    assert_eq!(told[0]["type"], "session.updated");
    session
}

#[test]
fn a_turn_is_told_from_its_beginning_to_its_transcript_in_order() {
    let mut session = session();
    let mut orders = Orders::default();
    session.begin(&mut orders);
    let mut all = said(list(&mut orders));
    assert!(matches!(&append(&mut session)[..], [Order::Open(..), Order::Push(_)]));
    for heard in [ACTIVE, INACTIVE, spoken("hello world", EndReason::Silence)] {
        all.extend(tell(&mut session, heard));
    }

    assert_eq!(
        kinds(&all),
        [
            "created",
            "speech_started",
            "speech_stopped",
            "committed",
            "added",
            "done",
            "delta",
            "completed"
        ]
    );
    assert_eq!(all[0]["session"]["type"], "transcription");
    assert_eq!((&all[1]["audio_start_ms"], &all[2]["audio_end_ms"]), (&json!(100), &json!(1000)));
    assert!(
        all[1..]
            .iter()
            .all(|message| { message["item_id"] == "item_1" || message["item"]["id"] == "item_1" })
    );
    assert_eq!(all[6]["delta"], "hello world");
    assert_eq!(all[7]["transcript"], "hello world");
    assert_eq!(all[7]["usage"], json!({"type": "duration", "seconds": 1.0}));
    let ids: std::collections::BTreeSet<_> =
        all.iter().map(|each| each["event_id"].to_string()).collect();
    assert_eq!(ids.len(), all.len());
}

#[test]
fn a_turn_that_is_cut_is_still_one_item_and_its_text_only_grows() {
    let mut session = session();
    append(&mut session);
    let mut all = tell(&mut session, ACTIVE);
    for heard in [
        spoken("a b", EndReason::TooLong),
        spoken("c", EndReason::TooLong),
        INACTIVE,
        spoken("d", EndReason::Silence),
    ] {
        all.extend(tell(&mut session, heard));
    }

    let deltas: String = all.iter().filter_map(|each| each["delta"].as_str()).collect();
    let last = all.last().unwrap();
    assert_eq!(last["transcript"], "a b c d");
    assert_eq!(deltas, "a b c d");
    assert_eq!(last["usage"]["seconds"], 3.0);
}

#[test]
fn what_is_stable_of_a_turn_under_way_is_told_and_never_taken_back() {
    let mut session = session();
    append(&mut session);
    let mut all = tell(&mut session, ACTIVE);
    for (text, stable) in [("a bee", 0), ("a b sea", 3), ("a b c", 3), ("a b c d", 5)] {
        let (span, said) =
            (Span { start: 0, end: 1 }, Transcript { text: text.to_owned(), stable });
        all.extend(tell(&mut session, Heard::Interim { channel: 0, span, said }));
    }
    all.extend(tell(&mut session, INACTIVE));
    all.extend(tell(&mut session, spoken("a b c d e", EndReason::Silence)));

    let deltas: Vec<&str> = all.iter().filter_map(|each| each["delta"].as_str()).collect();
    assert_eq!(deltas, ["a b", " c", " d e"]);
    assert_eq!(all.last().unwrap()["transcript"], "a b c d e");
}

#[test]
fn what_the_client_commits_is_one_item_however_many_utterances_it_is() {
    let mut session = manual();
    append(&mut session);
    assert!(tell(&mut session, ACTIVE).is_empty());
    assert!(tell(&mut session, spoken("one", EndReason::Silence)).is_empty(), "not yet an item");

    let orders = ask(&mut session, &json!({"type": "input_audio_buffer.commit"}));
    assert!(orders.contains(&Order::Flush));
    let mut all = said(orders);
    all.extend(tell(&mut session, spoken("two", EndReason::Flushed)));
    all.extend(tell(&mut session, Heard::Flushed));

    assert_eq!(kinds(&all), ["committed", "added", "done", "delta", "delta", "completed"]);
    assert_eq!(all[5]["transcript"], "one two");
    append(&mut session);
    let next = said(ask(&mut session, &json!({"type": "input_audio_buffer.commit"})));
    assert_eq!(next[0]["previous_item_id"], "item_1");
    assert_eq!(tell(&mut session, Heard::Flushed)[0]["transcript"], "", "nobody spoke");
}

#[test]
fn nothing_to_commit_is_an_error_and_not_an_item() {
    for mut session in [session(), manual()] {
        let told =
            said(ask(&mut session, &json!({"type": "input_audio_buffer.commit", "event_id": "e"})));
        assert_eq!(told[0]["type"], "error");
        assert_eq!(told[0]["error"]["event_id"], "e");
        assert!(told[0]["error"]["message"].as_str().unwrap().contains("too small"));
    }
}

#[test]
fn a_commit_where_the_server_finds_turns_ends_the_one_under_way_or_makes_an_empty_one() {
    let mut session = session();
    append(&mut session);
    tell(&mut session, ACTIVE);
    ask(&mut session, &json!({"type": "input_audio_buffer.commit"}));
    let mut all = tell(&mut session, INACTIVE);
    all.extend(tell(&mut session, spoken("yes", EndReason::Flushed)));
    all.extend(tell(&mut session, Heard::Flushed));
    assert_eq!(kinds(&all).last(), Some(&"completed"));
    assert_eq!(all.iter().filter(|each| each["transcript"].is_string()).count(), 1);

    append(&mut session);
    ask(&mut session, &json!({"type": "input_audio_buffer.commit"}));
    let empty = tell(&mut session, Heard::Flushed);
    assert_eq!(kinds(&empty), ["committed", "added", "done", "completed"]);
}

#[test]
fn what_is_cleared_is_never_heard_of_again() {
    for mut session in [session(), manual()] {
        append(&mut session);
        tell(&mut session, ACTIVE);
        let told = said(ask(&mut session, &json!({"type": "input_audio_buffer.clear"})));
        assert_eq!(told[0]["type"], "input_audio_buffer.cleared");
        for heard in [INACTIVE, spoken("secret", EndReason::Flushed), Heard::Flushed] {
            assert!(tell(&mut session, heard).is_empty());
        }
        append(&mut session);
        let started = tell(&mut session, ACTIVE);
        assert_eq!(started.len(), usize::from(session.detects), "the next one is heard");
    }
}

#[test]
fn an_item_without_a_result_fails_alone_and_without_an_error() {
    let mut session = session();
    append(&mut session);
    let lost = Lost { code: ErrorCode::ModelFailed, message: "broken".to_owned() };
    tell(&mut session, ACTIVE);
    tell(&mut session, INACTIVE);
    let (span, ended) = (Span { start: 0, end: 1 }, Some(EndReason::Silence));

    let told = tell(&mut session, Heard::Lost { channel: 0, span, ended, lost });

    assert_eq!(kinds(&told), ["failed"]);
    assert_eq!(told[0]["error"]["code"], "model_failed");
}

#[test]
fn other_settings_begin_another_session_once_this_one_is_answered() {
    let mut session = session();
    append(&mut session);
    tell(&mut session, ACTIVE);
    let update = |turns: Value| json!({"type": "session.update", "session": {"audio": {"input": {"turn_detection": turns}}}});
    assert!(
        !ask(&mut session, &update(json!({"type": "server_vad"}))).contains(&Order::Finish),
        "nothing changed"
    );
    assert!(ask(&mut session, &update(Value::Null)).contains(&Order::Finish));
    let mut all = tell(&mut session, INACTIVE);
    all.extend(tell(&mut session, spoken("before", EndReason::Flushed)));
    assert_eq!(all.last().unwrap()["transcript"], "before");
    let mut report = Report::default();
    report.ending.frames = 160_000;
    tell(&mut session, Heard::Ended(report));

    ask(&mut session, &update(json!({"type": "server_vad"})));
    append(&mut session);
    assert_eq!(tell(&mut session, ACTIVE)[0]["audio_start_ms"], 10_100, "time goes on");
}

#[test]
fn the_older_generation_hears_its_own_names() {
    let choose = |_: Option<&str>| Ok("m".to_owned());
    let mut session = Realtime::new(Box::new(choose), None, true);
    let mut orders = Orders::default();
    session.begin(&mut orders);
    let created = said(list(&mut orders));
    let updated = said(ask(
        &mut session,
        &json!({"type": "transcription_session.update",
        "session": {"input_audio_format": "g711_ulaw", "turn_detection": null}}),
    ));

    assert_eq!(created[0]["type"], "transcription_session.created");
    assert_eq!(updated[0]["type"], "transcription_session.updated");
    assert_eq!(updated[0]["session"]["input_audio_format"], "g711_ulaw");
}

#[test]
fn nonsense_is_told_and_the_session_goes_on() {
    let mut session = session();
    for message in [
        json!({"type": "response.create"}),
        json!({"type": "input_audio_buffer.append"}),
        json!({"type": "input_audio_buffer.append", "audio": "?"}),
        json!({"type": "session.update", "session": {"type": "realtime"}}),
        json!([]),
    ] {
        assert_eq!(kinds(&said(ask(&mut session, &message))), ["error"]);
    }
    assert!(matches!(&append(&mut session)[..], [Order::Open(..), Order::Push(_)]));
}
