//! `/v1/speak` by WebSocket, as Deepgram's clients hold the conversation.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use super::{SAMPLES, router};

struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// What came until a message of some type.
struct Heard {
    sound: Vec<u8>,
    last: Value,
}

impl Client {
    async fn open(query: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router()).await.unwrap() });
        let (socket, _) = connect_async(format!("ws://{at}/v1/speak?{query}")).await.unwrap();
        let mut client = Self(socket);
        let hello = client.until("Metadata").await;
        assert!(hello.last["request_id"].is_string() && hello.sound.is_empty());
        client
    }

    async fn say(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn speak(&mut self, text: &str) {
        self.say(json!({ "type": "Speak", "text": text })).await;
    }

    async fn until(&mut self, kind: &str) -> Heard {
        let mut sound = Vec::new();
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Binary(more) => sound.extend_from_slice(&more),
                Message::Text(text) => {
                    let last: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(last["type"], kind, "{last}");
                    return Heard { sound, last };
                }
                other => panic!("{other:?} instead of {kind}"),
            }
        }
    }

    /// The sound that still came, and the close code.
    async fn end(mut self) -> (Vec<u8>, Vec<Value>, u16) {
        let (mut sound, mut told) = (Vec::new(), Vec::new());
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Binary(more) => sound.extend_from_slice(&more),
                Message::Text(text) => told.push(serde_json::from_str(&text).unwrap()),
                Message::Close(frame) => return (sound, told, frame.unwrap().code.into()),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn pieces_of_text_are_spoken_as_one_when_they_are_flushed_and_flushes_keep_their_order() {
    let mut client = Client::open("model=bob&encoding=linear16&sample_rate=24000").await;
    client.speak("hello ").await;
    client.speak("there").await;
    client.say(json!({ "type": "Flush" })).await;
    client.speak("hello there").await;
    client.say(json!({ "type": "Flush" })).await;
    let first = client.until("Flushed").await;
    let second = client.until("Flushed").await;
    assert_eq!(first.sound.len(), SAMPLES * 2);
    assert_eq!(first.sound, second.sound, "the same words, in however many pieces");
    assert_eq!((&first.last["sequence_id"], &second.last["sequence_id"]), (&json!(0), &json!(1)));
}

#[tokio::test]
async fn close_speaks_what_was_said_and_then_closes() {
    let mut client = Client::open("model=ann&encoding=mulaw&sample_rate=8000").await;
    client.speak("hello there").await;
    client.say(json!({ "type": "Close" })).await;
    let (sound, told, code) = client.end().await;
    assert_eq!((sound.len(), code), (SAMPLES / 3, 1000));
    assert_eq!(told, [json!({ "type": "Flushed", "sequence_id": 0 })]);
}

#[tokio::test]
async fn clear_calls_back_what_was_not_heard_yet() {
    let mut client = Client::open("model=bob").await;
    client.speak("hello there").await;
    client.say(json!({ "type": "Clear" })).await;
    assert_eq!(client.until("Cleared").await.last["sequence_id"], 0);
    client.say(json!({ "type": "Flush" })).await;
    let flushed = client.until("Flushed").await;
    assert!(flushed.sound.is_empty(), "an empty flush is answered, with nothing to hear");
    client.say(json!({ "type": "Close" })).await;
    let (sound, told, code) = client.end().await;
    assert_eq!((sound.len(), told.len(), code), (0, 0, 1000));
}

#[tokio::test]
async fn a_wrong_message_is_a_warning_and_the_conversation_goes_on() {
    let mut client = Client::open("model=bob").await;
    for wrong in [json!({ "type": "Sing" }), json!({ "type": "Speak" }), json!([1, 2])] {
        client.say(wrong).await;
        let warning = client.until("Warning").await.last;
        assert!(warning["description"].as_str().unwrap().contains("Flush, Clear and Close"));
    }
    client.0.send(Message::binary(vec![0; 3])).await.unwrap();
    client.until("Warning").await;
    client.speak(&"a".repeat(20_000)).await;
    let warning = client.until("Warning").await.last;
    assert!(warning["description"].as_str().unwrap().contains("too much text"));
    client.speak("hello there").await;
    client.say(json!({ "type": "Flush" })).await;
    assert_eq!(client.until("Flushed").await.sound.len(), SAMPLES * 2);
}

#[tokio::test]
async fn who_cannot_be_served_is_told_before_the_conversation() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router()).await.unwrap() });
    for (query, status) in [("model=nobody", 404), ("encoding=opus", 400)] {
        let refused = connect_async(format!("ws://{at}/v1/speak?{query}")).await.unwrap_err();
        let tokio_tungstenite::tungstenite::Error::Http(response) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(response.status(), status, "{query}");
    }
}
