//! Little memory: a control group of the kernel's, and who is in it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use rustix::process::Pid;

const ADVICE: &str = "memory control groups need root; else say --without cgroup";

/// How one version of control groups names things.
#[derive(Debug, Clone, Copy)]
struct Names {
    folder: &'static str,
    limit: &'static str,
    events: &'static str,
    /// What stands before a process's place in its list of places.
    place: &'static str,
}

const FIRST: Names = Names {
    folder: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    events: "memory.oom_control",
    place: ":memory:/",
};
const SECOND: Names =
    Names { folder: "/sys/fs/cgroup", limit: "memory.max", events: "memory.events", place: "0::/" };

/// A control group, gone when dropped. Whoever is in it goes back to where this process is.
#[derive(Debug)]
pub(crate) struct Group {
    names: Names,
    /// Where this process is.
    home: PathBuf,
    folder: PathBuf,
}

impl Group {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let is_first = fs::exists(Path::new(FIRST.folder).join(FIRST.limit))?;
        let names = if is_first { FIRST } else { SECOND };
        let places = fs::read_to_string("/proc/self/cgroup")?;
        let place = places.lines().find_map(|line| Some(line.split_once(names.place)?.1));
        let place = place.with_context(|| format!("this process is in no group; {ADVICE}"))?;
        let home = Path::new(names.folder).join(place);
        // Groups of the second version have processes or further groups in them, never both.
        let above = if is_first { Some(&*home) } else { home.parent() };
        let name = format!("paceline-chaos-{}-{name}", std::process::id());
        let folder = above.unwrap_or(&home).join(name);
        fs::create_dir(&folder).with_context(|| format!("no {}; {ADVICE}", folder.display()))?;
        let group = Self { names, home, folder };
        let limit = group.folder.join(names.limit);
        ensure!(limit.exists(), "there is no {}; {ADVICE}", limit.display());
        Ok(group)
    }

    /// From now on a process may take so many bytes more than it has.
    pub(crate) fn hold(&self, process: Pid, bytes: u64) -> anyhow::Result<()> {
        fs::write(self.folder.join(self.names.limit), bytes.to_string())?;
        // What it has is not moved along, so the limit is for what it takes from now on.
        Ok(fs::write(self.folder.join("cgroup.procs"), process.as_raw_nonzero().to_string())?)
    }

    /// How many processes of it the kernel has killed because there was no memory left.
    pub(crate) fn n_killed(&self) -> anyhow::Result<u64> {
        let events = fs::read_to_string(self.folder.join(self.names.events))?;
        let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(count.context("the kernel does not count kills")?.trim().parse()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let inside = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for process in inside.lines() {
            // It may have ended meanwhile.
            fs::write(self.home.join("cgroup.procs"), process).ok();
        }
        fs::remove_dir(&self.folder).ok();
    }
}
