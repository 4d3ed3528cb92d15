//! What all tasks of this door share.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use paceline_frames::Address;
use paceline_pipeline::Models;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    Config, Payloads, Policies,
    commit::Form,
    credit::Credit,
    ledger::Ledger,
    push::Counter,
    roster::Roster,
    shard::{ShardId, Shards},
    sightings::Sightings,
    times::Stopwatch,
};

/// What all tasks share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) config: Config,
    /// Where the Redis is that the configuration names.
    pub(crate) address: Address,
    /// Tells this process from an earlier one of the same name.
    pub(crate) incarnation: String,
    pub(crate) shards: Shards,
    pub(crate) form: Form,
    pub(crate) policies: Policies,
    pub(crate) credit: Arc<Credit>,
    pub(crate) ledger: Ledger,
    pub(crate) flow: Flow,
    pub(crate) roster: Roster,
    pub(crate) sightings: Sightings,
    pub(crate) counter: Counter,
    pub(crate) leases: Leases,
    pub(crate) health: Board,
    pub(crate) models: Arc<Models>,
    pub(crate) payloads: Payloads,
    /// How many heavy frames are prepared at once.
    pub(crate) heavy: Semaphore,
}

impl Common {
    pub(crate) fn new(config: Config, address: Address, models: Arc<Models>) -> Self {
        let shards = config.shards();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            form: Form {
                shards: shards.clone(),
                group: config.group.clone(),
                keep_results: config.keep_results,
                keep_dead: config.keep_dead,
            },
            policies: Policies::new(&config.policies),
            credit: Credit::new(config.credit_bytes, config.credit_frames),
            ledger: Ledger::default(),
            flow: Flow::default(),
            roster: Roster::new(&config.cameras, config.max_cameras),
            counter: Counter::default(),
            sightings: Sightings::new(config.max_cameras),
            leases: Leases::new(shards.count()),
            health: Board::default(),
            models,
            payloads: Payloads::new(config.ring_folder.clone()),
            heavy: Semaphore::new(cores),
            incarnation: format!("{:08x}", rand::random::<u32>()),
            shards,
            address,
            config,
        }
    }
}

/// How fast frames go through.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Of each commit.
    pub(crate) commit_time: Stopwatch,
    /// Of each committed frame, from when it was taken.
    pub(crate) latency: Stopwatch,
    /// Milliseconds that the newest frame of the last reply was old.
    pub(crate) lag_ms: AtomicU64,
    /// Frames in our shards' streams that nobody has read.
    pub(crate) unread: AtomicU64,
}

/// Until when each shard is surely ours, by this machine's clock. Past that nothing is read, since
/// somebody else may own it.
#[derive(Debug)]
pub(crate) struct Leases {
    began: Instant,
    /// Milliseconds since `began`; 0 where a shard is not ours.
    until: Vec<AtomicU64>,
}

impl Leases {
    fn new(count: usize) -> Self {
        Self { began: Instant::now(), until: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(crate) fn set(&self, shard: ShardId, until: Option<Instant>) {
        let millis = until.map_or(0, |until| {
            u64::try_from(until.saturating_duration_since(self.began).as_millis())
                .unwrap_or(u64::MAX)
        });
        if let Some(place) = self.until.get(shard.index()) {
            place.store(millis, Ordering::Relaxed);
        }
    }

    pub(crate) fn holds(&self, shard: ShardId, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.began).as_millis();
        let until = self.until.get(shard.index()).map_or(0, |until| until.load(Ordering::Relaxed));
        now < u128::from(until)
    }
}

/// How the door is: shown to people and to health checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Whether Redis answers.
    pub is_up: bool,
    /// Whether the model can be asked.
    pub has_model: bool,
    /// Shards that this node owns.
    pub n_shards: usize,
    /// Nodes that are alive, this one among them.
    pub nodes: Vec<String>,
    /// The last thing that went wrong, until it is well again.
    pub problem: Option<String>,
    /// Settings of Redis with which frames can be lost.
    pub warnings: Vec<String>,
    /// Streams whose group was gone while they were read: data was lost in Redis.
    pub n_resets: u64,
    /// Times that Redis failed or refused.
    pub n_faults: u64,
    /// Whether Redis failed so often that it is only tried now and then.
    pub is_circuit_open: bool,
}

#[derive(Debug)]
pub(crate) struct Board(Mutex<Health>);

impl Default for Board {
    fn default() -> Self {
        Self(Mutex::new(Health { has_model: true, ..Health::default() }))
    }
}

impl Board {
    pub(crate) fn update(&self, how: impl FnOnce(&mut Health)) {
        how(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn now(&self) -> Health {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Milliseconds since 1970. Ages of frames are taken by the wall clock, because producers' are.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_ours_until_its_lease_ends() {
        let leases = Leases::new(2);
        tokio::time::advance(Duration::from_secs(1)).await;
        let (now, millisecond) = (Instant::now(), Duration::from_millis(1));
        let until = now + Duration::from_secs(5);
        leases.set(ShardId(1), Some(until));

        assert!(leases.holds(ShardId(1), now) && leases.holds(ShardId(1), until - millisecond));
        assert!(!leases.holds(ShardId(1), until));
        assert!(!leases.holds(ShardId(0), now) && !leases.holds(ShardId(2), now));
        leases.set(ShardId(1), None);
        assert!(!leases.holds(ShardId(1), now));
        leases.set(ShardId(2), Some(until));
        assert!(!leases.holds(ShardId(2), now), "there is no such shard");
    }

    #[test]
    fn a_door_has_a_model_until_it_is_known_to_have_none() {
        let board = Board::default();
        assert_eq!(board.now(), Health { has_model: true, ..Health::default() });
        board.update(|health| health.n_faults += 1);
        assert_eq!(board.now().n_faults, 1);
    }

    #[test]
    fn the_wall_clock_is_in_milliseconds() {
        let now = now_ms();
        // After 2025 and before 2255.
        assert!((1_735_000_000_000..9_000_000_000_000).contains(&now), "{now}");
    }
}
