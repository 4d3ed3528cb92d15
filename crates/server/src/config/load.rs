//! Puts the layers together: defaults, file, environment, command line.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::{Table, Value};

use super::{Config, Secret};

/// Variables that begin with this set what their name spells: `PACELINE__SERVER__LISTEN`.
const PREFIX: &str = "PACELINE__";

/// A configuration that cannot be used, and where it is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not TOML, or the merged settings make no sense.
    #[error("{place}: {message}")]
    Invalid {
        /// The file, or which layer.
        place: String,
        /// What is wrong, and what was likely meant.
        message: String,
    },
    /// A setting on the command line that is not `key=value`.
    #[error(
        "`--set {0}` is not of the form key=value, for example --set models.echo.batch.max_wait=5ms"
    )]
    Set(String),
}

/// Loads the configuration. `file` is optional; `sets` are `key=value` from the command line.
///
/// # Errors
///
/// When a layer cannot be read or the result makes no sense; says where.
pub fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    sets: &[String],
) -> Result<Config, ConfigError> {
    let mut table = Table::try_from(Config::default()).unwrap_or_default();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
        // Once alone, so that a mistake in the file is reported with its line.
        let place = path.display().to_string();
        check::<Config>(&text, &place)?;
        let own: Table = toml::from_str(&text).map_err(|error| invalid(&place, &error))?;
        merge(&mut table, own);
    }
    let environment: Vec<(String, String)> = environment.into_iter().collect();
    for (name, value) in &environment {
        if let Some(path) = name.strip_prefix(PREFIX) {
            let path: Vec<String> = path.split("__").map(str::to_lowercase).collect();
            set(&mut table, &path, value);
            parse(&table, name)?;
        }
    }
    for argument in sets {
        let (path, value) =
            argument.split_once('=').ok_or_else(|| ConfigError::Set(argument.clone()))?;
        let keys: Vec<String> = path.split('.').map(str::to_owned).collect();
        set(&mut table, &keys, value);
        let place = if is_secret(path) { path } else { argument };
        parse(&table, &format!("--set {place}"))?;
    }
    lay_over_folders(&mut table)?;
    let mut config = parse(&table, "configuration")?;
    for token in &mut config.server.tokens {
        let held = environment.iter().find(|(name, _)| token.token_env.as_ref() == Some(name));
        token.from_env = held.map(|(_, value)| Secret::from(value.clone()));
    }
    Ok(config)
}

/// Whether what a key holds must not be shown. It may be misspelt.
fn is_secret(key: &str) -> bool {
    let last = key.trim().rsplit('.').next().unwrap_or_default();
    last.contains("token") || strsim::damerau_levenshtein(last, "token") <= 2
}

/// Reads a file of any section with helpful errors.
///
/// # Errors
///
/// When it is not what it should be; says where and what was likely meant.
pub fn check<'de, T: Deserialize<'de>>(text: &'de str, place: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| invalid(place, &error))
}

/// A file's text; `None` where there is none. One that is there and cannot be read must not pass for
/// that: a model would be served with other settings than its own.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(ConfigError::Read { path: path.to_owned(), error }),
    }
}

fn parse(table: &Table, place: &str) -> Result<Config, ConfigError> {
    table.clone().try_into().map_err(|error| invalid(place, &error))
}

fn invalid(place: &str, error: &toml::de::Error) -> ConfigError {
    let message = without_secrets(&error.to_string());
    let message = match suggestion(error.message()) {
        Some(meant) => format!("{}\ndid you mean `{meant}`?", message.trim_end()),
        None => message.trim_end().to_owned(),
    };
    ConfigError::Invalid { place: place.to_owned(), message }
}

