//! A whole server on ports of its own, and clients that say exactly what they are told to.

use std::{net::SocketAddr, time::Duration};

use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request, Response, StatusCode, body::Bytes, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use paceline_server::{RunError, Server, config::load::load};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

/// Longer than anything here takes, and shorter than anybody's patience.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    done: JoinHandle<Result<(), RunError>>,
}

/// Starts a server with these settings, without the repository's models.
pub(crate) async fn try_start(sets: &[&str]) -> Result<Running, String> {
    let own = [
        "server.listen=127.0.0.1:0",
        "server.grpc_listen=127.0.0.1:0",
        "server.model_repository=none",
    ];
    let all: Vec<String> = own.iter().chain(sets).map(|set| (*set).to_owned()).collect();
    let config = load(None, [], &all).map_err(|error| error.to_string())?;
    let server = Server::build(config).await.map_err(|error| error.to_string())?;
    let (http, grpc, admin) = (server.address(), server.grpc_address(), server.admin_address());
    let (stop, stopped) = oneshot::channel::<()>();
    let done = tokio::spawn(server.run(async {
        stopped.await.ok();
    }));
    Ok(Running { http, grpc, admin, stop, done })
}

pub(crate) async fn start(sets: &[&str]) -> Running {
    try_start(sets).await.unwrap()
}

impl Running {
    /// Asks over HTTP/1.1 on a connection of its own.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        ask(self.http, method, path, headers).await
    }

    pub(crate) async fn stop(self) -> Result<(), RunError> {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.done).await.unwrap().unwrap()
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    async fn read(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        // Such a stream ends with the server.
        if parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
            return Self { status: parts.status, headers: parts.headers, body: Value::Null };
        }
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Self { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }
}

pub(crate) fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::default()).unwrap()
}

pub(crate) async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    ask_on(stream, method, path, headers).await
}

/// Asks over HTTP/1.1 on this connection.
pub(crate) async fn ask_on<I>(
    stream: I,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut client, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut all = headers.to_vec();
    if !headers.iter().any(|(name, _)| *name == "host") {
        all.push(("host", "localhost"));
    }
    let answer = async {
        Answer::read(client.send_request(request(method, path, &all)).await.unwrap()).await
    };
    timeout(PATIENCE, answer).await.unwrap()
}

/// A client of HTTP/2.
pub(crate) struct Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>);

impl Http2 {
    pub(crate) async fn over<I>(stream: I) -> Self
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let uri = format!("http://localhost{path}");
        let answer = async {
            let sent = self.0.send_request(request(method, &uri, headers)).await;
            Answer::read(sent.unwrap()).await
        };
        timeout(PATIENCE, answer).await.unwrap()
    }

    /// Calls a gRPC method with an empty message. The code, where the call was refused before
    /// anything looked at it.
    pub(crate) async fn call(&mut self, path: &str, headers: &[(&str, &str)]) -> Option<String> {
        let own = [("content-type", "application/grpc"), ("te", "trailers")];
        let headers: Vec<_> = own.iter().chain(headers).copied().collect();
        let uri = format!("http://localhost{path}");
        let mut request = request("POST", &uri, &headers);
        *request.body_mut() = Full::from(&[0; 5][..]);
        let response = timeout(PATIENCE, self.0.send_request(request)).await.unwrap().unwrap();
        let code = response.headers().get("grpc-status")?;
        Some(code.to_str().unwrap().to_owned())
    }
}

/// Waits until the other side has closed; what it says before does not matter.
pub(crate) async fn closed(mut stream: impl AsyncRead + Unpin) {
    let mut rest = Vec::new();
    // A reset is a close too.
    drop(timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it was not closed"));
}
