//! One request and its answer, and whose turn it is: the client's, which must not take for ever,
//! or the server's, which may.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::{Request, Response, body::Incoming};
use pin_project_lite::pin_project;

use super::{
    super::{Entrance, entrance::Entered},
    budget::{Budget, Share},
    watch::Watch,
};
use crate::{client::Client, grpc};

/// Where requests of one connection enter.
#[derive(Debug)]
pub(super) struct Entry {
    entrance: Entrance,
    client: Client,
    watch: Arc<Watch>,
    budget: Arc<Budget>,
}

impl Entry {
    pub(super) const fn new(
        entrance: Entrance,
        client: Client,
        watch: Arc<Watch>,
        budget: Arc<Budget>,
    ) -> Self {
        Self { entrance, client, watch, budget }
    }
}

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        self.watch.begin();
        let exchange = Arc::new(Exchange {
            watch: Arc::clone(&self.watch),
            turn: AtomicU8::new(HANDLED),
            // What comes on a stream is done with message by message, each of them bounded.
            share: (!grpc::is_stream(request.uri().path()))
                .then(|| Share::none_of(Arc::clone(&self.budget))),
        });
        let open = Open(Arc::clone(&exchange));
        let answer =
            self.entrance.call(request.map(|body| Question { body, exchange }), self.client);
        Answering { answer, open: Some(open) }
    }
}

/// A handler works on it.
const HANDLED: u8 = 0;
/// A handler waits for more of the body.
const AWAITED: u8 = 1;
/// The answer's next part is not there yet.
const PENDING: u8 = 2;
/// The answer's next part waits for the client to take it.
const OFFERED: u8 = 3;
/// It is over.
const OVER: u8 = 4;

const fn is_ours(turn: u8) -> bool {
    matches!(turn, HANDLED | PENDING)
}

#[derive(Debug)]
struct Exchange {
    watch: Arc<Watch>,
    turn: AtomicU8,
    /// What it holds of the memory for requests, where that is counted.
    share: Option<Share>,
}

impl Exchange {
    fn turn(&self, now: u8) {
        let before = self.turn.swap(now, Relaxed);
        self.count(before, now);
    }

    /// Only from `before`: once there is an answer, its body says whose turn it is. A stream's
    /// client may be silent for as long as it likes.
    fn turn_from(&self, before: u8, now: u8) {
        if self.turn.compare_exchange(before, now, Relaxed, Relaxed).is_ok() {
            self.count(before, now);
        }
    }

    fn count(&self, before: u8, now: u8) {
        match (is_ours(before), is_ours(now)) {
            (true, false) => self.watch.remove_busy(),
            (false, true) => self.watch.add_busy(),
            _ => {}
        }
    }
}

/// The one who ends an exchange, by being dropped.
#[derive(Debug)]
struct Open(Arc<Exchange>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.turn(OVER);
        self.0.watch.end();
    }
}

/// A request's body.
#[derive(Debug)]
pub(super) struct Question {
    body: Incoming,
    exchange: Arc<Exchange>,
}

impl http_body::Body for Question {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            self.exchange.turn_from(HANDLED, AWAITED);
        } else if self.exchange.turn.load(Relaxed) == AWAITED {
            self.exchange.turn_from(AWAITED, HANDLED);
        }
        if let (Poll::Ready(Some(Ok(frame))), Some(share)) = (&polled, &self.exchange.share)
            && let Some(data) = frame.data_ref()
        {
            share.take(data.len())?;
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // Whoever waited for more of it no longer does.
        self.exchange.turn_from(AWAITED, HANDLED);
    }
}

pin_project! {
    /// An answer to come.
    pub(super) struct Answering {
        #[pin]
        answer: Entered,
        open: Option<Open>,
    }
}

impl Future for Answering {
    type Output = Result<Response<Answer>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(context))?;
        let open = this.open.take();
        if let Some(Open(exchange)) = &open {
            // The head is ready; it is for the client to take it and have the body asked for.
            exchange.turn(OFFERED);
        }
        Poll::Ready(Ok(answer.map(|body| Answer { body, open })))
    }
}

/// An answer's body.
#[derive(Debug)]
pub(super) struct Answer {
    body: Body,
    open: Option<Open>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(Open(exchange)) = &self.open {
            exchange.turn(if polled.is_pending() { PENDING } else { OFFERED });
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
