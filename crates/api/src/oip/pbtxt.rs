//! Reads `config.pbtxt`, the text form of a model configuration.
//!
//! Unknown fields are errors by name: a setting that is silently ignored is a model that is
//! silently served otherwise than its author meant. The grammar is that of the protobuf text
//! format, read by `prost-reflect`. Two things are done before: size and depth are bounded, since
//! that reader recurses as deep as the text does, and `input [` becomes `input: [`, since it
//! wants the colon that the format leaves out before lists of messages.

use miette::Diagnostic as _;
use prost_reflect::{DynamicMessage, text_format::ParseError};

use super::{Name, config::descriptor, proto::ModelConfig};

/// Most bytes of a configuration.
pub const MAX_BYTES: usize = 1 << 20;
/// Deepest nesting of a configuration; the deepest field there is stands at level 7.
pub const MAX_NESTING: usize = 16;

/// Text that is not a model configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PbtxtError {
    /// Larger than any configuration.
    #[error("the configuration has {bytes} bytes, where at most {MAX_BYTES} are expected")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Deeper than any configuration.
    #[error("line {line}: nested deeper than {MAX_NESTING} levels")]
    TooDeep {
        /// Counted from one.
        line: usize,
    },
    /// Not the text form, an unknown field, or a value that its field does not take.
    #[error("line {line}: {problem}")]
    Wrong {
        /// Counted from one.
        line: usize,
        /// What is wrong there; names the field.
        problem: Name,
    },
}

/// Reads a model configuration.
///
/// # Errors
///
/// Says the line and the field. The first error ends the reading.
pub fn parse(text: &str) -> Result<ModelConfig, PbtxtError> {
    if text.len() > MAX_BYTES {
        return Err(PbtxtError::TooLarge { bytes: text.len() });
    }
    let text = normalize(text)?;
    let message = DynamicMessage::parse_text_format(descriptor(), &text)
        .map_err(|error| explain(&text, &error))?;
    message.transcode_to().map_err(|error| PbtxtError::Wrong {
        line: 1,
        problem: Name::clipped(&error.to_string(), 200),
    })
}

fn explain(text: &str, error: &ParseError) -> PbtxtError {
    let label = error.labels().and_then(|mut labels| labels.next());
    // Text that ends too early has no place; its last line is the nearest there is.
    let at = label.map_or(text.trim_end().len(), |label| label.offset());
    PbtxtError::Wrong { line: line_of(text, at), problem: Name::clipped(&cause(error), 200) }
}

/// The innermost message of an error, which is the one that names the field.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.split(|byte| *byte == b'\n').count()
}

