//! `paceline models`.

use std::fmt::Write as _;

use anyhow::Context as _;
use paceline_server::load;

use super::configuration;
use crate::{
    args::ModelsArgs,
    exit::{self, Failure},
};

pub(crate) fn run(args: &ModelsArgs) -> Result<(), Failure> {
    let config = configuration(&args.config, Vec::new())?;
    let blueprints = load(&config.server.model_repository, &config.models)
        .map_err(|error| Failure::Refused(error.to_string()))?;
    if args.json {
        let rows: Vec<_> = blueprints
            .iter()
            .map(|model| {
                serde_json::json!({
                    "name": model.name,
                    "version": model.version,
                    "platform": model.platform,
                    "mode": model.mode,
                    "instances": model.instances,
                })
            })
            .collect();
        let text = serde_json::to_string_pretty(&rows).context("the list cannot be written")?;
        return exit::print(&(text + "\n"));
    }
    let mut text =
        format!("{:<24}{:>8}  {:<22}{:>9}\n", "model", "version", "platform", "instances");
    for model in blueprints {
        _ = writeln!(
            text,
            "{:<24}{:>8}  {:<22}{:>9}",
            model.name, model.version, model.platform, model.instances
        );
    }
    exit::print(&text)
}
