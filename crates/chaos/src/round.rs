//! Load on every door, and one fault after the other until the time is over.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::{
    clients::{self, Stage, cameras::Film, http},
    faults::{Fault, Scene},
    ledger::{Balance, Ledger, Outcome},
    server::Server,
};

/// Longest that everything may take to answer again after a fault.
const RECOVERY: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
/// Peace before the first fault and between two.
const PEACE: Duration = Duration::from_millis(300);

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) binary: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) faults: Vec<Fault>,
    /// At least once through all faults, and then on until this is over.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// What one kind of fault did.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Record {
    pub(crate) times: u64,
    /// The longest time from a fault's end until everything answered again.
    pub(crate) slowest_recovery_ms: u64,
}

/// What came of it all.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    pub(crate) n_faults: u64,
    pub(crate) n_operations: u64,
    pub(crate) camera_results: u64,
    pub(crate) rss_mb_first: u64,
    pub(crate) rss_mb_last: u64,
    pub(crate) faults: BTreeMap<&'static str, Record>,
    #[serde(flatten)]
    pub(crate) balance: Balance,
}

/// Says how far it is, and may be told to end early.
pub(crate) trait Progress {
    fn fault(&mut self, fault: &Fault, n_faults: u64, began: Instant, ledger: &Ledger);
    fn is_interrupted(&self) -> bool;
}

pub(crate) async fn run(plan: Plan, progress: &mut impl Progress) -> anyhow::Result<Report> {
    let server = Arc::new(Server::start(&plan.binary, &plan.python).await?);
    let ledger = Arc::new(Ledger::default());
    let stop = Arc::new(AtomicBool::new(false));
    let stage = Stage { server: Arc::clone(&server), ledger: Arc::clone(&ledger), stop };
    let film = Arc::new(Film::default());
    let mut clients = clients::start(&stage, plan.seed);
    let (filming, watching) = (stage.clone(), stage.clone());
    let (shot, seen) = (Arc::clone(&film), Arc::clone(&film));
    clients.spawn(async move { clients::cameras::film(&filming, &shot).await });
    let watcher = tokio::task::JoinSet::from_iter([async move {
        clients::cameras::watch(&watching, &seen).await;
    }]);
    let scene = Scene { server: Arc::clone(&server), film: Arc::clone(&film) };

    let (began, mut faults) = (Instant::now(), BTreeMap::<_, Record>::new());
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut n_faults = 0;
    let (first, _) = server.weight()?;
    let mut order = plan.faults.clone();
    while n_faults == 0 || began.elapsed() < plan.time {
        order.shuffle(&mut random);
        for fault in &order {
            let is_through = usize::try_from(n_faults).unwrap_or(usize::MAX) >= order.len();
            if progress.is_interrupted() || (is_through && began.elapsed() >= plan.time) {
                break;
            }
            n_faults += 1;
            progress.fault(fault, n_faults, began, &ledger);
            sleep(PEACE).await;
            ledger.open(fault.name, fault.excuses, Instant::now());
            if let Err(error) = (fault.run)(&scene).await {
                ledger.violation(format!("{}: {error:#}", fault.name));
            }
            let recovery = recovered(&scene).await.with_context(|| {
                format!("after {}; the server's log is {}", fault.name, server.log().display())
            });
            ledger.close(Instant::now());
            let record = faults.entry(fault.name).or_default();
            record.times += 1;
            match recovery {
                Ok(took) => record.slowest_recovery_ms = record.slowest_recovery_ms.max(took),
                Err(error) => {
                    ledger.violation(format!("{error:#}"));
                    break;
                }
            }
        }
        if progress.is_interrupted() || ledger.balance().n_violations != 0 {
            break;
        }
    }
    sleep(PEACE).await;
    let (last, _) = server.weight()?;
    stage.stop.store(true, Ordering::Relaxed);
    clients.join_all().await;
    watcher.join_all().await;
    server.process.signal(Signal::TERM)?;
    let status = server.process.ended().await?;
    if !status.success() {
        ledger.violation(format!("at the end the server stopped with {status}"));
    }
    let balance = ledger.balance();
    Ok(Report {
        seconds: began.elapsed().as_secs(),
        seed: plan.seed,
        n_faults,
        n_operations: balance.doors.values().map(crate::ledger::Counts::total).sum(),
        camera_results: film.n_results(),
        rss_mb_first: first / 1024,
        rss_mb_last: last / 1024,
        faults,
        balance,
    })
}

/// Waits until every door gives right answers again; says how many milliseconds that took.
async fn recovered(scene: &Scene) -> anyhow::Result<u64> {
    let began = Instant::now();
    let n_results = scene.film.n_results();
    let doors = [http::Door::Plain, http::Door::Tensors, http::Door::Binary, http::Door::Worker];
    let mut waits_for = String::new();
    while began.elapsed() < RECOVERY {
        let mut all = scene.film.n_results() > n_results;
        if !all {
            "cameras".clone_into(&mut waits_for);
        }
        for door in doors {
            let outcome = http::ask(scene.server.http, door, &[7, 8]).await;
            if outcome != Outcome::Right {
                waits_for = format!("{door:?}: {outcome:?}");
                all = false;
            }
        }
        if all {
            return Ok(u64::try_from(began.elapsed().as_millis())?);
        }
        sleep(LOOK).await;
    }
    anyhow::bail!("not everything answers again after {RECOVERY:?}: {waits_for}")
}
