//! The native protocol, without its socket: rounds, each as the client's last start says.

use std::time::Duration;

use bytes::Bytes;
use paceline_pipeline::speech::{Event, RATE, Report, Terms};
use paceline_types::{ErrorCode, TraceContext};
use serde_json::Value;

use super::{
    reply::Writer,
    request::{self, Request, Start},
    terms::{Kind, terms, values},
};
use crate::{
    ApiError,
    speech::{
        conversation::Farewell,
        dialect::{Dialect, MAX_FAULTS, Orders, Parting},
    },
};

pub(in crate::speech) struct Rounds {
    kind: Kind,
    /// Where the client stands in a trace.
    trace: Option<TraceContext>,
    /// What the client said last about what it sends.
    start: Option<Box<Start>>,
    /// The same of a round that was asked for and has not begun.
    next: Option<Box<Start>>,
    writer: Writer,
    /// What the client called its last flush.
    flush_id: Value,
    is_open: bool,
    /// The round ended before the client did: a new start is needed.
    is_spent: bool,
    /// Audio that belongs to no round was told of.
    is_told: bool,
    n_faults: u32,
}

impl Rounds {
    pub(super) fn new(kind: Kind, trace: Option<TraceContext>) -> Self {
        Self {
            kind,
            trace,
            start: None,
            next: None,
            writer: Writer::default(),
            flush_id: Value::Null,
            is_open: false,
            is_spent: false,
            is_told: false,
            n_faults: 0,
        }
    }

    fn open(&self, start: &Start, orders: &mut Orders) -> Result<(), ApiError> {
        let said = start.trace_id.as_ref().and_then(|text| TraceContext::parse(text.as_bytes()));
        let terms = Terms { trace: said.or(self.trace), ..terms(self.kind, start)? };
        orders.open_with(terms, values(start));
        Ok(())
    }

    fn stop(&mut self, disconnect: bool, orders: &mut Orders) {
        if disconnect {
            orders.close(Farewell::DONE);
        }
        if self.start.is_none() {
            self.fault(ErrorCode::InvalidInput, "stop came before start", orders);
        }
        orders.finish();
    }

    /// The round is over: what became of its audio.
    fn end(&mut self, report: &Report, orders: &mut Orders) {
        let Report { ending, ignored, unread } = *report;
        for (count, code, what) in [
            (
                ending.left_over,
                "incomplete_audio",
                "bytes at the end made no whole sample or packet",
            ),
            (
                ending.damaged,
                "damaged_audio",
                "packets could not be decoded; silence stands in for them",
            ),
            (ignored, "audio_ignored", "samples came after the one utterance that was asked for"),
            (unread, "audio_ignored", "bytes came after the end of the round"),
        ] {
            if count != 0 {
                self.writer.warning(code, &format!("{count} {what}"), orders);
            }
        }
        self.is_open = false;
        if let Some(start) = &self.start {
            self.is_spent |= start.single_utterance;
            if start.summary {
                self.writer.end(report, orders);
            }
        }
    }

    /// Tells the client of something that it did wrong, which harms nobody else.
    fn fault(&mut self, code: ErrorCode, message: &str, orders: &mut Orders) {
        self.writer.error(code, message, orders);
        self.n_faults += 1;
        if MAX_FAULTS <= self.n_faults {
            orders.close(Farewell::FAULTS);
        }
    }
}

impl Dialect for Rounds {
    /// Clients are told a model's outputs by their names, which are lost in words.
    type Heard = Event;

    fn audio(&mut self, bytes: Bytes, orders: &mut Orders) {
        if !self.is_open {
            // More audio after a stop: as the start before said.
            let Some(start) = self.start.as_ref().filter(|_| !self.is_spent) else {
                return self.unheard(orders);
            };
            if let Err(error) = self.open(start, orders) {
                return self.refused(&error, orders);
            }
        }
        orders.push(bytes);
    }

    fn text(&mut self, text: &str, orders: &mut Orders) {
        match request::read(text) {
            Ok(Request::Start(start)) => match self.open(&start, orders) {
                Ok(()) => self.next = Some(start),
                Err(error) => self.refused(&error, orders),
            },
            Ok(Request::Stop { disconnect }) => self.stop(disconnect, orders),
            Ok(Request::Flush { id }) if self.is_open => {
                self.flush_id = id;
                orders.flush();
            }
            Ok(Request::Flush { id }) => self.writer.flushed(&id, orders),
            Ok(Request::Keepalive {}) => {}
            Err(what) => self.fault(ErrorCode::InvalidInput, &what, orders),
        }
    }

    fn unheard(&mut self, orders: &mut Orders) {
        if !std::mem::replace(&mut self.is_told, true) {
            let message = if self.is_spent {
                "audio came after the end of the round; it is not heard until the next start"
            } else {
                "audio came before start; send {\"request\":\"start\",...} first"
            };
            self.fault(ErrorCode::InvalidInput, message, orders);
        }
    }

    fn opened(&mut self, orders: &mut Orders) {
        if let Some(start) = self.next.take() {
            self.start = Some(start);
        }
        let Some(start) = &self.start else { return };
        tracing::debug!(
            trace_id = start.trace_id,
            request_id = start.request_id,
            model = start.model,
            "a round begins"
        );
        self.writer.request_id.clone_from(&start.request_id);
        if let Some(unknown) = start.unknown() {
            let message = format!("nobody knows {unknown}; see the list in docs/protocol.md");
            self.writer.warning("unknown_field", &message, orders);
        }
        (self.is_open, self.is_spent, self.is_told) = (true, false, false);
    }

    fn refused(&mut self, error: &ApiError, orders: &mut Orders) {
        self.next = None;
        self.fault(error.code, &error.message, orders);
    }

    fn event(&mut self, event: Event, orders: &mut Orders) {
        let wants_activity = self.start.as_ref().is_none_or(|start| start.events);
        match event {
            Event::Active { .. } | Event::Inactive { .. } if !wants_activity => {}
            Event::Flushed => self.writer.flushed(&self.flush_id, orders),
            Event::Ended(report) => self.end(&report, orders),
            event => {
                self.is_spent |= matches!(event, Event::Undecodable(_));
                self.writer.event(&event, orders);
            }
        }
    }

    fn stalled(&mut self, lasting: Duration, n_waiting: usize, orders: &mut Orders) {
        let message = format!(
            "nothing of this stream could be done for {} s; {:.1} s of its audio wait, and no more is read meanwhile",
            lasting.as_secs(),
            RATE.seconds(n_waiting as u64),
        );
        self.writer.warning("backlog", &message, orders);
    }

    fn farewell(&self, why: Parting, orders: &mut Orders) -> Farewell {
        match why {
            Parting::Stopping => {}
            Parting::Idle => {
                let message = "nothing was sent for too long; send keepalive to stay";
                self.writer.error(ErrorCode::DeadlineExceeded, message, orders);
            }
            Parting::Overloaded => {
                let message = "the server cannot keep up with this stream; try again later";
                self.writer.error(ErrorCode::Overloaded, message, orders);
            }
        }
        why.farewell()
    }
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
