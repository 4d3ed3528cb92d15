//! TLS: both versions of HTTP, gRPC, certificates of clients, and new certificates.

use std::{fs, net::SocketAddr, path::Path, process::Command, sync::Arc, time::Duration};

use paceline_api::oip::proto::{
    ServerLiveRequest, grpc_inference_service_client::GrpcInferenceServiceClient,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::support::{Http2, PATIENCE, Running, ask_on, closed, start};

/// An authority, and a folder with what it signed.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        let own = Self { folder, issuer };
        own.renew();
        own
    }

    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Puts a new certificate in the folder.
    fn renew(&self) {
        let (certificate, key) = self.sign();
        fs::write(self.path("cert.pem"), certificate).unwrap();
        fs::write(self.path("key.pem"), key).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    async fn start(&self, sets: &[&str]) -> Running {
        let set = |key: &str, path: &Path| format!("server.tls.{key}={}", path.display());
        let certificate = set("certificate", &self.path("cert.pem"));
        let key = set("key", &self.path("key.pem"));
        start(&[&[&*certificate, &*key], sets].concat()).await
    }

    fn client(&self, protocol: &str, own: Option<(String, String)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        TlsConnector::from(Arc::new(config))
    }

    async fn connect(&self, address: SocketAddr, protocol: &str) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        self.client(protocol, None).connect(name, stream).await.unwrap()
    }

    /// The certificate that a new connection is shown.
    async fn shown(&self, address: SocketAddr) -> CertificateDer<'static> {
        let stream = self.connect(address, "http/1.1").await;
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Waits until new connections are shown another certificate.
    async fn shown_other(&self, address: SocketAddr, than: &CertificateDer<'static>) {
        let other = async {
            while self.shown(address).await == *than {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, other).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_of_http_and_grpc_are_spoken() {
    let authority = Authority::new();
    let server = authority.start(&["server.admin_listen=127.0.0.1:0"]).await;

    for address in [server.http, server.admin.unwrap()] {
        let stream = authority.connect(address, "http/1.1").await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(ask_on(stream, "GET", "/v2/health/live", &[]).await.status, 200);
        let stream = authority.connect(address, "h2").await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut client = Http2::over(stream).await;
        assert_eq!(client.ask("GET", "/v2/health/live", &[]).await.status, 200);
    }
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.issuer.pem()))
        .domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{}", server.grpc)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    let mut client = GrpcInferenceServiceClient::new(channel);
    assert!(client.server_live(ServerLiveRequest {}).await.unwrap().get_ref().live);
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_no_tls_or_only_begins_to_is_cut() {
    let authority = Authority::new();
    let server = authority.start(&["server.header_timeout=50ms"]).await;
    for first in [&b""[..], b"\x16\x03\x01", b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.http).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, first).await.unwrap();
        closed(stream).await;
    }
    closed(authority.connect(server.http, "h2").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_must_have_a_certificate_where_authorities_are_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let ca = format!("server.tls.client_ca={}", authority.path("ca.pem").display());
    let server = authority.start(&[&ca]).await;
    let ask = async |own| {
        let stream = TcpStream::connect(server.http).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = authority.client("http/1.1", own).connect(name, stream).await.ok()?;
        // With TLS 1.3 a client learns only afterwards that it is not wanted.
        let (mut client, connection) = hyper::client::conn::http1::handshake::<_, String>(
            hyper_util::rt::TokioIo::new(stream),
        )
        .await
        .ok()?;
        tokio::spawn(connection);
        let request = hyper::Request::get("/v2/health/live").header("host", "localhost");
        let answer = client.send_request(request.body(String::new()).unwrap()).await.ok()?;
        Some(answer.status().as_u16())
    };

    assert_eq!(ask(Some(authority.sign())).await, Some(200));
    assert_eq!(ask(None).await, None);
    assert_eq!(ask(Some(other.sign())).await, None, "signed by somebody else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_when_the_files_change() {
    let authority = Authority::new();
    let server = authority.start(&["server.tls.check_interval=10ms"]).await;
    let first = authority.shown(server.http).await;
    let mut open = Http2::over(authority.connect(server.http, "h2").await).await;

    authority.renew();

    authority.shown_other(server.http, &first).await;
    authority.shown_other(server.grpc, &first).await;
    assert_eq!(open.ask("GET", "/v2/health/live", &[]).await.status, 200, "it stays open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_taken_when_asked_and_a_broken_one_is_not() {
    let authority = Authority::new();
    let server = authority.start(&["server.tls.check_interval=1h"]).await;
    let first = authority.shown(server.http).await;
    let ask = || {
        let id = std::process::id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    };

    fs::write(authority.path("cert.pem"), "not a certificate").unwrap();
    ask();
    assert_eq!(authority.shown(server.http).await, first);
    authority.renew();
    ask();
    authority.shown_other(server.http, &first).await;
}
