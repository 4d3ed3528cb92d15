//! Redis that is only spoken to in TLS, and asks for a certificate.

use std::{fs, path::PathBuf};

use paceline_frames::{Format, NewFrame, Placement};
use paceline_ingest::{Cameras, Config};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tempfile::TempDir;

use crate::{
    rig::{self, Producer, Running, Server},
    sentinel::{self, Sentinel},
};

/// An authority, and a folder with what it signed.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let own = Self { folder: tempfile::tempdir().unwrap(), issuer };
        fs::write(own.path("ca.pem"), own.issuer.pem()).unwrap();
        own.sign("server");
        own.sign("client");
        own
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sign(&self, name: &str) {
        self.sign_until(name, 4096);
    }

    /// A certificate that is good until that year begins.
    fn sign_until(&self, name: &str, year: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        // One that is called as its authority would pass for its own.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        fs::write(self.path(&format!("{name}.pem")), certificate).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// A server with a port for TLS, and that port; the other one is for the tests.
    async fn start(&self) -> (Server, u16) {
        let port = rig::free_port();
        let path = |name: &str| self.path(name).display().to_string();
        let options = [
            ("--tls-port", port.to_string()),
            ("--tls-ca-cert-file", path("ca.pem")),
            ("--tls-cert-file", path("server.pem")),
            ("--tls-key-file", path("server.key")),
            ("--tls-auth-clients", "yes".to_owned()),
        ];
        let options: Vec<&str> =
            options.iter().flat_map(|(name, value)| [*name, value.as_str()]).collect();
        // A valkey-server may have been built without TLS.
        (Server::start_as("redis-server".into(), &options).await, port)
    }

    /// A Sentinel that watches this one in TLS, and its port for TLS.
    async fn watch(&self, port: u16) -> (Sentinel, u16) {
        let own = rig::free_port();
        let lines = format!(
            "tls-port {own}\ntls-ca-cert-file {0}/ca.pem\ntls-cert-file {0}/server.pem\n\
             tls-key-file {0}/server.key\ntls-replication yes\n\
             sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n",
            self.folder.path().display(),
        );
        let watched = format!("localhost {port} 1");
        (Sentinel::start_with("redis-server".into(), &watched, &lines).await, own)
    }

    fn config(&self, port: u16) -> Config {
        Config {
            ca_file: Some(self.path("ca.pem")),
            certificate: Some(self.path("client.pem")),
            key: Some(self.path("client.key")),
            ..rig::config(&format!("rediss://localhost:{port}"))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_read_and_committed_in_tls() {
    let authority = Authority::new();
    let (server, port) = authority.start().await;
    let config = authority.config(port);
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 20).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (200, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_the_master_that_they_name_are_spoken_to_in_tls() {
    let authority = Authority::new();
    let (server, port) = authority.start().await;
    let (_sentinel, own) = authority.watch(port).await;
    let url = format!("rediss+sentinel://localhost:{own}/{}", sentinel::SERVICE);
    let config = Config { url, ..authority.config(port) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 20).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (200, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_added_in_tls() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, port) = authority.start().await;
    let config = authority.config(port);
    let placement = || Placement::Shards(config.shards());
    let wrong = Config { ca_file: Some(stranger.path("ca.pem")), ..config.clone() };
    let refused = paceline_frames::Producer::connect(&wrong.address().unwrap(), placement()).await;
    assert!(refused.unwrap_err().to_string().contains("certificate"));

    let redis = config.address().unwrap();
    let mut producer = paceline_frames::Producer::connect(&redis, placement()).await.unwrap();
    for number in 0..20_u64 {
        let data = &number.to_le_bytes();
        let (camera, format) = ("cam-0", Format::Raw);
        producer.add(&NewFrame { camera, number, taken_ms: 1, format, data }).unwrap();
    }
    assert!(producer.flush().await.unwrap().iter().all(Option::is_none));

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (20, 0));
    assert_eq!(rig::results(&server, &config).await["cam-0"], (0..20).collect::<Vec<u64>>());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_vouches_for_gets_nothing() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (server, port) = authority.start().await;
    let config = Config { ca_file: Some(stranger.path("ca.pem")), ..authority.config(port) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 1).await;

    let running = Running::start(config, rig::quick_models());
    let problem = || running.cameras.health().problem.unwrap_or_default();
    rig::until("it says why", async || problem().contains("certificate")).await;

    assert_eq!(running.cameras.counts().taken, 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_has_run_out_is_told_of_until_there_is_another() {
    let authority = Authority::new();
    authority.sign_until("server", 2020);
    let (server, port) = authority.start().await;
    let config = authority.config(port);
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 20).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let problem = || running.cameras.health().problem.unwrap_or_default();
    rig::until("it says why", async || problem().contains("certificate expired")).await;
    assert_eq!(running.cameras.counts().taken, 0);
    authority.sign("server");
    let path = |name: &str| authority.path(name).display().to_string();
    let mut renew = redis::cmd("CONFIG");
    renew.arg("SET").arg("tls-cert-file").arg(path("server.pem"));
    renew.arg("tls-key-file").arg(path("server.key"));
    let _: () = renew.query_async(&mut server.connect().await).await.unwrap();
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (200, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_knows_is_told_of_and_asked_for_again() {
    // Of no such name there is ever an address.
    for (scheme, sentinels) in [("redis", ""), ("rediss", ""), ("rediss+sentinel", "/cameras")] {
        let url = format!("{scheme}://redis.invalid:6379{sentinels}");
        let running =
            Running::start(Config { url, ..Authority::new().config(1) }, rig::quick_models());
        let health = || running.cameras.health();
        rig::until("it says why", async || {
            health().problem.unwrap_or_default().contains("failed to lookup address")
        })
        .await;
        rig::until("it has asked again", async || health().is_circuit_open).await;

        assert!(!health().is_up);
        assert!(running.stop().await.counts().balances());
    }
}

#[test]
fn what_is_missing_for_tls_is_named() {
    let models = || std::sync::Arc::new(paceline_pipeline::Models::default());
    let refused = |config: Config| Cameras::pair(config, models()).unwrap_err().to_string();
    let secure = rig::config("rediss://localhost:1");

    let authorities =
        "cameras.ca_file is not set; a rediss:// address needs it: the authorities in PEM";
    assert_eq!(refused(secure.clone()), authorities);
    let nowhere = Config { ca_file: Some("/no/such/file".into()), ..secure.clone() };
    assert!(refused(nowhere).contains("cameras.ca_file is /no/such/file"));
    let half = Config { certificate: Some("c.pem".into()), ..secure };
    assert!(refused(half).contains("`certificate` and `key` go together"));
    let nonsense = refused(rig::config("http://user:secret@somewhere"));
    assert!(nonsense.contains("cameras.url") && !nonsense.contains("secret"), "{nonsense}");
}
