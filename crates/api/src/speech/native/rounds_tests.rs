//! Rounds of a native client, order by order.

use serde_json::json;

use super::*;
use crate::speech::dialect::Order;

fn rounds() -> Rounds {
    Rounds::new(Kind::Segmented, None)
}

/// What a dialect wants done; messages without their text.
fn done(orders: &mut Orders) -> Vec<String> {
    let name = |order| match order {
        Order::Say(text) => {
            let said: Value = serde_json::from_str(&text).unwrap();
            let code = said["code"].as_str().map_or_else(String::new, |code| format!(" {code}"));
            format!("{}{code}", said["type"].as_str().unwrap())
        }
        Order::Open(..) => "Open".to_owned(),
        Order::Push(_) => "Push".to_owned(),
        Order::Close(farewell) => format!("Close {}", farewell.code),
        other => format!("{other:?}"),
    };
    std::iter::from_fn(|| orders.next()).map(name).collect()
}

fn ask(rounds: &mut Rounds, message: &Value) -> Vec<String> {
    let mut orders = Orders::default();
    rounds.text(&message.to_string(), &mut orders);
    done(&mut orders)
}

fn hear(rounds: &mut Rounds) -> Vec<String> {
    let mut orders = Orders::default();
    rounds.audio(Bytes::from_static(&[0; 640]), &mut orders);
    done(&mut orders)
}

fn opened(rounds: &mut Rounds) -> Vec<String> {
    let mut orders = Orders::default();
    rounds.opened(&mut orders);
    done(&mut orders)
}

fn tell(rounds: &mut Rounds, event: Event) -> Vec<String> {
    let mut orders = Orders::default();
    rounds.event(event, &mut orders);
    done(&mut orders)
}

fn start(field: &str, value: Value) -> Value {
    let format = json!({"encoding": "s16le", "sample_rate": 16_000, "channels": 1});
    let mut start = json!({"request": "start", "format": format});
    start[field] = value;
    start
}

#[test]
fn a_start_counts_once_its_round_has_begun() {
    let mut rounds = rounds();
    assert_eq!(ask(&mut rounds, &start("summary", json!(true))), ["Open"]);
    assert!(opened(&mut rounds).is_empty());
    assert_eq!(hear(&mut rounds), ["Push"]);
    assert_eq!(ask(&mut rounds, &start("events", json!(false))), ["Open"]);

    assert_eq!(tell(&mut rounds, Event::Active { channel: 0, at: 0 }), ["active"], "as it was");
    assert_eq!(tell(&mut rounds, Event::Ended(Report::default())), ["end"], "as it was");
    assert!(opened(&mut rounds).is_empty());
    assert!(tell(&mut rounds, Event::Active { channel: 0, at: 0 }).is_empty(), "as it is now");
    assert!(tell(&mut rounds, Event::Ended(Report::default())).is_empty());
}

#[test]
fn a_start_that_cannot_be_met_leaves_everything_as_it_was() {
    let mut rounds = rounds();
    ask(&mut rounds, &start("summary", json!(true)));
    opened(&mut rounds);
    assert_eq!(
        ask(&mut rounds, &start("language", json!("x".repeat(200)))),
        ["error invalid_input"]
    );
    assert_eq!(ask(&mut rounds, &start("model", json!("nobody"))), ["Open"]);
    let mut orders = Orders::default();
    rounds.refused(&ApiError::new(ErrorCode::NotFound, "there is none"), &mut orders);
    assert_eq!(done(&mut orders), ["error not_found"]);

    assert_eq!(hear(&mut rounds), ["Push"]);
    assert_eq!(tell(&mut rounds, Event::Ended(Report::default())), ["end"]);
    assert_eq!(hear(&mut rounds), ["Open", "Push"], "as the start before said");
    opened(&mut rounds);
    assert_eq!(tell(&mut rounds, Event::Ended(Report::default())), ["end"]);
}

#[test]
fn audio_that_belongs_to_no_round_is_told_of_once() {
    let mut rounds = rounds();
    assert_eq!(hear(&mut rounds), ["error invalid_input"]);
    assert!(hear(&mut rounds).is_empty());
    ask(&mut rounds, &start("single_utterance", json!(true)));
    opened(&mut rounds);
    assert_eq!(hear(&mut rounds), ["Push"]);
    tell(&mut rounds, Event::Ended(Report::default()));
    assert_eq!(hear(&mut rounds), ["error invalid_input"], "the round is spent");
    assert!(hear(&mut rounds).is_empty());
}

#[test]
fn what_became_of_the_audio_is_told_when_the_round_ends() {
    let mut rounds = rounds();
    ask(&mut rounds, &start("summary", json!(true)));
    opened(&mut rounds);
    let mut report = Report { ignored: 3, unread: 4, ..Report::default() };
    (report.ending.left_over, report.ending.damaged) = (1, 2);
    let told = tell(&mut rounds, Event::Ended(report));
    assert_eq!(
        told,
        [
            "warning incomplete_audio",
            "warning damaged_audio",
            "warning audio_ignored",
            "warning audio_ignored",
            "end"
        ]
    );
}

#[test]
fn who_disconnects_is_let_go_and_who_is_wrong_too_often_is_closed() {
    let mut rounds = rounds();
    let goodbye = json!({"request": "stop", "disconnect": true});
    assert_eq!(ask(&mut rounds, &goodbye), ["Close 1000", "error invalid_input", "Finish"]);
    for _ in 2..100 {
        assert_eq!(ask(&mut rounds, &json!(0)), ["error invalid_input"]);
    }
    assert_eq!(ask(&mut rounds, &json!(0)), ["error invalid_input", "Close 1008"]);
}

#[test]
fn a_goodbye_says_why() {
    for (why, told, code) in [
        (Parting::Stopping, None, 1001),
        (Parting::Idle, Some("error deadline_exceeded"), 4408),
        (Parting::Overloaded, Some("error overloaded"), 1013),
    ] {
        let mut orders = Orders::default();
        assert_eq!(rounds().farewell(why, &mut orders).code, code);
        assert_eq!(done(&mut orders).first().map(String::as_str), told);
    }
}
