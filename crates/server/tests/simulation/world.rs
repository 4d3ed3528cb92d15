//! One seed: a server, those who use it, and what happens to them.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::join_all;
use paceline_api::{
    App, Readiness,
    gate::Gate,
    grpc,
    http::{self, Bodies, Budget, Entrance, Listener, Listening, Places, ServeLimits},
    ws::{SocketLimits, Streams},
};
use paceline_backend::simulated::{self, Answer};
use paceline_batch::Settings;
use paceline_pipeline::{
    Answer as Done, Control, Known, Model, Models, VoiceDetector, VoiceSettings,
    speech::{Bounds, Speech, SpeechLimits, SpeechSettings},
    synthesis::{Synthesis, SynthesisSettings},
};
use paceline_server::Supervisor;
use paceline_types::DType;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::{
    io::{DuplexStream, duplex},
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use crate::{
    askers, callers,
    ledger::{Excuses, Ledger, Total},
    model::{self, Mood},
    pest, streams,
};

/// Longest that stopping may take.
const DRAIN: Duration = Duration::from_secs(20);
/// Longest that anybody whom the server has to end may stay.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Longest that a seed may take.
const FOREVER: Duration = Duration::from_mins(10);

/// Voice detection has threads of its own, and no stream here uses it.
static VOICES: OnceLock<VoiceDetector> = OnceLock::new();

/// What clients see.
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) excuses: Excuses,
    /// Longest that a call of a model takes.
    pub(crate) slowest: Duration,
    door: mpsc::Sender<DuplexStream>,
    grpc_door: mpsc::Sender<DuplexStream>,
    is_draining: Cell<bool>,
    n_left: Cell<u64>,
}

impl World {
    /// A connection; none where the server does not take any more.
    pub(crate) async fn connect(&self, random: &mut ChaCha8Rng) -> Option<DuplexStream> {
        enter(&self.door, random).await
    }

    /// The same for gRPC.
    pub(crate) async fn call(&self, random: &mut ChaCha8Rng) -> Option<DuplexStream> {
        enter(&self.grpc_door, random).await
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// So many requests are or may be with the server, and nobody waits for the answers.
    pub(crate) fn leave(&self, n: usize) {
        self.n_left.set(self.n_left.get() + n as u64);
        self.ledger.count(|total| total.left += n as u64);
    }
}

async fn enter(door: &mpsc::Sender<DuplexStream>, random: &mut ChaCha8Rng) -> Option<DuplexStream> {
    sleep(Duration::from_millis(random.random_range(0..2000))).await;
    let (own, other) = duplex(1 << random.random_range(6..16));
    door.send(other).await.ok()?;
    Some(own)
}

/// Loads nothing.
struct Nobody;

impl Control for Nobody {
    fn load<'a>(&'a self, _name: &'a str) -> Done<'a> {
        Box::pin(async { Ok(()) })
    }

    fn unload<'a>(&'a self, _name: &'a str) -> Done<'a> {
        Box::pin(async { Ok(()) })
    }

