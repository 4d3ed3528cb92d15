//! What a protocol is, without its socket: what clients send becomes orders to a session, and what
//! the session says becomes messages. Pure, so that every translation can be tested as it is.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use paceline_pipeline::speech::{Event, Terms, Values};

use super::conversation::Farewell;
use crate::ApiError;

/// Bad messages that are answered before the socket is closed.
pub(super) const MAX_FAULTS: u32 = 100;

/// A protocol.
pub(super) trait Dialect {
    /// What a session says, in the form that this protocol translates from.
    type Heard: From<Event>;

    /// The connection is there.
    fn begin(&mut self, _orders: &mut Orders) {}

    /// The client sent audio. It is only asked while the session has room.
    fn audio(&mut self, bytes: Bytes, orders: &mut Orders);

    /// The client sent text. It is only asked while the session has room.
    fn text(&mut self, text: &str, orders: &mut Orders);

    /// The client sent audio after it was said how this ends, and no session is there to hear it.
    fn unheard(&mut self, _orders: &mut Orders) {}

    /// The session that was asked for is there, and the one before it has ended.
    fn opened(&mut self, _orders: &mut Orders) {}

    /// A session could not be opened; the orders after that were not carried out.
    fn refused(&mut self, error: &ApiError, orders: &mut Orders);

    /// The session said something.
    fn event(&mut self, heard: Self::Heard, orders: &mut Orders);

    /// Nothing could be done for so long, and so many samples wait.
    fn stalled(&mut self, _lasting: Duration, _n_waiting: usize, _orders: &mut Orders) {}

    /// How this protocol says goodbye, and what it says before.
    fn farewell(&self, why: Parting, _orders: &mut Orders) -> Farewell {
        why.farewell()
    }
}

/// Why a conversation ends that the client did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parting {
    /// The server stops.
    Stopping,
    /// The client sent nothing for too long.
    Idle,
    /// Nothing of it could be done for too long.
    Overloaded,
}

impl Parting {
    /// Where a protocol has no words of its own.
    pub(super) const fn farewell(self) -> Farewell {
        match self {
            Self::Stopping => Farewell::GOING_AWAY,
            Self::Idle => Farewell::IDLE,
            Self::Overloaded => Farewell::OVERLOADED,
        }
    }
}

/// What a dialect wants done, in this order.
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// Audio channels that the session has heard so far.
    pub(super) n_channels: usize,
    list: VecDeque<Order>,
}

/// One thing to do.
#[derive(Debug, PartialEq)]
pub(super) enum Order {
    /// Say this to the client.
    Say(String),
    /// Open a session. One that is there ends first; whether this can be met is told at once.
    Open(Box<Terms>, Values),
    /// Give audio to the session.
    Push(Bytes),
    /// Everything so far is to be answered; `Flushed` says when.
    Flush,
    /// The session is to end; `Ended` says when.
    Finish,
    /// Say goodbye, once the session has ended.
    Close(Farewell),
}

impl Orders {
    pub(super) fn say(&mut self, message: &impl serde::Serialize) {
        // Maps with string keys and plain values can always be written.
        self.list.push_back(Order::Say(serde_json::to_string(message).unwrap_or_default()));
    }

    pub(super) fn open(&mut self, terms: Terms) {
        self.open_with(terms, Values::default());
    }

    /// With what the model may want to know beside the audio.
    pub(super) fn open_with(&mut self, terms: Terms, values: Values) {
        self.list.push_back(Order::Open(Box::new(terms), values));
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        self.list.push_back(Order::Push(bytes));
    }

    pub(super) fn flush(&mut self) {
        self.list.push_back(Order::Flush);
    }

    pub(super) fn finish(&mut self) {
        self.list.push_back(Order::Finish);
    }

    pub(super) fn close(&mut self, farewell: Farewell) {
        self.list.push_back(Order::Close(farewell));
    }

    pub(super) fn next(&mut self) -> Option<Order> {
        let order = self.list.pop_front();
        if order.is_none() {
            // Most streams are idle, and hold nothing for orders to come.
            self.list.shrink_to_fit();
        }
        order
    }

    pub(super) fn forget(&mut self) {
        self.list.clear();
    }
}
