//! A model that is loaded while the server runs is tried first, in a process of its own: a file that
//! crashes its engine, hangs it or takes all memory costs that process, and not the server.
//!
//! The process is this program, started once more. What it tries is what would be served: every
//! version of the model is loaded and warmed up. It may use so much time
//! and memory. Only ONNX models are tried: Python workers are processes anyway, and the rest reads
//! no stranger's files. Models that are there at the start are not: a server that ends while it
//! starts has kept nobody waiting.

use std::{
    fs,
    io::{self, PipeReader, Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use paceline_pipeline::{Blueprint, Model};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    config::{ModelSection, ServerSection},
    repository,
};

/// The command that the process is started with.
pub const COMMAND: &str = "try-model";

/// What a process may say; more is not read.
const MAX_WORDS: usize = 64 << 10;

/// How models are tried.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// This program.
    pub(crate) program: PathBuf,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// How many bytes it may use; half of what is free where that is not said.
    pub(crate) max_memory: Option<u64>,
}

/// What is tried, as the process reads it.
#[derive(Debug, Serialize, Deserialize)]
struct Subject {
    repository: PathBuf,
    name: String,
    configured: Option<ModelSection>,
    max_memory: Option<u64>,
}

/// What the process says of it, in its last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Fits,
    Refused(String),
}

/// Whether a model is tried.
pub(crate) fn is_wanted(versions: &[Blueprint]) -> bool {
    versions.iter().any(|version| version.platform == repository::ONNX)
}

impl Trial {
    /// As it is configured, if models are tried.
    pub(crate) fn of(section: &ServerSection) -> Option<Self> {
        let program = section.program.clone().filter(|_| section.try_models)?;
        Some(Self { program, timeout: section.try_timeout, max_memory: section.try_memory })
    }

    /// Tries a model; waits for it, so not on an async thread.
    ///
    /// # Errors
    ///
    /// Why the model cannot be admitted.
    pub(crate) fn run(
        &self,
        repository: &Path,
        name: &str,
        configured: Option<&ModelSection>,
    ) -> Result<(), String> {
        let subject = Subject {
            repository: repository.to_owned(),
            name: name.to_owned(),
            configured: configured.cloned(),
            max_memory: self.max_memory,
        };
        let unable = |error: io::Error| format!("it could not be tried: {error}");
        let (mut child, words) = self.start(&subject).map_err(unable)?;
        let heard = listen(words, Instant::now() + self.timeout);
        if !matches!(heard, Ok(Some(_))) {
            child.kill().map_err(unable)?;
        }
        let status = child.wait().map_err(unable)?;
        match heard.map_err(unable)? {
            None => Err(format!("it was tried for {:?} and was not ready", self.timeout)),
            Some(words) => judge(&words, status),
        }
    }

    fn start(&self, subject: &Subject) -> io::Result<(Child, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        let mut child = Command::new(&self.program)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()?;
        let subject = serde_json::to_vec(subject)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that is gone already says nothing, and that is judged.
            drop(stdin.write_all(&subject));
        }
        Ok((child, reader))
    }
}

/// Everything that is said until the end of it; `None` where that does not come in time.
fn listen(mut words: PipeReader, until: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        if poll(&mut [PollFd::new(&words, PollFlags::IN)], Some(&left))? == 0 {
            return Ok(None);
        }
        let n_bytes = words.read(&mut buffer)?;
        if n_bytes == 0 {
            return Ok(Some(heard));
        }
        heard.extend_from_slice(&buffer[..n_bytes]);
        // The verdict is at the end.
        heard.drain(..heard.len().saturating_sub(MAX_WORDS));
    }
}

fn judge(words: &[u8], status: ExitStatus) -> Result<(), String> {
    let words = String::from_utf8_lossy(words);
    let last = words.lines().last().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(Verdict::Fits) if status.success() => return Ok(()),
        Ok(Verdict::Refused(reason)) => return Err(reason),
        _ => {}
    }
    let how = match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => format!("exit code {}", status.code().unwrap_or_default()),
    };
    let last: String = last.chars().filter(|letter| !letter.is_control()).take(300).collect();
    let said = if last.is_empty() { String::new() } else { format!(": {last}") };
    Err(format!("the process that tried it ended with {how}{said}"))
}

/// Tries what standard input names, and says how it went: all that the process does.
pub fn attempt() {
    let verdict = match told() {
        Ok(()) => Verdict::Fits,
        Err(reason) => Verdict::Refused(reason),
    };
    if let Ok(words) = serde_json::to_string(&verdict) {
        // Whoever asked may be gone.
        drop(writeln!(io::stdout(), "\n{words}"));
    }
}

fn told() -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    // It ends with whoever started it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| words(&error))?;
    let Subject { repository, name, configured, max_memory } =
        serde_json::from_reader(io::stdin().lock()).map_err(|error| words(&error))?;
    let most = max_memory.map_or_else(half_of_free, Ok).map_err(|error| words(&error))?;
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Data, limit).map_err(|error| words(&error))?;
    let versions = repository::load_one(&repository, &name, configured.as_ref());
    for version in versions.map_err(|error| words(&error))? {
        drop(Model::open(version).map_err(|error| words(&error))?);
    }
    Ok(())
}

/// Half of the memory that is free now, so that others have some left.
fn half_of_free() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let free = free.ok_or_else(|| io::Error::other("/proc/meminfo does not say what is free"))?;
    Ok((free << 10) / 2)
}
