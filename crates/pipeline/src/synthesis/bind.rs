//! What each input of a model gets: the text or the tokens, what the voice gives, what the client
//! set. Pure.

use std::collections::BTreeMap;

use paceline_batch::Key;
use paceline_types::{Dim, Shape, Signature, Tensor, TensorSpec};
use smallvec::SmallVec;

use super::{
    error::SynthesisError,
    settings::{PairSettings, Parameter},
    tape::number,
    voices::Content,
};

/// The input that says that no more tokens come.
pub(crate) const FINALIZE: &str = "finalize";

/// The values of one request for one model's inputs.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    inputs: Vec<Source>,
    /// A fingerprint of everything that must be equal for items to share a call.
    key: Key,
    /// The same for the last item.
    last_key: Key,
}

#[derive(Debug, Clone)]
enum Source {
    /// What differs from item to item: text, or a window of tokens.
    Main,
    Finalize(TensorSpec),
    Given(Tensor),
}

impl Bound {
    /// Finds a value for every input of a model beside its main one.
    pub(crate) fn new(
        signature: &Signature,
        main: &str,
        settings: &PairSettings,
        voice: &Content,
        wishes: &BTreeMap<String, f32>,
    ) -> Result<Self, SynthesisError> {
        let mut keyed = Vec::new();
        let mut inputs = Vec::new();
        let is_keyed = |name: &String| !settings.per_row.contains(name);
        for spec in &signature.inputs {
            let name = &spec.name;
            if name == main {
                inputs.push(Source::Main);
                continue;
            }
            if name == FINALIZE {
                inputs.push(Source::Finalize(spec.clone()));
                continue;
            }
            let values = match (voice.get(name), settings.parameters.get(name)) {
                (Some(values), _) => values.to_vec(),
                (None, Some(parameter)) => vec![wish(name, parameter, wishes)?],
                (None, None) => {
                    return Err(SynthesisError::Setup(format!(
                        "input `{name}` is neither text nor tokens, the voice gives nothing for \
                         it, and it is not among the parameters"
                    )));
                }
            };
            if is_keyed(name) {
                let bits: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
                keyed.push((name.clone(), bits));
            }
            inputs.push(Source::Given(tensor(spec, &values)?));
        }
        // The address of a voice says nothing; what is hashed is what it gives.
        let key = if keyed.is_empty() { Key::ANY } else { Key::of(&keyed) };
        let finalizes = signature.inputs.iter().any(|spec| spec.name == FINALIZE);
        let is_apart = finalizes && is_keyed(&FINALIZE.to_owned());
        let last_key = if is_apart { Key::of(&(keyed, FINALIZE)) } else { key };
        Ok(Self { inputs, key, last_key })
    }

    /// Whether the model wants to know which item is the last.
    pub(crate) fn finalizes(&self) -> bool {
        self.inputs.iter().any(|input| matches!(input, Source::Finalize(_)))
    }

    /// One item's inputs and key.
    pub(crate) fn item(&self, main: &Tensor, is_last: bool) -> (SmallVec<[Tensor; 2]>, Key) {
        let flag = [f32::from(u8::from(is_last))];
        let inputs = self.inputs.iter().map(|source| match source {
            Source::Main => main.clone(),
            Source::Finalize(spec) => tensor(spec, &flag).unwrap_or_else(|_| main.clone()),
            Source::Given(tensor) => tensor.clone(),
        });
        (inputs.collect(), if is_last { self.last_key } else { self.key })
    }
}

/// What a client set, or what a parameter is otherwise.
fn wish(
    name: &str,
    parameter: &Parameter,
    wishes: &BTreeMap<String, f32>,
) -> Result<f32, SynthesisError> {
    let &Parameter { default, min, max } = parameter;
    let value = wishes.get(name).copied().unwrap_or(default);
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let allowed = format!("it must be from {min} to {max}");
    Err(SynthesisError::Parameter { name: name.to_owned(), value, allowed })
}

/// One row of an input.
fn tensor(spec: &TensorSpec, values: &[f32]) -> Result<Tensor, SynthesisError> {
    let wrong = || {
        let message = format!("input `{}` cannot be {} numbers", spec.name, values.len());
        SynthesisError::Setup(message)
    };
    let fixed: usize = spec.dims.iter().map(|dim| extent(*dim).unwrap_or(1)).product();
    let n_free = spec.dims.iter().filter(|dim| **dim == Dim::Any).count();
    let free = values.len().checked_div(fixed).unwrap_or(0);
    let own = spec.dims.iter().map(|dim| extent(*dim).unwrap_or(free));
    let shape: Shape = [1].into_iter().chain(own).collect();
    if 1 < n_free || shape.iter().product::<usize>() != values.len() {
        return Err(wrong());
    }
    let data: Vec<u8> = values.iter().flat_map(|value| number(*value, spec.dtype)).collect();
    Tensor::build(spec.dtype, shape, data.into()).map_err(|_| wrong())
}

