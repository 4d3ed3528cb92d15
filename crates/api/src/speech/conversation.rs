//! One client's connection in one dialect, from its first message to the close: reads while the
//! session has room, writes what the dialect says, and keeps time.

use paceline_pipeline::speech::{Event, Session};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::{
    dialect::{Dialect, Order, Orders, Parting},
    heard::Heard,
};
use crate::{
    ApiError,
    ws::{
        Farewell, SocketLimits, Streams,
        connection::{
            clock::{Clock, Verdict, View},
            socket::{Gone, Socket, Transport, Turn},
        },
    },
};

pub(super) struct Conversation<T, D> {
    socket: Socket<T>,
    streams: Streams,
    limits: SocketLimits,
    dialect: D,
    orders: Orders,
    session: Option<Box<Session>>,
    /// Something was pushed, and the dialect waits to hear that it was taken in.
    owes_room: bool,
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
    /// `limits` are those of this protocol's sockets.
    pub(super) fn new(transport: T, streams: Streams, limits: SocketLimits, dialect: D) -> Self {
        Self {
            socket: Socket::new(transport),
            clock: Clock::new(limits, Instant::now()),
            streams,
            limits,
            dialect,
            orders: Orders::default(),
            session: None,
            owes_room: false,
            inbox: None,
            farewell: None,
            has_left: false,
        }
    }

    /// Serves the client until either side has had enough.
    pub(super) async fn run(mut self) {
        self.dialect.begin(&mut self.orders);
        self.obey();
        let ended = self.converse().await;
        let Self { socket, limits, session, .. } = self;
        // ORDER: what is still with the models is withdrawn before anything is waited for.
        drop(session);
        let farewell = match ended {
            Ok(farewell) | Err(Gone::Broke(farewell)) => socket.close(Some(farewell)),
            Err(Gone::Closed) => socket.close(None),
            Err(Gone::Vanished) => return,
        };
        if timeout(limits.close_timeout, farewell).await.is_err() {
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
            let is_open = self.farewell.is_none() && !self.has_left;
            let waits = self.session.is_some() && (!reads || !is_open);
            let view = View { reads, writes: self.socket.has_output(), waits };
            let due = self.clock.arm(view, Instant::now());
            // A timer that rings too early does no harm, and most are never needed.
            if due < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            let has_room = self.socket.has_room();
            let Self { socket, session, streams, .. } = self;
            // CANCEL SAFETY: turns, events and the token lose nothing when dropped.
            let happened = tokio::select! {
                biased;
                () = streams.stop.cancelled(), if is_open => Happened::Stop,
                event = next(session), if has_room => Happened::Said(event),
                turn = socket.turn(reads), if reads || view.writes => Happened::Turn(turn),
                () = timer.as_mut() => Happened::Time,
            };
            match happened {
                Happened::Stop => self.part(Parting::Stopping),
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
                        match verdict {
                            Verdict::Ping => self.socket.ping(),
                            Verdict::Warn(stalled) => tracing::debug!(?stalled, "a stream stalls"),
                            Verdict::Idle => {
                                self.part(Parting::Idle);
                                self.clock.asked(Instant::now());
                            }
                            Verdict::Overloaded => {
                                return Ok(self.dialect.farewell(Parting::Overloaded));
                            }
                            Verdict::Cut(why) => {
                                tracing::debug!(why, "a stream was cut");
                                return Err(Gone::Vanished);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Ends the session and then the conversation.
    fn part(&mut self, why: Parting) {
        if self.farewell.is_none() {
            self.farewell = Some(self.dialect.farewell(why));
        }
        if let Some(session) = &mut self.session {
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

    /// Heeds the message that has waited, once there is room for what it brings.
    fn feed(&mut self) {
        let is_busy = self.session.as_ref().is_some_and(|session| !session.has_room());
        if is_busy || !self.socket.has_room() {
            return;
        }
        let Some(message) = self.inbox.take() else { return };
        if let Message::Close(_) = message {
            self.has_left = true;
            if let Some(session) = &mut self.session {
                session.finish();
            }
            return;
        }
        // Once it is said how this ends, nothing that comes later counts.
        if self.farewell.is_some() {
            return;
        }
        match message {
            Message::Binary(bytes) => self.dialect.audio(bytes, &mut self.orders),
            Message::Text(text) => self.dialect.text(&text, &mut self.orders),
            _ => {}
        }
        self.obey();
        let is_taken_in = self.session.as_ref().is_none_or(|session| session.has_room());
        if self.owes_room && is_taken_in {
            self.tell(Event::Room);
        }
    }

    fn tell(&mut self, event: Event) {
        if let Some(session) = &self.session {
            self.orders.n_channels = session.n_channels();
        }
        match event {
            Event::Room => self.owes_room = false,
            // ORDER: gone before the dialect hears of it, which may open the next.
            Event::Ended(_) => self.session = None,
            _ => {}
        }
        self.dialect.event(Heard::from(event), &mut self.orders);
        self.obey();
    }

    /// Carries out what the dialect wants done.
    fn obey(&mut self) {
        while let Some(order) = self.orders.next() {
            match (order, &mut self.session) {
                (Order::Say(text), _) => self.socket.say(text),
                (Order::Open(terms), session) => match self.streams.speech.open(*terms) {
                    Ok(opened) => *session = Some(Box::new(opened)),
                    Err(error) => {
                        self.orders.forget();
                        let error = ApiError::new(error.code(), error.to_string());
                        self.dialect.refused(&error, &mut self.orders);
                    }
                },
                (Order::Push(bytes), Some(session)) => {
                    self.owes_room = true;
                    session.push(bytes);
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
}

/// The next event of a session, if there is one.
async fn next(session: &mut Option<Box<Session>>) -> Event {
    match session {
        Some(session) => session.next().await,
        None => std::future::pending().await,
    }
}
