//! Models that fail, panic, are replaced, or are asked for more than they can do.

use std::{fs, time::Duration};

use anyhow::ensure;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Scene;
use crate::{clients::http, ledger::Outcome};

/// What a call takes that nobody behind it can wait for; the row's length says it.
const HANGS_MS: i64 = 3000;
/// How long those can wait, and by when all of them must know.
const WAITS: Duration = Duration::from_millis(300);
const TOLD: Duration = Duration::from_secs(2);

pub(super) async fn fails(scene: &Scene) -> anyhow::Result<()> {
    mixed(scene, "failing").await
}

pub(super) async fn panics(scene: &Scene) -> anyhow::Result<()> {
    mixed(scene, "panicking").await
}

/// Asks a model that fails now and then: each gets its own answer or a typed failure.
async fn mixed(scene: &Scene, model: &str) -> anyhow::Result<()> {
    let asked = (0..200_i64)
        .map(|n| async move { http::plain(scene.server.http, model, &[n, n * 7, -n]).await });
    let mut n_failed = 0;
    for outcome in join_all(asked).await {
        match outcome? {
            Outcome::Right => {}
            Outcome::Failed(_) => n_failed += 1,
            other => anyhow::bail!("{model} answered {other:?}"),
        }
    }
    ensure!(n_failed != 0, "{model} never failed");
    Ok(())
}

pub(super) async fn reload(scene: &Scene) -> anyhow::Result<()> {
    for _ in 0..5 {
        load(scene, 200).await?;
    }
    Ok(())
}

async fn load(scene: &Scene, expected: u16) -> anyhow::Result<()> {
    let path = "/v2/repository/models/fragile/load";
    let (status, said) = http::send(scene.server.http, path, None, "POST", "{}".into()).await?;
    ensure!(status == expected, "loading answered {status}: {}", String::from_utf8_lossy(&said));
    Ok(())
}

pub(super) async fn broken(scene: &Scene) -> anyhow::Result<()> {
    let version = scene.server.models().join("fragile/2");
    fs::create_dir_all(&version)?;
    fs::write(version.join("model.py"), "this is no Python")?;
    let path = "/v2/repository/models/fragile/load";
    let (status, _) = http::send(scene.server.http, path, None, "POST", "{}".into()).await?;
    let outcome = http::fragile(scene.server.http, 1, 0).await?;
    fs::remove_dir_all(&version)?;
    ensure!(status >= 400, "a version that cannot be loaded was taken");
    ensure!(outcome == Outcome::Right, "the old version answered {outcome:?}");
    Ok(())
}

pub(super) async fn overload(scene: &Scene) -> anyhow::Result<()> {
    // Eight at a time every 100 ms, and 32 places: of 400, most must be refused at once.
    let asked =
        (0..400_i64).map(|n| async move { http::plain(scene.server.http, "slow", &[n, -n]).await });
    let (mut n_right, mut n_refused) = (0, 0);
    for outcome in join_all(asked).await {
        match outcome? {
            Outcome::Right => n_right += 1,
            Outcome::Refused(_) => n_refused += 1,
            other => anyhow::bail!("an overloaded model answered {other:?}"),
        }
    }
    ensure!(n_right >= 32, "of 400 only {n_right} were answered");
    ensure!(n_refused >= 200, "of 400 only {n_refused} were refused");
    Ok(())
}

pub(super) async fn deadlines(scene: &Scene) -> anyhow::Result<()> {
    // In microseconds, as the protocol has it: less than one call takes.
    let asked = (0..16).map(|n| async move {
        let body = json!({
            "inputs": [{ "name": "INPUT", "datatype": "INT64", "shape": [1, 1], "data": [n] }],
            "parameters": { "timeout": 20_000 } });
        http::post(scene.server.http, "/v2/models/slow/infer", &body).await
    });
    for answer in join_all(asked).await {
        let (status, body) = answer?;
        ensure!(status != 200, "an answer after its deadline: {body}");
        ensure!(body["code"] == "deadline_exceeded", "{status} {body}");
    }
    Ok(())
}

/// Whether a model is being asked now.
pub(super) async fn is_at_work(scene: &Scene, model: &str) -> anyhow::Result<bool> {
    let (_, about) = http::read(scene.server.http, &format!("/v1/models/{model}/explain")).await?;
    Ok(about["busy"].as_u64().is_some_and(|n| n != 0))
}

pub(super) async fn hangs(scene: &Scene) -> anyhow::Result<()> {
    let at = scene.server.http;
    let long: Vec<i64> = (0..HANGS_MS).collect();
    let hanging = http::plain(at, "hanging", &long);
    let behind = async {
        // Behind it for certain: the model says that it is at work.
        let began = Instant::now();
        while !is_at_work(scene, "hanging").await? {
            ensure!(began.elapsed() < TOLD, "the model is not asked");
            sleep(Duration::from_millis(5)).await;
        }
        let began = Instant::now();
        let asked = (0..16).map(|n| async move {
            let body = json!({
                "inputs": [{ "name": "INPUT", "datatype": "INT64", "shape": [1, 1], "data": [n] }],
                "parameters": { "timeout": WAITS.as_micros() } });
            http::post(at, "/v2/models/hanging/infer", &body).await
        });
        for answer in join_all(asked).await {
            let (status, body) = answer?;
            ensure!(
                body["code"] == "deadline_exceeded",
                "behind a call that hangs: {status} {body}"
            );
        }
        let told = began.elapsed();
        ensure!(told < TOLD, "they were told after {told:?}, and could wait {WAITS:?}");
        Ok(())
    };
    let (hanging, behind) = tokio::join!(hanging, behind);
    behind?;
    let hanging = hanging?;
    ensure!(hanging == Outcome::Right, "a call that took its time got {hanging:?}");
    let after = http::plain(at, "hanging", &[7, 8]).await?;
    ensure!(after == Outcome::Right, "after a call that hung: {after:?}");
    Ok(())
}
