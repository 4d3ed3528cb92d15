//! From a model's settings and files to what is needed to serve it.
//!
//! A model is a folder: `model.toml` (or a Triton `config.pbtxt`), and its files in folders named by
//! version number.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::available_parallelism,
};

use paceline_api::oip::pbtxt;
use paceline_backend::{Backend, BackendError, Ragged, simulated};
use paceline_backend_moonshine::{Knowledge, MoonshineBackend, SAMPLE_RATE};
use paceline_backend_onnx::{OnnxBackend, OnnxOptions};
use paceline_backend_python::PythonBackend;
use paceline_backend_remote::RemoteModel;
use paceline_pipeline::{
    Blueprint, Build, ModelName, NameError, OpenError, SequenceLimits, VersionPolicy,
    adapt::{self, Adapter, Picture},
    synthesis::PairSettings,
};
use paceline_types::{DType, Signature};

use crate::{
    config::{
        BackendName, ModelSection, PaddingSection,
        load::{ConfigError, check, read},
    },
    triton,
};

/// The file of a version that ONNX runs.
const ONNX_FILE: &str = "model.onnx";

/// What runs ONNX models, as the protocol says it.
pub(crate) const ONNX: &str = "onnx";

/// A model that cannot be served, and why.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The folder of all models.
    #[error("server.model_repository: cannot read {path}: {error}")]
    Repository {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Its `model.toml`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its files.
    #[error("model `{name}`: {message}")]
    Files {
        /// Which model.
        name: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// It was tried, and cannot be admitted.
    #[error("model `{name}` was tried: {reason}")]
    Trial {
        /// Which model.
        name: String,
        /// What happened.
        reason: String,
    },
    /// The model itself.
    #[error("model `{name}` version {version}: {error}")]
    Open {
        /// Which model.
        name: String,
        /// Which version.
        version: u64,
        /// What is wrong.
        error: OpenError,
    },
}

/// Every version to be served of every model: those of the repository's folders, with the changes that the configuration makes,
/// and those that the configuration adds.
///
/// # Errors
///
/// When a folder cannot be read or a name may not be one.
pub fn load(
    repository: &Path,
    configured: &BTreeMap<String, ModelSection>,
) -> Result<Vec<Blueprint>, LoadError> {
    let mut blueprints = Vec::new();
    let mut names = folders(repository)?;
    names.extend(configured.keys().cloned());
    names.sort_unstable();
    names.dedup();
    for name in names {
        blueprints.extend(load_one(repository, &name, configured.get(&name))?);
    }
    Ok(blueprints)
}

/// The token models that speak with a vocoder, and how.
///
/// # Errors
///
/// When a `model.toml` cannot be read.
pub(crate) fn speakers(
    repository: &Path,
    configured: &BTreeMap<String, ModelSection>,
) -> Result<Vec<(String, PairSettings)>, LoadError> {
    let mut pairs = Vec::new();
    let mut names = folders(repository)?;
    names.sort_unstable();
    for name in names.into_iter().filter(|name| !configured.contains_key(name)) {
        let section = read_section(&repository.join(&name), &ModelName::parse(&name)?)?;
        pairs.extend(section.synthesis.map(|pair| (name, pair)));
    }
    for (name, section) in configured {
        pairs.extend(section.synthesis.clone().map(|pair| (name.clone(), pair)));
    }
    Ok(pairs)
}

/// The versions to be served of one model, from its folder or from the configuration; at least
/// one.
///
/// # Errors
///
/// When there is no such model, or its files are not right.
pub(crate) fn load_one(
    repository: &Path,
    name: &str,
    configured: Option<&ModelSection>,
) -> Result<Vec<Blueprint>, LoadError> {
    blueprints(&repository.join(name), &ModelName::parse(name)?, configured)
}

/// The names of the repository's folders; none where there is no repository. One that cannot be read
/// must not pass for that: nothing of it would be served.
fn folders(repository: &Path) -> Result<Vec<String>, LoadError> {
    let entries = match fs::read_dir(repository) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(LoadError::Repository { path: repository.to_owned(), error });
        }
    };
    Ok(entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect())
}

fn blueprints(
    folder: &Path,
    name: &ModelName,
    configured: Option<&ModelSection>,
) -> Result<Vec<Blueprint>, LoadError> {
    let wrong = |message: String| LoadError::Files { name: name.to_string(), message };
    let section = match configured {
        Some(configured) => configured.clone(),
        None => read_section(folder, name)?,
    };
    let policy = section.version_policy.clone().unwrap_or_default();
    let backend = section.backend.unwrap_or_else(|| find_backend(folder));
    // The first is the one to speak of.
    let files = match backend {
        BackendName::Python => section.python.clone().unwrap_or_default().files(),
        BackendName::Moonshine => vec![MoonshineBackend::FILE.to_owned()],
        BackendName::Onnx | BackendName::Remote | BackendName::Simulated => {
            vec![ONNX_FILE.to_owned()]
        }
    };
    let there = match (backend, &policy) {
        // These have no files here, so any version is there.
        (BackendName::Remote | BackendName::Simulated, VersionPolicy::Specific(named)) => {
            named.clone()
        }
        (BackendName::Remote | BackendName::Simulated, _) => BTreeSet::from([1]),
        _ => versions_with(folder, &files),
    };
    let versions = policy.choose(&there).map_err(|error| wrong(error.to_string()))?;
    if versions.is_empty() {
        return Err(wrong(format!(
            "there is no {}/<version>/{}; put the file into a folder named by its version number",
            folder.display(),
            files[0]
        )));
    }
    versions
        .into_iter()
        .map(|version| blueprint(folder, name, version, backend, &section))
        .collect()
}