/// Counts open brackets outside strings and comments, and writes the colon before lists that may
/// be left out. Lines stay as they are.
fn normalize(text: &str) -> Result<String, PbtxtError> {
    let mut out = String::with_capacity(text.len() + 64);
    let mut depth = 0_usize;
    let mut quote = None;
    let mut last = ' ';
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => {
                out.push(letter);
                out.extend(letters.next().map(|(_, escaped)| escaped));
                continue;
            }
            // A string ends with its line; if it was open, the reader says so.
            (Some(_), '\n') => quote = None,
            (Some(open), _) => quote = (letter != open).then_some(open),
            (None, '"' | '\'') => quote = Some(letter),
            (None, '#') => {
                // The comment goes, its line stays.
                let comment = letters.find(|(_, letter)| *letter == '\n');
                out.extend(comment.map(|(_, end)| end));
                continue;
            }
            (None, '{' | '<' | '[') => {
                depth += 1;
                if depth > MAX_NESTING {
                    return Err(PbtxtError::TooDeep { line: line_of(text, at) });
                }
                if letter == '[' && (last.is_ascii_alphanumeric() || last == '_') {
                    out.push(':');
                }
            }
            (None, '}' | '>' | ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !letter.is_whitespace() {
            last = letter;
        }
        out.push(letter);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oip::proto::{
        DataType, model_config::SchedulingChoice, model_version_policy::PolicyChoice,
    };
    use proptest::prelude::*;

    const TYPICAL: &str = r#"
# A comment with { and "
name: "speech"
backend: "onnxruntime"
max_batch_size: 8
input [
  {
    name: "audio"  data_type: TYPE_FP32
    dims: [ -1, 80 ]
  },
  { name: "gain" data_type: TYPE_FP16 dims: 1 optional: true }
]
output [{ name: "text", data_type: TYPE_STRING, dims: [ 1 ], }]
instance_group [ { count: 2; kind: KIND_GPU gpus: [ 0, 1 ] } ]
version_policy: { specific { versions: [1, 3] } }
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  default_queue_policy < timeout_action: DELAY max_queue_size: 16 >
}
parameters { key: "window" value: { string_value: "25" "ms" } }
parameters: { key: "lang", value { string_value: 'ko' } }
optimization { priority: 1 cuda { graphs: 1 output_copy_stream: True } }
"#;

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_typical_configuration_is_read_whole() {
        let config = parse(TYPICAL).unwrap();

        assert_eq!(config.name, "speech");
        assert_eq!(config.max_batch_size, 8);
        assert_eq!(config.input[0].dims, [-1, 80]);
        assert_eq!(config.input[1].data_type(), DataType::TypeFp16);
        assert!(config.input[1].optional);
        assert_eq!(config.output[0].data_type(), DataType::TypeString);
        assert_eq!(config.instance_group[0].gpus, [0, 1]);
        let policy = config.version_policy.unwrap().policy_choice.unwrap();
        assert!(matches!(policy, PolicyChoice::Specific(which) if which.versions == [1, 3]));
        let Some(SchedulingChoice::DynamicBatching(batching)) = config.scheduling_choice else {
            panic!("batching is configured");
        };
        assert_eq!(batching.max_queue_delay_microseconds, 100);
        assert_eq!(batching.default_queue_policy.unwrap().max_queue_size, 16);
        assert_eq!(config.parameters["window"].string_value, "25ms");
        assert_eq!(config.parameters["lang"].string_value, "ko");
        let optimization = config.optimization.unwrap();
        assert_eq!(optimization.priority, 1);
        assert!(optimization.cuda.unwrap().output_copy_stream);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_its_name() {
        let check = |text: &str, line: usize, word: &str| {
            let message = refusal(text);
            assert!(message.starts_with(&format!("line {line}: ")), "{message}");
            assert!(message.contains(word), "{message}");
        };

        check("name: \"a\"\nmax_batch: 3", 2, "max_batch");
        check("\n\ninput { name: \"a\"\n dtype: TYPE_FP32 }", 4, "dtype");
        check("input {\n data_type: TYPE_FP128 }", 2, "TYPE_FP128");
        check("max_batch_size: 3000000000", 1, "3000000000");
        check("max_batch_size: \"8\"", 1, "\"8\"");
        check("name: \"a\"\nname: \"b\"", 2, "name");
        check("name: \"a\"\n\ninput {\n", 3, "end of input");
        check("name: \"a", 1, "");
        check("name \"a\"", 1, "");
    }

    #[test]
    fn size_and_depth_have_an_end() {
        let deep = "input {".repeat(100_000);
        assert_eq!(refusal(&deep), "line 1: nested deeper than 16 levels");
        assert_eq!(refusal(&"[".repeat(MAX_NESTING + 1)), "line 1: nested deeper than 16 levels");
        assert!(!refusal(&"[".repeat(MAX_NESTING)).contains("nested"));
        assert!(refusal(&" ".repeat(MAX_BYTES + 1)).contains("bytes"));
        assert!(refusal(&"x".repeat(100_000)).len() < 2500);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 1..8)
        ) {
            let mut text: Vec<char> = TYPICAL.chars().collect();
            for (index, with) in edits {
                let at = index.index(text.len());
                text[at] = with;
            }

            if let Err(error) = parse(&text.into_iter().collect::<String>()) {
                prop_assert!(error.to_string().len() < 2500);
            }
        }
    }
}
