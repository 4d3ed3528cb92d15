//! The law of the scheduler, under random arrivals, cancels, failures, time-outs and closing:
//! nothing lost, nothing twice, keys never mixed, no limit exceeded, lane order kept.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use paceline_batch::{
    Batch, Buckets, ItemId, Key, Landing, Moment, Next, PolicyName, Priority, Scheduler, Settings,
    Tag,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Offer {
        key: u8,
        length: u32,
        rows: u32,
        priority: u64,
        /// Milliseconds until it is too late, and until it is wanted.
        times: (Option<u64>, Option<u64>),
        stream: Option<u64>,
        client: Option<u64>,
        lane: Option<usize>,
    },
    Withdraw(usize),
    Pull,
    /// Ends the oldest batch under way.
    Finish {
        is_good: bool,
    },
    Pass {
        micros: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let offer = (
        0_u8..3,
        0_u32..300,
        1_u32..4,
        0_u64..3,
        prop::option::of(1_u64..40),
        prop::option::of(0_u64..80),
        prop::option::of(0_u64..3),
        prop::option::of(0_u64..3),
        prop::option::of(0_usize..3),
    );
    prop_oneof![
        6 => offer.prop_map(
            |(key, length, rows, priority, timeout_ms, wanted_ms, stream, client, lane)| {
                let times = (timeout_ms, wanted_ms);
                Step::Offer { key, length, rows, priority, times, stream, client, lane }
            },
        ),
        1 => any::<prop::sample::Index>().prop_map(|at| Step::Withdraw(at.index(1 << 16))),
        4 => Just(Step::Pull),
        3 => any::<bool>().prop_map(|is_good| Step::Finish { is_good }),
        3 => (0_u64..20_000).prop_map(|micros| Step::Pass { micros }),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let sizes = prop_oneof![Just(vec![]), Just(vec![4, 8]), Just(vec![1, 2, 4, 8, 16])];
    let buckets = prop_oneof![
        Just(Buckets::None),
        Just(Buckets::PowersOfTwo),
        Just(Buckets::Edges(vec![50, 120]))
    ];
    (sizes, buckets, any::<bool>(), 3_usize..12, 4_u64..600, 16_usize..40).prop_map(
        |(sizes, buckets, is_fixed, max_items, max_cost, queue_items)| Settings {
            max_items: sizes.is_empty().then_some(max_items),
            max_cost: Some(max_cost),
            sizes,
            buckets,
            policy: if is_fixed { PolicyName::Fixed } else { PolicyName::Adaptive },
            queue_items: Some(queue_items),
            queue_bytes: Some(queue_items * 8),
            max_wait: Some(Duration::from_millis(5)),
            ..Settings::default()
        },
    )
}

/// What the test remembers of an item that was taken in.
#[derive(Debug, Clone, Copy)]
struct Known {
    number: usize,
    key: u8,
    length: u32,
    lane: Option<usize>,
}

struct World {
    scheduler: Scheduler<Known, u64>,
    settings: Settings,
    now: Moment,
    waiting: HashMap<usize, ItemId>,
    under_way: Vec<Batch<Known, u64>>,
    lanes_under_way: HashSet<usize>,
    /// The last item of each lane that went.
    lane_order: HashMap<usize, usize>,
    n_offered: usize,
    n_gone: usize,
}

impl World {
    fn new(settings: &Settings) -> Self {
        let scheduler = Scheduler::new(settings.validate().expect("valid settings"));
        Self {
            scheduler,
            settings: settings.clone(),
            now: Moment::START,
            waiting: HashMap::new(),
            under_way: Vec::new(),
            lanes_under_way: HashSet::new(),
            lane_order: HashMap::new(),
            n_offered: 0,
            n_gone: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Offer { key, length, rows, priority, times, stream, client, lane } => {
                let tag = Tag {
                    key: Key::of(&key),
                    length,
                    rows,
                    cost: u64::from(length.max(1)),
                    bytes: 8,
                    priority: Priority::level(priority),
                    timeout: times.0.map(Duration::from_millis),
                    wanted: times.1.map(Duration::from_millis),
                    stream,
                    client,
                };
                let known = Known { number: self.n_offered, key, length, lane };
                if let Ok(id) = self.scheduler.offer(known, &tag, lane, self.now) {
                    self.waiting.insert(self.n_offered, id);
                    self.n_offered += 1;
                }
            }
            Step::Withdraw(at) => {
                let mut numbers: Vec<_> = self.waiting.keys().copied().collect();
                numbers.sort_unstable();
                if !numbers.is_empty() {
                    let number = numbers[at % numbers.len()];
                    let id = self.waiting[&number];
                    let known = self.scheduler.withdraw(id, self.now).expect("it waits");
                    assert_eq!(known.number, number, "the right item is withdrawn");
                    self.gone(known);
                    assert!(self.scheduler.withdraw(id, self.now).is_none(), "only once");
                }
            }
            Step::Pull => {
                let peeked = self.scheduler.peek(self.now);
                match self.scheduler.next(self.now) {
                    Next::Batch(batch) => {
                        assert_eq!(peeked, Ok(()), "as foretold");
                        self.board(batch);
                    }
                    // All that would have gone came too late.
                    _ if self.scheduler.has_left() => {}
                    Next::HoldUntil(until) => assert_eq!(peeked, Err(until)),
                    Next::Nothing => assert_eq!(peeked, Err(Moment::NEVER)),
                }
            }
            Step::Finish { is_good } => {
                if !self.under_way.is_empty() {
                    let batch = self.under_way.remove(0);
                    self.finish(batch, is_good);
                }
            }
            Step::Pass { micros } => {
                self.now = self.now.after(Duration::from_micros(micros));
                self.scheduler.expire(self.now);
            }
        }
        for (known, _) in self.scheduler.take_left() {
            self.gone(known);
        }
        assert_eq!(self.scheduler.n_waiting(), self.waiting.len(), "nothing lost, nothing twice");
    }

    fn board(&mut self, batch: Batch<Known, u64>) {
        let limits = self.scheduler.limits();
        let rows: usize = batch.boarded.iter().map(|item| item.rows).sum();
        assert!(!batch.boarded.is_empty());
        assert!(rows <= limits.max_items(), "{rows} rows");
        assert!(rows <= batch.facts.padded_rows);
        assert!(
            self.settings.sizes.is_empty()
                || self.settings.sizes.contains(&batch.facts.padded_rows)
        );
        let cost: u64 = batch.boarded.iter().map(|item| u64::from(item.length.max(1))).sum();
        assert!(cost <= self.settings.max_cost.unwrap_or(u64::MAX), "cost {cost}");
        let first = batch.boarded[0].payload;
        for item in &batch.boarded {
            let known = item.payload;
            assert_eq!(known.key, first.key, "keys never share a call");
            assert_eq!(
                self.settings.buckets.bucket(known.length),
                self.settings.buckets.bucket(first.length),
                "nor do length buckets"
            );
            if let Some((lane, _)) = item.lane {
                assert_eq!(Some(lane), known.lane);
                assert!(self.lanes_under_way.insert(lane), "one item of a lane at a time");
                let before = self.lane_order.insert(lane, known.number);
                assert!(before < Some(known.number), "a lane keeps its order");
            }
            assert!(self.waiting.remove(&known.number).is_some(), "each item goes once");
            self.n_gone += 1;
        }
        self.under_way.push(batch);
    }

    fn finish(&mut self, batch: Batch<Known, u64>, is_good: bool) {
        let took = is_good.then_some(Duration::from_millis(3));
        let lanes: Vec<_> = batch
            .boarded
            .into_iter()
            .filter_map(|item| item.lane)
            .map(|(lane, n)| (lane, n + 1))
            .collect();
        for (lane, _) in &lanes {
            self.lanes_under_way.remove(lane);
        }
        let landing = Landing { took, ..Landing::default() };
        self.scheduler.finish(batch.flight, landing, lanes, self.now);
    }

    fn gone(&mut self, known: Known) {
        assert!(self.waiting.remove(&known.number).is_some(), "each item goes once");
        self.n_gone += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn everything_accepted_leaves_once_and_within_limits(
        settings in settings(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut world = World::new(&settings);
        for _ in 0..3 {
            world.scheduler.open_lane(0);
        }
        for step in steps {
            world.step(&step);
        }
        world.scheduler.close();
        let mut idle_rounds = 0;
        while idle_rounds < 2 {
            let before = world.n_gone;
            world.step(&Step::Pull);
            world.step(&Step::Finish { is_good: true });
            idle_rounds = if before == world.n_gone && world.under_way.is_empty() { idle_rounds + 1 } else { 0 };
        }

        prop_assert_eq!(world.n_gone, world.n_offered);
        let stats = world.scheduler.stats();
        prop_assert_eq!((stats.waiting_items, stats.waiting_bytes, stats.in_flight), (0, 0, 0));
        prop_assert_eq!(stats.accepted, world.n_offered as u64);
        prop_assert!((0.0..=1.0).contains(&stats.padding_share()));
    }
}

#[test]
fn those_who_share_with_nobody_cost_the_others_no_foresight() {
    let mut scheduler: Scheduler<u32> = Scheduler::new(Settings::default().validate().unwrap());
    let mut now = Moment::START;
    let mut offer = |scheduler: &mut Scheduler<u32>, key| {
        now = now.after(Duration::from_millis(3));
        scheduler.offer(0, &Tag { key, ..Tag::default() }, None, now).unwrap();
        if let Next::Batch(batch) = scheduler.next(now) {
            scheduler.finish(batch.flight, Landing::default(), [], now);
        }
    };
    let usual_gap = |scheduler: &Scheduler<u32>| {
        let queues = scheduler.explain(Moment::START).queues;
        queues.into_iter().find(|queue| queue.key == Key::ANY)?.usual_gap
    };
    for _ in 0..8 {
        offer(&mut scheduler, Key::ANY);
    }
    let known = usual_gap(&scheduler);
    assert!(known.is_some());

    for _ in 0..1000 {
        offer(&mut scheduler, Key::unique());
    }

    assert_eq!(usual_gap(&scheduler), known);
}
