//! Bounds, leaving, and stopping.

use std::time::Duration;

use futures_util::SinkExt as _;
use paceline_batch::Dropped;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{count, eventually, of, raw, speech, start, with};

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, Value) {
    let url = format!("http://{address}{path}");
    tokio::task::spawn_blocking(move || {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let mut response = ureq::Agent::new_with_config(config).get(url).call().unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or_default())
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_plain_requests_are_answered() {
    let server = start(&[]).await;

    assert_eq!(get(server.address, "/api/v1/health").await, (200, json!({"status": "healthy"})));
    let (status, answer) = get(server.address, "/api/v1/segmented").await;
    assert_eq!((status, &answer["code"]), (400, &json!("invalid_input")), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("WebSocket endpoint"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_too_many_is_refused_before_the_upgrade() {
    let server = start(&["speech.max_streams=1"]).await;
    let first = server.connect("simple").await;

    let url = format!("ws://{}/api/v1/simple", server.address);
    let refused = tokio_tungstenite::connect_async(&url).await.unwrap_err();

    assert!(refused.to_string().contains("503"), "{refused}");
    drop(first);
    eventually(async || tokio_tungstenite::connect_async(&url).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_big_closes_the_stream() {
    let server = start(&["speech.max_message=1000"]).await;
    let mut client = server.connect("simple").await;

    client.send(&raw(16_000, 1, 16, false)).await;
    client.audio(&[0; 1000]).await;
    client.audio(&[0; 1001]).await;

    assert_eq!(client.rest().await.1, Some(1009));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_takes_its_work_with_it() {
    let server = start(&[
        "models.simulated-speech.simulated.delay=300ms",
        "models.simulated-speech.batch.max_items=1",
    ])
    .await;
    let mut client = server.connect("simple").await;
    client.send(&raw(16_000, 1, 16, false)).await;
    for _ in 0..4 {
        client.audio(&[0; 3200]).await;
        sleep(Duration::from_millis(5)).await;
    }
    client.send(&json!({"request": "stop", "disconnect": false})).await;

    drop(client);

    eventually(async || 0 < server.speech.stats().cancelled).await;
    let model = server.models.find("simulated-speech", None).unwrap();
    // One may be in the model already; the others leave the queue without a call.
    eventually(async || 1 < model.batch_stats().items_dropped(Dropped::Cancelled)).await;
    eventually(async || server.speech.stats().streams == 0).await;
    assert_eq!(model.batch_stats().waiting_items, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn interim_results_leave_room_for_final_ones() {
    let server = start(&[
        "models.simulated-speech.simulated.delay=5s",
        "models.simulated-speech.batch.max_items=1",
        "speech.max_interims=1",
    ])
    .await;
    let model = server.models.find("simulated-speech", None).unwrap();
    let begin = with(raw(16_000, 1, 16, false), "interim_results", json!(true));
    let mut first = server.connect("segmented").await;
    first.send(&begin).await;
    first.audio(&speech()[..2 * 32_000]).await;
    eventually(async || model.batch_stats().accepted == 1).await;
    let mut second = server.connect("segmented").await;
    second.send(&begin).await;
    second.audio(&speech()[..2 * 32_000]).await;
    second.send(&json!({"request": "flush"})).await;

    // Its interim result waited for the other's, gave way, and only the final one went on.
    eventually(async || server.speech.stats().superseded == 1).await;
    eventually(async || model.batch_stats().accepted == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_be_served_is_told_and_then_closed() {
    let server = start(&[
        "models.simulated-speech.simulated.delay=5s",
        "speech.stream_in_flight=1",
        "speech.max_backlog=1s",
        "speech.stall_warning=100ms",
        "speech.stall_timeout=400ms",
    ])
    .await;
    let mut client = server.connect("simple").await;
    client.send(&raw(16_000, 1, 16, false)).await;
    for _ in 0..8 {
        client.audio(&[0; 16_000]).await;
    }

    let (events, code) = client.rest().await;

    assert_eq!(code, Some(1013));
    assert_eq!(of(&events, "warning")[0]["code"], "backlog", "{events:?}");
    assert_eq!(of(&events, "error")[0]["code"], "overloaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_cut() {
    // The identity answers with as much as was sent, and more as text.
    let server = start(&["speech.model=simulated", "speech.write_timeout=300ms"]).await;
    let mut client = server.connect("simple").await;
    client.send(&raw(16_000, 1, 16, false)).await;

    let flood = async {
        let silence = vec![0_u8; 64_000];
        while client.socket.send(Message::Binary(silence.clone().into())).await.is_ok() {}
    };

    timeout(Duration::from_secs(30), flood).await.expect("it is cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_for_too_long_is_told_and_closed() {
    let server = start(&["speech.idle_timeout=100ms"]).await;
    let mut client = server.connect("segmented").await;
    client.send(&raw(16_000, 1, 16, false)).await;
    client.audio(&speech()[..32_000]).await;

    let (events, code) = client.rest().await;

    assert_eq!(code, Some(4408));
    assert_eq!(of(&events, "error").len(), 1);
    assert_eq!(of(&events, "segment").len(), 1, "and gets what it had said: {events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_gives_every_stream_its_results_and_a_close() {
    let server = start(&["models.simulated-speech.simulated.delay=50ms"]).await;
    let mut clients = Vec::new();
    for path in ["simple", "segmented", "simple", "segmented"] {
        let mut client = server.connect(path).await;
        client.send(&raw(16_000, 1, 16, false)).await;
        client.audio(&speech()[..64_000]).await;
        clients.push((path, client));
    }
    let idle = server.connect("simple").await;
    // Everything is heard once something came of it.
    for (path, client) in &mut clients {
        let first = client.next().await.unwrap();
        assert_eq!(first["type"], if *path == "simple" { "segment" } else { "active" });
        client.audio(&[0; 3200]).await;
    }
    clients.push(("idle", idle));

    let done = server.stop();

    for (path, mut client) in clients {
        let (events, code) = client.rest().await;
        assert_eq!(code, Some(1001), "{path}");
        match path {
            "segmented" => {
                assert_eq!(of(&events, "segment").len(), 1, "{events:?}");
                assert!(16_000 < count(&events));
            }
            _ => assert!(of(&events, "error").is_empty()),
        }
    }
    done.await.unwrap().unwrap();
}
