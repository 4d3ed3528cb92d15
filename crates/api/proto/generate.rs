//! Turns the `.proto` files beside it into Rust, without needing `protoc`.

use std::{fs, path::Path};

use prost::Message as _;
use protox::Compiler;

/// The packages: the file that declares each, and where under `src` its code is kept.
pub(crate) const PACKAGES: [(&str, &str, &str); 2] = [
    ("inference", "inference.proto", "oip/generated"),
    ("paceline.v1", "cameras.proto", "grpc/generated"),
];

/// The files of a package: Rust, and the descriptors that reflection serves.
pub(crate) fn files(package: &str) -> [String; 2] {
    [format!("{package}.rs"), format!("{package}.bin")]
}

/// Writes the [`files`] of each package into its folder under `out`.
pub(crate) fn generate(protos: &Path, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for (package, file, folder) in PACKAGES {
        let out = out.join(folder);
        let mut compiler = Compiler::new([protos])?;
        compiler.include_imports(true).open_file(file)?;
        let [_, descriptors] = files(package);
        fs::write(out.join(descriptors), compiler.file_descriptor_set().encode_to_vec())?;

        // Comments become Rust documentation, but nobody needs them at run time.
        let mut compiler = Compiler::new([protos])?;
        let commented = compiler.include_imports(true).include_source_info(true).open_file(file)?;
        let package = format!(".{package}");
        tonic_prost_build::configure()
            .build_transport(false)
            .emit_rerun_if_changed(false)
            // Raw tensors are slices of the message that carried them.
            .bytes(&package)
            // Sorted, so that equal messages have equal bytes.
            .btree_map(&package)
            .out_dir(out)
            .compile_fds(commented.file_descriptor_set())?;
    }
    Ok(())
}
