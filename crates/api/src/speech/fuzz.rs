//! Ways in for fuzz targets: whole conversations, with a session that is always there and hears one
//! word in everything.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Uri, header::CONTENT_TYPE},
};
use bytes::BytesMut;
use futures_util::{FutureExt as _, stream};
use paceline_pipeline::speech::{EndReason, Report, Span};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::codec::Decoder as _;

use super::{
    deepgram,
    dialect::{Dialect, Order, Orders},
    heard::{Final, Heard},
    name::Chosen,
    openai,
    vosk::Vosk,
    wyoming::{Wyoming, frame::Frames},
};

/// Most that a dialect says to one message: whatever a client sends, it must not make more of it.
const MAX_ANSWERS: usize = 64;

/// Messages of a client that are tried at most.
const MAX_MESSAGES: usize = 64;

fn chosen() -> Chosen {
    Chosen { name: "m".to_owned(), version: "1".to_owned(), is_named: true }
}

/// Deepgram's protocol: a query, and after its line the messages of a stream.
pub fn deepgram(data: &[u8]) {
    let (query, messages) = split(data);
    let Ok(query) = str::from_utf8(query) else { return };
    let Ok(uri) = format!("/v1/listen?{query}").parse::<Uri>() else { return };
    let Ok(live) = deepgram::fuzz(&uri, |_| Ok(chosen())) else { return };
    converse(live, lines(messages));
}

/// A session of `OpenAI`'s realtime protocol.
pub fn openai_realtime(data: &[u8]) {
    converse(openai::fuzz_realtime(), lines(data));
}

/// A form of `OpenAI`'s: its boundary, and after that line the body, in pieces of some length.
///
/// # Panics
///
/// When reading waits for more than there is.
pub fn openai_form(piece: u8, data: &[u8]) {
    let (boundary, body) = split(data);
    let kind = [b"multipart/form-data; boundary=", boundary].concat();
    let Ok(kind) = HeaderValue::from_bytes(&kind) else { return };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
    let pieces: Vec<Result<Bytes, axum::Error>> = body
        .chunks(usize::from(piece) + 1)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    let form = openai::fuzz_form(&headers, Body::from_stream(stream::iter(pieces)), body.len());
    // Every piece is there, so nothing is waited for.
    assert!(form.now_or_never().is_some(), "the form was not read to its end");
}

/// Messages of vosk's protocol.
pub fn vosk(data: &[u8]) {
    converse(Vosk::default(), lines(data));
}

/// Bytes of Wyoming's protocol, in pieces of some length.
pub fn wyoming(piece: u8, data: &[u8]) {
    let mut frames = Frames::new(1 << 16);
    let (mut held, mut messages) = (BytesMut::new(), Vec::new());
    'pieces: for piece in data.chunks(usize::from(piece) + 1) {
        held.extend_from_slice(piece);
        loop {
            match frames.decode(&mut held) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => break 'pieces,
            }
        }
    }
    converse(Wyoming::default(), messages.into_iter());
}

fn split(data: &[u8]) -> (&[u8], &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    (&data[..end], data.get(end + 1..).unwrap_or_default())
}

/// Each line is a message; one that is not text is audio.
fn lines(data: &[u8]) -> impl Iterator<Item = Message> {
    data.split(|byte| *byte == b'\n').map(|line| match str::from_utf8(line) {
        Ok(text) => Message::Text(text.into()),
        Err(_) => Message::Binary(Bytes::copy_from_slice(line)),
    })
}

fn converse(mut dialect: impl Dialect<Heard = Heard>, messages: impl Iterator<Item = Message>) {
    let mut orders = Orders::default();
    orders.n_channels = 1;
    dialect.begin(&mut orders);
    let mut at = 0;
    for message in messages.take(MAX_MESSAGES) {
        match message {
            Message::Text(text) => dialect.text(&text, &mut orders),
            Message::Binary(bytes) => dialect.audio(bytes, &mut orders),
            _ => {}
        }
        let mut n_answers = 0;
        while let Some(order) = orders.next() {
            n_answers += 1;
            assert!(n_answers <= MAX_ANSWERS, "one message has answers without end");
            if matches!(order, Order::Close(_)) {
                return;
            }
            obey(&mut dialect, &order, &mut at, &mut orders);
        }
    }
}

/// Does what a session would.
fn obey(
    dialect: &mut impl Dialect<Heard = Heard>,
    order: &Order,
    at: &mut u64,
    orders: &mut Orders,
) {
    match order {
        Order::Push(bytes) => {
            dialect.event(Heard::Active { channel: 0, at: *at }, orders);
            *at += bytes.len() as u64;
            dialect.event(Heard::Room, orders);
        }
        Order::Flush => {
            say(dialect, *at, orders);
            dialect.event(Heard::Flushed, orders);
        }
        Order::Finish => {
            say(dialect, *at, orders);
            dialect.event(Heard::Ended(Report::default()), orders);
            *at = 0;
        }
        Order::Say(_) | Order::Open(..) | Order::Close(_) => {}
    }
}

fn say(dialect: &mut impl Dialect<Heard = Heard>, at: u64, orders: &mut Orders) {
    dialect.event(Heard::Inactive { channel: 0, at }, orders);
    let span = Span { start: 0, end: at };
    let said = Final { channel: 0, span, text: "word".to_owned(), ended: EndReason::Flushed };
    dialect.event(Heard::Final(said), orders);
}
