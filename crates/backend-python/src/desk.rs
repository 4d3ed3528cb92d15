//! Where the executor's thread and the supervisor meet: who has the link, and what became of the
//! last worker.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use paceline_backend::{BackendError, Health};
use paceline_types::Tensor;
use rustix::event::{EventfdFlags, eventfd};
use tokio::time::Instant;

use crate::{aside::step_aside, link::Link, process::Killer};

/// Where the executor's thread and the supervisor meet.
#[derive(Debug)]
pub(crate) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    /// Readable once the desk is closed.
    closing: OwnedFd,
    health: Health,
}

/// A call that was good once, to try a new worker with.
#[derive(Debug)]
pub(crate) struct WarmUp {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) rows: usize,
}

#[derive(Debug)]
struct State {
    link: Place,
    /// Which worker it is, counted from 1.
    life: u64,
    killer: Option<Killer>,
    /// Why we killed it, if we did.
    killed_for: Option<String>,
    has_answered: bool,
    /// The last worker that died, and of what.
    death: (u64, String),
    /// Whether nobody should wait for the next worker.
    is_loop: bool,
    is_closed: bool,
    warm_up: Option<Arc<WarmUp>>,
}

/// Where the link is.
#[derive(Debug)]
enum Place {
    /// There is no worker.
    Nowhere,
    /// With nobody; the worker has nothing to do.
    Here(Link),
    /// With somebody who asks the worker something.
    Taken,
}

/// A link that was taken, and the life it belongs to.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) link: Link,
    life: u64,
}

/// Longest that an item of a crashed worker waits to hear how the worker died.
const INQUEST: Duration = Duration::from_millis(80);

impl Desk {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(State {
                link: Place::Nowhere,
                life: 0,
                killer: None,
                killed_for: None,
                has_answered: false,
                death: (0, String::new()),
                is_loop: false,
                is_closed: false,
                warm_up: None,
            }),
            changed: Condvar::new(),
            closing: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            health: Health::default(),
        })
    }

    pub(crate) const fn health(&self) -> &Health {
        &self.health
    }

    /// Readable once the desk is closed.
    pub(crate) fn closing(&self) -> BorrowedFd<'_> {
        self.closing.as_fd()
    }

    /// A worker was started.
    pub(crate) fn born(&self, killer: Killer) {
        let mut state = self.lock();
        state.life += 1;
        (state.killer, state.killed_for, state.has_answered) = (Some(killer), None, false);
    }

    /// The worker has loaded its model and can be asked.
    pub(crate) fn up(&self, link: Link) {
        let mut state = self.lock();
        if !state.is_closed {
            state.link = Place::Here(link);
            self.health.set(None);
        }
        self.changed.notify_all();
    }

    /// The worker has died of `cause`, unless we know better. Says of what in the end, and whether
    /// it had answered a call.
    pub(crate) fn died(&self, cause: String) -> (String, bool) {
        let mut state = self.lock();
        (state.link, state.killer) = (Place::Nowhere, None);
        let cause = state.killed_for.take().unwrap_or(cause);
        state.death = (state.life, cause.clone());
        self.health.set(Some(format!("the worker is being started again: {cause}")));
        self.changed.notify_all();
        (cause, state.has_answered)
    }

    /// Whether nobody should wait for the next worker, and why.
    pub(crate) fn set_loop(&self, is_loop: bool, cause: &str) {
        let mut state = self.lock();
        state.is_loop = is_loop;
        if is_loop {
            let trouble = format!("the worker ends before it answers, again and again: {cause}");
            self.health.set(Some(trouble));
        }
        self.changed.notify_all();
    }

    /// Takes the link, waiting for a worker for as long as it may come.
    pub(crate) fn take(&self, patience: Duration) -> Result<Taken, BackendError> {
        let state = self.wait(patience, |state| {
            matches!(state.link, Place::Here(_)) || state.is_loop || state.is_closed
        });
        Self::take_from(state).ok_or_else(|| {
            let trouble = self.health.trouble();
            let trouble = trouble.unwrap_or_else(|| "the worker is busy for too long".to_owned());
            BackendError::Unavailable(trouble)
        })
    }

    /// Takes the link if nobody has it.
    pub(crate) fn try_take(&self) -> Option<Taken> {
        Self::take_from(self.lock())
    }

    fn take_from(mut state: MutexGuard<'_, State>) -> Option<Taken> {
        match std::mem::replace(&mut state.link, Place::Taken) {
            Place::Here(link) => Some(Taken { link, life: state.life }),
            other => {
                state.link = other;
                None
            }
        }
    }

    /// Gives the link back; `answered` where the worker has just answered a call.
    pub(crate) fn put_back(&self, taken: Taken, answered: bool) {
        let mut state = self.lock();
        if state.life == taken.life && matches!(state.link, Place::Taken) && !state.is_closed {
            state.link = Place::Here(taken.link);
            state.has_answered |= answered;
        }
        self.changed.notify_all();
    }

    /// Gives up a worker that cannot be used any more and says what it died of. `killed_for` is why
    /// we end it, where it did not end by itself.
    pub(crate) fn bury(&self, taken: Taken, killed_for: Option<String>) -> String {
        let life = taken.life;
        let ends_by_itself = killed_for.is_none();
        if !ends_by_itself {
            self.kill(life, killed_for);
        }
        drop(taken);
        let state = self.wait(INQUEST, |state| life <= state.death.0);
        if life <= state.death.0 {
            return state.death.1.clone();
        }
        drop(state);
        let cause = "it closed the connection and did not end".to_owned();
        if ends_by_itself {
            self.kill(life, Some(cause.clone()));
        }
        cause
    }

    fn kill(&self, life: u64, killed_for: Option<String>) {
        let mut state = self.lock();
        if state.life == life
            && let Some(killer) = &state.killer
        {
            killer.kill();
            state.killed_for = killed_for.or(state.killed_for.take());
        }
    }

    /// Waits until there is a worker, or nobody should wait for one.
    pub(crate) fn wait_until_up(&self, patience: Duration) {
        let is_over = |state: &State| {
            !matches!(state.link, Place::Nowhere) || state.is_loop || state.is_closed
        };
        drop(self.wait(patience, is_over));
    }

    /// Waits that long; `false` if the desk was closed meanwhile.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        !self.wait(pause, |state| state.is_closed).is_closed
    }

    pub(crate) fn warm_up(&self) -> Option<Arc<WarmUp>> {
        self.lock().warm_up.clone()
    }

    /// Remembers a good call to try new workers with.
    pub(crate) fn set_warm_up(&self, warm_up: WarmUp) {
        self.lock().warm_up = Some(Arc::new(warm_up));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Nobody will ask any more. The worker ends because its socket does.
    pub(crate) fn close(&self) {
        let link = {
            let mut state = self.lock();
            state.is_closed = true;
            std::mem::replace(&mut state.link, Place::Nowhere)
        };
        drop(link);
        self.changed.notify_all();
        // An error means that it was written before.
        rustix::io::write(&self.closing, &1_u64.to_ne_bytes()).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_so`, but not longer than that.
    fn wait(&self, patience: Duration, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.lock();
        if is_so(&state) {
            return state;
        }
        drop(state);
        step_aside(|| self.wait_long(patience, is_so))
    }

    fn wait_long(
        &self,
        patience: Duration,
        is_so: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let began = Instant::now();
        let mut state = self.lock();
        while !is_so(&state) {
            let Some(left) = patience.checked_sub(began.elapsed()) else { break };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }
}
