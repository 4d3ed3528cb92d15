//! Load on every door of one or more servers, and one fault after the other at each of them, until
//! there were enough.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use parking_lot::Mutex;
use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    bar::Bar,
    cell::{Cell, Load},
    clients::http,
    faults::{Fault, Scene},
    ledger::{Balance, Counts, Outcome},
    parts::{Part, Parts},
};

/// Longest that everything may take to answer again after a fault.
const RECOVERY: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
/// Peace before the first fault and between two.
const PEACE: Duration = Duration::from_millis(300);
/// Between two looks at how far it is.
const SHOW: Duration = Duration::from_millis(500);

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Parts,
    pub(crate) faults: Vec<Fault>,
    pub(crate) goal: Goal,
    /// Servers, each with its own clients and faults.
    pub(crate) n_cells: usize,
    pub(crate) load: Load,
    pub(crate) seed: u64,
}

/// What is enough; every fault happens at least once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) time: Duration,
    pub(crate) n_faults: u64,
    /// Right answers; whoever finds nobody has not asked anything.
    pub(crate) n_right: u64,
    /// It ends then even where it was not enough.
    pub(crate) at_most: Duration,
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
    pub(crate) n_cells: usize,
    pub(crate) without: Vec<Part>,
    pub(crate) n_faults: u64,
    pub(crate) n_operations: u64,
    pub(crate) camera_results: u64,
    /// Results that Redis had given out before a failover, or the end of its file, took them back.
    pub(crate) camera_repeats: u64,
    /// Frames that were trimmed away, and counted as lost by the server.
    pub(crate) camera_trimmed: u64,
    pub(crate) rss_mb_first: u64,
    pub(crate) rss_mb_last: u64,
    pub(crate) faults: BTreeMap<&'static str, Record>,
    /// It ended before it was enough.
    pub(crate) is_short: bool,
    #[serde(flatten)]
    pub(crate) balance: Balance,
}

/// What all cells share: which fault is next, and what there was.
#[derive(Debug)]
struct Course {
    plan: Plan,
    began: Instant,
    deck: Mutex<Deck>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Deck {
    random: ChaCha8Rng,
    left: Vec<Fault>,
    last: &'static str,
    records: BTreeMap<&'static str, Record>,
}

impl Course {
    /// The next fault: all of them in a random order, and then all of them in another.
    fn deal(&self) -> Option<Fault> {
        if self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let mut deck = self.deck.lock();
        let Deck { random, left, last, .. } = &mut *deck;
        if left.is_empty() {
            left.clone_from(&self.plan.faults);
            left.shuffle(random);
        }
        let fault = left.pop()?;
        *last = fault.name;
        Some(fault)
    }

    fn n_done(&self) -> u64 {
        self.deck.lock().records.values().map(|record| record.times).sum()
    }

