//! A simulated pair that speaks: sound that says of every sample which voice, which token and which
//! place in the token it is. Whatever is mixed up, lost, padded or put in another order is heard.
//!
//! Like many real vocoders, this one has one condition for a whole call: it takes voice and steps
//! from the first row and is final if any row is. A batcher that lets different ones share a call is
//! found out.

use paceline_types::{DType, Dim, Signature, Tensor, TensorSpec};

use super::Simulated;
use crate::{Backend, BackendError, Call, Early, EarlyOutputs, Outputs, Stacked, StackedCall};

/// Tokens in one result of the token model.
pub const PORTION: usize = 5;
/// Samples that one token stands for: 40 ms at 24 kHz.
pub const TOKEN_SAMPLES: usize = 960;
/// The token that no vocoder can turn into sound, made of the letter BEL.
pub const POISON: u8 = 255;

/// The token of a text's byte at a place.
#[must_use]
pub fn token(byte: u8, at: usize) -> u8 {
    if byte == 7 {
        return POISON;
    }
    u8::try_from(1 + (usize::from(byte) + 31 * at) % 250).unwrap_or(1)
}

/// What one sample says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Of which voice, below 8.
    pub voice: u8,
    /// With how many steps, below 8.
    pub steps: u8,
    /// Of which token; at a token's first sample, the token before it in the window.
    pub token: u8,
    /// Which sample of the token; 1023 at the very last of a final window.
    pub place: u16,
}

impl Mark {
    /// As a sample from 0 to 1, exactly.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "24 bits are what a float holds exactly")]
    pub fn sample(self) -> f32 {
        let Self { voice, steps, token, place } = self;
        let bits = (u32::from(voice & 7) << 21)
            | (u32::from(steps & 7) << 18)
            | (u32::from(token) << 10)
            | u32::from(place & 1023);
        bits as f32 / 16_777_216.0
    }

    /// What a sample says.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "24 bits of a number from 0 to 1, each field cut to its own"
    )]
    pub fn of(sample: f32) -> Self {
        let bits = (sample * 16_777_216.0) as u32;
        Self {
            voice: (bits >> 21 & 7) as u8,
            steps: (bits >> 18 & 7) as u8,
            token: (bits >> 10 & 255) as u8,
            place: (bits & 1023) as u16,
        }
    }
}

/// Text to tokens: one for each byte, a few at a time.
#[derive(Debug)]
pub struct Tokens {
    signature: Signature,
    timing: Simulated,
}

/// Tokens to sound.
#[derive(Debug)]
pub struct Vocoder {
    signature: Signature,
    timing: Simulated,
}

fn spec(name: &str, dtype: DType, dims: &[Dim]) -> TensorSpec {
    TensorSpec { name: name.to_owned(), dtype, dims: dims.to_vec() }
}

impl Tokens {
    pub(super) fn new(timing: Simulated) -> Self {
        let signature = Signature {
            inputs: vec![spec("text", DType::Bytes, &[Dim::Fixed(1)])],
            outputs: vec![
                spec("tokens", DType::I32, &[Dim::Fixed(PORTION)]),
                spec("count", DType::I32, &[Dim::Fixed(1)]),
            ],
            batched: true,
        };
        Self { signature, timing }
    }

    /// All tokens of each row's text.
    fn texts(input: &Tensor) -> Vec<Vec<u8>> {
        let tokens =
            |text: &[u8]| text.iter().enumerate().map(|(at, byte)| token(*byte, at)).collect();
        input.byte_elements().map(tokens).collect()
    }
}

impl Backend for Tokens {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn streams(&self) -> bool {
        true
    }

    /// Only to warm up: what is asked for is streamed.
    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        self.timing.take_time(call.rows);
        Ok(Outputs {
            tensors: vec![
                integers(&[call.rows, PORTION], std::iter::repeat_n(0, call.rows * PORTION))?,
                integers(&[call.rows, 1], std::iter::repeat_n(0, call.rows))?,
            ],
            failed: Vec::new(),
        })
    }

    fn run_stacked(
        &mut self,
        call: &StackedCall<'_>,
        early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        let [text] = call.inputs else {
            return Err(BackendError::Failed("one text is expected".to_owned()));
        };
        let rows = Self::texts(&Stacked::to_tensor(text));
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        for at in (0..longest).step_by(PORTION) {
            self.timing.take_time(call.rows);
            let part =
                |row: &Vec<u8>| row.iter().skip(at).take(PORTION).copied().collect::<Vec<u8>>();
            let parts: Vec<Vec<u8>> =
                (0..call.rows).map(|row| rows.get(row).map(part).unwrap_or_default()).collect();
            let padded = parts.iter().flat_map(|part| {
                let own = part.iter().map(|token| i32::from(*token));
                own.chain(std::iter::repeat(-1)).take(PORTION)
            });
            let counts = parts.iter().map(|part| i32::try_from(part.len()).unwrap_or(0));
            let silent = (0..call.rows).filter(|row| parts[*row].is_empty()).collect();
            let tensors =
                vec![integers(&[call.rows, PORTION], padded)?, integers(&[call.rows, 1], counts)?];
            let outputs = Outputs { tensors, failed: Vec::new() };
            if !early(EarlyOutputs { outputs, silent }) {
                break;
            }
        }
        Ok(Outputs::default())
    }
}

