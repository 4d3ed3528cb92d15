//! Turns the `.proto` files beside it into Rust, without needing `protoc`.

use std::{fs, path::Path};

use prost::Message as _;
use protox::Compiler;

/// The files written: Rust, and the descriptors that reflection serves.
pub(crate) const FILES: [&str; 2] = ["inference.rs", "inference.bin"];

/// Writes [`FILES`] into `out`.
pub(crate) fn generate(protos: &Path, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut compiler = Compiler::new([protos])?;
    compiler.include_imports(true).open_file("inference.proto")?;
    fs::write(out.join(FILES[1]), compiler.file_descriptor_set().encode_to_vec())?;

    // Comments become Rust documentation, but nobody needs them at run time.
    let mut compiler = Compiler::new([protos])?;
    let commented =
        compiler.include_imports(true).include_source_info(true).open_file("inference.proto")?;
    tonic_prost_build::configure()
        .build_transport(false)
        .emit_rerun_if_changed(false)
        // Raw tensors are slices of the message that carried them.
        .bytes(".inference")
        // Sorted, so that equal messages have equal bytes.
        .btree_map(".inference")
        .out_dir(out)
        .compile_fds(commented.file_descriptor_set())?;
    Ok(())
}