fn extent(dim: Dim) -> Option<usize> {
    match dim {
        Dim::Fixed(extent) => Some(extent),
        Dim::Any => None,
    }
}

#[cfg(test)]
mod tests {
    use paceline_types::DType;

    use super::*;

    fn bound(per_row: &[&str], embedding: &[f32], steps: f32) -> Bound {
        let spec = |name: &str, dtype, dims: &[Dim]| TensorSpec {
            name: name.to_owned(),
            dtype,
            dims: dims.to_vec(),
        };
        let signature = Signature {
            inputs: vec![
                spec("tokens", DType::I32, &[Dim::Any]),
                spec("embedding", DType::F32, &[Dim::Fixed(2)]),
                spec("diffusion_steps", DType::I64, &[]),
                spec("finalize", DType::Bool, &[Dim::Fixed(1)]),
            ],
            outputs: Vec::new(),
            batched: true,
        };
        let steps_allowed = Parameter { default: 5.0, min: 1.0, max: 10.0 };
        let settings = PairSettings {
            per_row: per_row.iter().map(|&name| name.to_owned()).collect(),
            parameters: BTreeMap::from([("diffusion_steps".to_owned(), steps_allowed)]),
            ..PairSettings::default()
        };
        let voice = BTreeMap::from([("embedding".to_owned(), embedding.into())]);
        let wishes = BTreeMap::from([("diffusion_steps".to_owned(), steps)]);
        Bound::new(&signature, "tokens", &settings, &voice, &wishes).unwrap()
    }

    fn key(bound: &Bound, is_last: bool) -> Key {
        let main = Tensor::build(DType::I32, [1, 0].as_slice().into(), bytes::Bytes::new());
        let (inputs, key) = bound.item(&main.unwrap(), is_last);
        assert_eq!(inputs.len(), 4);
        assert_eq!(inputs[2].shape(), [1]);
        assert_eq!(inputs[3].data()[..], [u8::from(is_last)]);
        key
    }

    #[test]
    fn the_key_is_what_changes_the_result_and_never_where_it_lives() {
        let own = key(&bound(&[], &[0.5, 1.0], 5.0), false);

        assert_eq!(own, key(&bound(&[], &[0.5, 1.0], 5.0), false), "another object, same content");
        assert_ne!(own, key(&bound(&[], &[0.5, 2.0], 5.0), false), "another voice");
        assert_ne!(own, key(&bound(&[], &[0.5, 1.0], 6.0), false), "another parameter");
        assert_ne!(own, key(&bound(&[], &[0.5, 1.0], 5.0), true), "the last chunk");
    }

    #[test]
    fn what_a_model_takes_row_by_row_may_be_mixed() {
        let all = ["embedding", "diffusion_steps", "finalize"];
        assert_eq!(key(&bound(&all, &[0.5, 1.0], 5.0), true), Key::ANY);
        assert_eq!(key(&bound(&all, &[9.0, 1.0], 2.0), false), Key::ANY);
    }

    #[test]
    fn numbers_fill_one_free_extent_and_no_more() {
        let shape = |dims: &[Dim], n_values: usize| {
            let spec = TensorSpec { name: "x".to_owned(), dtype: DType::F32, dims: dims.to_vec() };
            tensor(&spec, &vec![0.5; n_values]).ok().map(|tensor| tensor.shape().to_vec())
        };
        let (two, any) = (Dim::Fixed(2), Dim::Any);

        assert_eq!(shape(&[two], 2), Some(vec![1, 2]));
        assert_eq!(shape(&[two, any], 6), Some(vec![1, 2, 3]));
        assert_eq!(shape(&[any], 0), Some(vec![1, 0]));
        assert_eq!(shape(&[two], 3), None);
        assert_eq!(shape(&[two, any], 5), None);
        assert_eq!(shape(&[any, any], 1), None, "nobody knows which is how long");
    }

    #[test]
    fn a_model_that_asks_is_told_which_item_is_the_last() {
        assert!(bound(&[], &[0.5, 1.0], 5.0).finalizes());
        let signature = Signature { inputs: Vec::new(), outputs: Vec::new(), batched: true };
        let settings = PairSettings::default();
        let nothing = BTreeMap::new();
        let silent = Bound::new(&signature, "tokens", &settings, &BTreeMap::new(), &nothing);
        assert!(!silent.unwrap().finalizes());
    }
}
