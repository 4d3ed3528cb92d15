//! Weights that lie beside the model file. Followed only where the model's configuration declares
//! them, and only inside the model's own folder.
//!
//! An ONNX file may point anywhere, so a model from a stranger could have the server read, and
//! answer with, any file it can open. Engines check this too, each in its own way; here it is
//! checked once, for both, links resolved.

use std::{
    fs,
    path::{Component, Path},
};

use rten_onnx::onnx::{DataLocation, GraphProto, TensorProto};

use crate::error::LoadError;

/// How many weights the graph has in other files, all of which are `declared`, in `folder` and long
/// enough.
pub(crate) fn check(
    graph: &GraphProto,
    folder: &Path,
    declared: &[String],
) -> Result<usize, LoadError> {
    let mut found = 0;
    for weight in &graph.initializer {
        found += usize::from(check_tensor(weight, folder, declared)?);
    }
    for attribute in graph.node.iter().flat_map(|node| &node.attribute) {
        if let Some(constant) = &attribute.t {
            found += usize::from(check_tensor(constant, folder, declared)?);
        }
        if let Some(branch) = &attribute.g {
            found += check(branch, folder, declared)?;
        }
    }
    Ok(found)
}

fn check_tensor(
    tensor: &TensorProto,
    folder: &Path,
    declared: &[String],
) -> Result<bool, LoadError> {
    if tensor.data_location != Some(DataLocation::EXTERNAL) {
        return Ok(false);
    }
    let entry = |key: &str| {
        let mut entries = tensor.external_data.iter();
        entries.find(|entry| entry.key.as_deref() == Some(key))?.value.as_deref()
    };
    let location = entry("location").unwrap_or_default();
    let refuse = |problem: String| LoadError::External { location: location.to_owned(), problem };

    let is_plain = |component| matches!(component, Component::Normal(_) | Component::CurDir);
    if location.is_empty() || !Path::new(location).components().all(is_plain) {
        return Err(refuse("a path that leaves the folder".to_owned()));
    }
    if !declared.iter().any(|name| name == location) {
        return Err(refuse("which is not declared".to_owned()));
    }
    let resolved = folder
        .canonicalize()
        .and_then(|folder| Ok((folder.join(location).canonicalize()?, folder)))
        .map_err(|cause| refuse(format!("which cannot be opened ({cause})")))?;
    if !resolved.0.starts_with(&resolved.1) {
        return Err(refuse("a link that leaves the folder".to_owned()));
    }

    // A length that the file does not have would be allocated before it is found missing.
    let size = fs::metadata(&resolved.0)
        .map_err(|cause| refuse(format!("which cannot be opened ({cause})")))?
        .len();
    let number = |key| {
        entry(key).map_or(Ok(0), |text| {
            text.parse::<u64>().map_err(|_| refuse(format!("with the {key} `{text}`")))
        })
    };
    let end = number("offset")?.checked_add(number("length")?);
    if end.is_none_or(|end| end > size) {
        return Err(refuse(format!("which is too short, with {size} bytes")));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rten_onnx::onnx::{AttributeProto, NodeProto, StringStringEntryProto};

    fn weight(entries: &[(&str, &str)]) -> TensorProto {
        let external_data = entries
            .iter()
            .map(|&(key, value)| StringStringEntryProto {
                key: Some(key.to_owned()),
                value: Some(value.to_owned()),
            })
            .collect();
        TensorProto {
            data_location: Some(DataLocation::EXTERNAL),
            external_data,
            ..TensorProto::default()
        }
    }

    fn graph(weight: TensorProto) -> GraphProto {
        GraphProto { initializer: vec![weight], ..GraphProto::default() }
    }

    /// A folder with 16 bytes of weights, a secret beside the folder and a link to the secret.
    fn folders() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("model")).unwrap();
        fs::write(root.path().join("model/w.data"), [0; 16]).unwrap();
        fs::write(root.path().join("secret.data"), [7; 16]).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../secret.data", root.path().join("model/link.data")).unwrap();
        root
    }

    #[test]
    fn weights_in_the_folder_are_found() {
        let root = folders();
        let inside = weight(&[("location", "w.data"), ("offset", "8"), ("length", "8")]);

        let declared = ["w.data".to_owned()];
        assert_eq!(check(&graph(inside), &root.path().join("model"), &declared).unwrap(), 1);
        assert_eq!(check(&graph(TensorProto::default()), root.path(), &[]).unwrap(), 0);
    }

    #[test]
    fn weights_outside_the_folder_are_refused_whichever_way_they_are_named() {
        let root = folders();
        let absolute = root.path().join("secret.data");

        for location in
            ["../secret.data", "./../secret.data", "link.data", absolute.to_str().unwrap(), ""]
        {
            let declared = [location.to_owned()];
            let graph = graph(weight(&[("location", location)]));
            let error =
                check(&graph, &root.path().join("model"), &declared).unwrap_err().to_string();
            assert!(error.contains("must lie in the model's own folder"), "{location}: {error}");
        }
    }

    #[test]
    fn weights_that_nobody_declared_are_refused() {
        let root = folders();
        let inside = graph(weight(&[("location", "w.data")]));

        let refused = check(&inside, &root.path().join("model"), &["other.data".to_owned()]);

        assert!(refused.unwrap_err().to_string().contains("`w.data`, which is not declared"));
    }

    #[test]
    fn weights_inside_a_branch_are_checked_as_well() {
        let root = folders();
        let branch = AttributeProto {
            g: Some(graph(weight(&[("location", "../secret.data")]))),
            ..AttributeProto::default()
        };
        let node = NodeProto { attribute: vec![branch], ..NodeProto::default() };
        let outer = GraphProto { node: vec![node], ..GraphProto::default() };

        assert!(check(&outer, &root.path().join("model"), &[]).is_err());
    }

    #[test]
    fn a_length_beyond_the_file_is_refused_before_it_is_allocated() {
        let root = folders();
        for length in ["17", "18446744073709551615", "-1"] {
            let long = weight(&[("location", "w.data"), ("offset", "8"), ("length", length)]);
            let declared = ["w.data".to_owned()];
            let checked = check(&graph(long), &root.path().join("model"), &declared);
            assert!(checked.is_err(), "{length}");
        }
    }
}
