//! Everything that the model knows, packed for reading.

use std::{fs, path::Path, sync::Arc};

use paceline_simd::Dense;
use safetensors::SafeTensors;

use crate::{
    LoadError,
    file::File,
    rotary::Rotary,
    shape::{CONVOLUTIONS, HEAD, HIDDEN, LAYERS, VOCABULARY, WIDTH, column},
};

/// Everything that the model knows: 34 MB, shared by all encoders and decoders.
#[derive(Debug)]
pub struct Weights {
    pub(crate) convolutions: [Dense; 3],
    pub(crate) group_norm: Vec<f32>,
    pub(crate) group_norm_bias: Vec<f32>,
    pub(crate) encoder: Vec<EncoderLayer>,
    pub(crate) encoder_norm: Vec<f32>,
    pub(crate) decoder: Vec<DecoderLayer>,
    pub(crate) decoder_norm: Vec<f32>,
    /// A row to the likelihood of each token. Its columns are what tokens are as rows.
    pub(crate) vocabulary: Dense<u8>,
    pub(crate) rotary: Rotary,
}

/// Rows to queries, keys and values, and what was attended to back to rows.
#[derive(Debug)]
pub(crate) struct Attention {
    pub(crate) norm: Vec<f32>,
    pub(crate) query: Dense<u8>,
    pub(crate) key: Dense<u8>,
    pub(crate) value: Dense<u8>,
    pub(crate) output: Dense<u8>,
}

/// Each row by itself.
#[derive(Debug)]
pub(crate) struct Mlp {
    pub(crate) norm: Vec<f32>,
    pub(crate) up: Dense<u8>,
    pub(crate) down: Dense<u8>,
}

#[derive(Debug)]
pub(crate) struct EncoderLayer {
    pub(crate) attention: Attention,
    pub(crate) mlp: Mlp,
}

#[derive(Debug)]
pub(crate) struct DecoderLayer {
    /// To what was said.
    pub(crate) past: Attention,
    /// To what was heard.
    pub(crate) heard: Attention,
    pub(crate) mlp: Mlp,
}

impl Weights {
    /// Reads `weights.safetensors` from a model's folder.
    ///
    /// # Errors
    ///
    /// When it cannot be read or does not have the model's tensors.
    pub fn load(folder: impl AsRef<Path>) -> Result<Arc<Self>, LoadError> {
        let path = folder.as_ref().join("weights.safetensors");
        let file = match fs::read(&path) {
            Ok(file) => file,
            Err(source) => return Err(LoadError::Unreadable { path, source }),
        };
        match SafeTensors::deserialize(&file) {
            Ok(file) => Self::read(&File(file)).map(Arc::new),
            Err(source) => Err(LoadError::NotSafetensors { path, source }),
        }
    }

    fn read(file: &File<'_>) -> Result<Self, LoadError> {
        let vocabulary = file.bytes("decoder.embed", [VOCABULARY, WIDTH])?;
        Ok(Self {
            convolutions: [
                convolution(file, 0, false)?,
                convolution(file, 1, true)?,
                convolution(file, 2, true)?,
            ],
            group_norm: file.numbers("encoder.group_norm", &[WIDTH])?,
            group_norm_bias: file.numbers("encoder.group_norm.bias", &[WIDTH])?,
            encoder: (0..LAYERS).map(|at| encoder_layer(file, at)).collect::<Result<_, _>>()?,
            encoder_norm: file.numbers("encoder.norm", &[WIDTH])?,
            decoder: (0..LAYERS).map(|at| decoder_layer(file, at)).collect::<Result<_, _>>()?,
            decoder_norm: file.numbers("decoder.norm", &[WIDTH])?,
            vocabulary: Dense::pack_bytes(
                (WIDTH, VOCABULARY),
                (vocabulary.zero, vocabulary.scale),
                |_| 0.0,
                |token, at| vocabulary.weights[token * WIDTH + at],
            ),
            rotary: Rotary::new(),
        })
    }
}

/// A convolution as a dense layer over rows that lie one after the other.
fn convolution(file: &File<'_>, at: usize, has_bias: bool) -> Result<Dense, LoadError> {
    let shape = CONVOLUTIONS[at];
    let name = format!("encoder.conv{}", at + 1);
    let weights = file.numbers(&name, &[shape.n_outputs, shape.n_inputs, shape.taps])?;
    let bias = if has_bias {
        file.numbers(&format!("{name}.bias"), &[shape.n_outputs])?
    } else {
        vec![0.0; shape.n_outputs]
    };
    Ok(Dense::pack(
        shape.taps * shape.n_inputs,
        shape.n_outputs,
        |output| bias[output],
        |output, at| {
            let (tap, input) = (at / shape.n_inputs, at % shape.n_inputs);
            weights[(output * shape.n_inputs + input) * shape.taps + tap]
        },
    ))
}

fn encoder_layer(file: &File<'_>, at: usize) -> Result<EncoderLayer, LoadError> {
    let name = format!("encoder.{at}.");
    Ok(EncoderLayer {
        attention: attention(file, &format!("{name}norm"), &name)?,
        mlp: mlp(file, &name, HIDDEN)?,
    })
}

fn decoder_layer(file: &File<'_>, at: usize) -> Result<DecoderLayer, LoadError> {
    let name = format!("decoder.{at}.");
    let cross = format!("{name}cross_");
    Ok(DecoderLayer {
        past: attention(file, &format!("{name}norm"), &name)?,
        heard: attention(file, &format!("{cross}norm"), &cross)?,
        mlp: mlp(file, &name, 2 * HIDDEN)?,
    })
}

fn attention(file: &File<'_>, norm: &str, name: &str) -> Result<Attention, LoadError> {
    let pack = |letter: &str, factor: f32| {
        let bytes = file.bytes(&format!("{name}{letter}"), [WIDTH, WIDTH])?;
        let is_output = letter == "o";
        Ok(Dense::pack_bytes(
            (WIDTH, WIDTH),
            (bytes.zero, bytes.scale * factor),
            |_| 0.0,
            |output, input| {
                if is_output {
                    bytes.weights[column(input) * WIDTH + output]
                } else {
                    bytes.weights[input * WIDTH + column(output)]
                }
            },
        ))
    };
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let smaller = 1.0 / (HEAD as f32).sqrt();
    Ok(Attention {
        norm: file.numbers(norm, &[WIDTH])?,
        query: pack("q", smaller)?,
        key: pack("k", 1.0)?,
        value: pack("v", 1.0)?,
        output: pack("o", 1.0)?,
    })
}

fn mlp(file: &File<'_>, name: &str, n_hidden: usize) -> Result<Mlp, LoadError> {
    let pack = |matrix: &str, n_inputs: usize, n_outputs: usize| {
        let name = format!("{name}{matrix}");
        let bytes = file.bytes(&name, [n_inputs, n_outputs])?;
        let bias = file.numbers(&format!("{name}.bias"), &[n_outputs])?;
        Ok(Dense::pack_bytes(
            (n_inputs, n_outputs),
            (bytes.zero, bytes.scale),
            |output| bias[output],
            |output, input| bytes.weights[input * n_outputs + output],
        ))
    };
    Ok(Mlp {
        norm: file.numbers(&format!("{name}mlp_norm"), &[WIDTH])?,
        up: pack("up", WIDTH, n_hidden)?,
        down: pack("down", HIDDEN, WIDTH)?,
    })
}
