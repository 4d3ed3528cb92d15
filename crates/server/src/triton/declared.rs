//! What a `config.pbtxt` says about a model's tensors, held against the model itself.

use paceline_api::oip::{
    config::dtype,
    proto::{ModelConfig, ModelInput, ModelOutput},
};
use paceline_types::{Dim, Signature, TensorSpec};

use super::unsupported;

/// Tensors as a configuration declares them; none where it leaves them to the model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Declared {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl Declared {
    pub(super) fn read(config: &ModelConfig) -> Result<Self, String> {
        Ok(Self {
            inputs: config.input.iter().map(input).collect::<Result<_, _>>()?,
            outputs: config.output.iter().map(output).collect::<Result<_, _>>()?,
        })
    }

    /// Checks that the model is what was declared.
    ///
    /// # Errors
    ///
    /// Names the first tensor that is not, and how.
    pub(crate) fn check(&self, signature: &Signature) -> Result<(), String> {
        agree("input", &self.inputs, &signature.inputs)?;
        if let Some(missing) = signature.inputs.iter().find(|own| {
            !self.inputs.is_empty() && self.inputs.iter().all(|spec| spec.name != own.name)
        }) {
            return Err(format!(
                "config.pbtxt does not declare the model's input `{}`",
                missing.name
            ));
        }
        agree("output", &self.outputs, &signature.outputs)
    }
}

fn agree(side: &str, declared: &[TensorSpec], own: &[TensorSpec]) -> Result<(), String> {
    for spec in declared {
        let name = &spec.name;
        let own = own.iter().find(|own| own.name == *name).ok_or_else(|| {
            format!("config.pbtxt declares {side} `{name}`, which the model does not have")
        })?;
        let fits = |(a, b): (&Dim, &Dim)| a == b || *a == Dim::Any || *b == Dim::Any;
        let has_shape =
            spec.dims.len() == own.dims.len() && spec.dims.iter().zip(&own.dims).all(fits);
        if spec.dtype != own.dtype || !has_shape {
            return Err(format!(
                "config.pbtxt declares {side} `{name}` as {}, but the model has {}",
                describe(spec),
                describe(own)
            ));
        }
    }
    Ok(())
}

fn describe(spec: &TensorSpec) -> String {
    let dims: Vec<String> = spec.dims.iter().map(ToString::to_string).collect();
    format!("{} [{}]", spec.dtype, dims.join(", "))
}

fn input(input: &ModelInput) -> Result<TensorSpec, String> {
    for (field, is_set) in [
        ("input.reshape", input.reshape.is_some()),
        ("input.is_shape_tensor", input.is_shape_tensor),
        ("input.allow_ragged_batch", input.allow_ragged_batch),
        ("input.optional", input.optional),
        ("input.is_non_linear_format_io", input.is_non_linear_format_io),
    ] {
        if is_set {
            return Err(unsupported(field));
        }
    }
    spec(&input.name, input.data_type, &input.dims)
}

fn output(output: &ModelOutput) -> Result<TensorSpec, String> {
    for (field, is_set) in [
        ("output.reshape", output.reshape.is_some()),
        ("output.label_filename", !output.label_filename.is_empty()),
        ("output.is_shape_tensor", output.is_shape_tensor),
        ("output.is_non_linear_format_io", output.is_non_linear_format_io),
    ] {
        if is_set {
            return Err(unsupported(field));
        }
    }
    spec(&output.name, output.data_type, &output.dims)
}

fn spec(name: &str, data_type: i32, dims: &[i64]) -> Result<TensorSpec, String> {
    let dtype = data_type.try_into().ok().and_then(dtype);
    let dims = dims.iter().map(|&extent| match usize::try_from(extent) {
        Ok(extent) => Ok(Dim::Fixed(extent)),
        Err(_) if extent == -1 => Ok(Dim::Any),
        Err(_) => Err(format!("`{name}` has an extent of {extent}; -1 is any")),
    });
    Ok(TensorSpec {
        name: name.to_owned(),
        dtype: dtype.ok_or_else(|| format!("`{name}` has no data_type"))?,
        dims: dims.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_api::oip::pbtxt::parse;
    use paceline_types::DType;

    fn check(text: &str) -> Result<(), String> {
        let tensor = |name: &str| TensorSpec {
            name: name.to_owned(),
            dtype: DType::F32,
            dims: vec![Dim::Any, Dim::Fixed(2)],
        };
        let signature =
            Signature { inputs: vec![tensor("x")], outputs: vec![tensor("y")], batched: true };
        Declared::read(&parse(text).unwrap())?.check(&signature)
    }

    #[test]
    fn what_is_declared_must_be_what_is_there() {
        let x = |rest: &str| format!("input [ {{ name: \"x\" {rest} }} ]");

        assert_eq!(check(""), Ok(()));
        assert_eq!(check(&x("data_type: TYPE_FP32 dims: [3, 2]")), Ok(()));
        assert_eq!(check(&x("data_type: TYPE_FP32 dims: [-1, -1]")), Ok(()));
        for (text, words) in [
            (
                x("data_type: TYPE_FP16 dims: [-1, 2]"),
                "`x` as FP16 [-1, 2], but the model has FP32",
            ),
            (x("data_type: TYPE_FP32 dims: [2]"), "`x` as FP32 [2]"),
            (x("data_type: TYPE_FP32 dims: [-1, 3]"), "`x` as FP32 [-1, 3]"),
            (x("dims: [-1, 2]"), "`x` has no data_type"),
            (x("data_type: TYPE_FP32 dims: [-1, 2] reshape { shape: [2] }"), "input.reshape"),
            (
                "output [ { name: \"z\" data_type: TYPE_FP32 dims: [2] } ]".to_owned(),
                "output `z`, which the model does not have",
            ),
        ] {
            let refused = check(&text).unwrap_err();
            assert!(refused.contains(words), "{text}: {refused}");
        }
    }
}
