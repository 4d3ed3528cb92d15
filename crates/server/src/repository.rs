//! From a model's settings and files to what is needed to serve it.
//!
//! A model is a folder: `model.toml` (or a Triton `config.pbtxt`), and its files in folders named by
//! version number.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use paceline_api::oip::pbtxt;
use paceline_backend::{Backend, BackendError, Ragged, Simulated, simulated};
use paceline_backend_onnx::{Engine, OnnxBackend, OnnxOptions, StateLink};
use paceline_backend_python::{PythonBackend, PythonOptions};
use paceline_pipeline::{Blueprint, Build, ModelName, NameError, OpenError, adapt};
use paceline_types::{DType, Signature};

use crate::{
    config::{
        BackendName, EngineName, ModelSection, OnnxSection, PaddingSection, PythonSection,
        load::{ConfigError, check},
    },
    triton,
};

/// A model that cannot be served, and why.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Its name.
    #[error(transparent)]
    Name(#[from] NameError),
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

/// Every model: those of the repository's folders, with the changes that the configuration makes,
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
    let mut names = folders(repository);
    names.extend(configured.keys().cloned());
    names.sort_unstable();
    names.dedup();
    for name in names {
        blueprints.push(load_one(repository, &name, configured.get(&name))?);
    }
    Ok(blueprints)
}

/// One model, from its folder or from the configuration.
///
/// # Errors
///
/// When there is no such model, or its files are not right.
pub(crate) fn load_one(
    repository: &Path,
    name: &str,
    configured: Option<&ModelSection>,
) -> Result<Blueprint, LoadError> {
    blueprint(&repository.join(name), &ModelName::parse(name)?, configured)
}

/// The names of the repository's folders; none where there is no repository.
fn folders(repository: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(repository) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect()
}

/// The latest version of one model.
fn blueprint(
    folder: &Path,
    name: &ModelName,
    configured: Option<&ModelSection>,
) -> Result<Blueprint, LoadError> {
    let wrong = |message: String| LoadError::Files { name: name.to_string(), message };
    let section = match configured {
        Some(configured) => configured.clone(),
        None => read_section(folder, name)?,
    };
    let adapter = section.adapter.as_deref().map(|name| adapt::open(name, folder)).transpose();
    let adapter = adapter.map_err(|error| wrong(error.to_string()))?;
    let backend = section.backend.unwrap_or_else(|| find_backend(folder));
    let (version, build, platform): (u64, Build, &str) = match backend {
        BackendName::Simulated => {
            let settings = section.simulated.clone().unwrap_or_default();
            settings.validate().map_err(|error| wrong(error.to_string()))?;
            (1, simulated_build(settings), "paceline_simulated")
        }
        BackendName::Python => {
            let (version, options) =
                python_options(folder, name, section.python.as_ref()).map_err(wrong)?;
            let build = move |instance| {
                Ok(Box::new(PythonBackend::load(&options, instance)?) as Box<dyn Backend>)
            };
            (version, Arc::new(build), "python")
        }
        BackendName::Onnx => {
            let (version, path) = latest(folder, "model.onnx").ok_or_else(|| {
                wrong(format!(
                    "there is no {}/<version>/model.onnx; put the file into a folder named by its version number",
                    folder.display()
                ))
            })?;
            let options = onnx_options(path, section.onnx.as_ref());
            let build = move |_| Ok(Box::new(OnnxBackend::load(&options)?) as Box<dyn Backend>);
            (version, Arc::new(build), "onnx")
        }
    };
    let padding = section.padding.clone().unwrap_or_default();
    Ok(Blueprint {
        name: name.to_string(),
        version,
        platform: platform.to_owned(),
        mode: section.mode,
        batch: section.batch,
        instances: section.instances.unwrap_or(1),
        build,
        ragged: Box::new(move |signature| find_ragged(&padding, signature)),
        warm_up_length: section.warm_up_length.unwrap_or(16),
        adapter,
    })
}

