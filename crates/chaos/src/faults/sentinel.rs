//! A server that is told of Sentinels only, and a master that dies under it.

use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::time::{Instant, sleep};

use super::{
    Scene,
    elsewhere::{FEW, results, told},
};
use crate::{
    clients::{PATIENCE, cameras::connect},
    process::{LOOK, Process, free_port},
};

const SERVICE: &str = "cameras";
/// How many must see that a master is down to promote its copy: more than there are, so that only the
/// fault itself decides when.
const NEVER: &str = "9";
const ENOUGH: &str = "2";
/// Longest that they may take for it. One whose disk stalls for two seconds does nothing for thirty.
const PROMOTED: Duration = Duration::from_secs(90);

pub(super) async fn failover(scene: &Scene) -> anyhow::Result<()> {
    let sentinels = Sentinels::start(scene).await?;
    let url = vec![("PACELINE__CAMERAS__URL", sentinels.url().into())];
    told(scene, url, async || follow(scene, &sentinels).await).await
}

async fn follow(scene: &Scene, sentinels: &Sentinels) -> anyhow::Result<()> {
    let pair = scene.server.redis()?;
    let [_, other] = pair.both();
    results(scene, FEW, "through Sentinels").await?;
    pair.lose_serving(|| scene.film.lose_uncopied()).await?;
    sentinels.set_quorum(ENOUGH).await?;
    sentinels.name(other).await?;
    sentinels.set_quorum(NEVER).await?;
    pair.serve_other().await?;
    results(scene, FEW, "from the new master").await
}

/// Three that watch the pair; ended when dropped.
struct Sentinels(Vec<(Process, SocketAddr)>);

impl Sentinels {
    async fn start(scene: &Scene) -> anyhow::Result<Self> {
        let [master, _] = scene.server.redis()?.both();
        let mut all = Vec::new();
        for n in 0..3 {
            let folder = scene.server.file(&format!("sentinel-{n}"));
            all.push(launch(&scene.parts.redis, &folder, master)?);
        }
        let own = Self(all);
        own.know_everybody().await?;
        Ok(own)
    }

    fn url(&self) -> String {
        let hosts: Vec<String> = self.0.iter().map(|(_, at)| at.to_string()).collect();
        format!("redis+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// Waits until each knows the copy and the others.
    async fn know_everybody(&self) -> anyhow::Result<()> {
        for (_, at) in &self.0 {
            let began = Instant::now();
            loop {
                let said: HashMap<String, String> =
                    ask(*at, &["MASTER", SERVICE]).await.unwrap_or_default();
                let is = |name: &str, n: &str| said.get(name).is_some_and(|said| said == n);
                if is("num-slaves", "1") && is("num-other-sentinels", "2") {
                    break;
                }
                ensure!(began.elapsed() < PATIENCE, "a Sentinel knows only {said:?}");
                sleep(LOOK).await;
            }
        }
        Ok(())
    }

    async fn set_quorum(&self, quorum: &str) -> anyhow::Result<()> {
        for (_, at) in &self.0 {
            ask::<()>(*at, &["SET", SERVICE, "quorum", quorum]).await?;
        }
        Ok(())
    }

    /// Waits until all name this one.
    async fn name(&self, master: SocketAddr) -> anyhow::Result<()> {
        for (_, at) in &self.0 {
            let began = Instant::now();
            loop {
                let (host, port): (String, u16) =
                    ask(*at, &["GET-MASTER-ADDR-BY-NAME", SERVICE]).await?;
                if port == master.port() {
                    break;
                }
                ensure!(began.elapsed() < PROMOTED, "a Sentinel still names {host}:{port}");
                sleep(LOOK).await;
            }
        }
        Ok(())
    }
}

fn launch(
    binary: &Path,
    folder: &Path,
    master: SocketAddr,
) -> anyhow::Result<(Process, SocketAddr)> {
    let at = free_port()?;
    fs::create_dir_all(folder)?;
    let file = folder.join("sentinel.conf");
    let text = format!(
        "port {}\nbind 127.0.0.1\ndir {}\nlogfile log\n\
         sentinel monitor {SERVICE} 127.0.0.1 {} {NEVER}\n\
         sentinel down-after-milliseconds {SERVICE} 2000\n\
         sentinel failover-timeout {SERVICE} 5000\n",
        at.port(),
        folder.display(),
        master.port(),
    );
    fs::write(&file, text)?;
    let child = Command::new(binary)
        .arg(&file)
        .arg("--sentinel")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("{} does not start", binary.display()))?;
    let process = Process::default();
    process.put(child);
    Ok((process, at))
}

async fn ask<T: redis::FromRedisValue>(at: SocketAddr, words: &[&str]) -> anyhow::Result<T> {
    let mut connection = connect(at, PATIENCE).await?;
    Ok(redis::cmd("SENTINEL").arg(words).query_async(&mut connection).await?)
}
