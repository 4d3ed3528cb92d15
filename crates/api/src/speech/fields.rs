//! Parameters as clients write them, in a query or in a form. What nobody takes is ignored, and the
//! client is told in a header.

use std::{collections::BTreeSet, str::FromStr};

use axum::{
    extract::Query,
    http::{HeaderValue, Uri},
};
use paceline_types::ErrorCode;

use crate::ApiError;

/// The header that names the parameters which had no effect.
pub(super) const IGNORED: &str = "paceline-ignored";

/// Most parameters of a request.
const MAX: usize = 256;

/// What a client wrote, as far as it was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

pub(super) fn wrong(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidInput, message)
}

impl Fields {
    pub(super) fn of_query(uri: &Uri) -> Result<Self, ApiError> {
        let Query(list) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|rejection| wrong(rejection.body_text()))?;
        if MAX < list.len() {
            return Err(wrong(format!("there are more than {MAX} parameters")));
        }
        Ok(Self(list))
    }

    pub(super) fn add(&mut self, name: String, value: String) -> Result<(), ApiError> {
        if MAX <= self.0.len() {
            return Err(wrong(format!("there are more than {MAX} parameters")));
        }
        self.0.push((name, value));
        Ok(())
    }

    /// Every value of a parameter, also where its name is written as that of a list.
    pub(super) fn all(&mut self, name: &str) -> Vec<String> {
        let is_own = |own: &str| own.strip_suffix("[]").unwrap_or(own) == name;
        let taken = self.0.extract_if(.., |(own, _)| is_own(own));
        taken.map(|(_, value)| value).collect()
    }

    /// A parameter that is said once; the last one counts.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.all(name).pop()
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        match self.text(name).map(|text| text.to_ascii_lowercase()).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => Err(wrong(format!("{name} is {}; it is true or false", clip(other)))),
        }
    }

    pub(super) fn number<N: FromStr>(&mut self, name: &str) -> Result<Option<N>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.trim().parse();
        number.map(Some).map_err(|_| wrong(format!("{name} is {}; it is a number", clip(&text))))
    }

    /// The names of what nobody took, unless it says that something is not wanted.
    pub(super) fn ignored(self) -> BTreeSet<String> {
        let is_wish = |value: &str| !value.eq_ignore_ascii_case("false");
        let left = self.0.into_iter().filter(|(_, value)| is_wish(value));
        left.map(|(name, _)| clip(&name)).collect()
    }
}

/// These names as a header's value.
pub(super) fn header(ignored: &BTreeSet<String>) -> Option<HeaderValue> {
    let names: Vec<&str> = ignored.iter().take(32).map(String::as_str).collect();
    (!names.is_empty()).then(|| HeaderValue::from_str(&names.join(", ")).ok())?
}

/// A stranger's word, short and plain.
pub(super) fn clip(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(query: &str) -> Fields {
        Fields::of_query(&format!("/x?{query}").parse().unwrap()).unwrap()
    }

    #[test]
    fn values_are_read_as_every_client_writes_them() {
        let mut fields = fields("a=True&b=false&n=16000&w=x&w=y+z&g[]=1&g[]=2&on&bad=maybe");

        assert!(fields.flag("a").unwrap() && !fields.flag("b").unwrap());
        assert!(!fields.flag("missing").unwrap());
        assert!(fields.flag("bad").is_err());
        assert_eq!(fields.number::<u32>("n").unwrap(), Some(16_000));
        assert_eq!(fields.all("w"), ["x", "y z"]);
        assert_eq!(fields.all("g"), ["1", "2"]);
    }

    #[test]
    fn what_nobody_took_is_named_unless_it_was_not_wanted() {
        let mut fields = fields("used=1&diarize=true&punctuate=false&x%0Ay=1&diarize=true");
        fields.text("used");

        let ignored = fields.ignored();

        assert_eq!(header(&ignored).unwrap(), "diarize, xy");
        assert_eq!(header(&BTreeSet::new()), None);
    }
}
