//! All models that are served, by name and version.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use arc_swap::ArcSwap;

use crate::{InferError, Model, Tracer};

/// A model's name: what can stand in a path and in a label, and nothing that can leave a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName(String);

/// A name that no model may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no model name; use 1 to 64 letters, digits, `_`, `-` and `.`, not beginning with `.`"
)]
pub struct NameError(String);

impl ModelName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// When it holds anything else than letters, digits, `_`, `-` and `.`, or begins with a dot.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_name = (1..=64).contains(&name.len())
            && name.bytes().all(is_allowed)
            && !name.starts_with('.');
        if is_name {
            Ok(Self(name.to_owned()))
        } else {
            Err(NameError(name.chars().take(64).flat_map(char::escape_default).collect()))
        }
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Versions = BTreeMap<u64, Arc<Model>>;
type Table = BTreeMap<String, Versions>;

/// All models that are served. Reading takes no lock.
#[derive(Default)]
pub struct Models {
    table: ArcSwap<Table>,
    /// Writers go one at a time.
    write: Mutex<()>,
    /// Who keeps spans of requests, if anybody does.
    tracer: OnceLock<Arc<dyn Tracer>>,
}

impl Models {
    /// Has requests traced, of every model that is served from now on. Only the first tracer counts.
    pub fn trace_with(&self, tracer: Arc<dyn Tracer>) {
        drop(self.tracer.set(tracer));
    }

    /// Finds a model: the version asked for, or the latest.
    ///
    /// # Errors
    ///
    /// When there is no such model or version.
    pub fn find(&self, name: &str, version: Option<u64>) -> Result<Arc<Model>, InferError> {
        let table = self.table.load();
        let versions = table.get(name).ok_or_else(|| unknown(name))?;
        let found = match version {
            Some(version) => versions.get(&version),
            None => versions.last_key_value().map(|(_, model)| model),
        };
        found.cloned().ok_or_else(|| InferError::UnknownVersion {
            name: name.to_owned(),
            version: version.unwrap_or(0),
        })
    }

    /// Finds a model in every version, or in the one asked for.
    ///
    /// # Errors
    ///
    /// When there is no such model or version.
    pub fn find_all(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Vec<Arc<Model>>, InferError> {
        if version.is_some() {
            return Ok(vec![self.find(name, version)?]);
        }
        let table = self.table.load();
        let versions = table.get(name).ok_or_else(|| unknown(name))?;
        Ok(versions.values().cloned().collect())
    }

    /// Every version of every model, in order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Model>> {
        self.table.load().values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// The versions of one model, in order.
    #[must_use]
    pub fn versions(&self, name: &str) -> Vec<u64> {
        self.table
            .load()
            .get(name)
            .map(|versions| versions.keys().copied().collect())
            .unwrap_or_default()
    }

    /// Serves these versions under this name from now on. Versions that were served before answer
    /// whoever has found them already, and close with the last of those.
    pub fn replace(&self, name: &str, models: Vec<Arc<Model>>) {
        if let Some(tracer) = self.tracer.get() {
            for model in &models {
                model.trace_with(tracer);
            }
        }
        let versions: Versions =
            models.into_iter().map(|model| (model.facts().version, model)).collect();
        // The old ones are not closed here: between finding a model and asking it there is always
        // a moment, and a request in that moment would be refused.
        drop(self.change(|table| {
            if versions.is_empty() {
                table.remove(name)
            } else {
                table.insert(name.to_owned(), versions)
            }
        }));
    }

    /// Serves nothing under this name any more; `false` if nothing was.
    pub fn remove(&self, name: &str) -> bool {
        let had = !self.versions(name).is_empty();
        self.replace(name, Vec::new());
        had
    }

    /// Closes every model.
    pub fn close(&self) {
        for model in self.all() {
            model.close();
        }
    }

    fn change<A>(&self, change: impl FnOnce(&mut Table) -> A) -> A {
        let _guard = self.write.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        let answer = change(&mut table);
        self.table.store(Arc::new(table));
        answer
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("table", &self.table).finish_non_exhaustive()
    }
}

/// A name that a stranger gave, short and escaped.
fn unknown(name: &str) -> InferError {
    InferError::UnknownModel(name.chars().take(64).flat_map(char::escape_default).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_folder() {
        for bad in ["", "..", ".hidden", "a/b", "a\\b", "a b", "é", "a\0", &"x".repeat(65)] {
            assert!(ModelName::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["magika", "moonshine-tiny.en", "v2_3"] {
            assert_eq!(ModelName::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn an_unknown_model_is_named_without_its_tricks() {
        let error = Models::default().find("<b>\u{1b}[31m", None).unwrap_err();

        assert_eq!(error.to_string(), "there is no model `<b>\\u{1b}[31m`");
    }
}
