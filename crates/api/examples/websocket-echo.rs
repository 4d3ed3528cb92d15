//! Echoes messages over `WebSockets`, through the listener and the socket settings of the product:
//! what `scripts/autobahn` tests. The protocols themselves echo nothing.
//!
//! Prints the address that it listens on.

use axum::{Router, routing::get};
use futures_util::SinkExt as _;
use paceline_api::{
    http::{Budget, Listening, Places, ServeLimits, serve},
    ws::{SocketLimits, Upgrade},
};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The suite sends messages of 16 MiB, and wants them back.
const MAX_MESSAGE: usize = 32 << 20;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let limits = SocketLimits {
        max_message: MAX_MESSAGE,
        max_write_buffer: 2 * MAX_MESSAGE,
        ..SocketLimits::default()
    };
    let echo = move |upgrade: Upgrade| async move {
        upgrade.open(&limits, &TaskTracker::new(), |mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                // A close too: it is held back until it is answered.
                if !matches!(message, Message::Ping(_) | Message::Pong(_))
                    && socket.send(message).await.is_err()
                {
                    return;
                }
            }
        })
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("ws://{}", listener.local_addr()?);
    let listening = Listening {
        listener: listener.into(),
        tls: None,
        entrance: Router::new().route("/", get(echo)).into(),
        places: Places::new(64, 64),
        budget: Budget::new(64 << 20),
    };
    serve(listening, ServeLimits::default(), TaskTracker::new(), CancellationToken::new()).await;
    Ok(())
}
