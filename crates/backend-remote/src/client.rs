//! One remote model as its instances share it: its endpoints, what is known of them, and the one
//! way in which a call is made.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use paceline_backend::{BackendError, Health, Stacked};
use paceline_types::{Tensor, TraceContext};
use smallvec::SmallVec;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{
    RemoteOptions,
    board::{Board, Pick},
    breaker::Breaker,
    fault::Fault,
    metadata::Declared,
    tensors,
    wire::{Ask, Wire},
};

/// How long to wait between attempts to load the model.
const LOAD_PAUSE: Duration = Duration::from_millis(200);

/// One remote model as its instances share it.
#[derive(Debug)]
pub(crate) struct Client {
    options: RemoteOptions,
    wires: Vec<Wire>,
    board: Mutex<Board>,
    /// What the board's time counts from.
    began: Instant,
    health: Health,
}

impl Client {
    /// Must be called on the runtime that drives it; nothing is sent yet.
    pub(crate) fn new(options: RemoteOptions) -> Result<Self, BackendError> {
        if options.endpoints.is_empty() {
            let message = "remote.endpoints is empty; name one at least".to_owned();
            return Err(BackendError::Load(message));
        }
        let wires = options.endpoints.iter().map(|endpoint| Wire::new(endpoint, &options));
        let wires: Vec<_> = wires.collect::<Result<_, _>>().map_err(BackendError::Load)?;
        let breaker = Breaker::new(options.max_failures, options.first_pause);
        Ok(Self {
            board: Mutex::new(Board::new(wires.len(), &breaker)),
            wires,
            options,
            began: Instant::now(),
            health: Health::default(),
        })
    }

    pub(crate) const fn health(&self) -> &Health {
        &self.health
    }

    pub(crate) const fn n_endpoints(&self) -> usize {
        self.wires.len()
    }

    /// Waits until an endpoint says what the model takes and gives. All that answer must agree.
    pub(crate) async fn load(&self) -> Result<Declared, BackendError> {
        let deadline = Instant::now() + self.options.load_timeout;
        loop {
            let mut first: Option<(usize, Declared)> = None;
            let mut troubles = Vec::new();
            for at in 0..self.wires.len() {
                let declared = match self.bounded(self.declared(at)).await {
                    Ok(declared) => declared,
                    // Only what can pass is waited for.
                    Err(fault @ (Fault::Garbage(_) | Fault::Failed(_))) => {
                        return Err(BackendError::Load(format!("{}: {fault}", self.place(at))));
                    }
                    Err(fault) => {
                        self.board().note(at, self.now(), Some(&fault));
                        troubles.push(format!("{}: {fault}", self.place(at)));
                        continue;
                    }
                };
                self.board().note(at, self.now(), None);
                match &first {
                    Some((other, expected)) if *expected != declared => {
                        return Err(BackendError::Load(format!(
                            "{} and {} declare different tensors for model `{}`",
                            self.place(*other),
                            self.place(at),
                            self.options.model
                        )));
                    }
                    Some(_) => {}
                    None => first = Some((at, declared)),
                }
            }
            if let Some((_, declared)) = first {
                return Ok(declared);
            }
            if deadline < Instant::now() + LOAD_PAUSE {
                return Err(BackendError::Load(format!(
                    "no endpoint has model `{}` ready within {:?}: {}",
                    self.options.model,
                    self.options.load_timeout,
                    troubles.join("; ")
                )));
            }
            sleep(LOAD_PAUSE).await;
        }
    }

