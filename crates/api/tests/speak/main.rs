//! The doors to synthesis, with the simulated pair: what each sends, and what it says when it cannot.

#[path = "../common/app.rs"]
mod app;
#[path = "../common/model.rs"]
mod model;
mod socket;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header::CONTENT_TYPE},
};
use paceline_api::{
    gate::Gate,
    http::{self},
};
use paceline_backend::{
    Ragged,
    simulated::{self, Answer},
};
use paceline_pipeline::{
    Blueprint, Models,
    synthesis::{
        PairSettings, Parameter, PlainText, Seam, Synthesis, SynthesisSettings, VoiceSettings,
    },
};
use paceline_types::DType;
use serde_json::{Value, json};
use tower::ServiceExt as _;

fn open(models: &Models, name: &str, answer: Answer) {
    let settings = simulated::Settings { answer, ..simulated::Settings::default() };
    let is_vocoder = answer == Answer::Sound;
    let build = Arc::new(move |instance| Ok(simulated::build(&settings, instance as u64).unwrap()));
    let blueprint = Blueprint {
        name: name.to_owned(),
        ragged: Box::new(move |_| {
            Ok(Ragged {
                inputs: if is_vocoder { vec![(0, 1)] } else { Vec::new() },
                lengths: is_vocoder.then_some((1, DType::I32)),
                ..Ragged::default()
            })
        }),
        warm_up_length: 4,
        ..model::blueprint(build)
    };
    model::open(models, blueprint);
}

fn router() -> Router {
    let models = Arc::new(Models::default());
    open(&models, "tokens", Answer::Tokens);
    open(&models, "vocoder", Answer::Sound);
    let synthesis = Synthesis::new(Arc::clone(&models), SynthesisSettings::default());
    let voice = |code: f32, alias: &str| VoiceSettings {
        inputs: BTreeMap::from([("embedding".to_owned(), vec![code])]),
        aliases: vec![alias.to_owned()],
        ..VoiceSettings::default()
    };
    let mut pair = PairSettings {
        voices: BTreeMap::from([
            ("ann".to_owned(), voice(1.0, "alloy")),
            ("bob".to_owned(), voice(2.0, "echo")),
        ]),
        parameters: BTreeMap::from([(
            "diffusion_steps".to_owned(),
            Parameter { default: 5.0, min: 1.0, max: 7.0 },
        )]),
        count: Some("count".to_owned()),
        ..PairSettings::default()
    };
    pair.chunks.seam = Seam::None;
    synthesis.add("tokens", pair, Box::new(PlainText { max_sentence: 0 })).unwrap();
    let mut app = app::app(&models);
    app.streams.synthesis = synthesis;
    http::router(app, Arc::new(Gate::open()))
}

