//! What the tests are made of: a Redis of their own, producers that number their frames, a door with
//! a simulated model, and the judge that counts what came out.

use std::{
    collections::{BTreeMap, HashMap},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use paceline_backend::{
    Backend, BackendError,
    simulated::{self, Simulated},
};
use paceline_batch::Settings;
use paceline_ingest::{Cameras, Config, Label, Layout, Shards, Totals};
use paceline_pipeline::{
    Blueprint, Mode, Model, Models, SequenceLimits, VersionPolicy, adapt::Adapter,
};
use paceline_types::DType;
use redis::{Value, aio::MultiplexedConnection};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

/// Longest that anything may take to come about.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// A redis-server on a free port, in a folder of its own; ended when dropped.
pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
    program: PathBuf,
    options: Vec<String>,
}

impl Server {
    pub(crate) async fn start(options: &[&str]) -> Self {
        Self::start_as(program(), options).await
    }

    pub(crate) async fn start_as(program: PathBuf, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut server = Self { child: None, port: free_port(), folder, program, options };
        server.launch().await;
        server
    }

    /// As part of a Cluster, whose nodes talk on a port of their own.
    pub(crate) async fn start_with_bus(options: &[&str]) -> Self {
        let bus = free_port().to_string();
        let mut options = options.to_vec();
        options.extend(["--cluster-port", &bus]);
        Self::start(&options).await
    }

    /// The port on which it talks to the others of its Cluster.
    pub(crate) fn bus(&self) -> u16 {
        self.options.last().unwrap().parse().unwrap()
    }

    /// With an append-only file that is written before anything is answered, so that it remembers
    /// however slow the disk is.
    pub(crate) async fn durable() -> Self {
        Self::start(&["--appendonly", "yes", "--appendfsync", "always"]).await
    }

