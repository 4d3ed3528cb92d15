//! How far it is, for a person who watches; nothing where nobody does.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);
/// Cells of the bar.
const CELLS: usize = 24;

/// How far several files are, together.
#[derive(Debug)]
pub(super) struct Progress {
    is_shown: bool,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct State {
    n_files: usize,
    n_done: usize,
    /// Bytes of all files, and those that were sent.
    total: u64,
    sent: u64,
    /// Seconds of audio whose words are known.
    heard: f64,
    drawn: Option<Instant>,
}

impl Progress {
    /// Of so many files with so many bytes in all.
    pub(super) fn new(n_files: usize, total: u64) -> Self {
        let state = State { n_files, total, ..State::default() };
        let is_shown = io::stderr().is_terminal();
        Self { is_shown, began: Instant::now(), state: Mutex::new(state) }
    }

    /// Further bytes of a file were sent.
    pub(super) fn sent(&self, n_bytes: usize) {
        self.change(|state| state.sent += n_bytes as u64);
    }

    /// Further seconds of a file were understood.
    pub(super) fn heard(&self, seconds: f64) {
        self.change(|state| state.heard += seconds);
    }

    /// A file is done.
    pub(super) fn done(&self) {
        self.change(|state| state.n_done += 1);
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        if self.is_shown {
            drop(write!(io::stderr(), "\r\x1b[2K"));
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        if !self.is_shown || state.drawn.is_some_and(|drawn| drawn.elapsed() < EVERY) {
            return;
        }
        state.drawn = Some(Instant::now());
        // Who cannot be shown it misses nothing.
        drop(write!(io::stderr(), "\r\x1b[2K{}", line(&state, self.began.elapsed())));
    }
}

fn line(state: &State, took: Duration) -> String {
    let percent = state.sent.saturating_mul(100) / state.total.max(1);
    let n_full = usize::try_from(percent).unwrap_or(100).min(100) * CELLS / 100;
    let bar: String = (0..CELLS).map(|cell| if cell < n_full { '█' } else { '░' }).collect();
    let speed = state.heard / took.as_secs_f64().max(0.001);
    let (n_done, n_files) = (state.n_done, state.n_files);
    format!(
        "{bar} {percent:>3} %  {n_done}/{n_files} files  {:.0} s of audio, {speed:.0} times real time",
        state.heard
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_how_far_it_is() {
        let state =
            State { n_files: 3, n_done: 1, total: 200, sent: 100, heard: 60.0, drawn: None };
        let expected =
            "████████████░░░░░░░░░░░░  50 %  1/3 files  60 s of audio, 30 times real time";
        assert_eq!(line(&state, Duration::from_secs(2)), expected);
        // Whatever the files' sizes were said to be.
        let state = State { total: 0, sent: 500, ..state };
        assert!(line(&state, Duration::ZERO).contains(&"█".repeat(CELLS)));
    }
}
