//! The one owner of a worker process: starts it, watches it, and starts it again.

use std::{
    os::fd::AsFd,
    sync::{Arc, mpsc::SyncSender},
    time::Duration,
};

use paceline_backend::BackendError;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    PythonOptions,
    declared::Declared,
    desk::Desk,
    frame::Expected,
    link::{CallError, Input, Link, Lost},
    logs::{self, LastWords},
    process::Process,
    restarts::Restarts,
};

/// How long a worker may take to end after its socket was closed.
const GRACE: Duration = Duration::from_secs(2);
/// How long an idle worker may take to say that it lives.
const PING_PATIENCE: Duration = Duration::from_secs(5);

/// The one owner of a worker process. Its thread lives as long as any of its workers: the system
/// kills them when it ends.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) options: Arc<PythonOptions>,
    pub(crate) instance: usize,
    pub(crate) desk: Arc<Desk>,
    pub(crate) declared: Option<Declared>,
}

impl Supervisor {
    /// Runs workers one after the other until the desk is closed. How the first one loaded is told
    /// to `first`; if it did not, that is the end.
    pub(crate) fn run(mut self, first: &SyncSender<Result<Declared, BackendError>>) {
        let mut restarts = Restarts::default();
        loop {
            let is_first = self.declared.is_none();
            let cause = match self.start() {
                Ok(process) => {
                    if let (true, Some(declared)) = (is_first, &self.declared) {
                        // Whoever asked may have given up; then the desk is closed.
                        first.send(Ok(declared.clone())).ok();
                    }
                    self.watch(&process);
                    process.end()
                }
                Err(cause) => cause,
            };
            let (cause, has_answered) = self.desk.died(cause);
            if self.declared.is_none() {
                first.send(Err(BackendError::Load(cause))).ok();
                return;
            }
            if self.desk.is_closed() {
                return;
            }
            let restart = restarts.died(has_answered);
            let PythonOptions { name: model, .. } = &*self.options;
            let (instance, pause) = (self.instance, restart.pause);
            tracing::error!(model, instance, cause, ?pause, "a worker is gone");
            self.desk.set_loop(restart.is_loop, &cause);
            self.desk.health().restarted();
            if !self.desk.pause(pause) {
                return;
            }
        }
    }

    /// Starts a worker, waits until it has loaded and answered its warm-up, and puts it to work.
    /// The error says what it died of; it is dead then.
    fn start(&mut self) -> Result<Process, String> {
        let (mut link, socket) =
            Link::pair(self.options.load_timeout).map_err(|error| error.to_string())?;
        let (process, pipes) = Process::start(&self.options, self.instance, socket)
            .map_err(|error| format!("cannot start {}: {error}", self.options.python.display()))?;
        let words = LastWords::default();
        let (model, instance, heard) = (self.options.name.clone(), self.instance, words.clone());
        let pump = std::thread::Builder::new()
            .name(format!("{model}-{instance}-log"))
            .spawn(move || logs::pump(pipes, &model, instance, &heard));
        let prepared = match (process.killer(), pump) {
            (Ok(killer), Ok(_)) => {
                self.desk.born(killer);
                self.prepare(&process, &mut link)
            }
            (Err(error), _) | (_, Err(error)) => Err(Unfit::Says(error.to_string())),
        };
        match prepared {
            Ok(()) => {
                self.desk.up(link);
                Ok(process)
            }
            Err(unfit) => {
                drop(link);
                let end = process.end();
                Err(match unfit {
                    Unfit::Says(cause) => cause,
                    Unfit::Died => {
                        // The last lines may still be in the pipe; a moment is enough for them.
                        self.desk.pause(Duration::from_millis(50));
                        let last = words.get().map(|last| format!("; it said: {last}"));
                        format!("{end} while it was loading{}", last.unwrap_or_default())
                    }
                })
            }
        }
    }

