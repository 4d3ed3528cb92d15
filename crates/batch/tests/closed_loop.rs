//! Clients that wait for each answer before they ask again, in virtual time.
//!
//! Whoever was answered is back within a moment, so what the policy decides now is what it will see
//! next: a crowd that is cut in two comes back as two. Throughput here depends on nothing but the
//! policy, so it may be asserted.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    time::Duration,
};

use paceline_batch::{FlightId, Landing, Moment, Next, Scheduler, Settings, Tag};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// A model on some devices, and how far its clients are away.
#[derive(Debug, Clone, Copy)]
struct World {
    /// Milliseconds a call by batch size; straight lines between them.
    curve: &'static [(usize, f64)],
    /// Milliseconds more for the first call of each size on each device.
    first_of_size: f64,
    max_items: usize,
    n_devices: usize,
    /// Whether the devices are one, so that calls under way at once share its time.
    is_shared: bool,
    /// Microseconds from an answer to the client's next request, and for each answer before it in
    /// the same batch.
    away: f64,
    each: f64,
}

/// A vocoder on a GPU, as in `docs/bench/gpu.md`: launch-bound up to 16, proportional from there.
const GPU: World = World {
    curve: &[
        (1, 4.9),
        (2, 6.6),
        (4, 6.6),
        (8, 6.6),
        (16, 7.2),
        (32, 14.1),
        (64, 24.7),
        (128, 47.1),
    ],
    first_of_size: 100.0,
    max_items: 64,
    n_devices: 1,
    is_shared: false,
    away: 300.0,
    each: 40.0,
};

/// The curve that the adaptive policy was first asked to serve well.
const SEED: World = World {
    curve: &[(1, 50.0), (8, 70.0), (32, 150.0), (64, 280.0)],
    first_of_size: 0.0,
    max_items: 32,
    n_devices: 1,
    is_shared: false,
    away: 300.0,
    each: 20.0,
};

/// A straight line, as `paceline bench policy` has it.
const LINE: World = World {
    curve: &[(1, 5.5), (32, 21.0)],
    first_of_size: 0.0,
    max_items: 32,
    n_devices: 1,
    is_shared: false,
    away: 300.0,
    each: 20.0,
};

impl World {
    fn takes(&self, rows: usize) -> f64 {
        let above =
            self.curve.iter().position(|&(size, _)| rows <= size).expect("within the curve");
        let (size, millis) = self.curve[above];
        let Some(&(below, less)) = above.checked_sub(1).map(|below| &self.curve[below]) else {
            return millis;
        };
        less + (millis - less) * (rows - below) as f64 / (size - below) as f64
    }

    /// What the best number of groups would get, in answers a second: each has a device, or they take
    /// turns where there are more groups than devices.
    fn ideal(&self, n_clients: usize) -> f64 {
        let n_devices = if self.is_shared { 1 } else { self.n_devices };
        let rate = |n_groups: usize| {
            let (mut at_once, mut busy) = (0.0, 0.0);
            for rows in (0..n_groups).map(|group| (n_clients + group) / n_groups) {
                let takes = self.takes(rows);
                let away = (self.away + self.each * rows as f64) / 1000.0;
                at_once += rows as f64 / (takes + away);
                busy += takes;
            }
            let in_turns = (n_clients * n_devices) as f64 / busy;
            if n_groups <= n_devices { at_once } else { at_once.min(in_turns) }
        };
        (n_clients.div_ceil(self.max_items)..=n_clients).map(rate).fold(0.0, f64::max) * 1000.0
    }
}

/// A call under way.
#[derive(Debug)]
struct Call {
    flight: FlightId,
    device: usize,
    rows: usize,
    left: Duration,
    /// Milliseconds that it still takes if it has a device to itself.
    work: f64,
}

/// The clients, the devices and the scheduler between them.
struct Run {
    world: World,
    scheduler: Scheduler<()>,
    /// When clients ask again.
    asks: BinaryHeap<Reverse<Duration>>,
    free: Vec<usize>,
    calls: Vec<Call>,
    seen: HashSet<(usize, usize)>,
    random: ChaCha8Rng,
    now: Duration,
    n_clients: usize,
    n_present: usize,
    sizes: Vec<usize>,
}

