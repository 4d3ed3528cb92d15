//! HTTP/1.1 over keep-alive connections, reduced to what loading a server takes: one request,
//! written once, sent again and again; answers read to their end and let go. No TLS.

mod answer;

use std::{
    fmt::Write as _,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    time::Duration,
};

use bytes::Bytes;
use http::Uri;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use self::answer::{Head, Kept};
use crate::{Caller, Failure, Fault};

/// Room for what one read brings, and for the longest head.
const BUFFER: usize = 16 << 10;
/// How much of an error's body is kept.
const SAID: usize = 512;
/// Longest answer that is kept whole.
const MAX_KEPT: usize = 16 << 20;

/// A server, by its URL.
#[derive(Debug, Clone)]
pub struct Host {
    address: SocketAddr,
    authority: String,
    path: String,
}

/// Why a URL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// Not a URL.
    #[error("`{0}` is no URL; write http://HOST:PORT or http://HOST:PORT/PATH")]
    Malformed(String),
    /// Another scheme.
    #[error("`{0}` is not plain HTTP; only http:// is spoken here")]
    Scheme(String),
    /// A name without an address.
    #[error("`{name}` has no address")]
    Address {
        /// As given.
        name: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl Host {
    /// Reads a URL and looks its address up.
    ///
    /// # Errors
    ///
    /// When it is none, or has no address.
    pub fn open(url: &str) -> Result<Self, UrlError> {
        let uri: Uri = url.parse().map_err(|_| UrlError::Malformed(url.to_owned()))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(UrlError::Malformed(url.to_owned()));
        };
        if scheme != "http" {
            return Err(UrlError::Scheme(url.to_owned()));
        }
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let failed = |error| UrlError::Address { name: name.to_owned(), error };
        let mut found =
            (name, authority.port_u16().unwrap_or(80)).to_socket_addrs().map_err(failed)?;
        let none = || failed(io::Error::other("the name is known, and has no address"));
        Ok(Self {
            address: found.next().ok_or_else(none)?,
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// Path and query of the URL; `/` where it has none.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Host and port.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// One request to this server, ready to be sent any number of times. Headers are whole lines.
    #[must_use]
    pub fn target(&self, path: &str, headers: &[String], body: Option<&[u8]>) -> HttpTarget {
        let method = if body.is_some() { "POST" } else { "GET" };
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.authority);
        for header in headers {
            request += header;
            request += "\r\n";
        }
        if let Some(body) = body {
            _ = write!(request, "Content-Length: {}\r\n", body.len());
        }
        request += "\r\n";
        let mut request = request.into_bytes();
        request.extend(body.unwrap_or_default());
        HttpTarget { address: self.address, request: request.into() }
    }

    /// Sends one request and gives the whole answer.
    ///
    /// # Errors
    ///
    /// When there is no answer within `patience`.
    pub async fn ask(
        &self,
        path: &str,
        body: Option<&[u8]>,
        patience: Duration,
    ) -> Result<(u16, Vec<u8>), Fault> {
        self.target(path, &[], body).ask(patience).await
    }
}

/// One request and where it goes.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    address: SocketAddr,
    request: Bytes,
}

impl HttpTarget {
    /// Sends the request once and gives the whole answer.
    ///
    /// # Errors
    ///
    /// When there is no answer within `patience`.
    pub async fn ask(&self, patience: Duration) -> Result<(u16, Vec<u8>), Fault> {
        let mut connection = self.connection();
        connection.kept.limit = MAX_KEPT;
        let status =
            timeout(patience, connection.exchange()).await.unwrap_or(Err(Fault::Timeout))?;
        Ok((status, connection.kept.bytes))
    }

    pub(crate) fn connection(&self) -> Connection {
        Connection {
            target: self.clone(),
            stream: None,
            buffer: vec![0; BUFFER].into(),
            kept: Kept::default(),
        }
    }
}

/// One keep-alive connection.
#[derive(Debug)]
pub(crate) struct Connection {
    target: HttpTarget,
    /// `None` before the first request, after a failure, and while a request is under way: a
    /// request that is given up takes its connection with it.
    stream: Option<TcpStream>,
    buffer: Box<[u8]>,
    kept: Kept,
}

impl Connection {
    async fn connect(&self) -> Result<TcpStream, Fault> {
        let stream = TcpStream::connect(self.target.address).await.map_err(|_| Fault::Connect)?;
        stream.set_nodelay(true).map_err(|_| Fault::Connect)?;
        Ok(stream)
    }

    /// The open connection, or a new one where there is none or the server closed it meanwhile.
    async fn stream(&mut self) -> Result<TcpStream, Fault> {
        match self.stream.take() {
            // Nothing is read unless the system said that there is something: the end, here.
            Some(stream) => match stream.try_read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(stream),
                _ => self.connect().await,
            },
            None => self.connect().await,
        }
    }

    /// Sends the request and reads the answer to its end; gives its status.
    async fn exchange(&mut self) -> Result<u16, Fault> {
        let mut stream = self.stream().await?;
        stream.write_all(&self.target.request).await.map_err(|_| Fault::Closed)?;
        self.kept.bytes.clear();
        let mut filled = 0;
        let mut head = 'head: loop {
            let n = stream.read(&mut self.buffer[filled..]).await.map_err(|_| Fault::Closed)?;
            if n == 0 {
                return Err(if filled == BUFFER { Fault::Malformed } else { Fault::Closed });
            }
            filled += n;
            while let Some((mut head, length)) = Head::parse(&self.buffer[..filled])? {
                if head.status < 200 {
                    // The server will say more; this was only "go on".
                    self.buffer.copy_within(length..filled, 0);
                    filled -= length;
                    continue;
                }
                if !matches!(head.status, 200..300) {
                    self.kept.limit = self.kept.limit.max(SAID);
                }
                head.body.take(&self.buffer[length..filled], &mut self.kept)?;
                break 'head head;
            }
        };
        while !head.body.is_done() {
            match stream.read(&mut self.buffer).await {
                Ok(0) if head.body.may_end() => break,
                Ok(n) if n != 0 => head.body.take(&self.buffer[..n], &mut self.kept)?,
                _ => return Err(Fault::Closed),
            }
        }
        if head.keeps_alive {
            self.stream = Some(stream);
        }
        Ok(head.status)
    }
}

impl Caller for Connection {
    async fn prepare(&mut self) -> Result<(), Failure> {
        self.stream = Some(self.connect().await?);
        Ok(())
    }

    async fn call(&mut self) -> Result<(), Failure> {
        match self.exchange().await? {
            200..300 => Ok(()),
            status => {
                let said = String::from_utf8_lossy(&self.kept.bytes).into_owned();
                self.kept.limit = 0;
                Err(Failure { fault: Fault::Status(status), said })
            }
        }
    }
}
