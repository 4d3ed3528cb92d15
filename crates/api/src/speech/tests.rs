//! Whole conversations without sockets, in every dialect, with a model that counts samples: any
//! chunking gives the same messages, nobody hears of others, and nothing that a client says breaks
//! its stream.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::future::join_all;
use paceline_pipeline::speech::SpeechLimits;
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{
    conversation::Conversation,
    deepgram,
    dialect::Dialect,
    native::{
        self,
        tests::{streams, talk},
    },
    openai,
    vosk::Vosk,
    wyoming::Wyoming,
};
use crate::ws::Streams;

/// A protocol, and how its clients write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tongue {
    Deepgram,
    Native,
    OpenAi,
    Vosk,
    Wyoming,
}

const TONGUES: [Tongue; 5] =
    [Tongue::Deepgram, Tongue::Native, Tongue::OpenAi, Tongue::Vosk, Tongue::Wyoming];

/// Eleven seconds of speech: 16 kHz, mono, s16.
fn speech() -> Vec<u8> {
    let wav = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/assets/speech.wav"));
    let wav = wav.unwrap();
    let data = wav.windows(4).position(|name| name == b"data").unwrap();
    wav[data + 8..].to_vec()
}

fn text(value: &Value) -> Message {
    Message::Text(value.to_string().into())
}

impl Tongue {
    fn begin(self) -> Vec<Message> {
        match self {
            Self::Deepgram => vec![text(&json!({"type": "KeepAlive"}))],
            Self::Native => vec![text(&json!({
                "request": "start", "interim_results": true, "summary": true,
                "format": {"encoding": "s16le", "sample_rate": 16_000, "channels": 1}}))],
            Self::OpenAi => Vec::new(),
            Self::Vosk => vec![text(&json!({"config": {"sample_rate": 16_000.0}}))],
            Self::Wyoming => vec![text(&json!({"type": "audio-start", "data": {"rate": 16_000}}))],
        }
    }

    fn audio(self, bytes: &[u8]) -> Message {
        match self {
            Self::OpenAi => text(&json!({
                "type": "input_audio_buffer.append", "audio": BASE64_STANDARD.encode(bytes)})),
            _ => Message::Binary(bytes.to_vec().into()),
        }
    }

    fn end(self) -> Vec<Message> {
        match self {
            Self::Deepgram => vec![text(&json!({"type": "CloseStream"}))],
            Self::Native => vec![text(&json!({"request": "stop", "disconnect": true}))],
            Self::OpenAi => vec![
                text(&json!({"type": "input_audio_buffer.commit"})),
                text(&json!({"type": "nonsense", "event_id": "last"})),
            ],
            Self::Vosk => vec![text(&json!({"eof": 1}))],
            Self::Wyoming => {
                vec![text(&json!({"type": "audio-stop"})), text(&json!({"type": "ping"}))]
            }
        }
    }

    async fn converse(self, streams: &Streams, messages: Vec<Message>) -> Vec<Value> {
        match self {
            Self::Deepgram => run(streams, deepgram::tests::live(), messages).await,
            Self::Native => run(streams, native::tests::segmented(), messages).await,
            Self::OpenAi => run(streams, openai::tests::realtime(), messages).await,
            Self::Vosk => run(streams, Vosk::default(), messages).await,
            Self::Wyoming => run(streams, Wyoming::default(), messages).await,
        }
    }

    /// The answer to a client's last message, where that does not end in a close.
    fn is_over(message: &Value) -> bool {
        message["error"]["event_id"] == "last" || message["type"] == "pong"
    }

    /// What it says when everything was answered.
    fn is_last(self, message: &Value) -> bool {
        match self {
            Self::Deepgram => message["type"] == "Metadata",
            Self::Native => message["type"] == "end",
            Self::OpenAi => {
                message["type"].as_str().is_some_and(|kind| kind.ends_with("completed"))
            }
            Self::Vosk => message["text"].is_string(),
            Self::Wyoming => message["type"] == "transcript-stop",
        }
    }
}

/// Everything that a client hears.
async fn run<D: Dialect>(streams: &Streams, dialect: D, messages: Vec<Message>) -> Vec<Value> {
    let streams = streams.clone();
    let read = |message: &Message| {
        message.to_text().ok().and_then(|text| serde_json::from_str::<Value>(text).ok())
    };
    let is_last = |message: &Message| read(message).is_some_and(|value| Tongue::is_over(&value));
    let heard = talk(messages, is_last, |wire| Conversation::new(wire, streams, dialect).run());
    heard.await.iter().filter_map(read).collect()
}

/// What does not depend on when a client's messages came: everything but interim results and
/// replies, and names that differ each time.
fn lasting(messages: &[Value]) -> Vec<String> {
    let is_lasting =
        |message: &&Value| message["is_final"] != json!(false) && message.get("partial").is_none();
    let mut lasting: Vec<Value> = messages.iter().filter(is_lasting).cloned().collect();
    for message in &mut lasting {
        if let Value::Object(fields) = message {
            for name in ["event_id", "created", "session", "request_id"] {
                fields.remove(name);
            }
        }
    }
    let mut lasting: Vec<String> = lasting.iter().map(ToString::to_string).collect();
    lasting.sort();
    lasting
}