impl Run {
    fn new(world: World) -> Self {
        let settings = Settings { max_items: Some(world.max_items), ..Settings::default() };
        let mut scheduler = Scheduler::new(settings.validate().expect("valid settings"));
        scheduler.set_devices(world.n_devices);
        scheduler.set_resolution(Duration::from_micros(100));
        Self {
            world,
            scheduler,
            asks: BinaryHeap::new(),
            free: (0..world.n_devices).collect(),
            calls: Vec::new(),
            seen: HashSet::new(),
            random: ChaCha8Rng::seed_from_u64(7),
            now: Duration::ZERO,
            n_clients: 0,
            n_present: 0,
            sizes: Vec::new(),
        }
    }

    /// Tries rising sizes, as a server does before it is ready.
    fn warm_up(&mut self) {
        for rows in std::iter::successors(Some(1), |rows| Some(rows * 2)) {
            let rows = self.world.max_items.min(rows);
            let took = Duration::from_secs_f64(self.world.takes(rows) / 1000.0);
            self.scheduler.learn(0, rows, took);
            self.seen.extend((0..self.world.n_devices).map(|device| (device, rows)));
            if rows == self.world.max_items {
                return;
            }
        }
    }

    fn asks_after(&mut self, millis: f64) {
        self.asks.push(Reverse(self.now + Duration::from_secs_f64(millis / 1000.0)));
    }

    /// Lets as many clients ask for a while; gives answers a second in its second half.
    fn serve(&mut self, n_clients: usize, seconds: u64) -> f64 {
        self.n_clients = n_clients;
        while self.n_present < n_clients {
            self.n_present += 1;
            let after = self.random.random_range(0.0..2.0);
            self.asks_after(after);
        }
        let (start, lasts) = (self.now, Duration::from_secs(seconds));
        let mut n_answered = 0_usize;
        self.sizes.clear();
        while self.now < start + lasts {
            let rests = self.fire();
            let asks = self.asks.peek().map(|Reverse(at)| *at);
            let lands = self.next_landing();
            let Some(next) = [rests, asks, lands].into_iter().flatten().min() else { break };
            self.go_on_to(next.max(self.now));
            if lands == Some(next) {
                let n_items = self.land();
                if start + lasts / 2 <= self.now {
                    n_answered += n_items;
                }
            } else if asks == Some(next) {
                self.asks.pop();
                if self.n_clients < self.n_present {
                    self.n_present -= 1;
                } else {
                    let now = Moment::at(self.now);
                    self.scheduler.offer((), &Tag::default(), None, now).expect("there is room");
                }
            }
        }
        n_answered as f64 / (lasts / 2).as_secs_f64()
    }

    /// By how much calls under way slow each other down.
    fn slowed(&self) -> f64 {
        if self.world.is_shared { self.calls.len().max(1) as f64 } else { 1.0 }
    }

    fn next_landing(&self) -> Option<Duration> {
        let work = self.calls.iter().map(|call| call.work).min_by(f64::total_cmp)?;
        Some(self.now + Duration::from_secs_f64(work.max(0.0) * self.slowed() / 1000.0))
    }

    fn go_on_to(&mut self, next: Duration) {
        let done = next.saturating_sub(self.now).as_secs_f64() * 1000.0 / self.slowed();
        self.calls.iter_mut().for_each(|call| call.work -= done);
        self.now = next;
    }

    /// Puts free devices to work; until when it is held, if anything is.
    fn fire(&mut self) -> Option<Duration> {
        while let Some(&device) = self.free.last() {
            match self.scheduler.next(Moment::at(self.now)) {
                Next::Batch(batch) => {
                    self.free.pop();
                    let rows = batch.boarded.len();
                    let mut work = self.world.takes(rows) * self.random.random_range(0.98..1.02);
                    if self.seen.insert((device, rows)) {
                        work += self.world.first_of_size;
                    }
                    let (flight, left) = (batch.flight, self.now);
                    self.calls.push(Call { flight, device, rows, left, work });
                }
                Next::HoldUntil(until) => return Some(until.since(Moment::START)),
                Next::Nothing => return None,
            }
        }
        None
    }