    fn known(&self) -> Vec<Known> {
        Vec::new()
    }
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Result<Total, String> {
    match timeout(FOREVER, simulate(seed)).await {
        Ok(done) => done,
        Err(_) => Err(format!("nothing ends within {FOREVER:?}")),
    }
}

/// What kind of world it is.
struct Nature {
    is_moody: bool,
    is_tight: bool,
    mood: Mood,
    batch: Settings,
    /// When the server is told to stop; when everybody is gone, where this is left out.
    stops_at: Option<Duration>,
}

impl Nature {
    fn draw(seed: u64, random: &mut ChaCha8Rng) -> Self {
        let is_moody = random.random_bool(0.5);
        let mut rate = |most: f64| {
            if is_moody && random.random_bool(0.5) { random.random_range(0.0..most) } else { 0.0 }
        };
        let (row_fails, call_fails, panics) = (rate(0.3), rate(0.3), rate(0.2));
        let mood =
            Mood { seed, slowest_ms: random.random_range(0..80), row_fails, call_fails, panics };
        let is_tight = random.random_bool(0.3);
        let queue_items = if is_tight { random.random_range(1..8) } else { 1000 };
        let batch = Settings {
            max_items: Some(random.random_range(1..9).min(queue_items)),
            queue_items: Some(queue_items),
            ..Settings::default()
        };
        let stops_early = random.random_bool(0.5);
        let stops_at = Duration::from_millis(random.random_range(0..2500));
        Self { is_moody, is_tight, mood, batch, stops_at: stops_early.then_some(stops_at) }
    }
}

async fn simulate(seed: u64) -> Result<Total, String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Nature { is_moody, is_tight, mood, batch, stops_at } = Nature::draw(seed, &mut random);
    let mut supervisor = Supervisor::new(DRAIN);
    let tasks = supervisor.clocks();
    let models = Arc::new(Models::default());
    let echo = simulated::Settings { dtype: DType::I64, ..simulated::Settings::default() };
    let echo = model::open(&models, &tasks, "echo", (echo, batch, mood));
    let counts = simulated::Settings {
        answer: Answer::Count,
        output: "count".to_owned(),
        ..simulated::Settings::default()
    };
    let hearing = model::open(&models, &tasks, "hearing", (counts, Settings::default(), mood));
    let (door, clients) = mpsc::channel(1);
    let (grpc_door, callers) = mpsc::channel(1);
    serve(&mut supervisor, &models, clients, callers);
    let world = World {
        ledger: Ledger::default(),
        excuses: Excuses { failed: is_moody, overloaded: is_tight, late: false },
        slowest: Duration::from_millis(mood.slowest_ms),
        door,
        grpc_door,
        is_draining: Cell::new(false),
        n_left: Cell::new(0),
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let to_close = Arc::clone(&models);
    let shutdown = async {
        stopped.await.ok();
    };
    let server = supervisor.run(shutdown, move || to_close.close());
    let life = live(&world, visitors(&world, &mut random), stops_at, stop);
    let (ended, ()) = tokio::join!(server, life);
    if let Err(error) = ended {
        world.ledger.violation(format!("the server did not stop well: {error}"));
    }
    balance(&world, &echo, &hearing);
    world.ledger.close()
}

/// Lets everybody come, and tells the server to stop: in the middle of it, or after it.
async fn live(
    world: &World,
    visitors: Vec<Visit<'_>>,
    stops_at: Option<Duration>,
    stop: oneshot::Sender<()>,
) {
    let all = join_all(visitors);
    let Some(stops_at) = stops_at else {
        all.await;
        stop.send(()).ok();
        return;
    };
    world.ledger.count(|total| total.drained_early += 1);
    let end = async {
        sleep(stops_at).await;
        world.is_draining.set(true);
        stop.send(()).ok();
    };
    tokio::join!(all, end);
}

/// Opens the doors.
fn serve(
    supervisor: &mut Supervisor,
    models: &Arc<Models>,
    clients: mpsc::Receiver<DuplexStream>,
    callers: mpsc::Receiver<DuplexStream>,
) {
    let voices = VOICES.get_or_init(|| VoiceDetector::start(VoiceSettings::default()).unwrap());
    let (connections, stop) = (supervisor.connections(), supervisor.stop_intake());
    let speech = SpeechSettings {
        model: "hearing".to_owned(),
        bounds: Bounds::default(),
        limits: SpeechLimits::default(),
    };
    let streams = Streams {
        speech: Speech::new(Arc::clone(models), voices.clone(), speech),
        synthesis: Synthesis::new(Arc::clone(models), SynthesisSettings::default()),
        limits: SocketLimits::default(),
        open: connections,
        stop: stop.clone(),
    };
    let app = App {
        models: Arc::clone(models),
        readiness: Arc::new(Readiness::default()),
        control: Arc::new(Nobody),
        cameras: None,
        bodies: Bodies::new(1 << 20, 1 << 20),
        metrics: None,
        streams,
        live: Arc::default(),
    };
    let grpc = grpc::router(app.clone(), Gate::open(), stop).unwrap();
    open(supervisor, "grpc", callers, grpc.into());
    open(supervisor, "http", clients, http::entrance(app, Gate::open()));
}

fn open(
    supervisor: &mut Supervisor,
    name: &'static str,
    clients: mpsc::Receiver<DuplexStream>,
    entrance: Entrance,
) {
    let (connections, stop) = (supervisor.connections(), supervisor.stop_intake());
    let listening = Listening {
        listener: Listener::Memory(clients),
        tls: None,
        entrance,
        places: Places::new(1000, 1000),
        budget: Budget::new(1 << 30),
    };
    let limits = ServeLimits {
        header_timeout: Duration::from_secs(5),
        stall_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        drain_stall: DRAIN / 4,
        ..ServeLimits::default()
    };
    supervisor.stage(name, async move {
        http::serve(listening, limits, connections, stop).await;
        Ok(())
    });
}

type Visit<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Those who come.
fn visitors<'a>(world: &'a World, random: &mut ChaCha8Rng) -> Vec<Visit<'a>> {
    (0..random.random_range(1..12))
        .map(|_| {
            let seed = random.random();
            let visit: Visit<'a> = match random.random_range(0..12) {
                0..4 => Box::pin(askers::patient(world, seed)),
                4 => Box::pin(askers::hurried(world, seed)),
                5 => Box::pin(askers::fickle(world, seed)),
                6 => Box::pin(askers::crowd(world, seed)),
                7 => Box::pin(pest::pest(world, seed)),
                8..10 => Box::pin(callers::caller(world, seed)),
                _ => Box::pin(streams::stream(world, seed)),
            };
            visit
        })
        .collect()
}

/// What the models say of it must be what the clients say of it.
fn balance(world: &World, echo: &Model, hearing: &Model) {
    let Total { right, .. } = world.ledger.total();
    let n_left = world.n_left.get();
    let stats = echo.stats();
    let is_even = right <= stats.n_good && stats.n_good <= right + n_left;
    if !is_even || n_left < stats.n_cancelled {
        let (good, cancelled) = (stats.n_good, stats.n_cancelled);
        world.ledger.violation(format!(
            "the model answered {good} and let go of {cancelled}; clients have {right}, and {n_left} did not wait"
        ));
    }
    for model in [echo, hearing] {
        let stats = model.batch_stats();
        if stats.waiting_items != 0 || stats.in_flight != 0 {
            world.ledger.violation(format!("after the end there is {stats:?}"));
        }
    }
}
