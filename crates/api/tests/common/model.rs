//! A model that is served.

use std::sync::Arc;

use paceline_backend::Ragged;
use paceline_pipeline::{Blueprint, Build, Mode, Model, Models, SequenceLimits, VersionPolicy};

/// A model `m` of one instance.
pub(crate) fn blueprint(build: Build) -> Blueprint {
    Blueprint {
        name: "m".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "paceline_simulated".to_owned(),
        mode: Mode::Batch,
        batch: paceline_batch::Settings::default(),
        instances: 1,
        build,
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 1,
        adapter: None,
    }
}

/// Opens it among `models`.
pub(crate) fn open(models: &Models, blueprint: Blueprint) -> Arc<Model> {
    let name = blueprint.name.clone();
    let (model, clock) = Model::open(blueprint).unwrap();
    tokio::spawn(clock.run());
    models.replace(&name, vec![Arc::clone(&model)]);
    model
}