/// A folder's own settings: its `model.toml`, or a Triton `config.pbtxt`.
fn read_section(folder: &Path, name: &ModelName) -> Result<ModelSection, LoadError> {
    let wrong = |message: String| LoadError::Files { name: name.to_string(), message };
    let (own, triton) = (folder.join("model.toml"), folder.join("config.pbtxt"));
    if let Ok(text) = fs::read_to_string(&own) {
        return Ok(check(&text, &own.display().to_string())?);
    }
    let text = fs::read_to_string(&triton).map_err(|_| {
        wrong(format!("{} has neither a model.toml nor a config.pbtxt", folder.display()))
    })?;
    let place = |message: String| wrong(format!("{}: {message}", triton.display()));
    let config = pbtxt::parse(&text).map_err(|error| place(error.to_string()))?;
    triton::section(&config).map_err(place)
}

fn simulated_build(settings: simulated::Settings) -> Build {
    Arc::new(move |instance| {
        let model = Simulated::build(settings.clone(), instance as u64);
        Ok(Box::new(model.map_err(|error| BackendError::Load(error.to_string()))?))
    })
}

/// What runs a model whose settings do not say so, judged by its files.
fn find_backend(folder: &Path) -> BackendName {
    match latest(folder, "model.py") {
        Some(_) if latest(folder, "model.onnx").is_none() => BackendName::Python,
        _ => BackendName::Onnx,
    }
}

/// The highest version that has this file, and where it is.
fn latest(folder: &Path, file: &str) -> Option<(u64, PathBuf)> {
    let versions = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        let version: u64 = entry.file_name().to_str()?.parse().ok()?;
        let path = entry.path().join(file);
        path.is_file().then_some((version, path))
    });
    versions.max()
}

/// The highest version that has the class's module, and how it is run.
fn python_options(
    folder: &Path,
    name: &ModelName,
    section: Option<&PythonSection>,
) -> Result<(u64, PythonOptions), String> {
    let section = section.cloned().unwrap_or_default();
    let module = section.class.split([':', '.']).next().unwrap_or_default();
    let files = [format!("{module}.py"), format!("{module}/__init__.py")];
    let found = files.iter().filter_map(|file| {
        let (version, _) = latest(folder, file)?;
        Some((version, folder.join(version.to_string())))
    });
    let (version, own) = found.max().ok_or_else(|| {
        format!(
            "there is no {}/<version>/{module}.py; put the file into a folder named by its version number",
            folder.display()
        )
    })?;
    let absolute = |path: &Path| {
        let path = std::path::absolute(path);
        path.map_err(|error| format!("{}: {error}", folder.display()))
    };
    let is_path = 1 < section.interpreter.components().count();
    Ok((
        version,
        PythonOptions {
            python: if is_path {
                absolute(&folder.join(&section.interpreter))?
            } else {
                section.interpreter
            },
            env: section.env,
            devices: section.devices,
            load_timeout: section.load_timeout,
            call_timeout: section.call_timeout,
            retry_safe: section.retry_safe,
            memory_limit: section.memory_limit,
            sandbox: section.sandbox,
            ..PythonOptions::new(name.as_str(), &section.class, absolute(&own)?)
        },
    ))
}

fn onnx_options(path: PathBuf, section: Option<&OnnxSection>) -> OnnxOptions {
    let section = section.cloned().unwrap_or_default();
    OnnxOptions {
        engine: match section.engine {
            EngineName::Auto => Engine::Auto,
            EngineName::Rten => Engine::Rten,
            EngineName::OnnxRuntime => Engine::OnnxRuntime,
        },
        threads: section.threads,
        batched: section.batched,
        states: section
            .states
            .into_iter()
            .map(|(input, output)| StateLink {
                input,
                output,
                batch_axis: section.state_batch_axis,
            })
            .collect(),
        library: section.library,
        ..OnnxOptions::new(path)
    }
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
