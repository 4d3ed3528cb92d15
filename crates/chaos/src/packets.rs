//! Packets that get lost on their way, by rules of nftables in a table of their own.

use std::{
    io::Write as _,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, bail, ensure};
use tokio::time::{Instant, sleep};

use crate::{
    parts::is_program,
    process::{LOOK, PATIENCE},
};

const ADVICE: &str = "it needs root and a kernel with nftables; else say --without nft";

/// Tables that this process has made.
static N_TABLES: AtomicU64 = AtomicU64::new(0);

/// Rules that hold for as long as this does.
///
/// The table belongs to an `nft` process that waits for more to do, and the kernel removes it when
/// that ends. It ends with its standard input, so no rule outlives the harness, however that ends.
#[derive(Debug)]
pub(crate) struct Lossy {
    nft: Child,
    table: String,
}

impl Lossy {
    /// Loses what comes in over loopback and is as each of these says, in words of nftables.
    pub(crate) async fn start(rules: &[String]) -> anyhow::Result<Self> {
        let n = N_TABLES.fetch_add(1, Ordering::Relaxed);
        let table = format!("paceline_chaos_{}_{n}", std::process::id());
        let mut nft = Command::new("nft")
            .arg("--interactive")
            // It would keep a history there.
            .env("HOME", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("`nft` does not start")?;
        let mut words = vec![
            format!("table inet {table} {{ flags owner; }}\n"),
            format!("add chain inet {table} in {{ type filter hook input priority 0; }}\n"),
        ];
        words.extend(
            rules
                .iter()
                .map(|rule| format!("add rule inet {table} in iif lo {rule} counter drop\n")),
        );
        let words = words.concat();
        nft.stdin.as_mut().context("`nft` has no input")?.write_all(words.as_bytes())?;
        let lossy = Self { nft, table };
        let began = Instant::now();
        while lossy.rules().is_none_or(|found| found.len() < rules.len()) {
            ensure!(began.elapsed() < PATIENCE, "`nft` does not take the rules; {ADVICE}");
            sleep(LOOK).await;
        }
        Ok(lossy)
    }

    /// How many packets each rule has lost, where the table is there.
    fn rules(&self) -> Option<Vec<u64>> {
        let listed = nft(&["list", "table", "inet", &self.table]).ok()?;
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let counts = text.lines().filter_map(|line| {
            line.split_once("counter packets ")?.1.split_whitespace().next()?.parse().ok()
        });
        listed.status.success().then(|| counts.collect())
    }

    /// All packets arrive again. Fails where none was lost: then there was no fault.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        let lost = self.rules().context("the table of lost packets is gone")?;
        ensure!(lost.iter().sum::<u64>() != 0, "no packet got lost");
        Ok(())
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        // Either fails only where it has ended already.
        self.nft.kill().ok();
        self.nft.wait().ok();
    }
}

fn nft(words: &[&str]) -> anyhow::Result<Output> {
    Command::new("nft").args(words).output().context("`nft` does not start")
}

/// Whether this machine can do it.
pub(crate) fn can_be_lost() -> anyhow::Result<()> {
    ensure!(
        is_program("nft".as_ref()),
        "there is no `nft`; run scripts/install-chaos, or say --without nft"
    );
    let listed = nft(&["list", "tables"])?;
    if !listed.status.success() {
        let said = String::from_utf8_lossy(&listed.stderr).into_owned();
        bail!("`nft` may not look at tables; {ADVICE}: {}", said.trim());
    }
    Ok(())
}
