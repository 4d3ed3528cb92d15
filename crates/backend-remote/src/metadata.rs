//! From what a remote server says of a model to a signature. Pure.

use paceline_types::{Dim, Signature, TensorSpec};

use crate::{
    fault::words,
    wire::{About, AboutTensor},
};

/// What a remote model takes and gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) signature: Signature,
    /// Most rows in one call.
    pub(crate) max_rows: Option<usize>,
}

impl Declared {
    /// Reads what a server says; `batched` is what the settings say, which goes first.
    pub(crate) fn read(about: &About, batched: Option<bool>) -> Result<Self, String> {
        let max_batch = about.max_batch;
        let batched = batched.or_else(|| max_batch.map(|max| 0 < max)).ok_or_else(|| {
            "the server has no configuration of the model to say whether its first extent is the \
             batch; set `remote.batched`"
                .to_owned()
        })?;
        if about.inputs.is_empty() || about.outputs.is_empty() {
            return Err("it declares no input or no output".to_owned());
        }
        let specs = |tensors: &[AboutTensor]| {
            tensors.iter().map(|tensor| spec(tensor, batched)).collect::<Result<Vec<_>, _>>()
        };
        let signature =
            Signature { inputs: specs(&about.inputs)?, outputs: specs(&about.outputs)?, batched };
        let max_rows = max_batch.and_then(|max| usize::try_from(max).ok()).filter(|max| 0 < *max);
        Ok(Self { signature, max_rows: max_rows.filter(|_| batched) })
    }
}

fn spec(tensor: &AboutTensor, batched: bool) -> Result<TensorSpec, String> {
    let name = words(&tensor.name);
    let dtype = tensor.datatype.parse().map_err(|error| format!("tensor `{name}`: {error}"))?;
    let own = if batched { tensor.shape.get(1..) } else { Some(&tensor.shape[..]) };
    let own = own.ok_or_else(|| {
        format!("tensor `{name}` has no extents, so it has none for the batch; set `remote.batched = false`")
    })?;
    let dim = |&extent: &i64| match extent {
        -1 => Ok(Dim::Any),
        extent => usize::try_from(extent).map(Dim::Fixed).map_err(|_| extent),
    };
    let dims = own.iter().map(dim).collect::<Result<_, _>>();
    let dims = dims.map_err(|extent| format!("tensor `{name}` has an extent of {extent}"))?;
    Ok(TensorSpec { name: tensor.name.clone(), dtype, dims })
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_types::DType;

    fn about(shape: &[i64], max_batch: Option<i64>) -> About {
        let tensor = |name: &str| AboutTensor {
            name: name.to_owned(),
            datatype: "FP32".to_owned(),
            shape: shape.to_vec(),
        };
        About { inputs: vec![tensor("x")], outputs: vec![tensor("y")], max_batch }
    }

    #[test]
    fn a_batch_extent_is_taken_off_where_there_is_one() {
        let batched = Declared::read(&about(&[-1, 80, -1], Some(8)), None).unwrap();
        assert!(batched.signature.batched);
        assert_eq!(batched.max_rows, Some(8));
        assert_eq!(batched.signature.inputs[0].dims, [Dim::Fixed(80), Dim::Any]);
        assert_eq!(batched.signature.inputs[0].dtype, DType::F32);

        let single = Declared::read(&about(&[-1, 80], Some(0)), None).unwrap();
        assert!(!single.signature.batched);
        assert_eq!(single.signature.inputs[0].dims, [Dim::Any, Dim::Fixed(80)]);

        let told = Declared::read(&about(&[-1, 80], None), Some(true)).unwrap();
        assert_eq!((told.signature.batched, told.max_rows), (true, None));
    }

    #[test]
    fn what_cannot_be_known_or_used_is_refused_with_what_to_do() {
        for (about, why) in [
            (about(&[-1], None), "set `remote.batched`"),
            (about(&[], Some(4)), "remote.batched = false"),
            (about(&[-1, -7], Some(4)), "an extent of -7"),
            (About { max_batch: Some(1), ..About::default() }, "no input"),
        ] {
            let error = Declared::read(&about, None).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
