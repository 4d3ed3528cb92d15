//! Random conversations without sockets: whatever a client does, every sample is accounted for,
//! every fault is told, and everything is said in order.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Sink, Stream, future::join};
use paceline_backend::{
    Ragged, Simulated,
    simulated::{Answer, Settings},
};
use paceline_pipeline::{
    Blueprint, Mode, Model, Models, SequenceLimits, VersionPolicy, VoiceDetector, VoiceSettings,
    speech::{Bounds, Speech, SpeechLimits, SpeechSettings},
    synthesis::{Synthesis, SynthesisSettings},
};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::{
    sync::{CancellationToken, PollSender},
    task::TaskTracker,
};

use super::{Conversation, Kind, Rounds};
use crate::ws::{SocketLimits, Streams};

/// Both ends of a socket that is none.
pub(crate) struct Wire {
    incoming: mpsc::Receiver<Message>,
    outgoing: PollSender<Message>,
}

impl Stream for Wire {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.incoming.poll_recv(context).map(|message| message.map(Ok))
    }
}

impl Sink<Message> for Wire {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.outgoing.poll_reserve(context).map_err(|_| Error::ConnectionClosed)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), Error> {
        self.outgoing.send_item(message).map_err(|_| Error::ConnectionClosed)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

/// What streams need, with a model that counts samples.
pub(crate) fn streams(limits: SpeechLimits) -> Streams {
    let settings =
        Settings { answer: Answer::Count, output: "count".into(), ..Settings::default() };
    let blueprint = Blueprint {
        name: "m".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "paceline_simulated".to_owned(),
        mode: Mode::Batch,
        batch: paceline_batch::Settings::default(),
        instances: 1,
        build: Arc::new(move |instance| {
            Ok(Box::new(Simulated::build(settings.clone(), instance as u64).unwrap()))
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        warm_up_length: 1,
        adapter: None,
        sequences: SequenceLimits::default(),
    };
    // Nothing here has a deadline, so the model's clock has nothing to do.
    let (model, _) = Model::open(blueprint).unwrap();
    let models = Arc::new(Models::default());
    models.replace("m", vec![model]);
    let voices = VoiceDetector::start(VoiceSettings::default()).unwrap();
    let settings = SpeechSettings { model: "m".to_owned(), bounds: Bounds::default(), limits };
    Streams {
        synthesis: Synthesis::new(Arc::clone(&models), SynthesisSettings::default()),
        speech: Speech::new(models, voices, settings),
        limits: SocketLimits::default(),
        open: TaskTracker::new(),
        stop: CancellationToken::new(),
    }
}

/// Utterances, for a client outside of any trace.
pub(in crate::speech) fn segmented() -> Rounds {
    Rounds::new(Kind::Segmented, None)
}

async fn serve(wire: Wire, streams: Streams, kind: Kind) {
    Conversation::new(wire, streams, Rounds::new(kind, None)).run().await;
}

/// Speaks as these messages say, and returns everything that was heard.
async fn converse(streams: Streams, kind: Kind, messages: Vec<Message>) -> Vec<Message> {
    talk(messages, |_| false, |wire| serve(wire, streams, kind)).await
}

/// The same with whoever serves the other end, until it closes or has said the last.
pub(crate) async fn talk<F: Future<Output = ()>>(
    messages: Vec<Message>,
    is_last: impl Fn(&Message) -> bool,
    serve: impl FnOnce(Wire) -> F,
) -> Vec<Message> {
    let (say, incoming) = mpsc::channel(2);
    let (outgoing, mut hear) = mpsc::channel(2);
    let wire = Wire { incoming, outgoing: PollSender::new(outgoing) };
    let client = async {
        let speaking = async {
            for message in messages {
                if say.send(message).await.is_err() {
                    break;
                }
            }
            say
        };
        let mut heard = Vec::new();
        let hearing = async {
            while let Some(message) = hear.recv().await {
                let is_end = matches!(message, Message::Close(_)) || is_last(&message);
                heard.push(message);
                if is_end {
                    break;
                }
            }
        };
        let (say, ()) = join(speaking, hearing).await;
        drop(say);
        heard
    };
    let (heard, ()) = join(client, serve(wire)).await;
    heard
}

/// What a client does.
#[derive(Debug, Clone)]
enum Act {
    Start,
    StartBadly,
    Audio(usize),
    Stop,
    Flush(u32),
    Keepalive,
    Nonsense,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => Just(Act::Start),
        1 => Just(Act::StartBadly),
        6 => (0_usize..5000).prop_map(Act::Audio),
        2 => Just(Act::Stop),
        1 => any::<u32>().prop_map(Act::Flush),
        1 => Just(Act::Keepalive),
        1 => Just(Act::Nonsense),
    ];
    vec(act, 0..25)
}

fn text(value: &Value) -> Message {
    Message::Text(value.to_string().into())
}

fn start() -> Message {
    text(&json!({"request": "start", "format": {
        "channels": 1, "sample_rate": 16000, "bit_depth": 16, "is_float": false}}))
}

fn message(act: &Act) -> Message {
    match act {
        Act::Start => start(),
        Act::StartBadly => text(&json!({"request": "start", "format": {
            "channels": 0, "sample_rate": 16000, "bit_depth": 16, "is_float": false}})),
        Act::Audio(n_bytes) => Message::Binary(vec![7; *n_bytes].into()),
        Act::Stop => text(&json!({"request": "stop", "disconnect": false})),
        Act::Flush(id) => text(&json!({"request": "flush", "id": id})),
        Act::Keepalive => text(&json!({"request": "keepalive"})),
        Act::Nonsense => Message::Text("{\"request\":".into()),
    }
}

/// What must come of a conversation.
#[derive(Debug, Default, PartialEq)]
struct Ledger {
    /// Samples of each round that had any.
    rounds: Vec<u64>,
    flushed: Vec<u64>,
    n_errors: usize,
    n_warnings: usize,
}

fn expected(acts: &[Act]) -> Ledger {
    let mut ledger = Ledger::default();
    let (mut bytes, mut is_started, mut is_told) = (0, false, false);
    let end = |bytes: &mut usize, ledger: &mut Ledger| {
        let all = std::mem::take(bytes) as u64;
        if 1 < all {
            ledger.rounds.push(all / 2);
        }
        ledger.n_warnings += usize::from(all % 2 == 1);
    };
    for act in acts {
        match act {
            Act::Start => {
                end(&mut bytes, &mut ledger);
                (is_started, is_told) = (true, false);
            }
            Act::Audio(n_bytes) if is_started => bytes += n_bytes,
            Act::Audio(_) => ledger.n_errors += usize::from(!std::mem::replace(&mut is_told, true)),
            Act::Stop if is_started => end(&mut bytes, &mut ledger),
            Act::Stop | Act::StartBadly | Act::Nonsense => ledger.n_errors += 1,
            Act::Flush(id) => ledger.flushed.push(u64::from(*id)),
            Act::Keepalive => {}
        }
    }
    // The stop with which every conversation ends.
    end(&mut bytes, &mut ledger);
    ledger.n_errors += usize::from(!is_started);
    ledger
}

fn actual(heard: &[Message]) -> Ledger {
    let mut ledger = Ledger::default();
    let mut last_end = 0.0;
    for message in heard {
        let Message::Text(text) = message else { continue };
        let event: Value = serde_json::from_str(text).unwrap();
        match event["type"].as_str().unwrap() {
            "segment" => {
                let (start, end) = (event["start_time"].as_f64(), event["end_time"].as_f64());
                let count = event["count"].as_u64().unwrap();
                if start == Some(0.0) {
                    ledger.rounds.push(0);
                } else {
                    assert_eq!(start, Some(last_end), "a round's segments are contiguous");
                }
                last_end = end.unwrap();
                *ledger.rounds.last_mut().unwrap() += count;
                let all = *ledger.rounds.last().unwrap();
                assert_eq!(end, Some(all as f64 / 16000.0), "times count samples");
            }
            "flushed" => ledger.flushed.push(event["id"].as_u64().unwrap()),
            "error" => ledger.n_errors += 1,
            "warning" => ledger.n_warnings += 1,
            other => panic!("{other}"),
        }
    }
    ledger
}

/// Runs a property that waits, in one runtime.
fn law<S: Strategy>(cases: u32, strategy: &S, law: impl AsyncFn(S::Value)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let run = |value| {
        runtime.block_on(law(value));
        Ok(())
    };
    runner.run(strategy, run).unwrap();
}

#[test]
fn every_sample_is_accounted_for_whatever_a_client_does() {
    let limits = SpeechLimits {
        // So little that streams are held up all the time.
        max_backlog: std::time::Duration::from_millis(50),
        stream_in_flight: 2,
        ..SpeechLimits::default()
    };
    let streams = streams(limits);
    law(2000, &acts(), async |acts: Vec<Act>| {
        let goodbye = text(&json!({"request": "stop", "disconnect": true}));
        let messages = acts.iter().map(message).chain([goodbye]).collect();

        let heard = converse(streams.clone(), Kind::Simple, messages).await;

        assert_eq!(actual(&heard), expected(&acts));
        let last = heard.last();
        assert!(
            matches!(last, Some(Message::Close(Some(frame))) if u16::from(frame.code) == 1000),
            "{last:?}"
        );
    });
}

#[test]
fn a_client_that_leaves_at_any_moment_leaves_nothing_behind() {
    let streams = streams(SpeechLimits::default());
    law(1000, &(acts(), any::<bool>()), async |(acts, closes): (Vec<Act>, bool)| {
        let goodbye = closes.then_some(Message::Close(None));
        let messages: Vec<_> = acts.iter().map(message).chain(goodbye).collect();
        let (say, incoming) = mpsc::channel(messages.len().max(1));
        let (outgoing, mut hear) = mpsc::channel(1000);
        for message in messages {
            say.send(message).await.unwrap();
        }
        drop(say);
        let wire = Wire { incoming, outgoing: PollSender::new(outgoing) };

        serve(wire, streams.clone(), Kind::Segmented).await;

        while hear.recv().await.is_some() {}
    });
    assert_eq!(streams.speech.stats().streams, 0);
}

#[tokio::test]
async fn what_is_unknown_or_wrong_is_told_in_a_sentence() {
    let streams = streams(SpeechLimits::default());
    let raw = json!({"channels": 1, "sample_rate": 16000, "bit_depth": 16, "is_float": false});
    let with = |field: &str, value: Value| {
        let mut start = json!({"request": "start", "format": raw});
        start[field] = value;
        start
    };
    let form = |field: &str, value: Value| {
        let mut form = raw.clone();
        form[field] = value;
        with("format", form)
    };
    for (request, kind, words) in [
        (form("channels", json!(0)), "error", "0 channels are not within 1 to 8"),
        (form("channels", json!(u64::MAX)), "error", "65535 channels are not within"),
        (form("sample_rate", json!(0)), "error", "a rate of 0 Hz"),
        (form("sample_rate", json!(-1)), "error", "not a request that is understood"),
        (form("bit_depth", json!(8)), "error", "Unsupported format bit_depth: 8 is_float: false"),
        (form("encoding", json!("speex")), "error", "no encoding is called `speex`"),
        (form("colour", json!(1)), "warning", "`format.colour`"),
        (with("format", json!({"encoding": "s16le"})), "error", "needs channels and sample_rate"),
        (with("format", json!({"channels": 1})), "error", "needs encoding, or bit_depth"),
        (with("modle", json!("m")), "warning", "nobody knows `modle`"),
        (with("model", json!("nobody")), "error", "there is no model `nobody`"),
        (with("vad", json!({"positive_threshold": 2.0})), "error", "positive_threshold is 2"),
        (with("vad", json!({"redemption_time_ms": 60000})), "error", "at most 5000 ms"),
        (with("parameters", json!({"beam": [1]})), "error", "parameter `beam` must be"),
        (with("language", json!("x".repeat(200))), "error", "language is longer than"),
        (json!({"request": "stop"}), "error", "missing field `disconnect`"),
        (json!({"request": "sing"}), "error", "unknown variant `sing`"),
        (json!([1, 2]), "error", "not a request"),
    ] {
        let goodbye = text(&json!({"request": "stop", "disconnect": true}));
        let told = converse(streams.clone(), Kind::Segmented, vec![text(&request), goodbye]).await;

        let Message::Text(told) = &told[0] else { panic!("{told:?}") };
        let told: Value = serde_json::from_str(told).unwrap();
        assert_eq!(told["type"], kind, "{request} {told}");
        assert!(told["message"].as_str().unwrap().contains(words), "{request} {told}");
        assert!(told["code"].is_string() && told["channel"] == 0);
    }
    let often = json!({"request": "start", "format": raw, "interim_results": true,
        "interim_interval_ms": 1});
    let told = converse(streams, Kind::Segmented, vec![text(&often)]);
    let told = tokio::time::timeout(std::time::Duration::from_millis(100), told).await;
    assert!(told.is_err(), "the stream stays open after a fault");
}

#[tokio::test]
async fn a_flood_of_nonsense_is_closed() {
    let messages = vec![Message::Text("?".into()); 200];

    let heard = converse(streams(SpeechLimits::default()), Kind::Simple, messages).await;

    assert_eq!(heard.len(), 101);
    assert!(
        matches!(heard.last(), Some(Message::Close(Some(frame))) if u16::from(frame.code) == 1008)
    );
}

#[tokio::test]
async fn told_to_stop_a_stream_gets_what_it_waits_for_and_a_close() {
    let streams = streams(SpeechLimits::default());
    let (say, incoming) = mpsc::channel(4);
    let (outgoing, mut hear) = mpsc::channel(100);
    let wire = Wire { incoming, outgoing: PollSender::new(outgoing) };
    let connection = serve(wire, streams.clone(), Kind::Simple);
    let client = async {
        say.send(start()).await.unwrap();
        say.send(Message::Binary(vec![0; 64_001].into())).await.unwrap();
        while streams.speech.stats().samples == 0 {
            tokio::task::yield_now().await;
        }
        streams.stop.cancel();
        let mut heard = Vec::new();
        while let Some(message) = hear.recv().await {
            let is_close = matches!(message, Message::Close(_));
            heard.push(message);
            if is_close {
                drop(say);
                break;
            }
        }
        heard
    };

    let (heard, ()) = join(client, connection).await;

    let last = heard.last();
    assert!(
        matches!(last, Some(Message::Close(Some(frame))) if u16::from(frame.code) == 1001),
        "{last:?}"
    );
    assert_eq!(actual(&heard).rounds, [32_000], "all of a message that was begun is heard");
    assert_eq!(actual(&heard).n_warnings, 1, "half a sample was left");
}
