//! One file per command.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod dead;
pub(crate) mod feed;
pub(crate) mod models;
mod own;
pub(crate) mod serve;
pub(crate) mod speak;
pub(crate) mod stream;
pub(crate) mod top;
pub(crate) mod transcribe;

use paceline_server::config::{Config, load::load};

use crate::{args::ConfigArgs, exit::Failure};

/// The configuration that a command line asks for. `more` are further settings, over all others.
fn configuration(args: &ConfigArgs, more: Vec<String>) -> Result<Config, Failure> {
    let mut sets = args.set.clone();
    if let Some(folder) = &args.model_repository {
        sets.push(format!("server.model_repository={:?}", folder.display().to_string()));
    }
    sets.extend(more);
    load(args.config.as_deref(), std::env::vars(), &sets)
        .map_err(|error| Failure::Refused(error.to_string()))
}
