//! From a token model's `[synthesis]` table to a pair that speaks.

use std::{fs, path::Path};

use paceline_pipeline::synthesis::{PairSettings, Phones, PlainText, Reader, Reads, Synthesis};
use paceline_text::{Lexicon, Phonemiser};

use crate::LoadError;

/// Lets every pair speak whose token model has a `[synthesis]` table.
///
/// # Errors
///
/// When a pair's files or settings are not right; says which.
pub(crate) fn added(
    synthesis: Synthesis,
    repository: &Path,
    pairs: Vec<(String, PairSettings)>,
) -> Result<Synthesis, LoadError> {
    for (name, settings) in pairs {
        let wrong = |message: String| LoadError::Files { name: name.clone(), message };
        let reader = reader(&repository.join(&name), &settings).map_err(wrong)?;
        let voices = settings.voices.len();
        synthesis.add(&name, settings, reader).map_err(|error| wrong(error.to_string()))?;
        tracing::info!(model = name, voices, "speaks");
    }
    Ok(synthesis)
}

fn reader(folder: &Path, settings: &PairSettings) -> Result<Box<dyn Reader>, String> {
    let max_sentence = settings.max_sentence;
    if settings.reads == Reads::Text {
        return Ok(Box::new(PlainText { max_sentence }));
    }
    let read = |file: &str| {
        fs::read(folder.join(file)).map_err(|error| format!("`{file}` is needed: {error}"))
    };
    let lexicon = Lexicon::unpack(&read("lexicon.tsv.gz")?);
    let lexicon = lexicon.map_err(|error| format!("lexicon.tsv.gz: {error}"))?;
    let phonemiser = Phonemiser::new(lexicon, &read("phones.json")?);
    let phonemiser = phonemiser.map_err(|error| error.to_string())?;
    Ok(Box::new(Phones { phonemiser, max_sentence }))
}