struct Reply {
    status: StatusCode,
    kind: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

async fn ask(router: &Router, method: Method, path: &str, body: impl Into<Body>) -> Reply {
    let request = Request::builder().method(method).uri(path);
    // Whoever can unpack sound gets it unpacked all the same; refusals may be packed.
    let unpacks = if path.starts_with("/tts?text=hello") { "gzip" } else { "identity" };
    let request = request.header("accept-encoding", unpacks);
    let response = router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let header = |name| {
        let value = response.headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    if response.status() == StatusCode::OK && header(CONTENT_TYPE.as_str()).starts_with("audio/") {
        assert_eq!(header("x-accel-buffering"), "no");
        assert_eq!(header("content-encoding"), "identity", "nobody packs what is listened to");
    }
    let (status, kind) = (response.status(), header(CONTENT_TYPE.as_str()));
    Reply { status, kind, body: to_bytes(response.into_body(), 1 << 24).await.unwrap().into() }
}

/// "hello there" is eleven tokens of 960 samples.
const SAMPLES: usize = 11 * 960;

#[tokio::test]
async fn openai_gets_sound_in_every_form_that_is_made_and_says_which_are() {
    let router = router();
    let path = "/v1/audio/speech";
    let speak = |more: Value| {
        let mut body = json!({ "model": "tts-1", "voice": "alloy", "input": "hello there" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Body::from(body.to_string())
    };

    let wav = ask(&router, Method::POST, path, speak(json!({}))).await;
    assert_eq!((wav.status, &*wav.kind), (StatusCode::OK, "audio/wav"));
    assert_eq!(wav.body.len(), 44 + SAMPLES * 2);
    assert_eq!(wav.body[40..44], [255; 4], "its length is not known when it begins");
    let pcm = ask(&router, Method::POST, path, speak(json!({ "response_format": "pcm" }))).await;
    assert_eq!(pcm.body.len(), SAMPLES * 2);
    assert_eq!(pcm.body, wav.body[44..]);
    let flac = ask(&router, Method::POST, path, speak(json!({ "response_format": "flac" }))).await;
    assert!(flac.body.starts_with(b"fLaC"));
    let opus = ask(&router, Method::POST, path, speak(json!({ "response_format": "opus" }))).await;
    assert!(opus.body.starts_with(b"OggS"));

    let events = json!({ "stream_format": "sse", "response_format": "pcm" });
    let events = ask(&router, Method::POST, path, speak(events)).await;
    assert_eq!(events.kind, "text/event-stream");
    let text = String::from_utf8(events.body).unwrap();
    assert!(text.starts_with("data: {\"audio\":\"") || text.contains("speech.audio.delta"));
    assert!(text.trim_end().ends_with('}') && text.contains("speech.audio.done"));

    for (more, status, words) in [
        (json!({ "response_format": "mp3" }), 400, "wav, pcm, flac and opus are"),
        (json!({ "voice": "nobody" }), 404, "there are ann, bob"),
        (json!({ "model": "other" }), 404, "there are tokens"),
        (json!({ "language": "xx" }), 400, "en are"),
        (json!({ "input": " " }), 400, "nothing in it"),
        (json!({ "speed": 2.0 }), 400, "one speed"),
    ] {
        let refused = ask(&router, Method::POST, path, speak(more)).await;
        assert_eq!(refused.status.as_u16(), status);
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test]
async fn deepgram_and_the_short_ways_say_the_same() {
    let router = router();
    let body = || Body::from(json!({ "text": "hello there" }).to_string());
    let wav = ask(&router, Method::POST, "/v1/speak?model=echo", body()).await;
    assert_eq!((wav.status, wav.body.len()), (StatusCode::OK, 44 + SAMPLES * 2));
    let raw = "/v1/speak?model=bob&encoding=linear16&container=none";
    let raw = ask(&router, Method::POST, raw, body()).await;
    assert_eq!(raw.body, wav.body[44..]);
    let phone =
        ask(&router, Method::POST, "/v1/speak?encoding=mulaw&sample_rate=8000", body()).await;
    assert_eq!(phone.body.len(), SAMPLES / 3);

    let short = ask(&router, Method::GET, "/tts?text=hello%20there&voice=bob", Body::empty()).await;
    assert_eq!(short.body, wav.body);
    let form = "text=hello+there&voice=bob&format=pcm";
    let form = ask(&router, Method::POST, "/tts", Body::from(form)).await;
    assert_eq!(form.body, raw.body);
    let samples = json!({ "input": "hello there", "voice": "bob", "diffusion_steps": 5 });
    let samples =
        ask(&router, Method::POST, "/audio/speech", Body::from(samples.to_string())).await;
    assert_eq!((&*samples.kind, &samples.body), ("application/octet-stream", &raw.body));

    let refused = ask(&router, Method::POST, "/v1/speak?model=nobody", body()).await;
    assert!(refused.json()["err_msg"].as_str().unwrap().contains("there are ann, bob"));
    let refused = ask(&router, Method::GET, "/tts?text=a&format=mp3", Body::empty()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_voice_is_registered_listed_spoken_with_and_forgotten() {
    let router = router();
    let new = json!({ "name": "cleo", "embedding": [3.0] });
    let made = ask(&router, Method::POST, "/v1/voices", Body::from(new.to_string())).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let again = ask(&router, Method::POST, "/voice-clones", Body::from(new.to_string())).await;
    assert_eq!(again.json()["id"], json!(id), "the same content is the same voice");

    let listed = ask(&router, Method::GET, "/v1/voices", Body::empty()).await.json();
    let names: Vec<&str> =
        listed["voices"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ann", "bob", "cleo"]);
    let spoken = ask(&router, Method::GET, "/tts?text=hi&voice=cleo", Body::empty()).await;
    assert_eq!(spoken.status, StatusCode::OK);

    let unknown = json!({ "name": "dora", "inputs": { "pitch": [1.0] } });
    let refused = ask(&router, Method::POST, "/v1/voices", Body::from(unknown.to_string())).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let gone = ask(&router, Method::DELETE, &format!("/v1/voices/{id}"), Body::empty()).await;
    assert_eq!(gone.status, StatusCode::OK);
    for (voice, status) in [("cleo", StatusCode::NOT_FOUND), ("ann", StatusCode::FORBIDDEN)] {
        let path = format!("/v1/voices/{voice}");
        assert_eq!(ask(&router, Method::DELETE, &path, Body::empty()).await.status, status);
    }
}
