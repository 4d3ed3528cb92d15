//! What happens on one connection, in counters that cost next to nothing to keep.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    task::Poll,
};

/// The counters of one connection. They are looked at long after they were written, so they need
/// no order among each other.
#[derive(Debug)]
pub(super) struct Watch {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Requests that wait for the server, not for their client.
    busy: AtomicU64,
    read: AtomicU64,
    /// What had been read when a request last began or ended.
    read_then: AtomicU64,
    written: AtomicU64,
    is_blocked: AtomicBool,
    is_http2: bool,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) busy: u64,
    pub(super) read: u64,
    pub(super) written: u64,
    /// Something was read since a request last began or ended, so a next one has begun to come.
    /// In HTTP/2 there is other talk than requests, and this says nothing. Nor does it see what
    /// came together with the request before; such a connection is idle.
    pub(super) is_sending_head: bool,
    /// The client's side takes no more for now.
    pub(super) is_blocked: bool,
}

impl Watch {
    pub(super) const fn new(is_http2: bool) -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            read: AtomicU64::new(0),
            read_then: AtomicU64::new(0),
            written: AtomicU64::new(0),
            is_blocked: AtomicBool::new(false),
            is_http2,
        }
    }

    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
        self.busy.fetch_add(1, Relaxed);
        self.read_then.store(self.read.load(Relaxed), Relaxed);
    }

    pub(super) fn end(&self) {
        self.ended.fetch_add(1, Relaxed);
        self.read_then.store(self.read.load(Relaxed), Relaxed);
    }

    pub(super) fn add_busy(&self) {
        self.busy.fetch_add(1, Relaxed);
    }

    pub(super) fn remove_busy(&self) {
        self.busy.fetch_sub(1, Relaxed);
    }

    pub(super) fn read(&self, bytes: usize) {
        // One task reads and writes, so there is nobody to add at the same time.
        self.read.store(self.read.load(Relaxed) + bytes as u64, Relaxed);
    }

    pub(super) fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = polled {
            self.written.store(self.written.load(Relaxed) + *bytes as u64, Relaxed);
        }
        self.is_blocked.store(polled.is_pending(), Relaxed);
    }

    pub(super) fn flushed(&self, polled: &Poll<io::Result<()>>) {
        self.is_blocked.store(polled.is_pending(), Relaxed);
    }

    pub(super) fn sight(&self) -> Sight {
        let read = self.read.load(Relaxed);
        Sight {
            begun: self.begun.load(Relaxed),
            ended: self.ended.load(Relaxed),
            busy: self.busy.load(Relaxed),
            read,
            written: self.written.load(Relaxed),
            is_sending_head: !self.is_http2 && read > self.read_then.load(Relaxed),
            is_blocked: self.is_blocked.load(Relaxed),
        }
    }
}
