//! The smallest honest use: a hundred callers, a model that is cheaper together, one batcher.
//!
//! `cargo run -p paceline-batch --example double`

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example prints and spawns"
)]

use std::time::Duration;

use paceline_batch::{Batcher, Call, Cause, Executor, Reply, Runner, Settings, Tag};

/// Takes 10 ms a call, however many numbers it doubles.
struct Double;

impl Executor<u64, u64> for Double {
    async fn execute(
        &mut self,
        call: &Call<'_, u64, u64>,
        replies: &mut Vec<Reply<u64>>,
    ) -> Result<(), Cause> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        replies.extend(call.riders().map(|rider| Reply::ok(rider.id, rider.item * 2)));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings { max_items: Some(32), ..Settings::default() };
    let (batcher, timekeeper) = Batcher::pair(settings.validate()?);
    tokio::spawn(timekeeper.run());
    tokio::spawn(Runner::new(batcher.attach(), Double).run());

    let tag = Tag { timeout: Some(Duration::from_secs(1)), ..Tag::default() };
    let tickets: Result<Vec<_>, _> = (0..100).map(|n| batcher.try_submit(n, &tag)).collect();
    for (n, ticket) in tickets?.into_iter().enumerate() {
        let (doubled, ride) = ticket.with_ride().await?;
        if n % 25 == 0 {
            println!(
                "{n} doubled is {doubled}: batch {} of {} items, waited {:?}, fired because {}",
                ride.batch,
                ride.items,
                ride.waited,
                ride.fired.as_str(),
            );
        }
    }
    Ok(())
}
