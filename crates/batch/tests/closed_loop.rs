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
    away: 300.0,
    each: 40.0,
};

/// The curve that the adaptive policy was first asked to serve well.
const SEED: World = World {
    curve: &[(1, 50.0), (8, 70.0), (32, 150.0), (64, 280.0)],
    first_of_size: 0.0,
    max_items: 32,
    n_devices: 1,
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

    /// What the better of one crowd and two that take turns would get, in answers a second.
    fn ideal(&self, n_clients: usize) -> f64 {
        let each = n_clients.div_ceil(self.n_devices).min(2 * self.max_items);
        let crowd = |rows: usize| {
            let rows = rows.min(self.max_items);
            (rows, self.takes(rows))
        };
        let (one, takes) = crowd(each);
        let away = (self.away + self.each * one as f64) / 1000.0;
        let together = one as f64 / (takes + away);
        let (half, takes) = crowd(each / 2);
        let in_turns = half as f64 / takes;
        let best = if half == 0 { together } else { together.max(in_turns) };
        best * 1000.0 * self.n_devices as f64
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Lands { device: usize, flight: usize },
    Asks,
}

/// The clients, the devices and the scheduler between them.
struct Run {
    world: World,
    scheduler: Scheduler<()>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    n_events: u64,
    free: Vec<usize>,
    flights: Vec<Option<(FlightId, usize, Duration)>>,
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
            events: BinaryHeap::new(),
            n_events: 0,
            free: (0..world.n_devices).collect(),
            flights: Vec::new(),
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

    fn plan(&mut self, after_ms: f64, event: Event) {
        self.n_events += 1;
        let at = self.now + Duration::from_secs_f64(after_ms / 1000.0);
        self.events.push(Reverse((at, self.n_events, event)));
    }

    /// Lets as many clients ask for a while; gives answers a second in its second half.
    fn serve(&mut self, n_clients: usize, seconds: u64) -> f64 {
        self.n_clients = n_clients;
        while self.n_present < n_clients {
            self.n_present += 1;
            let after = self.random.random_range(0.0..2.0);
            self.plan(after, Event::Asks);
        }
        let (start, lasts) = (self.now, Duration::from_secs(seconds));
        let mut n_answered = 0_usize;
        self.sizes.clear();
        while self.now < start + lasts {
            let rests = self.fire();
            let event = self.events.peek().map(|Reverse((at, _, _))| *at);
            if let Some(until) = rests.filter(|until| event.is_none_or(|event| *until < event)) {
                self.now = until;
                continue;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.now = at;
            match event {
                Event::Asks if self.n_clients < self.n_present => self.n_present -= 1,
                Event::Asks => {
                    let now = Moment::at(self.now);
                    self.scheduler.offer((), &Tag::default(), None, now).expect("there is room");
                }
                Event::Lands { device, flight } => {
                    let n_items = self.land(device, flight);
                    if start + lasts / 2 <= self.now {
                        n_answered += n_items;
                    }
                }
            }
        }
        n_answered as f64 / (lasts / 2).as_secs_f64()
    }

    /// Puts free devices to work; until when it is held, if anything is.
    fn fire(&mut self) -> Option<Duration> {
        while let Some(&device) = self.free.last() {
            match self.scheduler.next(Moment::at(self.now)) {
                Next::Batch(batch) => {
                    self.free.pop();
                    let rows = batch.boarded.len();
                    let mut takes = self.world.takes(rows) * self.random.random_range(0.98..1.02);
                    if self.seen.insert((device, rows)) {
                        takes += self.world.first_of_size;
                    }
                    self.flights.push(Some((batch.flight, rows, self.now)));
                    self.plan(takes, Event::Lands { device, flight: self.flights.len() - 1 });
                }
                Next::HoldUntil(until) => return Some(until.since(Moment::START)),
                Next::Nothing => return None,
            }
        }
        None
    }

    fn land(&mut self, device: usize, flight: usize) -> usize {
        let (id, rows, left) = self.flights[flight].take().expect("it flies once");
        let landing = Landing { took: Some(self.now.saturating_sub(left)), ..Landing::default() };
        self.scheduler.finish(id, landing, [], Moment::at(self.now));
        self.free.push(device);
        self.sizes.push(rows);
        for place in 0..rows {
            let away = self.world.away * self.random.random_range(0.8..1.4);
            self.plan((away + self.world.each * place as f64) / 1000.0, Event::Asks);
        }
        rows
    }
}

const CROWDS: [usize; 15] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256];

/// What so many clients get once a model was warmed up and has been asked for a while.
fn rate(world: World, n_clients: usize) -> f64 {
    let mut run = Run::new(world);
    run.warm_up();
    run.serve(n_clients, 40)
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
