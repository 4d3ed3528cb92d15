//! What a client asks for in the query of `/v1/listen`.

use std::{collections::BTreeSet, time::Duration};

use axum::http::Uri;
use paceline_batch::Key;
use paceline_pipeline::speech::{
    Bounds, Encoding, Format, INTERIM_INTERVAL, SegmentSettings, Source, Speech, Style, Terms,
    Utterances,
};

use crate::{
    ApiError,
    speech::{
        fields::{Fields, clip, wrong},
        name::{self, Chosen},
    },
};

/// The shortest silence that ends an utterance: less would cut words in two.
const MIN_ENDPOINTING: Duration = Duration::from_millis(200);
/// The longest.
const MAX_ENDPOINTING: Duration = Duration::from_secs(5);

/// What a client asks for.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a parameter")]
pub(super) struct Query {
    pub(super) model: Chosen,
    pub(super) source: Source,
    pub(super) multichannel: bool,
    pub(super) interim_results: bool,
    /// How long a silence ends an utterance; `None` where that is not told.
    pub(super) endpointing: Option<Duration>,
    pub(super) utterance_end: Option<Duration>,
    pub(super) vad_events: bool,
    /// Of a file: list what was said, utterance by utterance.
    pub(super) utterances: bool,
}

impl Query {
    /// Reads what is asked of these models; also what had no effect.
    pub(super) fn of(uri: &Uri, speech: &Speech) -> Result<(Self, BTreeSet<String>), ApiError> {
        Self::read(uri, &speech.settings().bounds, |named| name::model(speech, named))
    }

    /// The same. `choose` finds the model that a name means.
    pub(super) fn read(
        uri: &Uri,
        bounds: &Bounds,
        choose: impl FnOnce(Option<&str>) -> Result<Chosen, ApiError>,
    ) -> Result<(Self, BTreeSet<String>), ApiError> {
        let mut fields = Fields::of_query(uri)?;
        let named = fields.text("model");
        fields.text("version");
        if fields.text("callback").is_some() {
            let message = "callback is not supported: results come in the answer, and nowhere else";
            return Err(wrong(message));
        }
        let query = Self {
            model: choose(named.as_deref())?,
            source: source(&mut fields, bounds)?,
            multichannel: fields.flag("multichannel")?,
            interim_results: fields.flag("interim_results")?,
            endpointing: endpointing(fields.text("endpointing"))?,
            utterance_end: utterance_end(&mut fields)?,
            vad_events: fields.flag("vad_events")?,
            utterances: fields.flag("utterances")?,
        };
        if query.utterance_end.is_some() && !query.interim_results {
            return Err(wrong("utterance_end_ms needs interim_results=true"));
        }
        if let Some(language) = fields.text("language")
            && !language.starts_with("en")
        {
            fields.add("language".to_owned(), language)?;
        }
        let mut ignored = fields.ignored();
        if !query.model.is_named {
            ignored.insert("model".to_owned());
        }
        Ok((query, ignored))
    }

    /// What a session is opened with.
    pub(super) fn terms(&self) -> Result<Terms, ApiError> {
        let default = SegmentSettings::default();
        let settings = SegmentSettings {
            redemption_time: self.endpointing.unwrap_or(default.redemption_time),
            ..default
        };
        let settings = settings.validate().map_err(|error| wrong(error.to_string()))?;
        Ok(Terms {
            source: self.source,
            model: Some(self.model.name.clone()),
            params: Key::ANY,
            style: Style::Segmented(Utterances {
                settings,
                interim: self.interim_results.then_some(INTERIM_INTERVAL),
                keeps_stable: false,
                pause: self.utterance_end,
                single: false,
            }),
            mix: !self.multichannel,
            trace: None,
        })
    }
}

/// What the audio is: raw where an encoding is named, else a container that says it itself.
fn source(fields: &mut Fields, bounds: &Bounds) -> Result<Source, ApiError> {
    let encoding = fields.text("encoding");
    let rate = fields.number("sample_rate")?;
    let channels = fields.number("channels")?.unwrap_or(1);
    let raw = match encoding.as_deref() {
        None | Some("") => return Ok(Source::container(Encoding::Auto)),
        Some("linear16") => Encoding::S16le,
        Some("linear32") => Encoding::F32le,
        Some("mulaw") => Encoding::Mulaw,
        Some("alaw") => Encoding::Alaw,
        Some("flac") => return Ok(Source::container(Encoding::Flac)),
        Some("opus" | "ogg-opus") => return Ok(Source::container(Encoding::Ogg)),
        Some(other) => {
            return Err(wrong(format!(
                "encoding={} is not supported: linear16, linear32, mulaw, alaw, flac, opus and \
                 ogg-opus are, and every container that is sent without encoding",
                clip(other)
            )));
        }
    };
    let Some(rate) = rate else {
        return Err(wrong(format!("encoding={} needs sample_rate", encoding.unwrap_or_default())));
    };
    // Now and not when the first audio comes: a client is told something of every channel.
    let format = Format { rate, channels };
    let format = format.within(bounds).map_err(|error| wrong(error.to_string()))?;
    Ok(Source { encoding: raw, format: Some(format) })
}

fn endpointing(text: Option<String>) -> Result<Option<Duration>, ApiError> {
    let default = SegmentSettings::default().redemption_time;
    Ok(match text.map(|text| text.to_ascii_lowercase()).as_deref() {
        None | Some("true") => Some(default),
        Some("false") => None,
        Some(text) => {
            let asked = text.parse().map(Duration::from_millis).map_err(|_| {
                wrong(format!("endpointing is {}; it is true, false or milliseconds", clip(text)))
            })?;
            Some(asked.clamp(MIN_ENDPOINTING, MAX_ENDPOINTING))
        }
    })
}

fn utterance_end(fields: &mut Fields) -> Result<Option<Duration>, ApiError> {
    match fields.number::<u64>("utterance_end_ms")? {
        None => Ok(None),
        Some(asked @ 1000..=5000) => Ok(Some(Duration::from_millis(asked))),
        Some(asked) => Err(wrong(format!("utterance_end_ms is {asked}; it is from 1000 to 5000"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Query, String> {
        let choose = |_: Option<&str>| {
            Ok(Chosen { name: "m".to_owned(), version: "1".to_owned(), is_named: true })
        };
        let uri = format!("/v1/listen?{query}").parse().unwrap();
        let read = Query::read(&uri, &Bounds::default(), choose);
        read.map(|(query, _)| query).map_err(|error| error.message)
    }

    #[test]
    fn raw_audio_is_within_bounds_before_anything_is_said_of_its_channels() {
        let asked = |rate, channels| {
            read(&format!("encoding=linear16&sample_rate={rate}&channels={channels}"))
        };

        assert_eq!(asked("16000", "2").unwrap().source, Source::raw(Encoding::S16le, 16_000, 2));
        for (rate, channels) in [("16000", "65535"), ("16000", "0"), ("1", "1"), ("16000", "-1")] {
            assert!(asked(rate, channels).is_err(), "{rate} {channels}");
        }
    }
}