    pub(crate) async fn launch(&mut self) {
        let program = &self.program;
        let child = Command::new(program)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--loglevel", "warning", "--daemonize", "no"])
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap_or_else(|error| {
            panic!("{} does not start ({error}); run scripts/install-redis", program.display())
        }));
        let began = Instant::now();
        loop {
            if let Ok(mut connection) = self.try_connect().await
                && redis::cmd("PING").query_async::<String>(&mut connection).await.is_ok()
            {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "redis-server does not answer");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    async fn try_connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let config = redis::AsyncConnectionConfig::new()
            .set_response_timeout(Some(PATIENCE))
            .set_connection_timeout(Some(PATIENCE));
        let client = redis::Client::open(self.url())?;
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        self.try_connect().await.unwrap()
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// What it has written to its append-only file so far.
    pub(crate) fn written(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = std::fs::read_dir(self.folder.path().join("appendonlydir")).unwrap();
        files
            .map(|file| file.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect()
    }

    /// Ends it at once, and starts it with what it had written then.
    pub(crate) async fn go_back(&mut self, written: Vec<(PathBuf, Vec<u8>)>) {
        self.kill();
        for (path, bytes) in written {
            std::fs::write(path, bytes).unwrap();
        }
        self.launch().await;
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &self.child {
            // A stopped process takes no other signal.
            let pid = child.id().to_string();
            drop(Command::new("kill").args(["-CONT", &pid]).status());
        }
        self.kill();
    }
}

/// The server under test: Redis, or what `PACELINE_REDIS_SERVER` names (Valkey).
pub(crate) fn program() -> PathBuf {
    std::env::var_os("PACELINE_REDIS_SERVER")
        .map_or_else(|| PathBuf::from("redis-server"), PathBuf::from)
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Settings under which tests are quick.
pub(crate) fn config(url: &str) -> Config {
    Config {
        url: url.to_owned(),
        model: "sim".to_owned(),
        shards: 16,
        readers: 2,
        lease: Duration::from_millis(900),
        timeout: Duration::from_millis(500),
        // What the tests count must not be trimmed.
        keep_results: 10_000_000,
        keep_dead: 1_000_000,
        ..Config::default()
    }
}

/// A simulated model that answers its input.
pub(crate) fn models(settings: simulated::Settings, max_items: usize) -> Arc<Models> {
    models_with(settings, max_items, None)
}

/// The same, of something that is made from plain bytes.
pub(crate) fn models_with(
    settings: simulated::Settings,
    max_items: usize,
    adapter: Option<Box<dyn Adapter>>,
) -> Arc<Models> {
    let settings = simulated::Settings { dtype: DType::U8, ..settings };
    let build = move |instance: usize| {
        let built = Simulated::build(settings.clone(), instance as u64);
        built
            .map(|model| Box::new(model) as Box<dyn Backend>)
            .map_err(|error| BackendError::Failed(error.to_string()))
    };
    models_of(build, max_items, adapter)
}

/// Whatever else takes bytes.
pub(crate) fn models_of(
    build: impl Fn(usize) -> Result<Box<dyn Backend>, BackendError> + Send + Sync + 'static,
    max_items: usize,
    adapter: Option<Box<dyn Adapter>>,
) -> Arc<Models> {
    let batch = Settings { max_items: Some(max_items), ..Settings::default() };
    let (model, clock) = Model::open(Blueprint {
        name: "sim".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "simulated".to_owned(),
        mode: Mode::Batch,
        batch,
        instances: 1,
        build: Arc::new(build),
        ragged: Box::new(|_| Ok(paceline_backend::Ragged::default())),
        warm_up_length: 8,
        adapter,
        sequences: SequenceLimits::default(),
    })
    .unwrap();
    tokio::spawn(clock.run());
    let models = Arc::new(Models::default());
    models.replace("sim", vec![model]);
    models
}

/// One whose calls take so many milliseconds.
pub(crate) fn slow_models(millis: u64, max_items: usize) -> Arc<Models> {
    let delay = Duration::from_millis(millis);
    models(simulated::Settings { delay, ..simulated::Settings::default() }, max_items)
}

pub(crate) fn quick_models() -> Arc<Models> {
    models(simulated::Settings::default(), 64)
}

/// Part of this program as a process of its own, so that it can be killed; it is when dropped.
pub(crate) struct Process(Child);

/// What such a process finds its settings in.
const SETTINGS: &str = "PACELINE_TEST_PROCESS";

impl Process {
    /// Runs a test that is ignored otherwise.
    pub(crate) fn start(test: &str, config: &Config) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--quiet"])
            .env(SETTINGS, serde_json::to_string(config).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// The settings of this process, where it is one.
    pub(crate) fn settings() -> Option<Config> {
        let config = std::env::var(SETTINGS).ok()?;
        Some(serde_json::from_str(&config).unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A door that runs.
pub(crate) struct Running {
    pub(crate) cameras: Cameras,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(config: Config, models: Arc<Models>) -> Self {
        // For whoever looks for a mistake: RUST_LOG=debug.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        drop(tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init());
        let (cameras, door) = Cameras::pair(config, models).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(door.run(stop.clone()));
        Self { cameras, stop, task }
    }

    pub(crate) async fn stop(self) -> Cameras {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").unwrap();
        self.cameras
    }

    /// Ends it at once, without goodbye.
    pub(crate) async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.is_err());
    }

    /// Waits until the streams are empty and everything adds up.
    pub(crate) async fn settled(&self) -> Totals {
        let began = Instant::now();
        loop {
            if let Ok(totals) = self.cameras.totals().await
                && totals.in_streams == 0
                && self.cameras.counts().in_flight == 0
            {
                return totals;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "not settled: {:?} {:?} {:?}",
                self.cameras.totals().await,
                self.cameras.counts(),
                self.cameras.health(),
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Adds numbered frames, and remembers how many each camera has.
pub(crate) struct Producer {
    pub(crate) connection: MultiplexedConnection,
    config: Config,
    shards: Shards,
    pub(crate) next: BTreeMap<String, u64>,
    pub(crate) bytes: usize,
}

impl Producer {
    pub(crate) async fn new(server: &Server, config: &Config) -> Self {
        let connection = server.connect().await;
        let shards = config.shards();
        Self { connection, config: config.clone(), shards, next: BTreeMap::new(), bytes: 32 }
    }

    pub(crate) fn key(&self, camera: &str) -> String {
        let shard = self.shards.of(camera);
        match self.config.layout {
            Layout::Shard => self.shards.frames(shard),
            Layout::Camera => self.config.key_of(camera, shard),
        }
    }

    /// The next frame of each of `n` cameras, `rounds` times, in one pipeline per round. Frames whose
    /// adding failed are not counted.
    pub(crate) async fn add(&mut self, n: usize, rounds: usize) {
        for _ in 0..rounds {
            self.add_some(0..n).await;
        }
    }

    /// The next frame of each of these cameras.
    pub(crate) async fn add_some(&mut self, cameras: std::ops::Range<usize>) {
        self.try_add(cameras).await.unwrap();
    }

    /// The same, of a Redis that may be gone.
    pub(crate) async fn try_add(
        &mut self,
        cameras: std::ops::Range<usize>,
    ) -> redis::RedisResult<()> {
        let n = cameras.len();
        let mut pipe = redis::pipe();
        let cameras: Vec<String> = cameras.map(|camera| format!("cam-{camera}")).collect();
        for camera in &cameras {
            let seq = self.next.get(camera).copied().unwrap_or(0);
            let mut payload = vec![0; self.bytes];
            payload[..8].copy_from_slice(&seq.to_le_bytes());
            pipe.cmd("XADD").arg(self.key(camera)).arg("*");
            pipe.arg("c").arg(camera).arg("q").arg(seq).arg("d").arg(payload);
        }
        let values = self.connection.send_packed_commands(&pipe, 0, n).await?;
        for (camera, value) in cameras.into_iter().zip(values) {
            if matches!(value, Value::BulkString(_)) {
                *self.next.entry(camera).or_default() += 1;
            }
        }
        Ok(())
    }

    pub(crate) fn added(&self) -> u64 {
        self.next.values().sum()
    }
}

/// Adds frames all the time until told to stop.
pub(crate) struct Load {
    stop: CancellationToken,
    task: JoinHandle<Producer>,
}

impl Load {
    /// One frame of each of `n` cameras every few milliseconds.
    pub(crate) fn start(mut producer: Producer, n: usize) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                producer.add(n, 1).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            producer
        });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) -> Producer {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

/// What came out, per camera the numbers of the frames in the order of their results.
pub(crate) async fn results(server: &Server, config: &Config) -> HashMap<String, Vec<u64>> {
    let shards = config.shards();
    let mut found = HashMap::new();
    for shard in shards.all() {
        found.extend(results_of(server, &shards.results(shard)).await);
    }
    found
}

/// The same, of one result stream.
pub(crate) async fn results_of(server: &Server, key: &str) -> HashMap<String, Vec<u64>> {
    let mut found: HashMap<String, Vec<u64>> = HashMap::new();
    for key in result_keys_of(server, key).await {
        let (_, Label { number, camera, .. }) = Label::of_result(&key).unwrap();
        found.entry(camera).or_default().push(number.unwrap());
    }
    found
}

/// The keys of the results in one result stream, in order.
pub(crate) async fn result_keys_of(server: &Server, stream: &str) -> Vec<String> {
    let mut range = redis::cmd("XRANGE");
    range.arg(stream).arg("-").arg("+");
    let entries: Vec<(String, HashMap<String, Value>)> =
        range.query_async(&mut server.connect().await).await.unwrap();
    let key_of = |(_, mut fields): (String, HashMap<String, Value>)| {
        let key: String = redis::from_redis_value(fields.remove("k").unwrap()).unwrap();
        // The model answers its input, so the payload says again whose frame it was.
        let (_, data) = fields.into_iter().next().unwrap();
        let data: Vec<u8> = redis::from_redis_value(data).unwrap();
        let (_, label) = Label::of_result(&key).unwrap();
        assert_eq!(data[..8], label.number.unwrap().to_le_bytes(), "the result of another frame");
        key
    };
    entries.into_iter().map(key_of).collect()
}

/// Every frame that was added has one result, in order.
pub(crate) async fn assert_all_once_in_order(
    server: &Server,
    config: &Config,
    producer: &Producer,
) {
    let found = results(server, config).await;
    for (camera, n) in &producer.next {
        let numbers = found.get(camera).map(Vec::as_slice).unwrap_or_default();
        let expected: Vec<u64> = (0..*n).collect();
        assert_eq!(numbers, expected, "{camera}");
    }
}

/// Results are in order and none is doubled, though some may be missing.
pub(crate) fn assert_in_order(found: &HashMap<String, Vec<u64>>) {
    for (camera, numbers) in found {
        assert!(numbers.is_sorted_by(|a, b| a < b), "{camera}: {numbers:?}");
    }
}
