//! Writes the gRPC code and descriptors from `proto/`; run it after editing a `.proto` file.
//!
//! `cargo run -p paceline-api --example generate-proto`

#[path = "../proto/generate.rs"]
mod generate;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    generate::generate(&root.join("proto"), &root.join("src"))
}
