//! The Python package, carried along, so that a worker always speaks the server's version and the
//! user installs nothing but `NumPy`.

use std::{collections::BTreeMap, io};

use crate::segment::Segment;

/// What an interpreter is started with: runs the program that the first message brings.
pub(crate) const BOOT: &str = "import os, socket; s = socket.socket(fileno=os.dup(0)); \
    m, f, _, _ = socket.recv_fds(s, 32, 1); \
    exec(os.read(f[0], int.from_bytes(m[16:24], 'little'))); \
    os.close(f[0]); s.close(); boot(SOURCES)";

const MODULES: [(&str, &str); 6] = [
    ("paceline", include_str!("../../../python/paceline/__init__.py")),
    ("paceline.batch", include_str!("../../../python/paceline/batch.py")),
    ("paceline.confine", include_str!("../../../python/paceline/confine.py")),
    ("paceline.frames", include_str!("../../../python/paceline/frames.py")),
    ("paceline.model", include_str!("../../../python/paceline/model.py")),
    ("paceline.worker", include_str!("../../../python/paceline/worker.py")),
];

/// The program that starts a worker, in memory that can be handed over, and its length.
pub(crate) fn program() -> io::Result<(Segment, usize)> {
    let modules: BTreeMap<&str, &str> = MODULES.into_iter().collect();
    // JSON's strings are Python's as well.
    let sources = serde_json::to_string(&modules)?;
    let boot = include_str!("../../../python/paceline/boot.py");
    let program = format!("{boot}\nSOURCES = {sources}\n");
    let segment = Segment::create(program.len())?;
    segment.write(0, program.as_bytes())?;
    Ok((segment, program.len()))
}
