//! What the batcher itself costs per item: submit, one echo call, answer.
//!
//! Side by side in one run: a bare channel pair (the floor: a bounded channel in and a oneshot
//! back, and an executor that takes whatever waits), this crate, and two other batching crates.
//! Closed loop: each submitter waits for its answer before it submits again.
//!
//! `cargo bench -p paceline-batch --bench overhead [-- --json] [--only paceline-batch] [--submitters 8]`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints, spawns and reads the clock"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use paceline_batch::{Batcher, Call, Cause, Executor, Reply, Runner, Settings, Tag};
use tokio::sync::{mpsc, oneshot};

/// Counts allocations, so that a cost per item can be told.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "a global allocator can be written no other way")]
// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const MAX_ITEMS: usize = 64;
const ROUND: Duration = Duration::from_millis(400);
const ROUNDS: usize = 5;

/// Runs submitters in a closed loop; gives nanoseconds and allocations per item of the best round.
async fn measure<F, A>(n_submitters: u64, submit: F) -> (f64, f64)
where
    F: Fn(u64) -> A + Clone + Send + 'static,
    A: Future<Output = u64> + Send,
{
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..=ROUNDS {
        let started = Instant::now();
        let allocated = ALLOCATIONS.load(Ordering::Relaxed);
        let submitters: Vec<_> = (0..n_submitters)
            .map(|submitter| {
                let submit = submit.clone();
                tokio::spawn(async move {
                    let mut n_items = 0_u64;
                    while started.elapsed() < ROUND {
                        // Reading the clock is not what is measured.
                        for _ in 0..64 {
                            assert_eq!(submit(submitter).await, submitter);
                        }
                        n_items += 64;
                    }
                    n_items
                })
            })
            .collect();
        let mut n_items = 0;
        for submitter in submitters {
            n_items += submitter.await.expect("a submitter does not panic");
        }
        #[expect(clippy::cast_precision_loss, reason = "millions at most")]
        let n_items = n_items as f64;
        #[expect(clippy::cast_precision_loss, reason = "millions at most")]
        let allocated = (ALLOCATIONS.load(Ordering::Relaxed) - allocated) as f64;
        let cost = started.elapsed().as_secs_f64() * 1e9 / n_items;
        if cost < best.0 {
            best = (cost, allocated / n_items);
        }
    }
    best
}

async fn channel_pair(n_submitters: u64) -> (f64, f64) {
    let (sender, mut inbox) = mpsc::channel::<(u64, oneshot::Sender<u64>)>(1024);
    let executor = tokio::spawn(async move {
        let mut batch = Vec::with_capacity(MAX_ITEMS);
        while 0 < inbox.recv_many(&mut batch, MAX_ITEMS).await {
            for (item, reply) in batch.drain(..) {
                reply.send(item).expect("the submitter waits");
            }
        }
    });
    let cost = measure(n_submitters, move |item| {
        let sender = sender.clone();
        async move {
            let (reply, answer) = oneshot::channel();
            sender.send((item, reply)).await.expect("the executor runs");
            answer.await.expect("the executor answers")
        }
    })
    .await;
    executor.abort();
    cost
}

async fn paceline(n_submitters: u64) -> (f64, f64) {
    let settings = Settings { max_items: Some(MAX_ITEMS), ..Settings::default() };
    let (batcher, timekeeper) =
        Batcher::<u64, u64>::pair(settings.validate().expect("valid settings"));
    tokio::spawn(timekeeper.run());
    tokio::spawn(Runner::new(batcher.attach(), Echo).run());
    measure(n_submitters, move |item| {
        let batcher = batcher.clone();
        async move {
            let ticket = batcher.try_submit(item, &Tag::default()).expect("there is room");
            ticket.await.expect("echo never fails")
        }
    })
    .await
}

#[derive(Debug, Clone)]
struct Echo;

impl Executor<u64, u64> for Echo {
    async fn execute(
        &mut self,
        call: &Call<'_, u64, u64>,
        replies: &mut Vec<Reply<u64>>,
    ) -> Result<(), Cause> {
        replies.extend(call.riders().map(|rider| Reply::ok(rider.id, *rider.item)));
        Ok(())
    }
}

impl batch_aint_one::Processor for Echo {
    type Key = ();
    type Input = u64;
    type Output = u64;
    type Error = String;
    type Resources = ();

    async fn acquire_resources(&self, (): ()) -> Result<(), String> {
        Ok(())
    }

    async fn process(
        &self,
        (): (),
        inputs: impl Iterator<Item = u64> + Send,
        (): (),
    ) -> Result<Vec<u64>, String> {
        Ok(inputs.collect())
    }
}

async fn batch_aint_one(n_submitters: u64) -> (f64, f64) {
    use batch_aint_one::{Batcher, BatchingPolicy, Limits};
    let batcher = Batcher::builder()
        .name("echo")
        .processor(Echo)
        .limits(Limits::builder().max_batch_size(MAX_ITEMS).build())
        .batching_policy(BatchingPolicy::Immediate)
        .build();
    let batcher = Arc::new(batcher);
    measure(n_submitters, move |item| {
        let batcher = Arc::clone(&batcher);
        async move { batcher.add((), item).await.expect("echo never fails") }
    })
    .await
}

async fn batched_fn(n_submitters: u64) -> (f64, f64) {
    async fn echo(item: u64) -> u64 {
        let handler = batched_fn::batched_fn! {
            handler = |batch: Vec<u64>, _context: &u8| -> Vec<u64> { batch };
            config = { max_batch_size: 64, max_delay: 0, channel_cap: Some(1024), };
            context = { _context: 0_u8, };
        };
        handler(item).await.expect("echo never fails")
    }
    measure(n_submitters, echo).await
}

fn main() {
    let as_json = std::env::args().any(|argument| argument == "--json");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let mut rows = Vec::new();
    let value_of = |flag: &str| std::env::args().skip_while(|argument| argument != flag).nth(1);
    let only = value_of("--only");
    let submitters = value_of("--submitters").and_then(|number| number.parse().ok());
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    for n_submitters in submitters.map_or(vec![1, 8, 64], |n| vec![n]) {
        let mut row = |name, (nanos, allocations): (f64, f64)| {
            rows.push((n_submitters, name, nanos, allocations));
        };
        if is_wanted("channel-pair") {
            row("channel-pair", runtime.block_on(channel_pair(n_submitters)));
        }
        if is_wanted("paceline-batch") {
            row("paceline-batch", runtime.block_on(paceline(n_submitters)));
        }
        if is_wanted("batch-aint-one") {
            row("batch-aint-one", runtime.block_on(batch_aint_one(n_submitters)));
        }
        if is_wanted("batched-fn") {
            row("batched-fn", runtime.block_on(batched_fn(n_submitters)));
        }
    }
    if as_json {
        let rows: Vec<String> = rows
            .iter()
            .map(|(n, name, nanos, allocations)| {
                format!(
                    r#"{{"submitters":{n},"batcher":"{name}","ns_per_item":{nanos:.0},"allocations_per_item":{allocations:.2}}}"#
                )
            })
            .collect();
        println!("[{}]", rows.join(","));
        return;
    }
    println!(
        "{:>10}  {:<15}{:>12}{:>18}",
        "submitters", "batcher", "ns / item", "allocations/item"
    );
    for (n_submitters, name, nanos, allocations) in rows {
        println!("{n_submitters:>10}  {name:<15}{nanos:>12.0}{allocations:>18.2}");
    }
}
