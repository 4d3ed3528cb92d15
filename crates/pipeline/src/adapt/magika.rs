//! File types: any bytes in, `{"label", "score", ...}` out, by the rules of Magika 1.0.
//!
//! The model sees the first and the last kilobyte with the white space around the file left out. A
//! file with less than eight bytes of content is not worth a model call, and an answer that the
//! model is not sure of becomes `txt` or `unknown`.

use std::{collections::HashMap, iter, sync::Arc};

use paceline_types::{DType, Tensor};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AdaptError, Adapter, Encoded, numbers};

const CONFIG: &str = "config.json";
const CONTENT_TYPES: &str = "content_types.json";

/// The adapter `magika`.
///
/// An answer has `label`, `score`, `mime_type`, `group`, `description` and `is_text`; and what the
/// model said in `model_label`, null where it was not asked; and in `overwrite_reason` why `label`
/// is another: `none`, `overwrite_map` or `low_confidence`.
#[derive(Debug)]
pub struct Magika {
    rules: Arc<Rules>,
}

/// The model's own configuration, as its package has it.
#[derive(Debug, Deserialize)]
struct Config {
    beg_size: usize,
    mid_size: usize,
    end_size: usize,
    use_inputs_at_offsets: bool,
    medium_confidence_threshold: f64,
    min_file_size_for_dl: usize,
    padding_token: i32,
    block_size: usize,
    target_labels_space: Vec<String>,
    thresholds: HashMap<String, f64>,
    overwrite_map: HashMap<String, String>,
}

/// What is known of one type.
#[derive(Debug, Deserialize)]
struct ContentType {
    mime_type: Option<String>,
    group: Option<String>,
    description: Option<String>,
    is_text: bool,
}

#[derive(Debug)]
struct Rules {
    config: Config,
    content_types: HashMap<String, ContentType>,
}

impl Magika {
    /// An adapter for the model that these two files describe.
    ///
    /// # Errors
    ///
    /// When a file is malformed, asks for features that this adapter does not make, or names a
    /// label that the other does not describe.
    pub fn build(config: &[u8], content_types: &[u8]) -> Result<Self, AdaptError> {
        let malformed = |file| {
            move |cause: serde_json::Error| AdaptError::Malformed {
                file,
                problem: cause.to_string(),
            }
        };
        let config: Config = serde_json::from_slice(config).map_err(malformed(CONFIG))?;
        let content_types: HashMap<String, ContentType> =
            serde_json::from_slice(content_types).map_err(malformed(CONTENT_TYPES))?;

        let refuse = |file, problem: String| Err(AdaptError::Malformed { file, problem });
        if config.mid_size != 0 || config.use_inputs_at_offsets {
            return refuse(CONFIG, "features from inside the file are not supported".to_owned());
        }
        let shortest = config.beg_size.min(config.end_size);
        if config.min_file_size_for_dl == 0 || config.min_file_size_for_dl > shortest {
            return refuse(CONFIG, "`min_file_size_for_dl` is not within the windows".to_owned());
        }
        if config.block_size <= config.beg_size.max(config.end_size) {
            return refuse(CONFIG, "`block_size` is not larger than the windows".to_owned());
        }
        let labels = config.target_labels_space.iter().chain(config.overwrite_map.values());
        let own = ["txt", "unknown", "empty"];
        let labels = labels.map(String::as_str).chain(own);
        for label in labels {
            if !content_types.contains_key(label) {
                return refuse(CONTENT_TYPES, format!("`{label}` is not described"));
            }
        }
        Ok(Self { rules: Arc::new(Rules { config, content_types }) })
    }
}

impl Adapter for Magika {
    fn encode(&self, body: &[u8]) -> Result<Encoded, AdaptError> {
        let rules = &self.rules;
        let config = &rules.config;
        if body.is_empty() {
            return Ok(Encoded::Answer(rules.answer("empty", 1.0, None)));
        }
        let block = body.len().min(config.block_size);
        let head = trimmed_start(&body[..block]);
        if body.len() < config.min_file_size_for_dl || head.len() < config.min_file_size_for_dl {
            let is_text = str::from_utf8(&body[..block]).is_ok();
            let label = if is_text { "txt" } else { "unknown" };
            return Ok(Encoded::Answer(rules.answer(label, 1.0, None)));
        }

        let tail = trimmed_end(&body[body.len() - block..]);
        let head = &head[..head.len().min(config.beg_size)];
        let tail = &tail[tail.len().saturating_sub(config.end_size)..];
        let n_padding = config.beg_size - head.len() + config.end_size - tail.len();
        let byte = |&byte: &u8| i32::from(byte);
        let padding = iter::repeat_n(config.padding_token, n_padding);
        let features = head.iter().map(byte).chain(padding).chain(tail.iter().map(byte));
        let data: Vec<u8> = features.flat_map(i32::to_le_bytes).collect();
        let shape = [1, config.beg_size + config.end_size];
        let input = Tensor::build(DType::I32, shape.as_slice().into(), data.into())?;
        let rules = Arc::clone(rules);
        Ok(Encoded::Ask {
            inputs: vec![input],
            decode: Box::new(move |outputs| rules.decode(outputs)),
        })
    }
}

