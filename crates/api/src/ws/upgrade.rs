//! From a request to a WebSocket.
//!
//! axum says whether a request asks for one; what follows is done here, because the bytes must pass
//! through [`Held`].

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::{
        FromRequestParts,
        ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{
        HeaderValue, StatusCode,
        header::{
            CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
        },
        request::Parts,
    },
    response::Response,
};
use futures_util::{Sink, Stream, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use paceline_types::ErrorCode;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, handshake::derive_accept_key, protocol::Role},
};
use tokio_util::task::TaskTracker;

use super::{SocketLimits, held::Held};
use crate::ApiError;

/// A request for a WebSocket.
#[derive(Debug)]
pub struct Upgrade {
    asked: WebSocketUpgrade,
    key: HeaderValue,
    to_come: OnUpgrade,
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        // ORDER: copied before axum takes it.
        let to_come = parts.extensions.get::<OnUpgrade>().cloned();
        let asked = WebSocketUpgrade::from_request_parts(parts, state).await;
        let asked = asked.map_err(|rejection| refuse(&rejection))?;
        let key = parts.headers.get(SEC_WEBSOCKET_KEY).cloned();
        let missing = || ApiError::new(ErrorCode::InvalidInput, "WebSockets need HTTP/1.1 here");
        let (key, to_come) = key.zip(to_come).ok_or_else(missing)?;
        Ok(Self { asked, key, to_come })
    }
}

fn refuse(rejection: &WebSocketUpgradeRejection) -> ApiError {
    ApiError {
        code: ErrorCode::InvalidInput,
        status: rejection.status(),
        message: format!("this is a WebSocket endpoint: {}", rejection.body_text()),
    }
}

impl Upgrade {
    /// Speaks one of these protocols too, if the client asks for it.
    #[must_use]
    pub fn protocols<const N: usize>(self, protocols: [&'static str; N]) -> Self {
        Self { asked: self.asked.protocols(protocols), ..self }
    }

    /// Answers the request, and serves the socket once the client has the answer. It is among
    /// `open` from now on, so that whoever stops the server waits for it.
    pub fn open<F>(
        self,
        limits: &SocketLimits,
        open: &TaskTracker,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let Self { asked, key, to_come } = self;
        let config = limits.config();
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::try_from(derive_accept_key(key.as_bytes())) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = asked.selected_protocol() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol.clone());
        }
        open.spawn(async move {
            match to_come.await {
                Ok(upgraded) => {
                    let bytes = Held::new(TokioIo::new(upgraded));
                    let socket =
                        WebSocketStream::from_raw_socket(bytes, Role::Server, Some(config)).await;
                    serve(WebSocket { socket, is_told: false }).await;
                }
                Err(error) => tracing::debug!(%error, "a client left before its socket was open"),
            }
        });
        response
    }
}

/// A client's socket. Its close is heard when it comes, and answered when it is allowed.
#[derive(Debug)]
pub struct WebSocket {
    socket: WebSocketStream<Held<TokioIo<Upgraded>>>,
    /// It was said that the client has closed.
    is_told: bool,
}

impl WebSocket {
    /// Holds the client's close back no longer.
    pub fn let_close(&mut self) {
        self.socket.get_mut().release();
    }

    /// The next message.
    pub async fn recv(&mut self) -> Option<Result<Message, Error>> {
        self.next().await
    }
}

impl Stream for WebSocket {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.socket).poll_next(context);
        if polled.is_pending() && !self.is_told && self.socket.get_ref().is_holding() {
            self.is_told = true;
            return Poll::Ready(Some(Ok(Message::Close(None))));
        }
        polled
    }
}

impl Sink<Message> for WebSocket {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.socket).poll_ready(context)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), Error> {
        if message.is_close() && self.socket.get_ref().has_close() {
            // The library answers the client's when it reads it, once and in the client's words.
            self.let_close();
            return Ok(());
        }
        Pin::new(&mut self.socket).start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.socket).poll_close(context)
    }
}
