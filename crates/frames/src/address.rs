//! Where a Redis server is, and how it is spoken to: plainly, or in TLS. It is named, or Sentinels are
//! that know it.
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

use crate::sentinel::{Sentinels, url};

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
    guide: Guide,
}

/// Who says where the server is.
#[derive(Clone)]
enum Guide {
    /// The address itself.
    Nobody,
    /// Sentinels: it is whichever they name.
    Sentinels(Arc<Sentinels>),
    /// Sentinels, which have named this one: as soon as they name another, it is not connected to.
    Named(Arc<Sentinels>),
}

/// A connection, and what drives it where the library does not.
pub struct Wire {
    /// The connection.
    pub connection: MultiplexedConnection,
    /// The server at its other end.
    pub at: Address,
    _driver: JoinSet<()>,
}

impl Address {
    /// The server at a URL: `redis://`, `rediss://` for TLS, or `unix://`; or the master that the
    /// Sentinels of `redis+sentinel://host,host/service` name, `rediss+sentinel://` for TLS with all.
    ///
    /// # Errors
    ///
    /// When that is no address, or TLS lacks a file.
    pub fn new(url: &str, files: &TlsFiles) -> Result<Self, AddressError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (kind, is_guided) = match scheme.strip_suffix("+sentinel") {
            Some(kind) => (kind, true),
            None => (scheme, false),
        };
        let (url, is_secure) = match kind {
            "rediss" | "valkeys" => (format!("redis://{rest}"), true),
            _ => (url.to_owned(), false),
        };
        let secured = || is_secure.then(|| client(files)).transpose();
        if is_guided && ["redis", "rediss", "valkey", "valkeys"].contains(&kind) {
            let parts = url::parse(rest)?;
            let plain = |info| Self { info: spoken(info), tls: None, guide: Guide::Nobody };
            let tls = secured()?;
            let sentinel = Self { tls: tls.clone(), ..plain(parts.sentinel) };
            let all = parts.hosts.into_iter().map(|(host, port)| sentinel.at(Some(host), port));
            let guide = Guide::Sentinels(Arc::new(Sentinels::new(parts.service, all.collect())));
            return Ok(Self { tls, guide, ..plain(parts.server) });
        }
        // Not repeated: there may be a password in it.
        let wrong = |_| AddressError {
            field: "url",
            value: "what it is".to_owned(),
            allowed: "it must be an address of Redis",
        };
        let info = Client::open(url).map_err(wrong)?.get_connection_info().clone();
        Ok(Self { info: spoken(info), tls: secured()?, guide: Guide::Nobody })
    }

    /// Whether Sentinels say where it is, so that it may be another one soon.
    #[must_use]
    pub fn is_guided(&self) -> bool {
        !matches!(self.guide, Guide::Nobody)
    }

    /// Another server of the same Cluster; spoken to in the same way.
    #[must_use]
    pub fn at(&self, host: Option<String>, port: u16) -> Self {
        let host = host.unwrap_or_else(|| match self.info.addr() {
            ConnectionAddr::Tcp(host, _) => host.clone(),
            _ => "127.0.0.1".to_owned(),
        });
        let info = self.info.clone().set_addr(ConnectionAddr::Tcp(host, port));
        Self { info, tls: self.tls.clone(), guide: Guide::Nobody }
    }

    /// The master that Sentinels have named; spoken to in the same way.
    pub(crate) fn named(&self, host: String, port: u16, by: &Arc<Sentinels>) -> Self {
        Self { guide: Guide::Named(Arc::clone(by)), ..self.at(Some(host), port) }
    }

    /// Whether it is the very server that Sentinels have named, and not another.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        matches!(self.guide, Guide::Named(_)) && self.info.addr() != other.info.addr()
    }

    /// Connects, which may take so long, twice as long through Sentinels; and so may every call then.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or nobody vouches for it.
    pub async fn connect(&self, longest: Duration) -> Result<Wire, RedisError> {
        self.connect_for(longest, Some(longest)).await
    }

    /// The same, where calls may take for ever: whoever makes them has a clock.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or nobody vouches for it.
    pub async fn connect_unhurried(&self, longest: Duration) -> Result<Wire, RedisError> {
        self.connect_for(longest, None).await
    }

    async fn connect_for(
        &self,
        longest: Duration,
        answer: Option<Duration>,
    ) -> Result<Wire, RedisError> {
        let opened = match &self.guide {
            Guide::Nobody => timeout(longest, self.open(answer)).await,
            Guide::Sentinels(sentinels) | Guide::Named(sentinels) => {
                // Half of it to find the master, half to connect to it.
                timeout(longest * 2, sentinels.find(self, longest, answer)).await
            }
        };
        opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Connects to this very server, whoever is the master.
    pub(crate) async fn open(&self, answer: Option<Duration>) -> Result<Wire, RedisError> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(answer);
        let mut driver = JoinSet::new();
        let at = self.clone();
        let (Some(tls), ConnectionAddr::Tcp(host, port)) = (&self.tls, self.info.addr()) else {
            let client = Client::open(self.info.clone())?;
            let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            return Ok(Wire { connection, at, _driver: driver });
        };
        let name = ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
        let stream = TcpStream::connect((&**host, *port)).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?;
        let settings = self.info.redis_settings();
        let opening = MultiplexedConnection::new_with_config(settings, stream, config);
        let (connection, drive) = opening.await?;
        driver.spawn(drive);
        Ok(Wire { connection, at, _driver: driver })
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.guide {
            Guide::Sentinels(sentinels) => sentinels.fmt(f),
            Guide::Nobody | Guide::Named(_) => self.info.addr().fmt(f),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("at", &self.to_string()).finish_non_exhaustive()
    }
}

/// How a server is spoken to. Replies are read in the older protocol's shapes, whatever the address
/// asks for.
fn spoken(info: ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    let tcp = TcpSettings::default().set_nodelay(true);
    info.set_redis_settings(settings).set_tcp_settings(tcp)
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
