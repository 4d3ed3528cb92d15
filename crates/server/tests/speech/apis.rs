//! The speech APIs of others, over real sockets: what their clients look at beside the messages.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request, StatusCode, body::Bytes};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _},
};

use crate::support::{Running, speech, start};

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

async fn ask(
    server: &Running,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Answer {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let (parts, body) = client.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    Answer { status: parts.status, headers: parts.headers, body }
}

fn wav() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/assets/speech.wav")).unwrap()
}

/// A form with these parts; that called `file` is a file.
fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, value) in parts {
        let file = if *name == "file" { "; filename=\"a.wav\"" } else { "" };
        form.extend(
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").bytes(),
        );
        form.extend(*value);
        form.extend(b"\r\n");
    }
    form.extend(b"--B--\r\n");
    form
}

const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=B");

async fn transcribe(server: &Running, parts: &[(&str, &[u8])]) -> Answer {
    ask(server, "POST", "/v1/audio/transcriptions", &[FORM], form(parts)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_heard_as_its_stream_is() {
    let server = start(&[]).await;
    let (audio, file) = (speech(), wav());
    let raw = "/v1/listen?encoding=linear16&sample_rate=16000&utterances=true";

    let whole =
        ask(&server, "POST", "/v1/listen?model=nova-3&diarize=true", &[], file.clone()).await;
    let samples = ask(&server, "POST", raw, &[], audio.clone()).await;
    let written = transcribe(&server, &[("file", &file), ("model", b"whisper-1")]).await;
    let url = format!("ws://{}/v1/listen?encoding=linear16&sample_rate=16000", server.address);
    let (mut socket, _) = connect_async(url).await.unwrap();
    for chunk in audio.chunks(3201) {
        socket.send(Message::Binary(chunk.to_vec().into())).await.unwrap();
    }
    socket.send(Message::Text("{\"type\":\"CloseStream\"}".into())).await.unwrap();
    let mut streamed = Vec::new();
    while let Some(Ok(Message::Text(text))) = socket.next().await {
        streamed.push(serde_json::from_str::<Value>(&text).unwrap());
    }

    let alternative =
        |value: &Value| value["alternatives"][0]["transcript"].as_str().unwrap().to_owned();
    let text = alternative(&whole.json()["results"]["channels"][0]);
    assert!(2 <= text.split(' ').count(), "{text}");
    assert_eq!(alternative(&samples.json()["results"]["channels"][0]), text);
    assert_eq!(written.json()["text"], text);
    let finals = streamed.iter().filter(|message| message["type"] == "Results");
    let finals: Vec<String> = finals.map(|message| alternative(&message["channel"])).collect();
    assert_eq!(finals.join(" "), text);
    assert_eq!(samples.json()["results"]["utterances"].as_array().unwrap().len(), finals.len());
    let metadata = &whole.json()["metadata"];
    assert_eq!(metadata["duration"], 11.0);
    assert_eq!(whole.headers["paceline-ignored"], "diarize, model");
    assert_eq!(metadata["warnings"][0]["parameter"], "diarize");
    assert_eq!(whole.headers["dg-request-id"], metadata["request_id"].as_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_in_the_form_that_their_clients_read() {
    let server = start(&[]).await;
    let json_body = [("content-type", "application/json")];
    let url =
        ask(&server, "POST", "/v1/listen", &json_body, b"{\"url\":\"http://x\"}".to_vec()).await;
    assert_eq!(url.status, 400);
    assert!(url.json()["err_msg"].as_str().unwrap().contains("fetches nothing"));
    assert_eq!(url.headers["dg-error"], url.json()["err_msg"].as_str().unwrap());
    for (query, status) in [
        ("model=nobody", 404),
        ("model=simulated-bytes", 404),
        ("encoding=speex", 400),
        ("encoding=linear16", 400),
        ("callback=http://x", 400),
        ("utterance_end_ms=1000", 400),
        ("interim_results=perhaps", 400),
    ] {
        let path = format!("/v1/listen?{query}");
        let answer = ask(&server, "POST", &path, &[], wav()).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
        assert!(answer.json()["request_id"].is_string(), "{query}");
    }
    let nonsense =
        ask(&server, "POST", "/v1/listen", &[], b"no audio at all, and much of it".repeat(99))
            .await;
    assert_eq!(nonsense.status, 400, "{}", nonsense.body);

    for (parts, words) in [
        (&[("model", &b"whisper-1"[..])][..], "no field `file`"),
        (&[("file", &b"x"[..]), ("response_format", b"diarized_json")], "verbose_json"),
        (&[("file", &b"x"[..]), ("timestamp_granularities[]", b"word")], "verbose_json"),
        (&[("file", &b"x"[..]), ("stream", b"perhaps")], "true or false"),
    ] {
        let answer = transcribe(&server, parts).await;
        assert_eq!(answer.status, 400);
        let error = &answer.json()["error"];
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(error["type"], "invalid_request_error");
    }
    let answer = transcribe(&server, &[("file", &wav()), ("model", b"nobody")]).await;
    assert_eq!(answer.status, 404);
    let no_form = ask(&server, "POST", "/v1/audio/transcriptions", &[], wav()).await;
    assert!(no_form.json()["error"]["message"].as_str().unwrap().contains("multipart/form-data"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_read_in_any_order_and_not_beyond_its_bounds() {
    let server = start(&["server.max_body=500000"]).await;
    let file = wav();
    let first = transcribe(&server, &[("file", &file), ("response_format", b"srt")]).await;
    let last = transcribe(&server, &[("response_format", b"srt"), ("file", &file)]).await;
    assert!(first.body.starts_with("1\n00:00:00,"), "{}", first.body);
    assert_eq!(first.body, last.body);

    let large = transcribe(&server, &[("file", &vec![7; 600_000])]).await;
    assert_eq!(large.status, 413, "{}", large.body);
    let long = transcribe(&server, &[("prompt", &vec![b'x'; 70_000]), ("file", &file)]).await;
    assert_eq!(long.status, 400, "{}", long.body);
    let streamed = transcribe(&server, &[("stream", b"true"), ("file", &file)]).await;
    assert_eq!(streamed.headers["content-type"], "text/event-stream");
    assert!(streamed.body.contains("transcript.text.done"), "{}", streamed.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_in_with_its_token_as_a_subprotocol_and_gets_one_back() {
    let server =
        start(&["server.tokens=[{name='s', roles=['stream'], token='stream-0123456789'}]"]).await;
    for (path, offered, answered) in [
        ("listen", "token, stream-0123456789", "token"),
        ("listen", "bearer, stream-0123456789, x-deepgram-session-id, 1", "bearer"),
        ("realtime", "realtime, openai-insecure-api-key.stream-0123456789", "realtime"),
    ] {
        let mut request =
            format!("ws://{}/v1/{path}", server.address).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", offered.parse().unwrap());
        let (_, response) = connect_async(request).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], answered);
        assert!(path != "listen" || response.headers()["dg-request-id"].len() == 36);
    }
    for offered in ["token, wrong-0123456789", "realtime"] {
        let mut request =
            format!("ws://{}/v1/listen", server.address).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", offered.parse().unwrap());
        let Err(Error::Http(refused)) = connect_async(request).await else { panic!("{offered}") };
        assert_eq!(refused.status(), 401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_and_found() {
    let server = start(&[]).await;

    let list = ask(&server, "GET", "/v1/models", &[], Vec::new()).await.json();
    let one = ask(&server, "GET", "/v1/models/simulated-speech", &[], Vec::new()).await;
    let none = ask(&server, "GET", "/v1/models/nobody", &[], Vec::new()).await;

    let names: Vec<&str> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["simulated", "simulated-speech"]);
    assert_eq!(one.json()["object"], "model");
    assert_eq!(none.status, 404);
    assert!(none.json()["error"]["message"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn vosk_and_wyoming_are_heard_where_they_are_switched_on() {
    let off = start(&[]).await;
    assert_eq!((off.vosk, off.wyoming), (None, None));
    let server =
        start(&["server.vosk_listen=127.0.0.1:0", "server.wyoming_listen=127.0.0.1:0"]).await;
    let audio = speech();

    let (mut socket, _) = connect_async(format!("ws://{}", server.vosk.unwrap())).await.unwrap();
    let say = |value: Value| Message::Text(value.to_string().into());
    socket.send(say(json!({"config": {"sample_rate": 16000}}))).await.unwrap();
    let mut texts = Vec::new();
    for chunk in audio.chunks(8000) {
        socket.send(Message::Binary(chunk.to_vec().into())).await.unwrap();
        let reply: Value = match socket.next().await.unwrap().unwrap() {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        };
        texts.extend(reply["text"].as_str().map(str::to_owned));
    }
    socket.send(say(json!({"eof": 1}))).await.unwrap();
    let Message::Text(last) = socket.next().await.unwrap().unwrap() else { panic!() };
    let last: Value = serde_json::from_str(&last).unwrap();
    texts.push(last["text"].as_str().unwrap().to_owned());

    let said = wyoming(server.wyoming.unwrap(), &audio).await;
    let spoken: Vec<&str> =
        texts.iter().flat_map(|text| text.split(' ')).filter(|text| !text.is_empty()).collect();
    assert_eq!(spoken.join(" "), said);
    assert!(2 <= spoken.len());
    server.stop().await.unwrap().unwrap();
}

/// What was said, as a Wyoming client hears it.
async fn wyoming(address: SocketAddr, audio: &[u8]) -> String {
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    stream.write_all(b"{\"type\":\"audio-start\",\"data\":{\"rate\":16000}}\n").await.unwrap();
    for chunk in audio.chunks(2048) {
        let line = format!("{{\"type\":\"audio-chunk\",\"payload_length\":{}}}\n", chunk.len());
        stream.write_all(line.as_bytes()).await.unwrap();
        stream.write_all(chunk).await.unwrap();
    }
    stream.write_all(b"{\"type\":\"audio-stop\"}\n").await.unwrap();
    let mut line = String::new();
    loop {
        line.clear();
        assert_ne!(stream.read_line(&mut line).await.unwrap(), 0, "it ended before its transcript");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "transcript" {
            let mut rest = [0; 1];
            assert_eq!(stream.read(&mut rest).await.unwrap(), 1, "and then it says that it stops");
            return event["data"]["text"].as_str().unwrap().to_owned();
        }
    }
}