/// A message as it is, unless it is about a secret. Then the place must do, and what is said of
/// keys, which are none.
fn without_secrets(message: &str) -> String {
    // Of a file the line is shown, of other layers the key is named.
    let shows = |line: &str| {
        let (_, text) = line.split_once(" | ")?;
        let keys = text.split('=').rev().skip(1);
        Some(keys.filter_map(|key| key.rsplit(['{', ',']).next()).any(is_secret))
    };
    let is_place = |line: &str| line.starts_with("in `");
    let names = |line: &str| is_place(line) && line.contains("token");
    if !message.lines().any(|line| names(line) || shows(line) == Some(true)) {
        return message.to_owned();
    }
    let says_no_value = |line: &&str| {
        is_place(line) || line.starts_with("TOML parse error") || line.starts_with("unknown field")
    };
    let mut lines: Vec<&str> = message.lines().filter(says_no_value).collect();
    lines.push("a token is a table of texts: name, roles, and one of token, token_file, token_env");
    lines.join("\n")
}

/// What a misspelt key was likely meant to be, from "unknown field `a`, expected one of `b`, `c`".
fn suggestion(message: &str) -> Option<String> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown").then(|| quoted.next()).flatten()?;
    quoted
        .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
        .filter(|(distance, known)| *distance * 3 <= known.len().max(3))
        .min()
        .map(|(_, known)| known.to_owned())
}

/// What is said of a model that has a folder changes what its `model.toml` says, and does not replace
/// it.
fn lay_over_folders(table: &mut Table) -> Result<(), ConfigError> {
    let repository = table.get("server").and_then(|server| server.get("model_repository"));
    let Some(repository) = repository.and_then(Value::as_str).map(PathBuf::from) else {
        return Ok(());
    };
    let Some(Value::Table(models)) = table.get_mut("models") else { return Ok(()) };
    for (name, section) in models {
        let path = repository.join(name).join("model.toml");
        let (Some(text), Value::Table(own)) = (read(&path)?, section) else { continue };
        let place = path.display().to_string();
        let mut whole: Table = toml::from_str(&text).map_err(|error| invalid(&place, &error))?;
        merge(&mut whole, std::mem::take(own));
        *own = whole;
    }
    Ok(())
}

