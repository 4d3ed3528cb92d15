//! Models served by a real batcher, from Python in `tests/models`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use paceline_backend::{
    Backend, BackendError, Health, Instance, Item, Output, Ragged, run_on_thread,
};
use paceline_backend_python::{PythonBackend, PythonOptions};
use paceline_batch::{Batcher, Failure, Key, Runner, Settings, Tag};
use paceline_types::{Signature, Tensor};

pub(crate) fn options(class: &str) -> PythonOptions {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("PACELINE_TEST_PYTHON")
        .map_or_else(|| here.join("../../.cache/python/bin/python"), PathBuf::from);
    assert!(python.exists(), "there is no {}; run scripts/install-python", python.display());
    let mut options =
        PythonOptions::new("test", &format!("model:{class}"), here.join("tests/models"));
    options.python = python;
    options.env.insert("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned());
    options
}

pub(crate) type Model = Batcher<Item, Output, Vec<Tensor>>;

/// A model that is served by some instances.
pub(crate) struct Served {
    pub(crate) model: Model,
    pub(crate) healths: Vec<Health>,
    pub(crate) signature: Signature,
}

/// Loads, warms up and serves instances of a model.
pub(crate) fn serve(options: &PythonOptions, n_instances: usize) -> Served {
    let options = options.clone();
    let build = move |at| Ok(Box::new(PythonBackend::load(&options, at)?) as Box<dyn Backend>);
    serve_any(build, n_instances)
}

pub(crate) fn serve_any(
    build: impl Fn(usize) -> Result<Box<dyn Backend>, BackendError> + Send + Sync + 'static,
    n_instances: usize,
) -> Served {
    let build = Arc::new(build);
    let first = build(0).unwrap();
    let batched = first.signature().batched;
    let settings = Settings {
        max_items: Some(if batched { 8 } else { 1 }),
        max_wait: Some(Duration::ZERO),
        ..Settings::default()
    };
    let (model, timekeeper) = Batcher::pair(settings.validate().unwrap());
    tokio::spawn(timekeeper.run());
    let signature = first.signature().clone();
    let mut first = Some(first);
    let healths = (0..n_instances).map(|at| {
        let backend = first.take().unwrap_or_else(|| build(at).unwrap());
        let build = Arc::clone(&build);
        let rebuild = Box::new(move || build(at));
        let mut instance = Instance::new(backend, rebuild, Arc::new(Ragged::default()));
        instance.warm_up(2, 4).unwrap();
        let health = instance.health();
        let is_instant = instance.is_instant();
        let runner = Runner::new(model.attach(), instance);
        if is_instant {
            runner.lend(Result::unwrap);
        } else {
            run_on_thread(format!("test-{at}"), runner, Result::unwrap).unwrap();
        }
        health
    });
    Served { healths: healths.collect(), model, signature }
}

impl Served {
    /// Asks with tensors of one item.
    pub(crate) async fn ask(&self, inputs: Vec<Tensor>) -> Result<Output, Failure> {
        let rows = self.signature.rows_of(&inputs).unwrap();
        let shapes: Vec<Vec<usize>> = inputs
            .iter()
            .map(|tensor| tensor.shape()[1.min(tensor.shape().len())..].to_vec())
            .collect();
        let tag =
            Tag { rows: u32::try_from(rows).unwrap(), key: Key::of(&shapes), ..Tag::default() };
        let ticket = self.model.submit(Item::new(inputs.into()), &tag).await.unwrap();
        ticket.await
    }

    /// Asks with numbers in one row.
    pub(crate) async fn numbers(&self, values: &[f32]) -> Result<Vec<f32>, Failure> {
        let input = Tensor::from_f32(&[1, values.len()], values).unwrap();
        self.ask(vec![input]).await.map(|outputs| outputs[0].to_f32().unwrap())
    }
}

/// The error of the model's own that a failure stands for.
pub(crate) fn cause(failure: Failure) -> BackendError {
    let Failure::Model(cause) = failure else { panic!("not the model's: {failure}") };
    cause.downcast_ref::<BackendError>().expect("a backend's error").clone()
}

/// Waits for something that another process or thread brings about.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("not within 30 s: {what}"));
}

/// A process that has not ended.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with('Z')))
}

pub(crate) fn read_pid(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.parse().ok()
}

pub(crate) fn file_in(folder: &tempfile::TempDir, name: &str) -> (PathBuf, String) {
    let path = folder.path().join(name);
    let text = path.display().to_string();
    (path, text)
}
