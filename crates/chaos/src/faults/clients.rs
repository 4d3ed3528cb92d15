//! What strangers can do: vanish, dawdle, lie, and send what is none. It costs them and nobody else.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use futures_util::{SinkExt as _, StreamExt as _, future::join_all};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::Scene;
use crate::clients::{PATIENCE, http};

/// Reads until the server closes; gives the first bytes of what it said.
async fn closed(stream: &mut TcpStream) -> anyhow::Result<Vec<u8>> {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    timeout(PATIENCE, async {
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(n) if said.len() < buffer.len() => said.extend(&buffer[..n]),
                Ok(_) => {}
            }
        }
    })
    .await
    .context("the server neither answers nor closes")?;
    Ok(said)
}

pub(super) fn request(path: &str, head: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{head}\r\n{body}"
    )
    .into_bytes()
}

pub(super) async fn reset(scene: &Scene) -> anyhow::Result<()> {
    let asked = (0..50).map(|n| async move {
        let mut stream = TcpStream::connect(scene.server.http).await?;
        let body = json!({ "INPUT": [n] }).to_string();
        stream.write_all(&request("/v1/models/slow/infer", "", &body)).await?;
        sleep(Duration::from_millis(n)).await;
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))
    });
    for done in join_all(asked).await {
        done?;
    }
    Ok(())
}

pub(super) async fn stream_vanishes(scene: &Scene) -> anyhow::Result<()> {
    for path in ["simple", "segmented"].repeat(10) {
        let url = format!("ws://{}/api/v1/{path}", scene.server.http);
        let (mut socket, _) = connect_async(url).await?;
        let format = json!({"encoding": "s16le", "channels": 2, "sample_rate": 48000});
        let start = json!({"request": "start", "format": format, "interim_results": true});
        socket.send(Message::Text(start.to_string().into())).await?;
        for _ in 0..5 {
            socket.send(Message::Binary(vec![7; 19_999].into())).await?;
        }
    }
    Ok(())
}

/// Sends this on many connections, and waits until the server has had enough of each.
async fn dawdle(scene: &Scene, n: usize, sent: &[u8]) -> anyhow::Result<()> {
    let clients = (0..n).map(|_| async move {
        let mut stream = TcpStream::connect(scene.server.http).await?;
        stream.write_all(sent).await?;
        closed(&mut stream).await
    });
    for done in join_all(clients).await {
        done?;
    }
    Ok(())
}

pub(super) async fn slow_head(scene: &Scene) -> anyhow::Result<()> {
    dawdle(scene, 200, b"GET /v2/health/live HTTP/1.1\r\nHost: local").await
}

pub(super) async fn slow_body(scene: &Scene) -> anyhow::Result<()> {
    let mut sent = request("/v1/models/echo/infer", "", "{\"INPUT\": [1, 2, 3]}");
    sent.truncate(sent.len() - 3);
    dawdle(scene, 50, &sent).await
}

pub(super) async fn slow_reader(scene: &Scene) -> anyhow::Result<()> {
    let numbers = json!({ "INPUT": vec![7; 5000] }).to_string();
    let one = request("/v1/models/echo/infer", "", &numbers);
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(scene.server.http).await?;
        SockRef::from(&stream).set_recv_buffer_size(1024)?;
        // What does not fit is not sent: it does not read, and so is not read from.
        timeout(Duration::from_millis(100), async {
            for _ in 0..100 {
                stream.write_all(&one).await?;
            }
            anyhow::Ok(())
        })
        .await
        .ok();
        held.push(stream);
    }
    Ok(())
}

pub(super) async fn garbage(scene: &Scene) -> anyhow::Result<()> {
    let mut random = ChaCha8Rng::from_rng(&mut rand::rng());
    for n in 0..100 {
        let at = if n % 2 == 0 { scene.server.http } else { scene.server.grpc };
        let mut stream = TcpStream::connect(at).await?;
        let mut bytes = vec![0; random.random_range(1..4096)];
        random.fill_bytes(&mut bytes);
        // The server may close before it has read all of this.
        stream.write_all(&bytes).await.ok();
    }
    Ok(())
}

pub(super) async fn bad_requests(scene: &Scene) -> anyhow::Result<()> {
    let deep = "[".repeat(100_000);
    let bodies = [
        ("/v1/models/echo/infer", "{"),
        ("/v1/models/echo/infer", "{\"INPUT\": \"text\"}"),
        ("/v1/models/echo/infer", "{\"INPUT\": [1e400]}"),
        ("/v1/models/echo/infer", deep.as_str()),
        ("/v1/models/%00/infer", "{}"),
        ("/v1/models/..%2f..%2fetc/infer", "{}"),
        ("/v2/models/echo/infer", "{\"inputs\": []}"),
        (
            "/v2/models/echo/infer",
            r#"{"inputs":[{"name":"INPUT","datatype":"INT64","shape":[4294967296,4294967296],"data":[1]}]}"#,
        ),
        (
            "/v2/models/echo/infer",
            r#"{"inputs":[{"name":"INPUT","datatype":"INT64","shape":[-1],"data":[1]}]}"#,
        ),
        (
            "/v2/models/echo/infer",
            r#"{"inputs":[{"name":"INPUT","datatype":"FP99","shape":[1,1],"data":[1]}]}"#,
        ),
    ];
    for (path, body) in bodies {
        let body = body.to_owned();
        let (status, said) = http::send(scene.server.http, path, None, "POST", body.into()).await?;
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
        ensure!((400..500).contains(&status), "{path} answered {status} {said}");
        ensure!(said["error"].is_string() && said["code"].is_string(), "{path} said {said}");
    }
    Ok(())
}

