//! Where a Redis server is, and how it is spoken to: plainly, or in TLS.
//!
//! TLS is this crate's own affair and not the client library's, so that the authorities are those that
//! are named and no others.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisError,
    aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{net::TcpStream, task::JoinSet, time::timeout};
use tokio_rustls::TlsConnector;

/// The files that TLS needs, each in PEM.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// The authorities whose certificates are believed.
    pub ca_file: Option<PathBuf>,
    /// A certificate to show, where the server asks for one.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

/// What is wrong with an address or a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; {allowed}")]
pub struct AddressError {
    /// What is wrong: `url`, or one of [`TlsFiles`].
    pub field: &'static str,
    /// What it is.
    pub value: String,
    /// What it must be.
    pub allowed: &'static str,
}

/// A server.
#[derive(Clone)]
pub struct Address {
    info: ConnectionInfo,
    tls: Option<Arc<ClientConfig>>,
}

/// A connection, and what drives it where the library does not.
pub struct Wire {
    /// The connection.
    pub connection: MultiplexedConnection,
    _driver: JoinSet<()>,
}

impl Address {
    /// The server at a URL: `redis://`, `rediss://` for TLS, or `unix://`.
    ///
    /// # Errors
    ///
    /// When that is no address, or TLS lacks a file.
    pub fn new(url: &str, files: &TlsFiles) -> Result<Self, AddressError> {
        let (url, is_secure) = match url.split_once("://") {
            Some(("rediss" | "valkeys", rest)) => (format!("redis://{rest}"), true),
            _ => (url.to_owned(), false),
        };
        // Not repeated: there may be a password in it.
        let wrong = |_| AddressError {
            field: "url",
            value: "what it is".to_owned(),
            allowed: "it must be an address of Redis",
        };
        let info = Client::open(url).map_err(wrong)?.get_connection_info().clone();
        // Replies are read in the older protocol's shapes, whatever the address asks for.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        let tls = is_secure.then(|| client(files)).transpose()?;
        Ok(Self { info, tls })
    }

    /// Another server of the same Cluster; spoken to in the same way.
    #[must_use]
    pub fn at(&self, host: Option<String>, port: u16) -> Self {
        let host = host.unwrap_or_else(|| match self.info.addr() {
            ConnectionAddr::Tcp(host, _) => host.clone(),
            _ => "127.0.0.1".to_owned(),
        });
        Self { info: self.info.clone().set_addr(ConnectionAddr::Tcp(host, port)), ..self.clone() }
    }

    /// Connects. Connecting and every call may take so long; for ever where nothing is said.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or nobody vouches for it.
    pub async fn connect(&self, longest: Option<Duration>) -> Result<Wire, RedisError> {
        let Some(longest) = longest else { return self.open(None).await };
        let opened = timeout(longest, self.open(Some(longest))).await;
        opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn open(&self, longest: Option<Duration>) -> Result<Wire, RedisError> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(longest);
        let mut driver = JoinSet::new();
        let (Some(tls), ConnectionAddr::Tcp(host, port)) = (&self.tls, self.info.addr()) else {
            let client = Client::open(self.info.clone())?;
            let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            return Ok(Wire { connection, _driver: driver });
        };
        let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
        let stream = TcpStream::connect((&**host, *port)).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
        let settings = self.info.redis_settings();
        let opening = MultiplexedConnection::new_with_config(settings, stream, config);
        let (connection, drive) = opening.await?;
        driver.spawn(drive);
        Ok(Wire { connection, _driver: driver })
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.addr().fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("at", &self.to_string()).finish_non_exhaustive()
    }
}

/// How TLS is spoken.
fn client(files: &TlsFiles) -> Result<Arc<ClientConfig>, AddressError> {
    let mut roots = RootCertStore::empty();
    let Some(authorities) = &files.ca_file else {
        let allowed = "a rediss:// address needs it: the authorities in PEM";
        return Err(AddressError { field: "ca_file", value: "not set".to_owned(), allowed });
    };
    for certificate in certificates("ca_file", authorities)? {
        roots.add(certificate).map_err(|_| unusable("ca_file", authorities))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable("ca_file", authorities))?
        .with_root_certificates(roots);
    let client = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|_| unusable("key", key))?;
            builder
                .with_client_auth_cert(certificates("certificate", certificate)?, private)
                .map_err(|_| unusable("certificate", certificate))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(client))
}

fn certificates(
    field: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, AddressError> {
    let text = fs::read(path).map_err(|_| unusable(field, path))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| unusable(field, path))
}

fn unusable(field: &'static str, path: &Path) -> AddressError {
    let allowed = "it must be a file in PEM that can be read and used";
    AddressError { field, value: path.display().to_string(), allowed }
}