/// Lays one table over another.
fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => merge(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// Sets what a path names. The text is taken as TOML where it is that, else as a string.
fn set(table: &mut Table, path: &[String], text: &str) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = table;
    for key in parents {
        let entry = at.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
        if !entry.is_table() {
            *entry = Value::Table(Table::new());
        }
        let Value::Table(inner) = entry else { return };
        at = inner;
    }
    let value = toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    at.insert(last.clone(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write as _, time::Duration};

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn variable(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn each_layer_lies_over_the_one_before() {
        let file = file("[server]\nlisten = \"127.0.0.1:1\"\nmax_body = 1\nmax_connections = 1\n");
        let environment = [
            variable("PACELINE__SERVER__MAX_BODY", "2"),
            variable("PACELINE__SERVER__MAX_CONNECTIONS", "2"),
            variable("HOME", "/"),
        ];

        let config =
            load(Some(file.path()), environment, &["server.max_connections=3".to_owned()]).unwrap();

        assert_eq!(config.server.listen.port(), 1);
        assert_eq!((config.server.max_body, config.server.max_connections), (2, 3));
        assert_eq!(config.server.drain_timeout, Duration::from_secs(30));
    }

    #[test]
    fn every_setting_of_a_models_batcher_can_be_set_in_every_layer() {
        let file =
            file("[models.echo]\nbackend = \"simulated\"\n[models.echo.batch]\nmax_items = 8\n");
        let environment = [variable("PACELINE__MODELS__ECHO__BATCH__MAX_WAIT", "7ms")];
        let sets = [
            "models.echo.batch.policy=fixed".to_owned(),
            "models.echo.batch.sizes=[1, 2, 8]".to_owned(),
        ];

        let config = load(Some(file.path()), environment, &sets).unwrap();

        let batch = &config.models["echo"].batch;
        assert_eq!((batch.max_items, batch.max_wait), (Some(8), Some(Duration::from_millis(7))));
        assert_eq!(batch.sizes, [1, 2, 8]);
        batch.validate().unwrap();
    }

    #[test]
    fn what_is_set_of_a_model_changes_its_folder_and_leaves_the_rest() {
        let repository = tempfile::tempdir().unwrap();
        let folder = repository.path().join("vocoder");
        std::fs::create_dir(&folder).unwrap();
        let text =
            "backend = \"onnx\"\nwarm_up_length = 86\n[batch]\nmax_items = 8\nbuckets = [62]\n";
        std::fs::write(folder.join("model.toml"), text).unwrap();
        let sets = [
            format!("server.model_repository={:?}", repository.path().display().to_string()),
            "models.vocoder.batch.policy=fixed".to_owned(),
        ];

        let environment = [variable("PACELINE__MODELS__VOCODER__BATCH__MAX_ITEMS", "16")];
        let vocoder = load(None, environment, &sets).unwrap().models.remove("vocoder").unwrap();

        assert_eq!(vocoder.warm_up_length, Some(86));
        assert_eq!(vocoder.batch.policy, paceline_batch::PolicyName::Fixed);
        assert_eq!((vocoder.batch.max_items, vocoder.batch.max_wait), (Some(16), None));
    }

    #[test]
    fn a_folder_whose_settings_cannot_be_read_is_not_one_without() {
        let repository = tempfile::tempdir().unwrap();
        let own = repository.path().join("vocoder/model.toml");
        std::fs::create_dir(repository.path().join("vocoder")).unwrap();
        let sets = [
            format!("server.model_repository={:?}", repository.path().display().to_string()),
            "models.vocoder.batch.policy=fixed".to_owned(),
        ];
        assert!(load(None, [], &sets).is_ok());
        std::fs::write(&own, b"instances = 2 # \xff").unwrap();

        let refused = load(None, [], &sets).unwrap_err().to_string();

        assert!(refused.starts_with(&format!("cannot read {}: ", own.display())), "{refused}");
    }

    #[test]
    fn a_misspelt_key_is_refused_with_what_was_meant() {
        let wrong = file("[server]\nmax_bodi = 1\n");
        let refused = load(Some(wrong.path()), [], &[]).unwrap_err().to_string();
        assert!(refused.contains("unknown field `max_bodi`"), "{refused}");
        assert!(refused.ends_with("did you mean `max_body`?"), "{refused}");
        assert!(refused.contains("line 2"), "{refused}");

        let refused =
            load(None, [variable("PACELINE__SERVER__LISTN", "x")], &[]).unwrap_err().to_string();
        assert!(refused.starts_with("PACELINE__SERVER__LISTN: "), "{refused}");
        let refused =
            load(None, [], &["models.m.batch.max_wait=soon".to_owned()]).unwrap_err().to_string();
        assert!(refused.contains("`soon` is no duration"), "{refused}");
        assert!(load(None, [], &["nonsense".to_owned()]).is_err());
    }

    #[test]
    fn a_model_without_instances_is_refused() {
        let wrong = file("[models.a]\nbackend = \"simulated\"\ninstances = 0\n");
        let refused = load(Some(wrong.path()), [], &[]).unwrap_err().to_string();

        assert!(refused.contains("3 | instances = 0"), "{refused}");
    }

    #[test]
    fn a_mistake_near_a_token_does_not_print_it() {
        for text in [
            "[[server.tokens]]\nname = \"a\"\ntokne = \"canary\"\n",
            "[[server.tokens]]\nname = \"a\"\ntoken = [\"canary\"]\n",
            "[[server.tokens]]\ntoken = \"canary\nname = \"a\"\n",
            "[server]\ntokens = [{ name = \"a\", tokne = \"canary\" }]\n",
            "[server]\ntokens = \"canary\"\n",
        ] {
            let refused = load(Some(file(text).path()), [], &[]).unwrap_err().to_string();
            assert!(!refused.contains("canary"), "{refused}");
            assert!(refused.contains("line "), "{refused}");
        }
        let set = ["server.tokens=[{name='a', tokn='canary'}]".to_owned()];
        let refused = load(None, [], &set).unwrap_err().to_string();
        assert!(!refused.contains("canary"), "{refused}");
        let variable = [variable("PACELINE__SERVER__TOKENS", "canary")];
        let refused = load(None, variable, &[]).unwrap_err().to_string();
        assert!(!refused.contains("canary"), "{refused}");
    }

    #[test]
    fn the_defaults_read_back_as_themselves() {
        let text = toml::to_string(&Config::default()).unwrap();

        assert_eq!(check::<Config>(&text, "defaults").unwrap(), Config::default());
    }
}
