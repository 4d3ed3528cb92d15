//! Where ONNX Runtime is: in folders, or where a Python has it. Loads nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{error::LoadError, options::OnnxOptions};

/// The configured file, else the first library in the search folders.
pub(crate) fn find(options: &OnnxOptions) -> Result<PathBuf, LoadError> {
    if let Some(file) = &options.library {
        return if file.is_file() {
            Ok(file.clone())
        } else {
            Err(LoadError::NoLibrary { searched: format!("there is no {}", file.display()) })
        };
    }
    let found = options.library_dirs.iter().find_map(|dir| search(dir));
    found.or_else(|| search(&package_of(options.python.as_deref()?)?)).ok_or_else(|| {
        let mut places: Vec<_> =
            options.library_dirs.iter().map(|dir| dir.display().to_string()).collect();
        places.extend(options.python.iter().map(|python| format!("what {} has", python.display())));
        let searched = if places.is_empty() {
            "no folder was given to look in".to_owned()
        } else {
            format!("it is not in {}", places.join(", "))
        };
        LoadError::NoLibrary { searched }
    })
}

/// Where a Python has the package `onnxruntime`, without importing it.
fn package_of(python: &Path) -> Option<PathBuf> {
    // Nothing in the working folder, which is the empty path, may pass for the package.
    const ASK: &str = "import sys, importlib.util as u; sys.path = [p for p in sys.path if p]; \
                       s = u.find_spec('onnxruntime'); \
                       print(s.submodule_search_locations[0] if s else '')";
    let asked = Command::new(python).args(["-c", ASK]).stdin(Stdio::null()).output().ok()?;
    let folder = String::from_utf8(asked.stdout).ok()?;
    let folder = Path::new(folder.trim());
    asked.status.success().then(|| folder.join("capi")).filter(|capi| capi.is_dir())
}

/// The library in a folder that holds it, in a `site-packages` folder or in a Python environment.
fn search(dir: &Path) -> Option<PathBuf> {
    let package = Path::new("onnxruntime").join("capi");
    let mut folders = vec![dir.to_owned(), dir.join(&package)];
    folders.push(dir.join("Lib").join("site-packages").join(&package));
    for lib in ["lib", "lib64"] {
        let pythons = fs::read_dir(dir.join(lib)).into_iter().flatten().flatten();
        let mut pythons: Vec<_> = pythons.map(|entry| entry.path()).collect();
        pythons.sort();
        folders.extend(pythons.into_iter().map(|path| path.join("site-packages").join(&package)));
    }
    folders.iter().find_map(|folder| newest(folder))
}

/// The library of the highest version in one folder.
fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    files
        .filter_map(|path| {
            let version = version(path.file_name()?.to_str()?)?;
            Some((version, path))
        })
        .max()
        .map(|(_, path)| path)
}

/// The version in a library's file name, empty where it has none; `None` for any other file.
fn version(name: &str) -> Option<Vec<u32>> {
    let numbers = |text: &str| -> Option<Vec<u32>> {
        text.split('.').filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
    };
    if let Some(version) = name.strip_prefix("libonnxruntime.so") {
        return numbers(version);
    }
    if let Some(version) =
        name.strip_prefix("libonnxruntime").and_then(|n| n.strip_suffix(".dylib"))
    {
        return numbers(version);
    }
    (name == "onnxruntime.dll").then(Vec::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, []).unwrap();
        }
        root
    }

    fn found(root: &tempfile::TempDir) -> Option<PathBuf> {
        let path = search(root.path())?;
        Some(path.strip_prefix(root.path()).unwrap().to_owned())
    }

    #[test]
    fn the_newest_library_of_a_folder_is_taken_and_its_neighbours_are_not() {
        let root = with(&[
            "libonnxruntime.so.1.9.0",
            "libonnxruntime.so.1.31.1",
            "libonnxruntime_providers_shared.so",
            "libonnxruntime.so.txt",
        ]);

        assert_eq!(found(&root), Some("libonnxruntime.so.1.31.1".into()));
    }

    #[test]
    fn a_python_environment_and_its_packages_folder_are_both_understood() {
        let file = "lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1";
        let root = with(&[file]);

        assert_eq!(found(&root), Some(file.into()));
        assert!(search(&root.path().join("lib/python3.11/site-packages")).is_some());
        assert_eq!(found(&with(&["lib/python3.11/site-packages/numpy/x.so"])), None);
    }

    #[test]
    fn a_python_is_asked_where_its_package_is() {
        let root =
            with(&["site/onnxruntime/__init__.py", "site/onnxruntime/capi/libonnxruntime.so.1"]);
        let ask = |python: &str| {
            let options = OnnxOptions { python: Some(python.into()), ..OnnxOptions::new("m") };
            find(&options).map_err(|error| error.to_string())
        };
        // Stands for an interpreter whose packages are in `site`.
        let python = root.path().join("python");
        let site = root.path().join("site");
        fs::write(&python, format!("#!/bin/sh\necho {}/onnxruntime\n", site.display())).unwrap();
        make_executable(&python);

        let found = ask(python.to_str().unwrap()).unwrap();
        assert_eq!(found, site.join("onnxruntime/capi/libonnxruntime.so.1"));
        let missing = ask("/no/such/python").unwrap_err();
        assert!(missing.contains("it is not in what /no/such/python has"), "{missing}");
    }

    fn make_executable(file: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let root = with(&[]);
        let dirs = OnnxOptions { library_dirs: vec![root.path().into()], ..OnnxOptions::new("m") };
        let file =
            OnnxOptions { library: Some(root.path().join("no.so")), ..OnnxOptions::new("m") };

        for options in [OnnxOptions::new("m"), dirs, file] {
            let error = find(&options).unwrap_err().to_string();
            assert!(error.contains("run `pip install onnxruntime`"), "{error}");
            assert!(error.contains("`library`"), "{error}");
        }
    }
}
