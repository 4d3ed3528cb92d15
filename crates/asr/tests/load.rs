//! Files that are not the model's are refused with a reason, whatever is wrong with them.

use std::{collections::BTreeMap, fs, path::Path};

use paceline_asr::{LoadError, Tokens, Weights};
use safetensors::{Dtype, SafeTensors, serialize, tensor::TensorView};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/moonshine/1");

/// What loading says of a file.
fn load(file: &[u8]) -> LoadError {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("weights.safetensors"), file).unwrap();
    Weights::load(folder.path()).unwrap_err()
}

#[test]
fn a_folder_without_files_is_named() {
    let folder = Path::new("no/such/folder");
    for error in [Weights::load(folder).unwrap_err(), Tokens::load(folder).unwrap_err()] {
        assert!(matches!(error, LoadError::Unreadable { .. }), "{error}");
        assert!(error.to_string().starts_with("no/such/folder/"), "{error}");
    }
}

#[test]
fn a_file_that_is_cut_or_something_else_is_refused() {
    let file = fs::read(Path::new(FOLDER).join("weights.safetensors")).unwrap();
    for file in [&b""[..], b"not at all", &file[..4000], &file[..file.len() - 1]] {
        let error = load(file);
        assert!(matches!(error, LoadError::NotSafetensors { .. }), "{error}");
    }
}

#[test]
fn a_tensor_that_is_wrong_is_named() {
    let file = fs::read(Path::new(FOLDER).join("weights.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let whole: BTreeMap<String, TensorView<'_>> = tensors.tensors().into_iter().collect();

    let mut missing = whole.clone();
    missing.remove("decoder.3.cross_v.zero");
    let error = load(&serialize(&missing, None).unwrap());
    assert!(
        matches!(&error, LoadError::Missing { name } if name == "decoder.3.cross_v.zero"),
        "{error}"
    );

    let bytes = vec![0; 288 * 287];
    let mut narrow = whole.clone();
    let tensor = TensorView::new(Dtype::U8, vec![288, 287], &bytes).unwrap();
    narrow.insert("encoder.5.o".to_owned(), tensor);
    let error = load(&serialize(&narrow, None).unwrap());
    assert!(
        matches!(&error, LoadError::WrongTensor { name, .. } if name == "encoder.5.o"),
        "{error}"
    );

    let bytes = f32::NAN.to_le_bytes().repeat(288);
    let mut numberless = whole;
    let tensor = TensorView::new(Dtype::F32, vec![288], &bytes).unwrap();
    numberless.insert("decoder.norm".to_owned(), tensor);
    let error = load(&serialize(&numberless, None).unwrap());
    assert!(matches!(&error, LoadError::NotFinite { name } if name == "decoder.norm"), "{error}");
}
