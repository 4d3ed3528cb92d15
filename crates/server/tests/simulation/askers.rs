//! Clients that ask for inference: who wait for their answers, who have a deadline, and who leave.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::{io::split, time::Instant};

use crate::{
    ledger::Excuses,
    wire::{Answers, pause, post, write},
    world::World,
};

pub(crate) fn numbers(random: &mut ChaCha8Rng) -> Vec<i64> {
    (0..random.random_range(2..6)).map(|_| random.random()).collect()
}

/// Asks some times on one connection, a few requests at once, and waits for every answer.
pub(crate) async fn patient(world: &World, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Some(stream) = world.connect(&mut random).await else { return };
    let (from, mut to) = split(stream);
    let mut answers = Answers::new(from, &mut random);
    for _ in 0..random.random_range(1..6) {
        let asked: Vec<Vec<i64>> =
            (0..random.random_range(1..4)).map(|_| numbers(&mut random)).collect();
        let requests: Vec<Vec<u8>> = asked
            .iter()
            .map(|numbers| post("/v1/models/echo/infer", &json!({ "INPUT": numbers }).to_string()))
            .collect();
        let say = async {
            // The server may close meanwhile; whether it may is seen by what is answered.
            write(&mut to, &requests.concat(), &mut random).await.ok();
        };
        let hear = async {
            for (n, numbers) in asked.iter().enumerate() {
                match answers.next().await {
                    Ok(Some((status, body))) => {
                        let right = json!({ "OUTPUT": numbers });
                        world.ledger.answered(status, &body, &right, world.excuses);
                    }
                    Ok(None) if world.is_draining() => {
                        let n_left = asked.len() - n;
                        world.ledger.count(|total| total.unheard += n_left as u64);
                        return false;
                    }
                    // A reader so slow that a server in a hurry cuts it.
                    Err(_) | Ok(None) if answers.is_slow() && world.is_draining() => {
                        world.leave(asked.len() - n);
                        return false;
                    }
                    other => {
                        world.ledger.violation(format!("a patient client got {other:?}"));
                        return false;
                    }
                }
            }
            true
        };
        let ((), goes_on) = tokio::join!(say, hear);
        if !goes_on {
            return;
        }
        pause(&mut random, 300).await;
    }
    drop(to);
    match answers.rest().await {
        Ok(0) => {}
        other => world.ledger.violation(format!("after the last answer came {other:?}")),
    }
}

/// Asks once, with a deadline. What waits beyond it is told so; what left in time is answered, though
/// its call may take longer than anybody knew.
pub(crate) async fn hurried(world: &World, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Some(stream) = world.connect(&mut random).await else { return };
    let (from, mut to) = split(stream);
    let mut answers = Answers::new(from, &mut random);
    let (numbers, timeout) = (numbers(&mut random), random.random_range(1..60_000_u64));
    let body = json!({
        "inputs": [{ "name": "INPUT", "datatype": "INT64", "shape": [1, numbers.len()], "data": numbers }],
        "parameters": { "timeout": timeout } });
    let request = post("/v2/models/echo/infer", &body.to_string());
    let sent = async {
        let sent = write(&mut to, &request, &mut random).await;
        (sent, Instant::now())
    };
    let ((_, sent), answer) = tokio::join!(sent, answers.next());
    match answer {
        Ok(Some((status, body))) => {
            let took = sent.elapsed();
            let latest = Duration::from_micros(timeout) + world.slowest;
            // A call that fails is split, and its parts take their time too.
            let is_exact = !answers.is_slow() && !world.excuses.failed;
            if status == 200 && is_exact && latest < took {
                let said = format!("an answer came after {took:?}, and had {timeout} µs to leave");
                return world.ledger.violation(said);
            }
            let right = json!(numbers);
            let body = if status == 200 { body["outputs"][0]["data"].clone() } else { body };
            world.ledger.answered(status, &body, &right, Excuses { late: true, ..world.excuses });
        }
        Ok(None) if world.is_draining() => world.ledger.count(|total| total.unheard += 1),
        other => world.ledger.violation(format!("a hurried client got {other:?}")),
    }
}

/// Asks, and is gone before the answer, or before it has asked.
pub(crate) async fn fickle(world: &World, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let Some(stream) = world.connect(&mut random).await else { return };
    let (_from, mut to) = split(stream);
    let request =
        post("/v1/models/echo/infer", &json!({ "INPUT": numbers(&mut random) }).to_string());
    let is_whole = random.random_bool(0.5);
    let length = if is_whole { request.len() } else { random.random_range(0..request.len()) };
    world.leave(1);
    // It does not matter to it.
    write(&mut to, &request[..length], &mut random).await.ok();
    pause(&mut random, 40).await;
}

/// Many at once, each on its own connection: each is answered or refused.
pub(crate) async fn crowd(world: &World, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let n = random.random_range(2..40);
    let ask = |seed: u64| async move {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let Some(stream) = world.connect(&mut random).await else { return };
        let (from, mut to) = split(stream);
        let mut answers = Answers::new(from, &mut random);
        let numbers = numbers(&mut random);
        let request = post("/v1/models/echo/infer", &json!({ "INPUT": numbers }).to_string());
        let (_, answer) = tokio::join!(write(&mut to, &request, &mut random), answers.next());
        match answer {
            Ok(Some((status, body))) => {
                let right: Value = json!({ "OUTPUT": numbers });
                world.ledger.answered(status, &body, &right, world.excuses);
            }
            Ok(None) if world.is_draining() => world.ledger.count(|total| total.unheard += 1),
            Err(_) if answers.is_slow() && world.is_draining() => world.leave(1),
            other => world.ledger.violation(format!("one of a crowd got {other:?}")),
        }
    };
    let all = (0..n).map(|_| ask(random.random()));
    futures_util::future::join_all(all.collect::<Vec<_>>()).await;
}
