//! One worker process: started with the right surroundings, ended with all that it started.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::{PythonOptions, package::BOOT};

/// One worker process. It leads a process group, so that what it starts ends with it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: Pid,
    pidfd: OwnedFd,
}

/// A process's own words.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Process {
    /// Starts a worker whose end of the link is `socket`.
    ///
    /// The worker asks to be killed when the thread that started it ends, so that must be one that
    /// lives as long as the worker.
    pub(crate) fn start(
        options: &PythonOptions,
        instance: usize,
        socket: OwnedFd,
    ) -> io::Result<(Self, Pipes)> {
        let mut child = command(options, instance).stdin(socket).spawn()?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (Some((stdout, stderr)), Some(pid)) = (pipes, pid) else {
            return Err(io::ErrorKind::Other.into());
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok((Self { child, pid, pidfd }, Pipes { stdout, stderr })),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// A handle by which it can be killed from any thread.
    pub(crate) fn killer(&self) -> io::Result<Killer> {
        Ok(Killer(self.pidfd.try_clone()?))
    }

    /// Ends whatever is left of it and says how it ended.
    pub(crate) fn end(mut self) -> String {
        // ORDER: the group first. Its number is ours only until the leader is reaped.
        kill_process_group(self.pid, Signal::KILL).ok();
        match self.child.wait() {
            Ok(status) => describe(status),
            Err(error) => error.to_string(),
        }
    }
}

impl AsFd for Process {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Kills one process, never another that got its number.
#[derive(Debug)]
pub(crate) struct Killer(OwnedFd);

impl Killer {
    pub(crate) fn kill(&self) {
        // An error means that it has ended already.
        pidfd_send_signal(&self.0, Signal::KILL).ok();
    }
}

fn command(options: &PythonOptions, instance: usize) -> Command {
    let mut command = Command::new(&options.python);
    // Unbuffered, so that the model's words are there when it dies.
    command.args(["-u", "-c", BOOT, "--class", &options.class, "--folder"]);
    command.arg(&options.folder);
    if let Some(limit) = options.memory_limit {
        command.arg(format!("--memory-limit={limit}"));
    }
    if options.sandbox {
        command.arg("--sandbox");
    }
    // The server's settings, secrets among them, are no business of a model.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PACELINE__") {
            command.env_remove(name);
        }
    }
    command.env("PYTHONFAULTHANDLER", "1");
    command.env("PACELINE_INSTANCE", instance.to_string());
    if let Some(device) = options.devices.get(instance % options.devices.len().max(1)) {
        command.env("CUDA_VISIBLE_DEVICES", device);
    }
    command.envs(&options.env);
    // A group of its own, so that an interrupt typed at the server is the server's alone.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a process ended, for a reader.
fn describe(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("it ended with status {}", status.code().unwrap_or(0));
    };
    let name = match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL, as the system sends when memory runs out)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    };
    format!("it was killed by signal {signal}{name}")
}