pub(super) async fn huge_body(scene: &Scene) -> anyhow::Result<()> {
    for length in [1 << 21, 1_u64 << 62] {
        let mut stream = TcpStream::connect(scene.server.http).await?;
        let head = format!(
            "POST /v1/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        // Whatever of it the server still takes.
        timeout(Duration::from_secs(1), stream.write_all(&vec![b' '; 1 << 21])).await.ok();
        let said = closed(&mut stream).await?;
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(said.starts_with("HTTP/1.1 413"), "a body of {length} bytes was answered {said:?}");
    }
    Ok(())
}

pub(super) async fn zip_bomb(scene: &Scene) -> anyhow::Result<()> {
    let packed = include_bytes!("zeros.gz");
    let mut stream = TcpStream::connect(scene.server.http).await?;
    let head = format!(
        "POST /v1/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(packed).await?;
    let said = closed(&mut stream).await?;
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(said.starts_with("HTTP/1.1 413"), "eight megabytes of nothing were answered {said:?}");
    Ok(())
}

pub(super) async fn chunk_bomb(scene: &Scene) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(scene.server.http).await?;
    let head = "POST /v1/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body = b"1\r\n \r\n".repeat(100_000);
    stream.write_all(head.as_bytes()).await?;
    // The server may have had enough before the end.
    stream.write_all(&body).await.ok();
    stream.write_all(b"0\r\n\r\n").await.ok();
    let said = closed(&mut stream).await?;
    ensure!(said.is_empty() || said.starts_with(b"HTTP/1.1 4"), "chunks were taken for a request");
    Ok(())
}

pub(super) async fn bad_audio(scene: &Scene) -> anyhow::Result<()> {
    let mut random = ChaCha8Rng::from_rng(&mut rand::rng());
    for encoding in ["wav", "flac", "mp3", "aac", "m4a", "ogg", "webm", "auto"] {
        let url = format!("ws://{}/api/v1/simple", scene.server.http);
        let (mut socket, _) = connect_async(url).await?;
        let start = json!({"request": "start", "format": {"encoding": encoding}}).to_string();
        socket.send(Message::Text(start.into())).await?;
        for _ in 0..10 {
            let mut noise = vec![0; 3000];
            random.fill_bytes(&mut noise);
            socket.send(Message::Binary(noise.into())).await?;
        }
        let stop = json!({"request": "stop", "disconnect": true}).to_string();
        socket.send(Message::Text(stop.into())).await?;
        let close = timeout(PATIENCE, async {
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Close(frame) = message {
                    return frame;
                }
            }
            None
        });
        let frame = close.await.with_context(|| format!("{encoding}: no end"))?;
        let Some(frame) = frame else { bail!("{encoding}: no close frame") };
        ensure!(u16::from(frame.code) == 1000, "{encoding}: closed with {}", frame.code);
    }
    Ok(())
}

pub(super) async fn bad_frames(scene: &Scene) -> anyhow::Result<()> {
    let mut random = ChaCha8Rng::from_rng(&mut rand::rng());
    for _ in 0..20 {
        let mut stream = TcpStream::connect(scene.server.http).await?;
        let head = "GET /api/v1/simple HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        let mut noise = vec![0; 512];
        random.fill_bytes(&mut noise);
        // No extension was agreed on, so this is none of the protocol's frames.
        noise[0] = 0xff;
        stream.write_all(&noise).await?;
        closed(&mut stream).await?;
    }
    Ok(())
}

pub(super) async fn stream_resets(scene: &Scene) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(scene.server.http).await?;
    let (mut sent, head) = (http2(), live());
    for n in 0..5000_u32 {
        frame(&mut sent, 1, 0x5, n * 2 + 1, &head);
        frame(&mut sent, 3, 0, n * 2 + 1, &8_u32.to_be_bytes());
    }
    // The server may close in the middle of it.
    stream.write_all(&sent).await.ok();
    let (mut reader, _writer) = stream.into_split();
    let mut buffer = [0; 8192];
    timeout(Duration::from_millis(500), async {
        while matches!(reader.read(&mut buffer).await, Ok(n) if n != 0) {}
    })
    .await
    .ok();
    Ok(())
}

/// The beginning of an HTTP/2 connection.
pub(super) fn http2() -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut sent, 4, 0, 0, &[]);
    sent
}

/// The head of a request that is answered at once.
pub(super) fn live() -> Vec<u8> {
    // GET over http: indexed fields; path and authority are written out.
    let mut head = vec![0x82, 0x86, 0x04, 15];
    head.extend(b"/v2/health/live");
    head.extend([0x01, 9]);
    head.extend(b"localhost");
    head
}

pub(super) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    out.extend(&length[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

pub(super) async fn connection_kill(scene: &Scene) -> anyhow::Result<()> {
    for at in [scene.server.http, scene.server.grpc] {
        let status = Command::new("ss")
            .args(["--kill", "--tcp", "--no-header", "state", "established"])
            .arg(format!("sport = :{}", at.port()))
            .stdout(Stdio::null())
            .status()
            .context("`ss` of iproute2 is needed")?;
        ensure!(status.success(), "`ss --kill` failed; it needs root");
    }
    Ok(())
}