    /// Runs a call on one endpoint, or on another where that is safe.
    pub(crate) async fn call(
        &self,
        declared: &Declared,
        inputs: &[Stacked],
        rows: usize,
        trace: Option<TraceContext>,
    ) -> Result<Vec<Tensor>, BackendError> {
        let deadline = Instant::now() + self.options.call_timeout;
        let ask = Ask { declared, inputs, rows, deadline, trace };
        let mut tried: SmallVec<[usize; 4]> = SmallVec::new();
        let mut last = None;
        loop {
            let Some(pick) = self.pick(&tried) else {
                return Err(last.unwrap_or_else(|| {
                    let trouble = self.trouble();
                    let trouble = trouble.unwrap_or_else(|| "it is being tried again".to_owned());
                    BackendError::Unavailable(trouble)
                }));
            };
            tried.push(pick.at);
            let outcome = timeout_at(deadline, self.attempt(&pick, &ask)).await;
            let outcome = outcome.unwrap_or(Err(Fault::TimedOut(self.options.call_timeout)));
            self.board().done(&pick, self.now(), outcome.as_ref().err());
            let fault = match outcome {
                Ok(outputs) => {
                    self.health.set(None);
                    return Ok(outputs);
                }
                Err(fault) => fault,
            };
            self.health.set(self.trouble());
            let error = fault.to_backend(&self.place(pick.at));
            let may_go_on =
                fault.was_not_run() || (self.options.retry_safe && fault.may_be_sent_again());
            if !may_go_on {
                return Err(error);
            }
            tracing::debug!(model = self.options.name, %error, "trying another endpoint");
            last = Some(error);
        }
    }

    async fn attempt(&self, pick: &Pick, ask: &Ask<'_>) -> Result<Vec<Tensor>, Fault> {
        if !pick.is_known {
            let checked = self.bounded(self.check_declared(pick.at, ask.declared)).await;
            // Whatever this is, the call itself was not sent.
            checked.map_err(|fault| match fault {
                fault if fault.was_not_run() => fault,
                fault => Fault::NotSent(fault.to_string()),
            })?;
        }
        let given = self.wires[pick.at].infer(ask).await?;
        tensors::check(&given, &ask.declared.signature, ask.rows)
    }

    /// Asks an endpoint now and then whether it is well, for as long as it is driven.
    pub(crate) async fn probe(&self, at: usize, declared: &Declared) {
        let mut was_well = true;
        loop {
            let pause = self.board().until_probe(at, self.now(), self.options.health_interval);
            sleep(pause).await;
            let is_known = self.board().is_known(at);
            let outcome = self.bounded(async {
                if !is_known {
                    self.check_declared(at, declared).await?;
                }
                self.wires[at].check_ready().await
            });
            let fault = outcome.await.err();
            self.board().note(at, self.now(), fault.as_ref());
            self.health.set(self.trouble());
            let (model, endpoint) = (&self.options.name, &self.options.endpoints[at]);
            match &fault {
                Some(fault) if was_well => tracing::warn!(model, %endpoint, %fault, "is not well"),
                None if !was_well => tracing::info!(model, %endpoint, "is well again"),
                _ => {}
            }
            was_well = fault.is_none();
        }
    }

    /// Whether an endpoint declares what the model did when it was loaded.
    async fn check_declared(&self, at: usize, expected: &Declared) -> Result<(), Fault> {
        if self.declared(at).await? == *expected {
            return Ok(());
        }
        let message = "it declares other inputs or outputs than when the model was loaded; load \
                       the model again";
        Err(Fault::Refused(message.to_owned()))
    }

    async fn declared(&self, at: usize) -> Result<Declared, Fault> {
        let about = self.wires[at].about().await?;
        Declared::read(&about, self.options.batched).map_err(Fault::Garbage)
    }

    /// What must not take longer than making a connection may.
    async fn bounded<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let limit = self.options.connect_timeout;
        timeout(limit, work).await.unwrap_or(Err(Fault::TimedOut(limit)))
    }

    fn pick(&self, tried: &[usize]) -> Option<Pick> {
        self.board().pick(self.now(), tried)
    }

    /// What is wrong, where no endpoint is well.
    fn trouble(&self) -> Option<String> {
        self.board().trouble(|at| self.place(at))
    }

    fn place(&self, at: usize) -> String {
        self.options.endpoints[at].to_string()
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