    /// Waits until the model is loaded and has answered its warm-up.
    fn prepare(&mut self, process: &Process, link: &mut Link) -> Result<(), Unfit> {
        match self.wait_for(&[link.as_fd(), process.as_fd()], Some(self.options.load_timeout)) {
            Woken::By(0) => {}
            Woken::By(_) => return Err(Unfit::Died),
            Woken::Closed => return Err(Unfit::Says("it is not needed any more".to_owned())),
            Woken::TimedOut => {
                let limit = self.options.load_timeout;
                return Err(Unfit::Says(format!(
                    "loading took longer than load_timeout, {limit:?}"
                )));
            }
        }
        let declared = match link.wait_for_load() {
            Ok(Ok(text)) => {
                Declared::parse(&text).map_err(|error| Unfit::Says(error.to_string()))?
            }
            Ok(Err(message)) => return Err(Unfit::Says(message)),
            Err(Lost::Closed) => return Err(Unfit::Died),
            Err(lost) => return Err(Unfit::Says(lost.to_string())),
        };
        if self.declared.as_ref().is_some_and(|first| *first != declared) {
            let message = "its inputs or outputs are not what they were; load the model again";
            return Err(Unfit::Says(message.to_owned()));
        }
        let system = |error: std::io::Error| Unfit::Says(error.to_string());
        link.be_patient(self.options.call_timeout).map_err(system)?;
        if let Some(warm_up) = self.desk.warm_up() {
            let inputs: Vec<Input<'_>> = warm_up.inputs.iter().map(Input::from).collect();
            let signature = &declared.signature;
            let expected = Expected {
                outputs: &signature.outputs,
                batched: signature.batched,
                rows: warm_up.rows,
            };
            match link.call(&inputs, &expected, &mut |_| false) {
                Ok(_) => {}
                Err(CallError::Lost(Lost::Closed)) => return Err(Unfit::Died),
                Err(error) => return Err(Unfit::Says(format!("its warm-up failed: {error}"))),
            }
        }
        self.declared.get_or_insert(declared);
        Ok(())
    }

    /// Returns once the process has ended.
    fn watch(&self, process: &Process) {
        loop {
            match self.wait_for(&[process.as_fd()], Some(self.options.heartbeat)) {
                Woken::By(_) => return,
                Woken::TimedOut => self.check_pulse(),
                Woken::Closed => {
                    let mut ended = [PollFd::new(process, PollFlags::IN)];
                    wait(&mut ended, Some(GRACE));
                    return;
                }
            }
        }
    }

    /// Asks a worker that has nothing to do whether it lives.
    fn check_pulse(&self) {
        let Some(mut taken) = self.desk.try_take() else { return };
        let pulse = taken.link.be_patient(PING_PATIENCE).map_err(Lost::System);
        let pulse = pulse
            .and_then(|()| taken.link.ping())
            .and_then(|()| taken.link.be_patient(self.options.call_timeout).map_err(Lost::System));
        match pulse {
            Ok(()) => self.desk.put_back(taken, false),
            Err(lost) => {
                self.desk.bury(taken, Some(format!("idle, {lost}")));
            }
        }
    }

    /// Waits for the first of some descriptors, for the desk to close, or for time to pass.
    fn wait_for(
        &self,
        descriptors: &[std::os::fd::BorrowedFd<'_>],
        limit: Option<Duration>,
    ) -> Woken {
        let all = descriptors.iter().copied().chain([self.desk.closing()]);
        let mut ready: Vec<PollFd<'_>> =
            all.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        wait(&mut ready, limit);
        match ready.iter().position(|ready| !ready.revents().is_empty()) {
            Some(at) if at < descriptors.len() => Woken::By(at),
            Some(_) => Woken::Closed,
            None => Woken::TimedOut,
        }
    }
}

/// Why a worker is of no use.
enum Unfit {
    /// It ended by itself.
    Died,
    /// For this reason.
    Says(String),
}

/// What a wait ended with.
enum Woken {
    By(usize),
    Closed,
    TimedOut,
}

fn wait(ready: &mut [PollFd<'_>], limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // An interruption costs the wait's remainder; whoever waits here comes back.
    while let Err(Errno::INTR) = poll(ready, limit.as_ref()) {}
}
