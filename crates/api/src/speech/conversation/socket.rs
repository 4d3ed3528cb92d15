//! A socket with a bounded outbox. Reads and writes in one turn, and loses nothing when a turn is
//! given up.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio_tungstenite::tungstenite::{
    Error, Message,
    error::{CapacityError, ProtocolError},
    protocol::CloseFrame,
};

/// Messages that may wait to be written; then the session is not asked for more.
const MAX_WAITING: usize = 32;

/// Why nothing more comes from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It closed its side in good order.
    Closed,
    /// It vanished.
    Vanished,
    /// It sent what no client may.
    Broke(Farewell),
}

/// The last word to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Farewell {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

impl Farewell {
    pub(crate) const DONE: Self = Self { code: 1000, reason: "" };
    pub(crate) const GOING_AWAY: Self = Self { code: 1001, reason: "the server is shutting down" };
    pub(crate) const PROTOCOL: Self = Self { code: 1002, reason: "not the WebSocket protocol" };
    pub(crate) const NOT_UTF8: Self = Self { code: 1007, reason: "text that is not UTF-8" };
    pub(crate) const FAULTS: Self = Self { code: 1008, reason: "too many bad messages" };
    pub(crate) const TOO_BIG: Self = Self { code: 1009, reason: "the message is too big" };
    pub(crate) const OVERLOADED: Self = Self { code: 1013, reason: "overloaded; try again later" };
    pub(crate) const IDLE: Self = Self { code: 4408, reason: "nothing was sent for too long" };
}

/// What a turn brought.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Something was written.
    Wrote,
    /// Something was read.
    Heard(Message),
}

/// What carries messages to a client and back. A client's close may be held back by it until a
/// close is sent, which then answers that one.
pub(crate) trait Transport:
    Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin
{
}

impl<T> Transport for T where
    T: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin
{
}

#[derive(Debug)]
pub(crate) struct Socket<T> {
    transport: T,
    outbox: VecDeque<Message>,
    is_unflushed: bool,
}

impl<T: Transport> Socket<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, outbox: VecDeque::new(), is_unflushed: false }
    }

    /// Whether one more message may be said.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.len() < MAX_WAITING
    }

    /// Whether something is still to be written.
    pub(crate) fn has_output(&self) -> bool {
        !self.outbox.is_empty() || self.is_unflushed
    }

    pub(crate) fn say(&mut self, text: String) {
        self.outbox.push_back(Message::Text(text.into()));
    }

    pub(crate) fn ping(&mut self) {
        self.outbox.push_back(Message::Ping(Bytes::new()));
    }

    /// Writes what can be written, and reads a message if one is wanted.
    ///
    /// CANCEL SAFETY: what is not written stays in the outbox, and a message is either returned or
    /// not read.
    pub(crate) async fn turn(&mut self, reads: bool) -> Result<Turn, Gone> {
        poll_fn(|context| self.poll_turn(context, reads)).await
    }

    /// Says farewell, or answers the client's, and waits until both sides are closed.
    pub(crate) async fn close(mut self, farewell: Option<Farewell>) {
        let frame = farewell.map(|Farewell { code, reason }| CloseFrame {
            code: code.into(),
            reason: reason.into(),
        });
        self.outbox.push_back(Message::Close(frame));
        // Whatever the client still sends is not for us any more.
        let is_open = |turn: &Result<Turn, Gone>| {
            turn.as_ref().is_ok_and(|turn| !matches!(turn, Turn::Heard(Message::Close(_))))
        };
        while is_open(&self.turn(true).await) {}
        self.is_unflushed = true;
        while self.has_output() && self.turn(false).await.is_ok() {}
    }

    fn poll_turn(&mut self, context: &mut Context<'_>, reads: bool) -> Poll<Result<Turn, Gone>> {
        let wrote = self.poll_write(context)?;
        if reads {
            let transport = Pin::new(&mut self.transport);
            match transport.poll_next(context) {
                Poll::Ready(Some(Ok(message))) => return Poll::Ready(Ok(Turn::Heard(message))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(why(&error))),
                Poll::Ready(None) => return Poll::Ready(Err(Gone::Vanished)),
                Poll::Pending => {}
            }
        }
        wrote.map(|()| Ok(Turn::Wrote))
    }

    /// Ready when something was written just now.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, Gone> {
        let mut wrote = Poll::Pending;
        let gone = |_| Gone::Vanished;
        while !self.outbox.is_empty() {
            match Pin::new(&mut self.transport).poll_ready(context).map_err(gone)? {
                Poll::Pending => return Ok(wrote),
                Poll::Ready(()) => {}
            }
            let Some(message) = self.outbox.pop_front() else { break };
            Pin::new(&mut self.transport).start_send(message).map_err(gone)?;
            (self.is_unflushed, wrote) = (true, Poll::Ready(()));
        }
        if self.is_unflushed
            && Pin::new(&mut self.transport).poll_flush(context).map_err(gone)?.is_ready()
        {
            (self.is_unflushed, wrote) = (false, Poll::Ready(()));
            self.outbox.shrink_to(4);
        }
        Ok(wrote)
    }
}

const fn why(error: &Error) -> Gone {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Gone::Broke(Farewell::TOO_BIG),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Gone::Vanished,
        Error::Protocol(_) => Gone::Broke(Farewell::PROTOCOL),
        Error::Utf8(_) => Gone::Broke(Farewell::NOT_UTF8),
        _ => Gone::Vanished,
    }
}
