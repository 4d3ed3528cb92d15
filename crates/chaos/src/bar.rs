//! A line on the terminal that says how far it is; elsewhere a line now and then.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

/// Between two lines that stay.
const SELDOM: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Bar {
    is_terminal: bool,
    shown: Option<Instant>,
    interrupted: Arc<AtomicBool>,
    _listener: JoinSet<()>,
}

impl Bar {
    pub(crate) fn start() -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&interrupted);
        let listener = JoinSet::from_iter([async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                told.store(true, Ordering::Relaxed);
            }
        }]);
        Self {
            is_terminal: io::stderr().is_terminal(),
            shown: None,
            interrupted,
            _listener: listener,
        }
    }

    // Nobody has to watch, so it does not matter where nothing can be written.
    pub(crate) fn show(&mut self, line: fmt::Arguments<'_>) {
        if self.is_terminal {
            drop(write!(io::stderr(), "\r\x1b[K{line}"));
        } else if self.shown.is_none_or(|shown| SELDOM <= shown.elapsed()) {
            self.shown = Some(Instant::now());
            drop(writeln!(io::stderr(), "{line}"));
        }
    }

    pub(crate) fn clear(&self) {
        if self.is_terminal {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
