//! A disk that is soon full: a file system in memory that is mounted nowhere. It is reached by a
//! descriptor of this process, and the kernel removes it with the last one who uses it, so none
//! outlives the harness, however that ends.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
};

use anyhow::Context as _;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

const ADVICE: &str = "a disk in memory needs root; else say --without mount";

#[derive(Debug)]
pub(crate) struct Disk {
    root: OwnedFd,
}

impl Disk {
    /// One on which there is room for so many bytes.
    pub(crate) fn new(bytes: u64) -> anyhow::Result<Self> {
        let root = tmpfs(bytes).context(ADVICE)?;
        Ok(Self { root })
    }

    /// Where others find it.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.root.as_raw_fd()).into()
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Leaves no room on it.
    pub(crate) fn fill(&self) -> anyhow::Result<()> {
        let mut filler = File::create(self.filler())?;
        loop {
            match filler.write_all(&[7; 4096]) {
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                written => written?,
            }
        }
    }

    /// There is room again.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        Ok(fs::remove_file(self.filler())?)
    }
}

fn tmpfs(bytes: u64) -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "size", bytes.to_string())?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
