//! What a bench says while it runs, on standard error: how far it is, for a person who watches, and
//! what it has found so far, for everybody.

use std::io::{self, IsTerminal as _, Write as _};

/// The line that a terminal is at.
#[derive(Debug)]
pub(super) struct Live {
    is_terminal: bool,
}

impl Live {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal() }
    }

    /// Says how far it is, in place of what was said before; nothing where it is no terminal.
    pub(super) fn show(&self, text: &str) {
        if self.is_terminal {
            // Who cannot be told misses nothing.
            drop(write!(io::stderr(), "\r\x1b[2K{text}"));
        }
    }

    /// Says something that stays.
    pub(super) fn note(&self, text: &str) {
        self.show("");
        drop(writeln!(io::stderr(), "{text}"));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.show("");
    }
}
