//! A clock that jumps: `libfaketime` between the server and the system, told by a file.

use std::{fs, path::PathBuf};

use anyhow::Context as _;

use crate::server::{Server, Surroundings};

/// Where distributions put it, and what may stand between: the machine's name for itself.
const FOLDERS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The library that tells programs another time.
pub(crate) fn library() -> anyhow::Result<PathBuf> {
    let folders = FOLDERS.iter().map(PathBuf::from).chain(
        FOLDERS.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten().map(
            // Such as x86_64-linux-gnu.
            |entry| entry.path(),
        ),
    );
    folders
        .map(|folder| folder.join(LIBRARY))
        .find(|library| library.exists())
        .context("there is no libfaketime; run scripts/install-chaos, or say --without faketime")
}

/// The time of day of one server.
#[derive(Debug)]
pub(crate) struct Clock {
    file: PathBuf,
}

impl Clock {
    pub(crate) fn of(server: &Server) -> Self {
        Self { file: server.file("clock") }
    }

    /// What a server must be started in so that this is its clock.
    ///
    /// Only the time of day: the clock that time-outs go by does not jump on a real machine either.
    pub(crate) fn surroundings(&self) -> anyhow::Result<Surroundings> {
        self.jump(0)?;
        let variables = vec![
            ("LD_PRELOAD", library()?.into_os_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.clone().into_os_string()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            // The file is looked at each time, so that a jump is one.
            ("FAKETIME_NO_CACHE", "1".into()),
        ];
        Ok(Surroundings { variables, ..Surroundings::default() })
    }

    /// So many seconds before or after the system's.
    pub(crate) fn jump(&self, seconds: i32) -> anyhow::Result<()> {
        // Renamed into place, since it may be read at any time.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(fs::rename(new, &self.file)?)
    }
}
