//! Bytes that are held until they make something whole.
//!
//! Containers are read in steps. A step looks at the bytes from where the last one ended and takes
//! something whole from their start (a header, a packet, a block of samples), or waits for more.
//! What a step does depends on those bytes and never on how many more have come, which is why any
//! chunking gives the same samples. No step holds more than a packet or a header, so neither does
//! the window.
//!
//! This is also why demuxing is done here and not by the readers of `symphonia`, whose codecs are
//! used: those pull from a source that must either have the next byte or end.

use crate::{DecodeError, Sink};

use super::output::Output;

/// Bytes added to what is held before the next step is tried.
const PIECE: usize = 4096;
/// A window that has grown beyond this gives its memory back when it is empty.
const KEPT: usize = 8192;

/// A container, read step by step.
pub(super) trait Container: std::fmt::Debug + Send {
    /// Takes something whole from the start of `bytes`, which is never empty. `at_end` says that
    /// no more will come, which is when a step that waits is given up.
    fn step(&mut self, bytes: &[u8], at_end: bool, to: &mut To<'_>) -> Result<Step, DecodeError>;

    /// The most bytes that a step needs to see; waiting for more than these is an error.
    fn longest(&self) -> usize;
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing whole yet.
    Wait,
    /// So many bytes are done with; they may be more than there are yet.
    Took(u64),
}

/// Where decoded samples go.
pub(super) struct To<'a> {
    pub(super) output: &'a mut Output,
    pub(super) sink: &'a mut dyn Sink,
}

impl To<'_> {
    pub(super) fn malformed(&self, what: &'static str) -> DecodeError {
        DecodeError::Malformed { encoding: self.output.encoding, what }
    }

    pub(super) fn unsupported(&self, what: &'static str) -> DecodeError {
        DecodeError::Unsupported { encoding: self.output.encoding, what }
    }

    /// Takes bytes that are not audio.
    pub(super) fn pass(&mut self, n_bytes: u64) -> Result<Step, DecodeError> {
        self.output.header(n_bytes)?;
        Ok(Step::Took(n_bytes))
    }
}

/// The bytes between those done with and those to come.
#[derive(Debug, Default)]
pub(super) struct Window {
    held: Vec<u8>,
    /// Bytes to come that are done with already.
    skip: u64,
}

impl Window {
    pub(super) fn push(
        &mut self,
        container: &mut dyn Container,
        mut bytes: &[u8],
        to: &mut To<'_>,
    ) -> Result<(), DecodeError> {
        while !bytes.is_empty() {
            if self.held.is_empty() {
                // Nothing is copied but what is not whole yet.
                let taken = self.steps(container, bytes, to, false)?;
                self.held.extend_from_slice(&bytes[taken..]);
                return Ok(());
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(PIECE));
            self.held.extend_from_slice(piece);
            bytes = rest;
            self.drain(container, to, false)?;
        }
        Ok(())
    }

    /// Steps to the end of the stream; returns how many bytes made nothing whole.
    pub(super) fn finish(
        &mut self,
        container: &mut dyn Container,
        to: &mut To<'_>,
    ) -> Result<u64, DecodeError> {
        self.drain(container, to, true)?;
        Ok(self.held.len() as u64)
    }

    fn drain(
        &mut self,
        container: &mut dyn Container,
        to: &mut To<'_>,
        at_end: bool,
    ) -> Result<(), DecodeError> {
        let mut held = std::mem::take(&mut self.held);
        let taken = self.steps(container, &held, to, at_end)?;
        held.drain(..taken);
        if held.is_empty() && held.capacity() > KEPT {
            held = Vec::new();
        }
        self.held = held;
        Ok(())
    }

    fn steps(
        &mut self,
        container: &mut dyn Container,
        bytes: &[u8],
        to: &mut To<'_>,
        at_end: bool,
    ) -> Result<usize, DecodeError> {
        let mut at = 0;
        while at < bytes.len() {
            let left = bytes.len() - at;
            let skipped = usize::try_from(self.skip).map_or(left, |skip| skip.min(left));
            self.skip -= skipped as u64;
            at += skipped;
            to.output.bytes += skipped as u64;
            if at == bytes.len() {
                break;
            }
            // A step sees no more than it may need, so that nothing depends on what came after.
            let longest = container.longest();
            let seen = &bytes[at..bytes.len().min(at.saturating_add(longest))];
            let is_last = at_end && at + seen.len() == bytes.len();
            match container.step(seen, is_last, to)? {
                Step::Took(n_bytes) => self.skip = n_bytes,
                // It has only now learnt how much it needs.
                Step::Wait if container.longest() > longest => {}
                Step::Wait if seen.len() >= longest => {
                    return Err(to.malformed("a packet or header is longer than any may be"));
                }
                Step::Wait => break,
            }
        }
        Ok(at)
    }
}