/// All texts of vosk's replies as one: into how many replies they fall depends on when it is asked.
fn texts(messages: &[Value]) -> String {
    let texts = messages.iter().filter_map(|message| message["text"].as_str());
    super::heard::join(texts)
}

fn cut<'a>(audio: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let (mut rest, mut pieces) = (audio, Vec::new());
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, later) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces
}

fn said(tongue: Tongue, audio: &[u8], sizes: &[usize]) -> Vec<Message> {
    let mut messages = tongue.begin();
    messages.extend(cut(audio, sizes).into_iter().map(|piece| tongue.audio(piece)));
    messages.extend(tongue.end());
    messages
}

fn same(tongue: Tongue, one: &[Value], other: &[Value]) {
    if tongue == Tongue::Vosk {
        assert_eq!(texts(one), texts(other));
    } else {
        assert_eq!(lasting(one), lasting(other), "{tongue:?}");
    }
}

#[tokio::test]
async fn any_chunking_gives_the_same_messages() {
    let streams = streams(SpeechLimits::default());
    let audio = speech();
    for tongue in TONGUES {
        // A commit takes more than a tenth of a second, so the last piece may not be all there is.
        let whole = tongue.converse(&streams, said(tongue, &audio, &[usize::MAX])).await;
        assert!(whole.iter().any(|message| tongue.is_last(message)), "{tongue:?} {whole:?}");
        for sizes in [&[3200][..], &[640], &[1, 16_001], &[333, 9999, 7]] {
            let pieces = tongue.converse(&streams, said(tongue, &audio, sizes)).await;
            same(tongue, &pieces, &whole);
        }
    }
}

#[tokio::test]
async fn two_clients_never_hear_of_each_other() {
    let streams = streams(SpeechLimits::default());
    let audio = speech();
    // Others hear other parts of it, so that their results differ.
    let part = |at: usize| &audio[at * 16_000..audio.len() - at * 8000];
    for tongue in TONGUES {
        let alone =
            join_all((0..1).map(|at| tongue.converse(&streams, said(tongue, part(at), &[6400]))));
        let first = alone.await.remove(0);
        let together =
            join_all((0..6).map(|at| tongue.converse(&streams, said(tongue, part(at), &[6400]))))
                .await;
        same(tongue, &together[0], &first);
        for (at, heard) in together.iter().enumerate() {
            let alone = tongue.converse(&streams, said(tongue, part(at), &[6400])).await;
            same(tongue, heard, &alone);
        }
    }
}

#[test]
fn nothing_that_a_client_says_breaks_its_stream() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap();
    let streams = runtime.block_on(async { streams(SpeechLimits::default()) });
    let word = prop_oneof![
        Just(json!({"type": "KeepAlive"})),
        Just(json!({"type": "Finalize"})),
        Just(json!({"type": "Finalize", "channel": 5})),
        Just(json!({"type": "Configure", "keyterms": ["a"]})),
        Just(json!({"type": "input_audio_buffer.commit"})),
        Just(json!({"type": "input_audio_buffer.clear"})),
        Just(
            json!({"type": "session.update", "session": {"audio": {"input": {"turn_detection": null}}}})
        ),
        Just(
            json!({"type": "session.update", "session": {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}})
        ),
        Just(
            json!({"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}})
        ),
        Just(json!({"request": "stop", "disconnect": false})),
        Just(json!({"request": "flush", "id": 7})),
        Just(json!({"reset": 1})),
        Just(json!({"type": "describe"})),
        Just(json!({"type": "audio-start", "data": {"rate": 8000, "channels": 2}})),
        Just(json!({"type": "audio-stop"})),
        Just(json!({"config": {"sample_rate": 8000}})),
        Just(json!({"type": 5})),
        Just(json!([1, 2])),
        Just(json!("words")),
    ];
    let act = prop_oneof![
        word.prop_map(|word| (Some(word), 0)),
        (1_usize..40_000).prop_map(|length| (None, length)),
    ];
    let audio = speech();
    let cases =
        ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(cases)
        .run(&vec(act, 0..14), |acts| {
            for tongue in TONGUES {
                let mut messages = tongue.begin();
                let mut at = 0;
                for (word, length) in &acts {
                    let piece = &audio[at.min(audio.len())..(at + length).min(audio.len())];
                    at += length;
                    messages.push(match word {
                        Some(word) => text(word),
                        None if piece.is_empty() => continue,
                        None => tongue.audio(piece),
                    });
                }
                // Enough to be committed, and then the end.
                messages.push(tongue.audio(&audio[..9600]));
                messages.extend(tongue.end());
                let heard = runtime.block_on(tongue.converse(&streams, messages));
                prop_assert!(heard.iter().any(|each| tongue.is_last(each)), "{tongue:?} {heard:?}");
            }
            Ok(())
        })
        .unwrap();
}
