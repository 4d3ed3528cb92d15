//! Clients that mean harm or have broken: the server ends each of them within its time.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::{
    io::{AsyncWriteExt as _, split},
    time::{Instant, timeout},
};

use crate::{
    wire::{Answers, post},
    world::{PATIENCE, World},
};

/// Sends what is no request, or half of one, or many and reads nothing, and then waits.
pub(crate) async fn pest(world: &World, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Some(stream) = world.connect(&mut random).await else { return };
    let whole = post("/v1/models/echo/infer", "{\"INPUT\":[1,2,3]}");
    let (sent, n_asked) = match random.random_range(0..3) {
        0 => {
            let mut noise = vec![0; random.random_range(1..2000)];
            random.fill_bytes(&mut noise);
            (noise, 0)
        }
        1 => (whole[..random.random_range(1..whole.len())].to_vec(), 0),
        _ => {
            let n = random.random_range(1..50);
            (whole.repeat(n), n)
        }
    };
    world.leave(n_asked);
    let (from, mut to) = split(stream);
    let began = Instant::now();
    // What the server does not read is not sent, until it has had enough.
    let sulk = timeout(PATIENCE, async {
        if to.write_all(&sent).await.is_ok() {
            // Whoever has read nothing so far finds the end only behind what there is to read.
            tokio::time::sleep(PATIENCE / 2).await;
        }
        Answers::new(from, &mut random).rest().await.ok()
    });
    if sulk.await.is_err() {
        let took = began.elapsed();
        world
            .ledger
            .violation(format!("a pest that sent {} bytes has stayed {took:?}", sent.len()));
    }
    world.ledger.count(|total| total.pests += 1);
}
