//! The backend: tensors to utterances, tokens to text.

use std::{path::Path, sync::Arc};

use paceline_asr::{AudioError, Recogniser, Tokens, Weights};
use paceline_backend::{Backend, BackendError, Call, Ended, ItemId, Outputs, Steps};
use paceline_types::{DType, Dim, Signature, Tensor, TensorSpec};

/// One instance of the recogniser.
#[derive(Debug)]
pub struct MoonshineBackend {
    signature: Signature,
    tokens: Arc<Tokens>,
    recogniser: Recogniser<Who>,
    /// Who has said nothing, and is to be told so.
    silent: Vec<ItemId>,
}

/// Whose utterance it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Of somebody on board.
    Item(ItemId),
    /// Of a call that is run whole.
    Row(usize),
}

/// What the model knows, shared by its instances.
#[derive(Debug, Clone)]
pub struct Knowledge {
    weights: Arc<Weights>,
    tokens: Arc<Tokens>,
}

impl Knowledge {
    /// Reads `weights.safetensors` and `tokenizer.bin` from a folder.
    ///
    /// # Errors
    ///
    /// When they cannot be read or are another model's.
    pub fn load(folder: &Path) -> Result<Self, BackendError> {
        let wrong = |error: paceline_asr::LoadError| BackendError::Load(error.to_string());
        let weights = Weights::load(folder).map_err(wrong)?;
        Ok(Self { weights, tokens: Arc::new(Tokens::load(folder).map_err(wrong)?) })
    }
}

impl MoonshineBackend {
    /// The file of a version by which it is known.
    pub const FILE: &str = "weights.safetensors";

    /// An instance.
    #[must_use]
    pub fn new(knowledge: &Knowledge) -> Self {
        let spec =
            |name: &str, dtype, dim| TensorSpec { name: name.to_owned(), dtype, dims: vec![dim] };
        Self {
            signature: Signature {
                inputs: vec![spec("AUDIO", DType::F32, Dim::Any)],
                outputs: vec![spec("TEXT", DType::Bytes, Dim::Fixed(1))],
                batched: true,
            },
            tokens: Arc::clone(&knowledge.tokens),
            recogniser: Recogniser::new(Arc::clone(&knowledge.weights)),
            silent: Vec::new(),
        }
    }
}

impl Backend for MoonshineBackend {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let rows = call.rows;
        let samples = samples(call.inputs, rows)?;
        let mut texts: Vec<Option<String>> = vec![None; rows];
        let mut failed = Vec::new();
        for (row, samples) in samples.chunks(samples.len() / rows.max(1)).enumerate() {
            match self.recogniser.begin(Who::Row(row), samples.to_vec()) {
                Ok(()) => continue,
                Err(AudioError::TooShort { .. }) => {}
                Err(error) => failed.push((row, error.to_string())),
            }
            texts[row] = Some(String::new());
        }
        while texts.iter().any(Option::is_none) {
            let tokens = &self.tokens;
            self.recogniser.step(|who, said| {
                if let Who::Row(row) = who {
                    texts[row] = Some(tokens.text(said));
                }
            });
        }
        let texts = texts.iter().flatten().map(String::as_str);
        Ok(Outputs { tensors: vec![text_tensor(rows, texts)?], failed })
    }

    fn steps(&mut self) -> Option<&mut dyn Steps> {
        Some(self)
    }
}

impl Steps for MoonshineBackend {
    fn board(&mut self, id: ItemId, inputs: &[Tensor]) -> Result<(), BackendError> {
        match self.recogniser.begin(Who::Item(id), samples(inputs, 1)?) {
            // Nothing can be said in so short a time.
            Err(AudioError::TooShort { .. }) => self.silent.push(id),
            Err(error) => return Err(BackendError::Failed(error.to_string())),
            Ok(()) => {}
        }
        Ok(())
    }

    fn step(&mut self, ended: &mut Vec<Ended>) {
        let tokens = &self.tokens;
        let mut end = |id, said: &[u32]| {
            let text = tokens.text(said);
            ended.push((id, text_tensor(1, [&*text]).map(|tensor| vec![tensor])));
        };
        self.silent.drain(..).for_each(|id| end(id, &[]));
        self.recogniser.step(|who, said| {
            if let Who::Item(id) = who {
                end(id, said);
            }
        });
    }

    fn leave(&mut self, id: ItemId) {
        self.silent.retain(|silent| *silent != id);
        self.recogniser.leave(Who::Item(id));
    }
}

/// The samples of so many rows.
fn samples(inputs: &[Tensor], rows: usize) -> Result<Vec<f32>, BackendError> {
    let wrong = || BackendError::Failed(format!("AUDIO must be FP32 [{rows}, samples]"));
    let [audio] = inputs else { return Err(wrong()) };
    let is_fit = matches!(*audio.shape(), [n_rows, n] if n_rows == rows && 0 < rows && 0 < n);
    audio.to_f32().filter(|_| is_fit).ok_or_else(wrong)
}

/// One text for each row.
fn text_tensor<'a>(
    rows: usize,
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<Tensor, BackendError> {
    let mut data = Vec::new();
    for text in texts {
        let n_bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        data.extend(n_bytes.to_le_bytes());
        data.extend(text.as_bytes());
    }
    let tensor = Tensor::build(DType::Bytes, [rows, 1].as_slice().into(), data.into());
    tensor.map_err(|error| BackendError::Failed(error.to_string()))
}