/// What turns plain bytes into a model's tensors, where it has something that does.
fn adapter(section: &ModelSection, folder: &Path) -> Result<Option<Box<dyn Adapter>>, String> {
    match (&section.adapter, &section.picture) {
        (Some(_), Some(_)) => Err("it has both `adapter` and `picture`; leave one out".to_owned()),
        (Some(name), None) => {
            adapt::open(name, folder).map(Some).map_err(|error| error.to_string())
        }
        (None, Some(picture)) => match Picture::build(picture.clone()) {
            Ok(picture) => Ok(Some(Box::new(picture))),
            Err(error) => Err(error.to_string()),
        },
        (None, None) => Ok(None),
    }
}

/// One version of one model.
fn blueprint(
    folder: &Path,
    name: &ModelName,
    version: u64,
    backend: BackendName,
    section: &ModelSection,
) -> Result<Blueprint, LoadError> {
    let wrong = |message: String| LoadError::Files { name: name.to_string(), message };
    let adapter = adapter(section, folder).map_err(wrong)?;
    let own = folder.join(version.to_string());
    let (build, platform): (Build, &str) = match backend {
        BackendName::Simulated => {
            let settings = section.simulated.clone().unwrap_or_default();
            settings.validate().map_err(|error| wrong(error.to_string()))?;
            (simulated_build(settings), "paceline_simulated")
        }
        BackendName::Moonshine => (moonshine_build(own), "paceline_moonshine"),
        BackendName::Python => {
            let python = section.python.clone().unwrap_or_default();
            let options = python.options(name.as_str(), folder, &own);
            let options = options.map_err(|error| wrong(error.to_string()))?;
            let build = move |instance| {
                Ok(Box::new(PythonBackend::load(&options, instance)?) as Box<dyn Backend>)
            };
            (Arc::new(build), "python")
        }
        BackendName::Remote => {
            let remote = section.remote.clone().unwrap_or_default();
            let model = RemoteModel::new(remote.options(name.as_str()).map_err(wrong)?);
            (Arc::new(move |_| Ok(Box::new(model.open()?) as Box<dyn Backend>)), "remote")
        }
        BackendName::Onnx => {
            let onnx = section.onnx.clone().unwrap_or_default();
            let options = onnx.options(own.join(ONNX_FILE)).map_err(wrong)?;
            (onnx_build(options, section.declared.clone()), ONNX)
        }
    };
    let padding = padding(backend, section);
    let sequences = SequenceLimits::default();
    Ok(Blueprint {
        name: name.to_string(),
        version,
        version_policy: section.version_policy.clone().unwrap_or_default(),
        platform: platform.to_owned(),
        mode: section.mode,
        batch: section.batch.clone(),
        instances: section.instances.map_or_else(|| default_instances(backend), NonZeroUsize::get),
        build,
        ragged: Box::new(move |signature| find_ragged(&padding, signature)),
        sequences: SequenceLimits {
            max_open: section.max_sequences.map_or(sequences.max_open, NonZeroUsize::get),
            max_idle: section.sequence_idle.unwrap_or(sequences.max_idle),
        },
        warm_up_length: section.warm_up_length.unwrap_or_else(|| default_length(backend)),
        adapter,
    })
}

/// A folder's own settings: its `model.toml`, or a Triton `config.pbtxt`.
fn read_section(folder: &Path, name: &ModelName) -> Result<ModelSection, LoadError> {
    let wrong = |message: String| LoadError::Files { name: name.to_string(), message };
    let (own, triton) = (folder.join("model.toml"), folder.join("config.pbtxt"));
    if let Some(text) = read(&own)? {
        return Ok(check(&text, &own.display().to_string())?);
    }
    let text = read(&triton)?.ok_or_else(|| {
        wrong(format!("{} has neither a model.toml nor a config.pbtxt", folder.display()))
    })?;
    let place = |message: String| wrong(format!("{}: {message}", triton.display()));
    let config = pbtxt::parse(&text).map_err(|error| place(error.to_string()))?;
    // An empty name is the folder's.
    if !config.name.is_empty() && config.name != name.as_str() {
        return Err(place(format!("its name is `{}`, but the folder's is `{name}`", config.name)));
    }
    triton::section(&config).map_err(place)
}

fn onnx_build(options: OnnxOptions, declared: triton::Declared) -> Build {
    Arc::new(move |_| {
        let backend = OnnxBackend::load(&options)?;
        declared.check(backend.signature()).map_err(BackendError::Load)?;
        Ok(Box::new(backend))
    })
}

