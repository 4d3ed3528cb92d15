//! A remote model, and one instance of it as the executor sees it.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    mpsc::{RecvError, sync_channel},
};

use paceline_backend::{Backend, BackendError, Call, Early, Health, Outputs, Stacked, StackedCall};
use paceline_types::{Signature, Tensor, TraceContext};
use tokio::runtime::Runtime;

use crate::{RemoteOptions, client::Client, metadata::Declared};

/// A model on other servers. Its instances share connections and what is known of endpoints.
#[derive(Debug)]
pub struct RemoteModel {
    options: RemoteOptions,
    shared: Mutex<Weak<Shared>>,
}

/// One instance of a remote model: as many calls are under way as there are instances.
#[derive(Debug)]
pub struct RemoteBackend {
    shared: Arc<Shared>,
}

/// What instances share.
#[derive(Debug)]
struct Shared {
    client: Arc<Client>,
    declared: Arc<Declared>,
    driver: Driver,
}

/// The thread that drives connections and probes.
#[derive(Debug)]
struct Driver(Option<Runtime>);

impl RemoteModel {
    /// A model that is asked so. Nothing is connected before the first instance is opened.
    #[must_use]
    pub const fn new(options: RemoteOptions) -> Self {
        Self { options, shared: Mutex::new(Weak::new()) }
    }

    /// Makes an instance; the first one finds out what the model takes and gives.
    ///
    /// # Errors
    ///
    /// When no endpoint has the model ready in time, or endpoints declare different tensors.
    pub fn open(&self) -> Result<RemoteBackend, BackendError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match shared.upgrade() {
            Some(opened) => opened,
            None => Arc::new(Shared::open(&self.options)?),
        };
        *shared = Arc::downgrade(&opened);
        Ok(RemoteBackend { shared: opened })
    }
}

impl Shared {
    fn open(options: &RemoteOptions) -> Result<Self, BackendError> {
        let driver = Driver::start(&options.name)?;
        let client = {
            let _entered = driver.0.as_ref().map(Runtime::enter);
            Arc::new(Client::new(options.clone())?)
        };
        let loading = Arc::clone(&client);
        let declared = driver
            .run(async move { loading.load().await })
            .unwrap_or_else(|_| Err(BackendError::Load("loading broke off".to_owned())))?;
        let declared = Arc::new(declared);
        for at in 0..client.n_endpoints() {
            let (client, declared) = (Arc::clone(&client), Arc::clone(&declared));
            driver.leave(async move { client.probe(at, &declared).await });
        }
        Ok(Self { client, declared, driver })
    }
}

impl Driver {
    fn start(name: &str) -> Result<Self, BackendError> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(format!("{name}-remote"))
            .enable_all()
            .build()
            .map(|runtime| Self(Some(runtime)))
            .map_err(|error| BackendError::Load(error.to_string()))
    }

    /// Runs work to its end and gives what came of it; an error if it panicked. Unlike `block_on`
    /// this may be called from anywhere.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RecvError> {
        let (sender, receiver) = sync_channel(1);
        self.leave(async move {
            // Whoever waits for it waits below.
            sender.send(work.await).ok();
        });
        receiver.recv()
    }

    /// Runs work for as long as this lives.
    fn leave(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(work);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Dropping it would wait, which is not allowed everywhere.
            runtime.shutdown_background();
        }
    }
}

impl RemoteBackend {
    fn call(
        &self,
        inputs: Vec<Stacked>,
        rows: usize,
        trace: Option<TraceContext>,
    ) -> Result<Outputs, BackendError> {
        let Shared { client, declared, driver } = &*self.shared;
        let expected = declared.signature.inputs.len();
        if inputs.len() != expected {
            let message = format!("{} inputs came where the model takes {expected}", inputs.len());
            return Err(BackendError::Failed(message));
        }
        let (client, declared) = (Arc::clone(client), Arc::clone(declared));
        let tensors: Vec<Tensor> = driver
            .run(async move { client.call(&declared, &inputs, rows, trace).await })
            .unwrap_or_else(|_| Err(BackendError::Crashed("the call broke off".to_owned())))?;
        Ok(Outputs { tensors, failed: Vec::new() })
    }
}

impl Backend for RemoteBackend {
    fn signature(&self) -> &Signature {
        &self.shared.declared.signature
    }

    fn max_rows(&self) -> Option<usize> {
        self.shared.declared.max_rows
    }

    fn health(&self) -> Health {
        self.shared.client.health().clone()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        self.call(call.inputs.iter().cloned().map(Stacked::from).collect(), call.rows, None)
    }

    fn run_stacked(
        &mut self,
        call: &StackedCall<'_>,
        _early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        self.call(call.inputs.to_vec(), call.rows, call.trace)
    }
}
