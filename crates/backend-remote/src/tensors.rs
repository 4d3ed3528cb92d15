//! From outputs as a remote server gave them to tensors, checked against what it declared. Pure.

use paceline_types::{Shape, Signature, Tensor};

use crate::{
    fault::{Fault, words},
    wire::Given,
};

/// The outputs in the signature's order, each as declared and with `rows` rows.
pub(crate) fn check(
    given: &[Given],
    signature: &Signature,
    rows: usize,
) -> Result<Vec<Tensor>, Fault> {
    let outputs = signature.outputs.iter().map(|spec| {
        let name = words(&spec.name);
        let given = given
            .iter()
            .find(|given| given.about.name == spec.name)
            .ok_or_else(|| Fault::Garbage(format!("output `{name}` is missing")))?;
        let shape = given.about.shape.iter().map(|&extent| usize::try_from(extent).ok());
        let shape: Option<Shape> = shape.collect();
        let is_right = shape.as_ref().is_some_and(|shape| {
            spec.fits(shape, signature.batched)
                && (!signature.batched || shape.first() == Some(&rows))
        });
        let (Some(shape), true, true) =
            (shape, is_right, given.about.datatype == spec.dtype.as_str())
        else {
            return Err(Fault::Garbage(format!(
                "output `{name}` is {} [{}] with {rows} rows, but {} {:?} was given",
                spec.dtype,
                spec.shape_text(signature.batched),
                words(&given.about.datatype),
                given.about.shape.get(..8).unwrap_or(&given.about.shape),
            )));
        };
        Tensor::build(spec.dtype, shape, given.data.clone())
            .map_err(|error| Fault::Garbage(format!("output `{name}`: {error}")))
    });
    outputs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AboutTensor;
    use paceline_types::{DType, Dim, TensorSpec};
    use proptest::prelude::*;

    fn signature() -> Signature {
        let spec = |name: &str| TensorSpec {
            name: name.to_owned(),
            dtype: DType::U8,
            dims: vec![Dim::Fixed(3)],
        };
        Signature { inputs: vec![spec("x")], outputs: vec![spec("y")], batched: true }
    }

    fn given(name: &str, datatype: &str, shape: &[i64], n_bytes: usize) -> Given {
        let about = AboutTensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
        };
        Given { about, data: vec![7; n_bytes].into() }
    }

    #[test]
    fn only_what_was_declared_is_taken() {
        let good = check(&[given("y", "UINT8", &[2, 3], 6)], &signature(), 2).unwrap();
        assert_eq!(good[0].shape(), [2, 3]);

        for (bad, why) in [
            (given("z", "UINT8", &[2, 3], 6), "`y` is missing"),
            (given("y", "FP32", &[2, 3], 24), "FP32 [2, 3] was given"),
            (given("y", "UINT8", &[3, 3], 9), "with 2 rows"),
            (given("y", "UINT8", &[2, 4], 8), "[2, 4] was given"),
            (given("y", "UINT8", &[2, -3], 6), "[2, -3] was given"),
            (given("y", "UINT8", &[2, 3], 5), "but 5 were given"),
        ] {
            let error = check(&[bad], &signature(), 2).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_whatever_gives_another_shape(
            datatype in prop::sample::select(vec!["UINT8", "FP32", "BYTES", "?"]),
            shape in prop::collection::vec(any::<i64>().prop_map(|extent| extent % 5), 0..5),
            n_bytes in 0_usize..30,
        ) {
            if let Ok(tensors) = check(&[given("y", datatype, &shape, n_bytes)], &signature(), 2) {
                prop_assert_eq!(tensors[0].shape(), [2, 3]);
                prop_assert_eq!(tensors[0].data().len(), 6);
            }
        }
    }
}
