//! A client of the streaming protocol, as `docs/protocol.md` has it.

use anyhow::{Context as _, bail};
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{SplitSink, SplitStream},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What is sent.
pub(crate) struct Mouth(SplitSink<Socket, Message>);

/// What comes back.
pub(crate) struct Ear(SplitStream<Socket>);

/// Opens a stream. `url` is the server's, with or without a path; `ws://` may be left out.
pub(crate) async fn connect(url: &str, path: &str) -> anyhow::Result<(Mouth, Ear)> {
    let url = address(url, path);
    // Many of these may be open, and none gets much at once.
    let config = WebSocketConfig::default().read_buffer_size(4 << 10).write_buffer_size(0);
    let connected = connect_async_with_config(&url, Some(config), true).await;
    let (socket, _) = connected.with_context(|| format!("cannot stream to {url}"))?;
    let (mouth, ear) = socket.split();
    Ok((Mouth(mouth), Ear(ear)))
}

fn address(url: &str, path: &str) -> String {
    let url =
        url.strip_prefix("http://").map_or_else(|| url.to_owned(), |rest| format!("ws://{rest}"));
    let url = if url.contains("://") { url } else { format!("ws://{url}") };
    let has_path = url.splitn(4, '/').nth(3).is_some_and(|path| !path.is_empty());
    if has_path { url } else { format!("{}/api/v1/{path}", url.trim_end_matches('/')) }
}

impl Mouth {
    pub(crate) async fn send(&mut self, request: &Value) -> anyhow::Result<()> {
        Ok(self.0.send(Message::Text(request.to_string().into())).await?)
    }

    pub(crate) async fn audio(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.send(Message::Binary(bytes.to_vec().into())).await?)
    }

    /// Says that this was all.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.send(&json!({"request": "stop", "disconnect": true})).await
    }
}

impl Ear {
    /// The next event; `None` once the server has closed in good order.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        while let Some(message) = self.0.next().await {
            match message.context("the server is gone")? {
                Message::Text(text) => {
                    return Ok(Some(serde_json::from_str(&text).context("not an event")?));
                }
                Message::Close(Some(frame)) if u16::from(frame.code) != 1000 => {
                    bail!("the server closed the stream: {} {}", frame.code, frame.reason);
                }
                Message::Close(_) => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_any_of_its_names() {
        for (url, expected) in [
            ("localhost:8000", "ws://localhost:8000/api/v1/simple"),
            ("http://localhost:8000/", "ws://localhost:8000/api/v1/simple"),
            ("ws://h:1", "ws://h:1/api/v1/simple"),
            ("ws://h:1/own/path", "ws://h:1/own/path"),
        ] {
            assert_eq!(address(url, "simple"), expected);
        }
    }
}
