//! A worker's words become log lines: bounded in length and in rate, and without tricks.

use std::{
    collections::VecDeque,
    io::{self, Read},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use tokio::time::Instant;

use crate::process::Pipes;

/// Longest line in bytes; what is longer is cut.
const MAX_LINE: usize = 2048;
/// Most lines in a window; further ones are counted.
const MAX_LINES: u32 = 200;
const WINDOW: Duration = Duration::from_secs(1);
/// Lines that are remembered for a message about the worker's death.
const REMEMBERED: usize = 3;

/// A worker's last words.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    fn add(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == REMEMBERED {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    /// What was said last.
    pub(crate) fn get(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!lines.is_empty()).then(|| Vec::from(lines.clone()).join("; "))
    }
}

/// Turns what a worker says into log lines until it has closed both pipes.
pub(crate) fn pump(
    pipes: Pipes,
    model: &str,
    instance: usize,
    words: &LastWords,
) -> io::Result<()> {
    let Pipes { mut stdout, mut stderr } = pipes;
    let (mut out, mut err) = (Some(Lines::default()), Some(Lines::default()));
    let mut quota = Quota::new(Instant::now());
    while out.is_some() || err.is_some() {
        let mut ready = [
            PollFd::new(&stdout, if out.is_some() { PollFlags::IN } else { PollFlags::empty() }),
            PollFd::new(&stderr, if err.is_some() { PollFlags::IN } else { PollFlags::empty() }),
        ];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let [has_out, has_err] = ready.map(|ready| !ready.revents().is_empty());
        let mut say = |stream: &'static str, line: &str| {
            words.add(line);
            match quota.take(Instant::now()) {
                Some(0) => {
                    tracing::info!(target: "paceline::worker", model, instance, stream, "{line}");
                }
                Some(n_dropped) => {
                    tracing::info!(target: "paceline::worker", model, instance, stream, n_dropped, "{line}");
                }
                None => {}
            }
        };
        if has_out {
            read_some(&mut stdout, &mut out, |line| say("stdout", line))?;
        }
        if has_err {
            read_some(&mut stderr, &mut err, |line| say("stderr", line))?;
        }
    }
    Ok(())
}

/// Reads what is there; the lines are gone when the pipe is closed.
fn read_some(
    pipe: &mut impl Read,
    lines: &mut Option<Lines>,
    say: impl FnMut(&str),
) -> io::Result<()> {
    let mut buffer = [0; 8192];
    let n_bytes = match pipe.read(&mut buffer) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
        other => other?,
    };
    match (n_bytes, lines.as_mut()) {
        (0, _) => {
            if let Some(lines) = lines.take() {
                lines.end(say);
            }
        }
        (_, Some(lines)) => lines.push(&buffer[..n_bytes], say),
        (_, None) => {}
    }
    Ok(())
}

/// Cuts bytes into lines. Pure.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, data: &[u8], mut say: impl FnMut(&str)) {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            let (line, is_whole) = match part.strip_suffix(b"\n") {
                Some(line) => (line, true),
                None => (part, false),
            };
            let room = MAX_LINE.saturating_sub(self.0.len());
            self.0.extend_from_slice(&line[..line.len().min(room)]);
            if is_whole {
                self.say(&mut say);
            }
        }
    }

    fn end(mut self, mut say: impl FnMut(&str)) {
        self.say(&mut say);
    }

    fn say(&mut self, say: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.0);
        let text = text.trim_end();
        if !text.is_empty() {
            // A model must not be able to colour, move or fake what the operator reads.
            let plain: String = text
                .chars()
                .map(|one| if one.is_control() && one != '\t' { '\u{fffd}' } else { one })
                .collect();
            say(&plain);
        }
        self.0.clear();
    }
}

/// How many lines may still be said. Pure: it is told the time.
#[derive(Debug)]
struct Quota {
    since: Instant,
    n_said: u32,
    n_dropped: u32,
}

impl Quota {
    const fn new(now: Instant) -> Self {
        Self { since: now, n_said: 0, n_dropped: 0 }
    }

    /// Whether a line may be said, and how many were not since the last one.
    fn take(&mut self, now: Instant) -> Option<u32> {
        if WINDOW <= now.duration_since(self.since) {
            (self.since, self.n_said) = (now, 0);
        }
        if self.n_said < MAX_LINES {
            self.n_said += 1;
            Some(std::mem::take(&mut self.n_dropped))
        } else {
            self.n_dropped = self.n_dropped.saturating_add(1);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_cut_and_made_harmless() {
        let mut said = Vec::new();
        let mut lines = Lines::default();
        lines.push(b"one\ntw", |line| said.push(line.to_owned()));
        lines.push(b"o\n\n\x1b[31mred\r\n", |line| said.push(line.to_owned()));
        lines.push(&[b'x'; 3 * MAX_LINE], |line| said.push(line.to_owned()));
        lines.end(|line| said.push(line.to_owned()));

        assert_eq!(said[..3], ["one", "two", "\u{fffd}[31mred"]);
        assert_eq!(said[3].len(), MAX_LINE);
    }

    #[test]
    fn a_chatty_model_is_cut_off_and_heard_again_later() {
        let start = Instant::now();
        let mut quota = Quota::new(start);

        let said = (0..1000).filter_map(|_| quota.take(start)).count();

        assert_eq!(said, MAX_LINES as usize);
        assert_eq!(quota.take(start + WINDOW), Some(1000 - MAX_LINES));
    }
}