impl Vocoder {
    pub(super) fn new(timing: Simulated) -> Self {
        let signature = Signature {
            inputs: vec![
                spec("tokens", DType::I32, &[Dim::Any]),
                spec("lengths", DType::I32, &[]),
                spec("embedding", DType::F32, &[Dim::Fixed(1)]),
                spec("diffusion_steps", DType::I32, &[Dim::Fixed(1)]),
                spec("finalize", DType::Bool, &[Dim::Fixed(1)]),
            ],
            outputs: vec![spec("audio", DType::F32, &[Dim::Any])],
            batched: true,
        };
        Self { signature, timing }
    }
}

impl Backend for Vocoder {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let wrong = |message: &str| BackendError::Failed(message.to_owned());
        let [tokens, lengths, embedding, steps, finalize] = call.inputs else {
            return Err(wrong("five inputs are expected"));
        };
        let [rows, n_tokens] = *tokens.shape() else { return Err(wrong("tokens are rows")) };
        if rows != call.rows || tokens.dtype() != DType::I32 {
            return Err(wrong("the tokens are not as declared"));
        }
        self.timing.take_time(call.rows);
        let int = |data: &[u8], at: usize| {
            let bytes = data.get(at * 4..at * 4 + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, i32::from_le_bytes)
        };
        let voice = embedding.to_f32().and_then(|voices| voices.first().copied()).unwrap_or(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float casts saturate, and marks have three bits for each"
        )]
        let (voice, steps) = (voice as u8, int(steps.data(), 0) as u8);
        let is_final = finalize.data().contains(&1);
        let mut sound = Vec::with_capacity(rows * n_tokens * TOKEN_SAMPLES);
        let mut failed = Vec::new();
        for row in 0..rows {
            let length = usize::try_from(int(lengths.data(), row)).unwrap_or(0).min(n_tokens);
            let mut before = 0;
            for at in 0..n_tokens {
                let token = u8::try_from(int(tokens.data(), row * n_tokens + at)).unwrap_or(0);
                if token == POISON
                    && at < length
                    && failed.last().is_none_or(|(bad, _)| *bad != row)
                {
                    failed.push((row, "a token that cannot be spoken".to_owned()));
                }
                // What stands in padding is loud, so that it is heard if it is not cut off.
                let is_padding = length <= at;
                for place in 0..TOKEN_SAMPLES {
                    let is_end = is_final && at + 1 == length && place + 1 == TOKEN_SAMPLES;
                    let place = if is_end { 1023 } else { u16::try_from(place).unwrap_or(0) };
                    let token = if place == 0 { before } else { token };
                    let mark = Mark { voice, steps, token, place };
                    sound.push(if is_padding { 1.0 } else { mark.sample() });
                }
                before = token;
            }
        }
        let sound = Tensor::from_f32(&[rows, n_tokens * TOKEN_SAMPLES], &sound);
        let sound = sound.map_err(|error| BackendError::Failed(error.to_string()))?;
        Ok(Outputs { tensors: vec![sound], failed })
    }
}

fn integers(shape: &[usize], values: impl Iterator<Item = i32>) -> Result<Tensor, BackendError> {
    let data: Vec<u8> = values.flat_map(i32::to_le_bytes).collect();
    Tensor::build(DType::I32, shape.into(), data.into())
        .map_err(|error| BackendError::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_says_everything_it_was_made_of() {
        for mark in [
            Mark { voice: 7, steps: 5, token: 250, place: 959 },
            Mark { voice: 0, steps: 0, token: 0, place: 0 },
            Mark { voice: 3, steps: 1, token: 17, place: 1023 },
        ] {
            assert_eq!(Mark::of(mark.sample()), mark);
            assert!((0.0..1.0).contains(&mark.sample()));
        }
    }
}
