//! What a protocol is, without its socket: what clients send becomes orders to a session, and what
//! the session says becomes messages. Pure, so that every translation can be tested as it is.

use std::collections::VecDeque;

use bytes::Bytes;
use paceline_pipeline::speech::Terms;

use super::heard::Heard;
use crate::{ApiError, ws::Farewell};

/// A protocol.
pub(super) trait Dialect {
    /// The connection is there.
    fn begin(&mut self, _orders: &mut Orders) {}

    /// The client sent audio. It is only asked while the session has room.
    fn audio(&mut self, bytes: Bytes, orders: &mut Orders);

    /// The client sent text. It is only asked while the session has room.
    fn text(&mut self, text: &str, orders: &mut Orders);

    /// The session said something.
    fn event(&mut self, heard: Heard, orders: &mut Orders);

    /// A session could not be opened; the orders after that were not carried out.
    fn refused(&mut self, error: &ApiError, orders: &mut Orders);

    /// How this protocol says goodbye.
    fn farewell(&self, why: Parting) -> Farewell;
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
    /// Open a session, where there is none.
    Open(Box<Terms>),
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
        self.list.push_back(Order::Open(Box::new(terms)));
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
        self.list.pop_front()
    }

    pub(super) fn forget(&mut self) {
        self.list.clear();
    }
}
