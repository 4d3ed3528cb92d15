//! `paceline check`.

use anyhow::Context as _;
use paceline_server::{
    check_access,
    config::{
        Config, ModelSection,
        load::{check, load},
    },
};

use crate::{
    args::CheckArgs,
    exit::{self, Failure},
};

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let refused = |error: &dyn std::error::Error| Failure::Refused(error.to_string());
    let place = args.file.display().to_string();
    let is_model = args.file.file_name().is_some_and(|name| name == "model.toml");
    let sections = if is_model {
        let text =
            std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {place}"))?;
        vec![(None, check::<ModelSection>(&text, &place).map_err(|error| refused(&error))?)]
    } else {
        let config: Config = load(Some(&args.file), [], &[]).map_err(|error| refused(&error))?;
        check_access(&config.server)
            .map_err(|error| Failure::Refused(format!("{place}: {error}")))?;
        config.models.into_iter().map(|(name, section)| (Some(name), section)).collect()
    };
    for (name, section) in sections {
        let prefix = name.map_or_else(String::new, |name| format!("models.{name}."));
        section
            .batch
            .validate()
            .map_err(|error| Failure::Refused(format!("{place}: {prefix}batch.{error}")))?;
        if let Some(settings) = section.simulated {
            settings
                .validate()
                .map_err(|error| Failure::Refused(format!("{place}: {prefix}{error}")))?;
        }
    }
    exit::print(&format!("{place} is valid\n"))
}