    /// Ends the call that has least to do.
    fn land(&mut self) -> usize {
        let first = (0..self.calls.len())
            .min_by(|one, other| self.calls[*one].work.total_cmp(&self.calls[*other].work));
        let Call { flight, device, rows, left, .. } =
            self.calls.swap_remove(first.expect("a call is under way"));
        let landing = Landing { took: Some(self.now.saturating_sub(left)), ..Landing::default() };
        self.scheduler.finish(flight, landing, [], Moment::at(self.now));
        self.free.push(device);
        self.sizes.push(rows);
        for place in 0..rows {
            let away = self.world.away * self.random.random_range(0.8..1.4);
            self.asks_after((away + self.world.each * place as f64) / 1000.0);
        }
        rows
    }
}

const CROWDS: [usize; 15] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256];

/// What so many clients get once a model was warmed up and has been asked for a while.
fn rate(world: World, n_clients: usize) -> f64 {
    rate_within(world, n_clients, 40)
}

fn rate_within(world: World, n_clients: usize, seconds: u64) -> f64 {
    let mut run = Run::new(world);
    run.warm_up();
    run.serve(n_clients, seconds)
}

/// The least share of the ideal that any crowd gets in so many seconds, and which crowd.
fn least_share(world: World, seconds: u64) -> (f64, usize) {
    let share =
        |n_clients| (rate_within(world, n_clients, seconds) / world.ideal(n_clients), n_clients);
    let least = CROWDS.into_iter().map(share).min_by(|one, other| one.0.total_cmp(&other.0));
    least.expect("there are crowds")
}

#[test]
fn a_crowd_of_any_size_gets_nearly_all_of_a_device() {
    for n_clients in CROWDS {
        let (rate, ideal) = (rate(GPU, n_clients), GPU.ideal(n_clients));
        assert!(0.94 * ideal <= rate, "{n_clients} clients get {rate:.0} a second of {ideal:.0}");
    }
}

#[test]
fn a_size_that_was_dear_once_is_tried_again() {
    // Nothing was warmed up, as with a length that nobody had before.
    for n_clients in CROWDS.into_iter().filter(|n_clients| *n_clients <= 16) {
        let (rate, ideal) = (Run::new(GPU).serve(n_clients, 40), GPU.ideal(n_clients));
        assert!(0.94 * ideal <= rate, "{n_clients} clients get {rate:.0} a second of {ideal:.0}");
    }
}

#[test]
fn a_second_device_takes_nothing_away() {
    let two = World { n_devices: 2, ..GPU };
    for n_clients in [1, 2, 4, 16, 64, 256] {
        let (one, both) = (rate(GPU, n_clients), rate(two, n_clients));
        assert!(
            one <= 1.01 * both,
            "{n_clients} clients get {both:.0} instead of {one:.0} a second"
        );
    }
}

#[test]
fn a_device_whose_calls_are_long_is_filled() {
    for (n_clients, least) in
        [(1, 19.5), (8, 110.0), (32, 208.0), (48, 208.0), (64, 208.0), (96, 208.0), (128, 208.0)]
    {
        let rate = rate(SEED, n_clients);
        assert!(least <= rate, "{n_clients} clients get {rate:.1} a second");
    }
}

#[test]
fn a_crowd_is_divided_among_devices_that_are_independent() {
    // The least is at few clients, where one device more gains little, and at sizes where half a
    // crowd waits for nearly as long as all of it.
    for (world, n_devices, seconds, least) in [
        (LINE, 2, 5, 0.88),
        (LINE, 3, 5, 0.82),
        (SEED, 2, 40, 0.9),
        (SEED, 3, 40, 0.9),
        (GPU, 2, 20, 0.8),
        (GPU, 3, 20, 0.8),
    ] {
        let world = World { n_devices, ..world };
        let (share, n_clients) = least_share(world, seconds);
        assert!(least <= share, "{n_clients} clients get {share:.2} of {world:?}");
    }
}

#[test]
fn a_crowd_is_not_divided_where_two_devices_turn_out_to_be_one() {
    for (n_devices, least) in [(2, 0.82), (3, 0.8)] {
        let world = World { n_devices, is_shared: true, ..LINE };
        let (share, n_clients) = least_share(world, 10);
        assert!(least <= share, "{n_clients} clients get {share:.2} of {world:?}");
    }
}
