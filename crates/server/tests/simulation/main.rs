//! The whole server, its clients, its network and its clock in one thread and in no time: whatever
//! happens, every request ends once, with the right bytes and in order, and everything stops.
//!
//! A seed decides what happens. `scripts/simulate --seed S` repeats one, `--seeds N` tries many.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and it supervises itself"
)]

mod askers;
mod callers;
mod ledger;
mod model;
mod pest;
mod streams;
mod wire;
mod world;

use std::{
    env, panic,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use tokio::runtime::Builder;

/// Seeds where nobody says how many.
const SEEDS: u64 = 1000;
/// How often it says how far it is.
const TELL: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    Some(env::var(name).ok()?.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// One seed; what was not as it must be.
fn simulate(seed: u64) -> Result<ledger::Total, String> {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let ended = panic::catch_unwind(|| runtime.block_on(world::run(seed)));
    ended.unwrap_or_else(|_| Err("it panicked".to_owned()))
}

#[test]
fn whatever_happens_every_request_ends_once() {
    // Models panic on purpose here; what is printed of that says nothing.
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(|said| said.starts_with(model::PANIC)) {
            before(info);
        }
    }));
    let first = number("PACELINE_SEED").unwrap_or(0);
    let default = if env::var_os("PACELINE_SEED").is_some() { 1 } else { SEEDS };
    let seeds = number("PACELINE_SEEDS").unwrap_or(default);
    let (next, began) = (AtomicU64::new(0), Instant::now());
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<Result<ledger::Total, String>> = thread::scope(|scope| {
        let work = || {
            let mut total = ledger::Total::default();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if seeds <= n {
                    return Ok(total);
                }
                if n % TELL == TELL - 1 {
                    eprintln!("{} seeds in {:?}", n + 1, began.elapsed());
                }
                let seed = first + n;
                let again = format!("scripts/simulate --seed {seed}");
                let one = simulate(seed).map_err(|said| format!("{said}\nonce more: {again}"))?;
                total.add(&one);
            }
        };
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut total = ledger::Total::default();
    for one in all {
        total.add(&one.unwrap_or_else(|said| panic!("{said}")));
    }
    eprintln!("{seeds} seeds in {:?}: {total:?}", began.elapsed());
    if SEEDS <= seeds {
        assert!(total.has_everything(), "some things never happened: {total:?}");
    }
}