/// What instances know is read once.
fn moonshine_build(folder: PathBuf) -> Build {
    let known: Mutex<Option<Knowledge>> = Mutex::new(None);
    Arc::new(move |_| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let knowledge = match known.take() {
            Some(knowledge) => knowledge,
            None => Knowledge::load(&folder)?,
        };
        let backend = MoonshineBackend::new(known.insert(knowledge));
        Ok(Box::new(backend))
    })
}

/// One instance; of what computes on this machine's cores itself, one for each of them.
fn default_instances(backend: BackendName) -> usize {
    match backend {
        BackendName::Moonshine => available_parallelism().map_or(1, NonZeroUsize::get).min(8),
        BackendName::Onnx | BackendName::Python | BackendName::Remote | BackendName::Simulated => 1,
    }
}

/// What free extents are taken as at warm-up; of the recogniser, a second of audio.
const fn default_length(backend: BackendName) -> usize {
    match backend {
        BackendName::Moonshine => SAMPLE_RATE,
        BackendName::Onnx | BackendName::Python | BackendName::Remote | BackendName::Simulated => {
            16
        }
    }
}

/// Which axes are padded; of the recogniser, which pads none, the one that tells how long an item is.
fn padding(backend: BackendName, section: &ModelSection) -> PaddingSection {
    let audio = || PaddingSection {
        inputs: BTreeMap::from([("AUDIO".to_owned(), 1)]),
        ..PaddingSection::default()
    };
    match (&section.padding, backend) {
        (Some(padding), _) => padding.clone(),
        (None, BackendName::Moonshine) => audio(),
        (None, _) => PaddingSection::default(),
    }
}

fn simulated_build(settings: simulated::Settings) -> Build {
    Arc::new(move |instance| {
        let model = simulated::build(&settings, instance as u64);
        model.map_err(|error| BackendError::Load(error.to_string()))
    })
}

/// What runs a model whose settings do not say so, judged by its files.
fn find_backend(folder: &Path) -> BackendName {
    let has = |file: &str| !versions_with(folder, &[file.to_owned()]).is_empty();
    if has("model.py") && !has(ONNX_FILE) { BackendName::Python } else { BackendName::Onnx }
}

/// The versions that have any of these files.
fn versions_with(folder: &Path, files: &[String]) -> BTreeSet<u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let version = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let is_there = |version: &u64| {
        let own = folder.join(version.to_string());
        files.iter().any(|file| own.join(file).is_file())
    };
    entries.filter_map(version).filter(is_there).collect()
}

/// Finds the padded axes by the names in the configuration.
fn find_ragged(padding: &PaddingSection, signature: &Signature) -> Result<Ragged, String> {
    let input = |name: &String| {
        let at = signature.inputs.iter().position(|spec| spec.name == *name);
        at.ok_or_else(|| format!("the model has no input `{name}`"))
    };
    let output = |name: &String| {
        let at = signature.outputs.iter().position(|spec| spec.name == *name);
        at.ok_or_else(|| format!("the model has no output `{name}`"))
    };
    let made = |name: &Option<String>| -> Result<Option<(usize, DType)>, String> {
        let at = name.as_ref().map(input).transpose()?;
        Ok(at.map(|at| (at, signature.inputs[at].dtype)))
    };
    let axis = |name: &String, axis: usize, rank: usize| {
        if (1..=rank).contains(&axis) {
            Ok(axis)
        } else {
            Err(format!("axis {axis} of `{name}` cannot be padded; it has axes 1 to {rank}"))
        }
    };
    Ok(Ragged {
        inputs: padding
            .inputs
            .iter()
            .map(|(name, &at)| {
                let place = input(name)?;
                Ok((place, axis(name, at, signature.inputs[place].dims.len())?))
            })
            .collect::<Result<_, String>>()?,
        outputs: padding
            .outputs
            .iter()
            .map(|(name, &at)| {
                let place = output(name)?;
                Ok((place, axis(name, at, signature.outputs[place].dims.len())?))
            })
            .collect::<Result<_, String>>()?,
        lengths: made(&padding.lengths)?,
        mask: made(&padding.mask)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(repository: &Path) -> String {
        load(repository, &BTreeMap::new()).unwrap_err().to_string()
    }

    #[test]
    fn a_repository_that_cannot_be_read_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("nowhere");
        assert!(load(&nowhere, &BTreeMap::new()).unwrap().is_empty());

        fs::write(&nowhere, "a file").unwrap();
        let said = refused(&nowhere);
        let expected = format!("server.model_repository: cannot read {}: ", nowhere.display());
        assert!(said.starts_with(&expected), "{said}");
    }

    #[test]
    fn settings_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/model.toml");
        fs::create_dir(folder.path().join("a")).unwrap();
        assert!(refused(folder.path()).contains("neither a model.toml nor a config.pbtxt"));

        fs::write(&own, b"backend = \"\xff\"").unwrap();
        let said = refused(folder.path());
        assert!(said.starts_with(&format!("cannot read {}: ", own.display())), "{said}");
    }
}
