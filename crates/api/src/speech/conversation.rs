//! One client's connection in one dialect, from its first message to the close: reads while the
//! session has room, writes what the dialect says, and keeps time. It knows no protocol.

mod clock;
mod socket;

use paceline_pipeline::speech::{Event, Session, Speech, Terms, Values};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use self::{
    clock::{Clock, Verdict, View},
    socket::{Gone, Socket, Transport, Turn},
};
use super::dialect::{Dialect, Order, Orders, Parting};
use crate::{ApiError, ws::Streams};
pub(super) use socket::Farewell;

pub(super) struct Conversation<T, D> {
    socket: Socket<T>,
    speech: Speech,
    stop: CancellationToken,
    dialect: D,
    orders: Orders,
    session: Option<Box<Session>>,
    /// Takes the session's place once that has ended.
    next: Option<Box<Session>>,
    /// A message that waits until the session has room.
    inbox: Option<Message>,
    clock: Clock,
    /// How this is going to end, once everything is said.
    farewell: Option<Farewell>,
    /// The client has closed: what it sent before is answered, and then its close.
    has_left: bool,
}

enum Happened {
    Turn(Result<Turn, Gone>),
    Said(Event),
    Stop,
    Time,
}

impl<T, D> Conversation<T, D>
where
    T: Transport,
    D: Dialect,
{
    /// The limits of `streams` are those of this connection. Boxed, because a future has room for
    /// everything that moves through it.
    pub(super) fn new(transport: T, streams: Streams, dialect: D) -> Box<Self> {
        let Streams { speech, limits, stop, .. } = streams;
        Box::new(Self {
            socket: Socket::new(transport),
            clock: Clock::new(limits, Instant::now()),
            speech,
            stop,
            dialect,
            orders: Orders::default(),
            session: None,
            next: None,
            inbox: None,
            farewell: None,
            has_left: false,
        })
    }

    /// Serves the client until either side has had enough.
    pub(super) async fn run(mut self: Box<Self>) {
        self.dialect.begin(&mut self.orders);
        self.obey();
        let ended = self.converse().await;
        let Self { socket, clock, session, next, .. } = *self;
        // ORDER: what is still with the models is withdrawn before anything is waited for.
        drop((session, next));
        let farewell = match ended {
            Ok(farewell) | Err(Gone::Broke(farewell)) => socket.close(Some(farewell)),
            Err(Gone::Closed) => socket.close(None),
            Err(Gone::Vanished) => return,
        };
        if timeout(clock.limits.close_timeout, farewell).await.is_err() {
            tracing::debug!("a client did not close its side");
        }
    }

    async fn converse(&mut self) -> Result<Farewell, Gone> {
        let mut timer = std::pin::pin!(sleep_until(Instant::now()));
        loop {
            self.feed();
            if self.session.is_none() && self.has_left {
                return Err(Gone::Closed);
            }
            if self.session.is_none()
                && let Some(farewell) = self.farewell
            {
                return Ok(farewell);
            }
            let reads = self.inbox.is_none();
            let waits = self.session.is_some() && (!reads || self.ends_session());
            let view = View { reads, writes: self.socket.has_output(), waits };
            let due = self.clock.arm(view, Instant::now());
            // A timer that rings too early does no harm, and most are never needed.
            if due < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            let is_open = self.farewell.is_none() && !self.has_left;
            let has_room = self.socket.has_room();
            let Self { socket, session, stop, .. } = self;
            // CANCEL SAFETY: turns, events and the token lose nothing when dropped.
            let happened = tokio::select! {
                biased;
                () = stop.cancelled(), if is_open => Happened::Stop,
                event = next(session), if has_room => Happened::Said(event),
                turn = socket.turn(reads), if reads || view.writes => Happened::Turn(turn),
                () = timer.as_mut() => Happened::Time,
            };
            match happened {
                Happened::Stop => {
                    self.part(Parting::Stopping);
                }
                Happened::Said(event) => {
                    self.clock.moved(Instant::now());
                    self.tell(event);
                }
                Happened::Turn(turn) => match turn? {
                    Turn::Wrote => self.clock.wrote(),
                    Turn::Heard(message) => self.hear(message),
                },
                Happened::Time => {
                    while let Some(verdict) = self.clock.look(Instant::now()) {
                        if let Some(end) = self.judge(verdict) {
                            return end;
                        }
                    }
                }
            }
        }
    }

    /// Whether nothing more belongs to the session under way.
    const fn ends_session(&self) -> bool {
        self.next.is_some() || self.farewell.is_some() || self.has_left
    }

    /// Heeds the message that has waited, once there is room for what it brings, and ends the
    /// session if that is what remains to be done.
    fn feed(&mut self) {
        let is_busy = self.session.as_ref().is_some_and(|session| !session.has_room());
        if !is_busy
            && self.socket.has_room()
            && let Some(message) = self.inbox.take()
        {
            self.heed(message);
        }
        if self.ends_session()
            && let Some(session) = &mut self.session
        {
            session.finish();
        }
    }

    /// Takes a message in. It is heeded once there is room for what it brings.
    fn hear(&mut self, message: Message) {
        let now = Instant::now();
        self.clock.heard(now);
        match message {
            Message::Ping(_) | Message::Pong(_) => {}
            message => {
                self.clock.asked(now);
                self.inbox = Some(message);
            }
        }
    }

    fn heed(&mut self, message: Message) {
        // Once it is said how this ends, only audio counts, if a session is there to hear it.
        let is_leaving = self.farewell.is_some();
        match message {
            Message::Close(_) => self.has_left = true,
            Message::Binary(_) if is_leaving && self.session.is_none() => {
                self.dialect.unheard(&mut self.orders);
            }
            Message::Binary(bytes) => self.dialect.audio(bytes, &mut self.orders),
            Message::Text(text) if !is_leaving => self.dialect.text(&text, &mut self.orders),
            _ => {}
        }
        self.obey();
    }

    fn tell(&mut self, mut event: Event) {
        if let Some(session) = &self.session {
            self.orders.n_channels = session.n_channels();
        }
        if let Event::Ended(report) = &mut event {
            if let (Some(_), Some(Message::Binary(bytes))) = (self.farewell, &self.inbox) {
                report.unread += bytes.len() as u64;
            }
            // ORDER: gone before the dialect hears of it, which may open the next.
            self.session = None;
        }
        self.dialect.event(event.into(), &mut self.orders);
        self.advance();
        self.obey();
    }

    /// Carries out what the dialect wants done.
    fn obey(&mut self) {
        while let Some(order) = self.orders.next() {
            match (order, &mut self.session) {
                (Order::Say(text), _) => self.socket.say(text),
                (Order::Open(terms, values), _) => self.open(*terms, values),
                (Order::Push(bytes), Some(session)) => {
                    session.push(bytes);
                    // Where there is no room now, the session itself says when there is.
                    if session.has_room() {
                        self.dialect.event(Event::Room.into(), &mut self.orders);
                    }
                }
                (Order::Flush, Some(session)) => session.flush(),
                (Order::Finish, Some(session)) => session.finish(),
                (Order::Push(_) | Order::Flush | Order::Finish, None) => {}
                (Order::Close(farewell), _) => {
                    self.farewell.get_or_insert(farewell);
                }
            }
        }
    }

    fn open(&mut self, terms: Terms, values: Values) {
        match self.speech.open_with(terms, values) {
            Ok(opened) => {
                self.next = Some(Box::new(opened));
                self.advance();
            }
            Err(error) => {
                self.orders.forget();
                let error = ApiError::new(error.code(), error.to_string());
                self.dialect.refused(&error, &mut self.orders);
            }
        }
    }

    /// The next session takes its place, once there is none before it.
    fn advance(&mut self) {
        if self.session.is_none() && self.next.is_some() {
            self.session = self.next.take();
            self.dialect.opened(&mut self.orders);
        }
    }

    /// Ends the session and then the conversation.
    fn part(&mut self, why: Parting) -> Farewell {
        let farewell = self.dialect.farewell(why, &mut self.orders);
        self.obey();
        self.farewell.get_or_insert(farewell);
        farewell
    }

    /// Does what time demands; says how this ends if it ends at once.
    fn judge(&mut self, verdict: Verdict) -> Option<Result<Farewell, Gone>> {
        match verdict {
            Verdict::Ping => self.socket.ping(),
            Verdict::Warn(stalled) => {
                tracing::debug!(?stalled, "a stream stalls");
                let n_waiting = self.session.as_ref().map_or(0, |session| session.n_waiting());
                self.dialect.stalled(stalled, n_waiting, &mut self.orders);
                self.obey();
            }
            Verdict::Idle => {
                self.part(Parting::Idle);
                self.clock.asked(Instant::now());
            }
            Verdict::Overloaded => return Some(Ok(self.part(Parting::Overloaded))),
            Verdict::Cut(why) => {
                tracing::debug!(why, "a stream was cut");
                return Some(Err(Gone::Vanished));
            }
        }
        None
    }
}

/// The next event of a session, if there is one.
async fn next(session: &mut Option<Box<Session>>) -> Event {
    match session {
        Some(session) => session.next().await,
        None => std::future::pending().await,
    }
}