    fn is_enough(&self, n_right: u64) -> bool {
        let Goal { time, n_faults, n_right: wanted, .. } = self.plan.goal;
        let every = u64::try_from(self.plan.faults.len()).unwrap_or(u64::MAX);
        n_faults.max(every) <= self.n_done() && wanted <= n_right && time <= self.began.elapsed()
    }
}

pub(crate) async fn run(plan: Plan, bar: &mut Bar) -> anyhow::Result<Report> {
    let mut cells = Vec::new();
    for n in 0..plan.n_cells {
        let seed = plan.seed.wrapping_add(u64::try_from(n)? << 32);
        cells.push(Arc::new(Cell::start(&plan.parts, plan.load, seed, &[]).await?));
    }
    let weigh = |cells: &[Arc<Cell>]| {
        cells.iter().map(|cell| Ok(cell.scene.server.weight()?.0)).sum::<anyhow::Result<u64>>()
    };
    let first = weigh(&cells)?;
    let deck = Deck {
        random: ChaCha8Rng::seed_from_u64(plan.seed),
        left: Vec::new(),
        last: "",
        records: BTreeMap::new(),
    };
    let course = Arc::new(Course {
        plan,
        began: Instant::now(),
        deck: Mutex::new(deck),
        is_over: AtomicBool::new(false),
    });
    let mut harm = JoinSet::new();
    for cell in &cells {
        harm.spawn(do_harm(Arc::clone(&course), Arc::clone(cell)));
    }
    let is_short = watch(&course, &cells, bar).await;
    while let Some(done) = harm.join_next().await {
        done?;
    }
    sleep(PEACE).await;
    // A server that is dead weighs nothing, and the book says that it is.
    let last = weigh(&cells).unwrap_or(0);
    let seconds = course.began.elapsed().as_secs();
    let (mut balance, mut results, mut repeats, mut trimmed) = (Balance::default(), 0, 0, 0);
    for cell in cells {
        let cell = Arc::into_inner(cell).context("somebody still uses a server")?;
        let film = Arc::clone(&cell.film);
        balance.add(cell.finish().await?);
        results += film.n_results();
        repeats += film.n_repeats();
        trimmed += film.n_trimmed();
    }
    let course = Arc::into_inner(course).context("somebody still does harm")?;
    let faults = course.deck.into_inner().records;
    Ok(Report {
        seconds,
        seed: course.plan.seed,
        n_cells: course.plan.n_cells,
        without: course.plan.parts.without,
        n_faults: faults.values().map(|record| record.times).sum(),
        n_operations: balance.n_operations(),
        camera_results: results,
        camera_repeats: repeats,
        camera_trimmed: trimmed,
        rss_mb_first: first / 1024,
        rss_mb_last: last / 1024,
        faults,
        is_short,
        balance,
    })
}

/// Shows how far it is until it is over; whether that was too early.
async fn watch(course: &Course, cells: &[Arc<Cell>], bar: &mut Bar) -> bool {
    loop {
        sleep(SHOW).await;
        let n_operations: u64 = cells.iter().map(|cell| cell.ledger.n_operations()).sum();
        let n_violations: u64 = cells.iter().map(|cell| cell.ledger.n_violations()).sum();
        let seconds = course.began.elapsed().as_secs();
        let (n_faults, last) = (course.n_done(), course.deck.lock().last);
        bar.show(format_args!(
            "{seconds:>5}s  {n_faults:>5} faults, now {last:20} {n_operations:>9} operations, {n_violations} violations"
        ));
        let is_enough = course.is_enough(cells.iter().map(|cell| cell.ledger.n_right()).sum());
        let is_late = course.plan.goal.at_most <= course.began.elapsed();
        if is_enough || is_late || n_violations != 0 || bar.is_interrupted() {
            course.is_over.store(true, Ordering::Relaxed);
            return !is_enough;
        }
    }
}

/// One fault after the other at one server.
async fn do_harm(course: Arc<Course>, cell: Arc<Cell>) {
    let (ledger, scene) = (&cell.ledger, &cell.scene);
    // What nobody has begun with yet cannot be harmed.
    if let Err(error) = recovered(scene).await {
        return ledger.violation(format!("before the first fault: {error:#}"));
    }
    sleep(PEACE).await;
    while let Some(fault) = course.deal() {
        ledger.open(fault.name, fault.excuses, Instant::now());
        if let Err(error) = (fault.run)(scene).await {
            ledger.violation(format!("{}: {error:#}", fault.name));
        }
        let recovery = recovered(scene).await;
        ledger.close(Instant::now());
        {
            let mut deck = course.deck.lock();
            let record = deck.records.entry(fault.name).or_default();
            record.times += 1;
            match recovery {
                Ok(took) => record.slowest_recovery_ms = record.slowest_recovery_ms.max(took),
                Err(error) => return ledger.violation(format!("after {}: {error:#}", fault.name)),
            }
        }
        sleep(PEACE).await;
    }
}

/// Waits until every door gives right answers, or does so again; says how many milliseconds that took.
async fn recovered(scene: &Scene) -> anyhow::Result<u64> {
    let began = Instant::now();
    let n_results = scene.film.n_results();
    let mut doors = vec![http::Door::Plain, http::Door::Tensors, http::Door::Binary];
    if scene.parts.has(Part::Python) {
        doors.push(http::Door::Worker);
    }
    let mut waits_for = String::new();
    while began.elapsed() < RECOVERY {
        let mut all = !scene.parts.has(Part::Redis) || n_results < scene.film.n_results();
        if !all {
            "cameras".clone_into(&mut waits_for);
        }
        for &door in &doors {
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

impl Report {
    pub(crate) fn table(&self) -> String {
        let mut lines = vec![format!(
            "{:12}{:>10}{:>9}{:>9}{:>9}{:>7}{:>7}",
            "door", "right", "refused", "failed", "cut", "wrong", "none"
        )];
        for (door, counts) in &self.balance.doors {
            let Counts { right, refused, failed, cut, wrong, silent } = counts;
            lines.push(format!(
                "{door:12}{right:>10}{refused:>9}{failed:>9}{cut:>9}{wrong:>7}{silent:>7}"
            ));
        }
        lines.push(format!("\n{:20}{:>7}{:>24}", "fault", "times", "slowest recovery (ms)"));
        for (fault, Record { times, slowest_recovery_ms }) in &self.faults {
            lines.push(format!("{fault:20}{times:>7}{slowest_recovery_ms:>24}"));
        }
        lines.push(format!(
            "\n{} faults of {} kinds at {} servers, {} operations in {} s (seed {}); memory {} MB at first, {} MB at last",
            self.n_faults,
            self.faults.len(),
            self.n_cells,
            self.n_operations,
            self.seconds,
            self.seed,
            self.rss_mb_first,
            self.rss_mb_last,
        ));
        if self.camera_repeats != 0 {
            lines.push(format!(
                "{} results came again after Redis had lost them",
                self.camera_repeats
            ));
        }
        if self.camera_trimmed != 0 {
            lines.push(format!("{} frames were trimmed away, and counted", self.camera_trimmed));
        }
        if !self.without.is_empty() {
            lines.push(format!("left out: {:?}", self.without));
        }
        lines.extend(self.balance.violations.iter().map(|said| format!("VIOLATION {said}")));
        lines.push(match self.balance.n_violations {
            0 => "the books balance: nothing lost, nothing wrong".to_owned(),
            n => format!("the books do NOT balance: {n} violations"),
        });
        if self.is_short {
            lines.push("it ended before it was enough".to_owned());
        }
        lines.join("\n") + "\n"
    }

    pub(crate) fn holds(&self) -> bool {
        self.balance.n_violations == 0 && !self.is_short
    }
}
