//! Puts models into service and takes them out, at start and while the server runs.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::available_parallelism,
};

use futures_util::{TryStreamExt as _, stream};
use paceline_pipeline::{Answer, Blueprint, Control, ControlError, Known, Model, Models};
use paceline_types::ErrorCode;
use tokio_util::task::TaskTracker;

use crate::{
    LoadError,
    config::{ModelSection, ServerSection},
    repository,
    trial::{self, Trial},
};

/// The models that are served and where they come from.
#[derive(Debug)]
pub(crate) struct Repository {
    folder: PathBuf,
    configured: BTreeMap<String, ModelSection>,
    models: Arc<Models>,
    clocks: TaskTracker,
    /// How models that are loaded later are tried.
    trial: Option<Trial>,
    /// Every model that was ever seen, and why it is not served, if it is not.
    known: Mutex<BTreeMap<String, Vec<Known>>>,
    /// One change at a time: two loads of one model would race for who is last.
    changing: tokio::sync::Mutex<()>,
}

impl Repository {
    pub(crate) fn new(
        section: &ServerSection,
        configured: BTreeMap<String, ModelSection>,
        models: Arc<Models>,
        clocks: TaskTracker,
    ) -> Self {
        Self {
            folder: section.model_repository.clone(),
            configured,
            models,
            clocks,
            trial: Trial::of(section),
            known: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Loads every model there is.
    pub(crate) async fn load_all(&self) -> Result<(), LoadError> {
        let mut models: BTreeMap<String, Vec<Blueprint>> = BTreeMap::new();
        for blueprint in repository::load(&self.folder, &self.configured)? {
            models.entry(blueprint.name.clone()).or_default().push(blueprint);
        }
        // Side by side, so that a start does not wait for one after the other.
        let n_cores = available_parallelism().map_or(1, NonZeroUsize::get);
        stream::iter(models.into_iter().map(Ok))
            .try_for_each_concurrent(n_cores, async |(name, versions)| {
                self.open(&name, versions).await
            })
            .await
    }

    async fn load_one(&self, name: &str) -> Result<(), LoadError> {
        let _changing = self.changing.lock().await;
        let versions = repository::load_one(&self.folder, name, self.configured.get(name))?;
        if trial::is_wanted(&versions) {
            self.attempt(name).await?;
        }
        self.open(name, versions).await
    }

    /// Tries a model in a process of its own, off the async threads.
    async fn attempt(&self, name: &str) -> Result<(), LoadError> {
        let Some(trial) = self.trial.clone() else { return Ok(()) };
        let (folder, configured) = (self.folder.clone(), self.configured.get(name).cloned());
        let own = name.to_owned();
        let tried =
            tokio::task::spawn_blocking(move || trial.run(&folder, &own, configured.as_ref()));
        let tried = tried.await.unwrap_or_else(|panic| Err(panic.to_string()));
        tried.map_err(|reason| LoadError::Trial { name: name.to_owned(), reason })
    }

    /// Loads the versions of one model and, once all are warm, puts them into service. If one
    /// cannot be had, what was served before goes on.
    async fn open(&self, name: &str, versions: Vec<Blueprint>) -> Result<(), LoadError> {
        let mut models = Vec::with_capacity(versions.len());
        for blueprint in versions {
            models.push(self.open_version(blueprint).await?);
        }
        let served = |model: &Arc<Model>| Known {
            name: name.to_owned(),
            version: Some(model.facts().version),
            reason: None,
        };
        self.note(name, models.iter().map(served).collect());
        self.models.replace(name, models);
        Ok(())
    }

    /// Loads and warms one version off the async threads.
    async fn open_version(&self, blueprint: Blueprint) -> Result<Arc<Model>, LoadError> {
        let (name, version) = (blueprint.name.clone(), blueprint.version);
        let opened = tokio::task::spawn_blocking(move || Model::open(blueprint)).await;
        let opened = opened
            .map_err(|panic| LoadError::Files { name: name.clone(), message: panic.to_string() })?;
        let (model, clock) =
            opened.map_err(|error| LoadError::Open { name: name.clone(), version, error })?;
        let facts = model.facts();
        if let Some(difference) =
            facts.warm_up.batch_difference.filter(|difference| 1e-3 < *difference)
        {
            tracing::warn!(
                model = name,
                version,
                difference,
                "answers depend on who shares the batch; is it dynamically quantised?"
            );
        }
        tracing::info!(
            model = name,
            version,
            platform = facts.platform,
            instances = facts.instances,
            "ready"
        );
        self.clocks.spawn(clock.run());
        Ok(model)
    }

    /// Remembers what became of a model's versions.
    fn note(&self, name: &str, versions: Vec<Known>) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.to_owned(), versions);
    }
}

impl Control for Repository {
    fn load<'a>(&'a self, name: &'a str) -> Answer<'a> {
        Box::pin(async move {
            self.load_one(name).await.map_err(|error| {
                let code = match &error {
                    LoadError::Name(_) => ErrorCode::NotFound,
                    LoadError::Files { .. } if self.models.versions(name).is_empty() => {
                        ErrorCode::NotFound
                    }
                    _ => ErrorCode::InvalidInput,
                };
                tracing::warn!(model = name, %error, "not loaded");
                ControlError { code, message: error.to_string() }
            })
        })
    }

    fn unload<'a>(&'a self, name: &'a str) -> Answer<'a> {
        Box::pin(async move {
            let _changing = self.changing.lock().await;
            let versions = self.models.versions(name);
            if !self.models.remove(name) {
                let message = format!("there is no model `{}`", name.escape_default());
                return Err(ControlError { code: ErrorCode::NotFound, message });
            }
            let gone = |version| Known {
                name: name.to_owned(),
                version: Some(version),
                reason: Some("unloaded".to_owned()),
            };
            self.note(name, versions.into_iter().map(gone).collect());
            tracing::info!(model = name, "unloaded");
            Ok(())
        })
    }

    fn known(&self) -> Vec<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = |known: &Known| self.models.find(&known.name, known.version).ok()?.trouble();
        known
            .values()
            .flatten()
            .map(|known| {
                let reason = known.reason.clone().or_else(|| trouble(known));
                Known { reason, ..known.clone() }
            })
            .collect()
    }
}
