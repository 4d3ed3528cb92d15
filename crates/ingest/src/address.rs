//! Where a Redis server is, and how it is spoken to: plainly, or in TLS.
//!
//! TLS is this crate's own affair and not the client library's, so that the authorities are those that
//! the configuration names and no others.

use std::{fmt, fs, path::Path, sync::Arc};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ProtocolVersion, RedisError,
    aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::TlsConnector;

use crate::{Config, ConfigError};

/// A server.
#[derive(Clone)]
pub(crate) struct Address {
    info: ConnectionInfo,
    tls: Option<Arc<ClientConfig>>,
}

/// A connection, and what drives it where the library does not.
pub(crate) struct Wire {
    pub(crate) connection: MultiplexedConnection,
    _driver: JoinSet<()>,
}

impl Address {
    /// The server that the configuration names.
    pub(crate) fn of(config: &Config) -> Result<Self, ConfigError> {
        let (url, is_secure) = match config.url.split_once("://") {
            Some(("rediss" | "valkeys", rest)) => (format!("redis://{rest}"), true),
            _ => (config.url.clone(), false),
        };
        // Not repeated: there may be a password in it.
        let wrong = |_| ConfigError::new("url", &"what it is", "it must be an address of Redis");
        let info = Client::open(url).map_err(wrong)?.get_connection_info().clone();
        // Replies are read in the older protocol's shapes, whatever the address asks for.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        let tls = is_secure.then(|| client(config)).transpose()?;
        Ok(Self { info, tls })
    }

    /// Another server of the same Cluster; spoken to in the same way.
    pub(crate) fn at(&self, host: Option<String>, port: u16) -> Self {
        let host = host.unwrap_or_else(|| match self.info.addr() {
            ConnectionAddr::Tcp(host, _) => host.clone(),
            _ => "127.0.0.1".to_owned(),
        });
        Self { info: self.info.clone().set_addr(ConnectionAddr::Tcp(host, port)), ..self.clone() }
    }

    pub(crate) async fn connect(&self) -> Result<Wire, RedisError> {
        // Time-outs are kept by whoever asks, call by call: one here would end blocked reads.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
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
fn client(config: &Config) -> Result<Arc<ClientConfig>, ConfigError> {
    let mut roots = RootCertStore::empty();
    let Some(authorities) = &config.ca_file else {
        let allowed = "a rediss:// address needs it: the authorities in PEM";
        return Err(ConfigError::new("ca_file", &"not set", allowed));
    };
    for certificate in certificates("ca_file", authorities)? {
        roots.add(certificate).map_err(|_| unusable("ca_file", authorities))?;
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| unusable("ca_file", authorities))?
        .with_root_certificates(roots);
    let client = match (&config.certificate, &config.key) {
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
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let text = fs::read(path).map_err(|_| unusable(field, path))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| unusable(field, path))
}

fn unusable(field: &'static str, path: &Path) -> ConfigError {
    ConfigError::new(field, &path.display(), "it must be a file in PEM that can be read and used")
}