impl Rules {
    fn decode(&self, outputs: &[Tensor]) -> Result<Value, AdaptError> {
        let labels = &self.config.target_labels_space;
        let expected = "one FP32 row with a probability for every label";
        let scores = numbers(outputs, 0, &[1, labels.len()], expected)?;
        // The first of equals, as Python's `max` does.
        let best = |best: usize, next: usize| if scores[next] > scores[best] { next } else { best };
        let best = (0..scores.len()).reduce(best).unwrap_or_default();
        let (label, score) = (&labels[best], f64::from(scores[best]));

        let config = &self.config;
        let mapped = config.overwrite_map.get(label).unwrap_or(label);
        let threshold = config.thresholds.get(label).unwrap_or(&config.medium_confidence_threshold);
        let output = if score >= *threshold {
            mapped
        } else if self.content_types.get(mapped).is_some_and(|known| known.is_text) {
            "txt"
        } else {
            "unknown"
        };
        let reason = if output == label {
            "none"
        } else if score >= *threshold {
            "overwrite_map"
        } else {
            "low_confidence"
        };
        Ok(self.answer(output, score, Some((label, reason))))
    }

    fn answer(&self, label: &str, score: f64, model: Option<(&str, &str)>) -> Value {
        let known = self.content_types.get(label);
        let text = |text: Option<&Option<String>>, default: &str| {
            text.and_then(Option::as_deref).unwrap_or(default).to_owned()
        };
        let is_text = known.is_some_and(|known| known.is_text);
        let default_mime = if is_text { "text/plain" } else { "application/octet-stream" };
        json!({
            "label": label,
            "score": score,
            "mime_type": text(known.map(|known| &known.mime_type), default_mime),
            "group": text(known.map(|known| &known.group), "unknown"),
            "description": text(known.map(|known| &known.description), label),
            "is_text": is_text,
            "model_label": model.map(|(label, _)| label),
            "overwrite_reason": model.map_or("none", |(_, reason)| reason),
        })
    }
}

/// White space as Python's `bytes.strip` has it: with the vertical tab, unlike Rust's.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn trimmed_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&byte| !is_space(byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

fn trimmed_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An adapter for two labels, with this said otherwise in its configuration.
    fn build(key: &str, value: &Value) -> Result<Magika, AdaptError> {
        let mut config = json!({
            "beg_size": 8,
            "mid_size": 0,
            "end_size": 8,
            "use_inputs_at_offsets": false,
            "medium_confidence_threshold": 0.5,
            "min_file_size_for_dl": 8,
            "padding_token": 256,
            "block_size": 9,
            "target_labels_space": ["a", "b"],
            "thresholds": {},
            "overwrite_map": {},
        });
        config[key] = value.clone();
        let plain = json!({"mime_type": null, "group": null, "description": null, "is_text": true});
        let types = json!({"txt": plain, "unknown": plain, "empty": plain, "a": plain, "b": plain});
        Magika::build(config.to_string().as_bytes(), types.to_string().as_bytes())
    }

    #[test]
    fn a_configuration_that_this_adapter_cannot_follow_is_refused() {
        for (key, value) in [
            ("mid_size", json!(1)),
            ("use_inputs_at_offsets", json!(true)),
            ("min_file_size_for_dl", json!(0)),
            ("min_file_size_for_dl", json!(9)),
            ("min_file_size_for_dl", json!(100)),
            ("block_size", json!(8)),
            ("target_labels_space", json!(["a", "c"])),
            ("overwrite_map", json!({"a": "c"})),
        ] {
            let refused = build(key, &value).unwrap_err();
            assert!(matches!(refused, AdaptError::Malformed { .. }), "{key}: {value}, {refused}");
        }
        build("min_file_size_for_dl", &json!(8)).unwrap();
    }

    #[test]
    fn of_labels_that_are_as_likely_the_first_is_meant() {
        let magika = build("mid_size", &json!(0)).unwrap();
        let said = |scores: [f32; 2]| {
            let outputs = [Tensor::from_f32(&[1, 2], &scores).unwrap()];
            magika.rules.decode(&outputs).unwrap()["label"].clone()
        };

        assert_eq!([said([0.5, 0.5]), said([0.4, 0.6])], ["a", "b"]);
    }
}
