//! Durations as people write them, `"5ms"` or `"1m 30s"`: the one form in which every setting of
//! time is read and written. For fields, `#[serde(with = "duration")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Writes one.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*value))
}

/// Reads one.
///
/// # Errors
///
/// When it is no text, or the text is no duration.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        D::Error::custom(format_args!("`{text}` is no duration ({error}); write \"5ms\" or \"2s\""))
    })
}

/// Durations that may be left out. Beside `default`, so that one can be, and
/// `skip_serializing_if`, for formats that have no word for nothing.
pub mod option {
    use super::{Deserializer, Duration, Serializer};

    /// Writes one, or nothing.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads one that is there.
    ///
    /// # Errors
    ///
    /// As [`deserialize`](super::deserialize).
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Default, serde::Serialize, Deserialize)]
    struct Settings {
        #[serde(with = "super")]
        wait: Duration,
        #[serde(default, with = "super::option", skip_serializing_if = "Option::is_none")]
        timeout: Option<Duration>,
    }

    #[test]
    fn what_is_written_is_read_again() {
        for nanos in [0, 1, 1_500, 2_000_000, 90_000_000_000, 3_600_000_000_001] {
            let wait = Duration::from_nanos(nanos);
            for settings in
                [Settings { wait, timeout: None }, Settings { wait, timeout: Some(wait) }]
            {
                let text = toml::to_string(&settings).unwrap();
                assert_eq!(toml::from_str::<Settings>(&text).unwrap(), settings, "{text}");
            }
        }
    }

    #[test]
    fn what_is_none_is_said_in_a_sentence() {
        let error = toml::from_str::<Settings>("wait = '5'").unwrap_err().to_string();
        assert!(error.contains("`5` is no duration") && error.contains("write \"5ms\""), "{error}");
        assert!(toml::from_str::<Settings>("wait = 5").is_err());
    }
}
