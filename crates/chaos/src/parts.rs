//! What the harness takes from the machine it runs on, and what is left out of it on purpose.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use serde::Serialize;

use crate::{clock, disk, memory, packets};

/// Something that a machine may not have. Without it some doors have no client and some faults do
/// not happen, and the report says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// Python with `numpy`: models in worker processes
    Python,
    /// `redis-server`: cameras
    Redis,
    /// `ss` of iproute2, and root: connections that the system resets
    Ss,
    /// `nft` of nftables, and root: packets that get lost
    Nft,
    /// `libfaketime`: a clock that jumps
    Faketime,
    /// Control groups for memory, and root: memory that is short
    Cgroup,
    /// A disk in memory, and root: a disk that is full
    Mount,
}

/// Where everything is.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) server: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) redis: PathBuf,
    pub(crate) without: Vec<Part>,
}

impl Parts {
    /// Looks for every part that is not left out.
    pub(crate) fn find(
        server: Option<PathBuf>,
        python: &Path,
        redis: Option<PathBuf>,
        without: &[Part],
    ) -> anyhow::Result<Self> {
        let own = env::current_exe().context("this program is gone")?;
        let beside = own.with_file_name("redis-server");
        let redis = redis.or_else(|| beside.exists().then_some(beside));
        let parts = Self {
            server: server.unwrap_or_else(|| own.with_file_name("paceline")),
            python: std::path::absolute(python)?,
            redis: redis.unwrap_or_else(|| "redis-server".into()),
            without: without.to_vec(),
        };
        ensure!(parts.server.exists(), "there is no {}", parts.server.display());
        ensure!(
            !parts.has(Part::Python) || parts.python.exists(),
            "there is no {}; run scripts/install-python, or say --without python",
            parts.python.display()
        );
        ensure!(
            !parts.has(Part::Redis) || is_program(&parts.redis),
            "there is no {}; run scripts/install-redis, or say --without redis",
            parts.redis.display()
        );
        Ok(parts)
    }

    pub(crate) fn has(&self, part: Part) -> bool {
        !self.without.contains(&part)
    }
}

/// Whether faults can be done that need these: what only they need is looked for only then.
pub(crate) fn suffice(needs: &[Part]) -> anyhow::Result<()> {
    for part in needs {
        match part {
            Part::Python | Part::Redis => {}
            Part::Ss => ensure!(
                is_program(Path::new("ss")),
                "there is no `ss`; run scripts/install-chaos, or say --without ss"
            ),
            Part::Nft => packets::can_be_lost()?,
            Part::Faketime => drop(clock::library()?),
            Part::Cgroup => drop(memory::Group::new("try")?),
            Part::Mount => drop(disk::Disk::new(4096)?),
        }
    }
    Ok(())
}

/// Whether a name is that of a program, as a shell would find it.
pub(crate) fn is_program(name: &Path) -> bool {
    if name.components().count() > 1 {
        return name.exists();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).exists())
}
