//! A batcher for anything that is cheaper together than alone.
//!
//! Many callers submit items one by one; an executor runs them in batches. The batcher knows
//! nothing of what an item is. It is useful alone to any Rust program.
//!
//! # How it decides
//!
//! Executors *pull*: a batch is formed at the moment a device is free, never before, so it keeps
//! growing while devices are busy. A lone item on an idle device goes at once. Waiting with an
//! idle device happens only where it pays: while what merging saves is worth more than what
//! everybody present would wait for it, judged by learned call times and learned arrival gaps.
//! Where several devices are free, a crowd is divided among them if its items gain more by that
//! than the devices lose, and if their calls do not slow each other down.
//! Deadlines know how long calls take: what can no longer make it is dropped before it costs
//! anything, and what cannot make it at all is refused at the door.
//!
//! # What it promises
//!
//! - Everything accepted gets exactly one answer, also through panics, aborts and closing.
//! - Items with different [keys](Key) never share a call; no limit is ever exceeded.
//! - An answer belongs to an item by id. Replies that cannot be told apart fail their call.
//! - One bad item fails alone; a panic fails its batch; neighbours never notice.
//! - Nothing is unbounded, and keys or streams that left cost nothing.
//!
//! # Example
//!
//! ```
//! use paceline_batch::{Batcher, Runner, Settings, Tag, from_fn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (batcher, timekeeper) = Batcher::<u64, u64>::pair(Settings::default().validate()?);
//! let double = from_fn(|numbers| Ok(numbers.map(|n: &u64| n * 2).collect()));
//! tokio::spawn(timekeeper.run());
//! tokio::spawn(Runner::new(batcher.attach(), double).run());
//!
//! let answer = batcher.submit(21, &Tag::default()).await?;
//! assert_eq!(answer.await?, 42);
//! # Ok(()) }
//! ```
//!
//! # The parts
//!
//! Deciding is pure: [`Scheduler`] has no clock, no task and no lock. Waiting is thin: [`Batcher`]
//! puts items in, a [`Puller`] takes batches out, a [`Timekeeper`] watches deadlines. A [`Runner`]
//! runs batches whole; a [`Stepper`] lets items on and off between the steps of a long call.

#![forbid(unsafe_code)]

mod batcher;
mod buckets;
mod company;
mod error;
mod executor;
mod fair;
mod gaps;
mod histogram;
mod key;
mod lane;
mod latency;
mod lent;
mod limits;
mod moment;
mod policy;
mod puller;
mod queue;
mod recent;
mod runner;
mod scheduler;
mod settings;
mod shared;
mod shares;
mod slot;
mod sorted;
mod stats;
mod stepper;
mod stepping;
mod tag;
mod ticket;
mod timekeeper;

pub use batcher::{Batcher, Lane};
pub use buckets::Buckets;
pub use error::{Cause, Dropped, Failure, Refused, WrongReplies};
pub use executor::{Call, Executor, FromFn, Reply, Rider, from_fn};
pub use histogram::Histogram;
pub use key::Key;
pub use limits::{Limits, Policy};
pub use moment::Moment;
pub use policy::{FireReason, Why};
pub use puller::{Flight, Puller};
pub use recent::BatchRecord;
pub use runner::Runner;
pub use scheduler::{
    Batch, BatchFacts, Boarded, Decision, Explanation, FlightId, Landing, Latency, Next, QueueView,
    Scheduler,
};
pub use settings::{PolicyName, Preset, Settings, SettingsError};
pub use slot::ItemId;
pub use stats::Stats;
pub use stepper::Stepper;
pub use stepping::{Done, Stepping};
pub use tag::{Priority, Tag};
pub use ticket::{Ride, Ticket};
pub use timekeeper::Timekeeper;
