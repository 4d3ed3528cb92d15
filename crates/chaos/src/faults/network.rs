//! What can happen between the server and others: packets that never arrive.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use super::{Scene, redis::cameras};
use crate::{clients::http, packets::Lossy};

/// Longest that a server may take to say that it does not hear Redis any more.
const NOTICED: Duration = Duration::from_secs(8);

pub(super) async fn loss(scene: &Scene) -> anyhow::Result<()> {
    let (http, grpc) = (scene.server.http.port(), scene.server.grpc.port());
    let rules = ["sport", "dport"]
        .map(|end| format!("tcp {end} {{ {http}, {grpc} }} numgen random mod 100 < 10"));
    let lossy = Lossy::start(&rules).await?;
    sleep(Duration::from_secs(2)).await;
    lossy.end()
}

pub(super) async fn redis_cut(scene: &Scene) -> anyhow::Result<()> {
    let lossy = Lossy::start(&[format!("tcp sport {}", scene.server.redis()?.at.port())]).await?;
    let began = Instant::now();
    // Longer than `timeout` in the server's configuration, and until it has noticed.
    sleep(Duration::from_secs(3)).await;
    loop {
        let health = cameras(scene).await?;
        if health["source_up"] == false || !health["problem"].is_null() {
            break;
        }
        ensure!(began.elapsed() < NOTICED, "Redis is cut off, and health is {health}");
        sleep(Duration::from_millis(20)).await;
    }
    let status = http::get(scene.server.http, "/v2/health/ready").await?;
    lossy.end()?;
    ensure!(status == 200, "without its cameras the server says {status}");
    Ok(())
}
