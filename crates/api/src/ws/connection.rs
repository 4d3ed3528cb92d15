//! One client's socket, from the upgrade to the close.

pub(crate) mod clock;
pub(crate) mod socket;

use bytes::Bytes;
use paceline_pipeline::speech::{Event, RATE, Report, Session, Terms};
use paceline_types::{ErrorCode, TraceContext};
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use self::{
    clock::{Clock, Verdict, View},
    socket::{Farewell, Gone, Socket, Transport, Turn},
};
use super::{
    Streams,
    reply::Writer,
    request::{self, Request, Start},
    terms::{Kind, terms, values},
};
use crate::ApiError;

/// Bad messages that are answered before the socket is closed.
const MAX_FAULTS: u32 = 100;

pub(super) struct Connection<T> {
    socket: Socket<T>,
    streams: Streams,
    kind: Kind,
    /// Where the client stands in a trace.
    trace: Option<TraceContext>,
    /// What the client said last about what it sends.
    start: Option<Box<Start>>,
    round: Option<Box<Round>>,
    /// The next round, begun before the one under way has ended.
    next: Option<Box<(Start, Session)>>,
    /// A message that waits until the session has room.
    inbox: Option<Message>,
    writer: Writer,
    clock: Clock,
    /// How this is going to end, once everything is said.
    farewell: Option<Farewell>,
    /// The client has closed: what it sent before is answered, and then its close.
    has_left: bool,
    /// The round ended before the client did: a new start is needed.
    is_spent: bool,
    /// Audio that belongs to no round was told of.
    is_told: bool,
    n_faults: u32,
}

/// A session, and whom its flush is owed.
struct Round {
    session: Session,
    flush_id: Value,
}

enum Happened {
    Turn(Result<Turn, Gone>),
    Said(Event),
    Stop,
    Time,
}

impl<T> Connection<T>
where
    T: Transport,
{
    pub(super) fn new(transport: T, streams: Streams, kind: Kind) -> Self {
        Self {
            socket: Socket::new(transport),
            clock: Clock::new(streams.limits, Instant::now()),
            streams,
            kind,
            trace: None,
            start: None,
            round: None,
            next: None,
            inbox: None,
            writer: Writer::default(),
            farewell: None,
            has_left: false,
            is_spent: false,
            is_told: false,
            n_faults: 0,
        }
    }

    /// The same for a client that stands there in a trace.
    pub(super) fn traced(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }

    /// Serves the client until either side has had enough.
    pub(super) async fn run(mut self: Box<Self>) {
        let ended = self.converse().await;
        let Self { socket, streams, round, next, .. } = *self;
        // ORDER: what is still with the models is withdrawn before anything is waited for.
        drop((round, next));
        let farewell = match ended {
            Ok(farewell) | Err(Gone::Broke(farewell)) => socket.close(Some(farewell)),
            Err(Gone::Closed) => socket.close(None),
            Err(Gone::Vanished) => return,
        };
        if timeout(streams.limits.close_timeout, farewell).await.is_err() {
            tracing::debug!("a client did not close its side");
        }
    }

    async fn converse(&mut self) -> Result<Farewell, Gone> {
        let mut timer = std::pin::pin!(sleep_until(Instant::now()));
        loop {
            self.feed();
            if self.round.is_none() && self.has_left {
                return Err(Gone::Closed);
            }
            if self.round.is_none()
                && let Some(farewell) = self.farewell
            {
                return Ok(farewell);
            }
            let reads = self.inbox.is_none();
            let view = View { reads, writes: self.socket.has_output(), waits: self.waits() };
            let due = self.clock.arm(view, Instant::now());
            // A timer that rings too early does no harm, and most are never needed.
            if due < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            let is_open = self.farewell.is_none() && !self.has_left;
            let has_room = self.socket.has_room();
            let Self { socket, round, streams, .. } = self;
            // CANCEL SAFETY: turns, events and the token lose nothing when dropped.
            let happened = tokio::select! {
                biased;
                () = streams.stop.cancelled(), if is_open => Happened::Stop,
                event = next(round), if has_room => Happened::Said(event),
                turn = socket.turn(reads), if reads || view.writes => Happened::Turn(turn),
                () = timer.as_mut() => Happened::Time,
            };
            match happened {
                Happened::Stop => self.farewell = Some(Farewell::GOING_AWAY),
                Happened::Said(event) => {
                    self.clock.moved(Instant::now());
                    self.tell(&event);
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

    /// Whether something waits for the session.
    fn waits(&self) -> bool {
        self.round.is_some() && (self.inbox.is_some() || self.ends_round())
    }

    /// Whether nothing more belongs to the round under way.
    const fn ends_round(&self) -> bool {
        self.next.is_some() || self.farewell.is_some() || self.has_left
    }

    /// Heeds the message that has waited, once there is room for what it brings, and ends the round
    /// if that is what remains to be done.
    fn feed(&mut self) {
        let is_busy = self.round.as_ref().is_some_and(|round| !round.session.has_room());
        if !is_busy
            && self.socket.has_room()
            && let Some(message) = self.inbox.take()
        {
            self.heed(message);
        }
        if self.ends_round()
            && let Some(round) = &mut self.round
        {
            round.session.finish();
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
        match message {
            Message::Binary(bytes) => self.heed_audio(bytes),
            Message::Close(_) => self.has_left = true,
            // Once this side has said that it leaves, only audio that was sent before counts.
            Message::Text(text) if self.farewell.is_none() => match request::read(&text) {
                Ok(request) => self.heed_request(request),
                Err(what) => self.fault(ErrorCode::InvalidInput, &what),
            },
            _ => {}
        }
    }

    fn heed_audio(&mut self, bytes: Bytes) {
        if self.round.is_none() && !self.is_spent && self.farewell.is_none() {
            // More audio after a stop: as the start before said.
            if let Some(start) = self.start.take() {
                match self.open(&start) {
                    Ok(session) => self.begin(*start, session),
                    Err(error) => {
                        self.start = Some(start);
                        self.fault(error.code, &error.message);
                        return;
                    }
                }
            }
        }
        if let Some(round) = &mut self.round {
            round.session.push(bytes);
        } else if !std::mem::replace(&mut self.is_told, true) {
            let message = if self.is_spent {
                "audio came after the end of the round; it is not heard until the next start"
            } else {
                "audio came before start; send {\"request\":\"start\",...} first"
            };
            self.fault(ErrorCode::InvalidInput, message);
        }
    }

    fn heed_request(&mut self, request: Request) {
        match request {
            Request::Start(start) => match self.open(&start) {
                Ok(session) if self.round.is_none() => self.begin(*start, session),
                Ok(session) => self.next = Some(Box::new((*start, session))),
                Err(error) => self.fault(error.code, &error.message),
            },
            Request::Stop { disconnect } => {
                if self.start.is_none() {
                    self.fault(ErrorCode::InvalidInput, "stop came before start");
                }
                if let Some(round) = &mut self.round {
                    round.session.finish();
                }
                if disconnect {
                    self.farewell = Some(Farewell::DONE);
                }
            }
            Request::Flush { id } => match &mut self.round {
                Some(round) => {
                    round.session.flush();
                    round.flush_id = id;
                }
                None => self.socket.say(self.writer.flushed(&id)),
            },
            Request::Keepalive {} => {}
        }
    }

    fn open(&self, start: &Start) -> Result<Session, ApiError> {
        let said = start.trace_id.as_ref().and_then(|text| TraceContext::parse(text.as_bytes()));
        let terms = Terms { trace: said.or(self.trace), ..terms(self.kind, start)? };
        let opened = self.streams.speech.open_with(terms, values(start));
        opened.map_err(|error| ApiError::new(error.code(), error.to_string()))
    }

    fn begin(&mut self, start: Start, session: Session) {
        tracing::debug!(
            trace_id = start.trace_id,
            request_id = start.request_id,
            model = start.model,
            "a round begins"
        );
        self.writer.request_id.clone_from(&start.request_id);
        if let Some(unknown) = start.unknown() {
            let message = format!("nobody knows {unknown}; see the list in docs/protocol.md");
            self.socket.say(self.writer.warning("unknown_field", &message));
        }
        self.start = Some(Box::new(start));
        self.round = Some(Box::new(Round { session, flush_id: Value::Null }));
        (self.is_spent, self.is_told) = (false, false);
    }

    fn tell(&mut self, event: &Event) {
        let wants_events = self.start.as_ref().is_none_or(|start| start.events);
        match event {
            Event::Active { .. } | Event::Inactive { .. } if !wants_events => {}
            Event::Flushed => {
                let id = self.round.as_ref().map_or(&Value::Null, |round| &round.flush_id);
                self.socket.say(self.writer.flushed(id));
            }
            Event::Ended(report) => self.end(report),
            event => {
                self.is_spent |= matches!(event, Event::Undecodable(_));
                if let Some(text) = self.writer.event(event) {
                    self.socket.say(text);
                }
            }
        }
    }

    /// The round is over: what became of its audio, and what comes next.
    fn end(&mut self, report: &Report) {
        let Report { ending, ignored, unread } = report;
        // What came after this side had said that it leaves.
        let parked = match &self.inbox {
            Some(Message::Binary(bytes)) if self.farewell.is_some() => bytes.len() as u64,
            _ => 0,
        };
        let is_single = self.start.as_ref().is_some_and(|start| start.single_utterance);
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
            (*ignored, "audio_ignored", "samples came after the one utterance that was asked for"),
            (unread + parked, "audio_ignored", "bytes came after the end of the round"),
        ] {
            if count != 0 {
                self.socket.say(self.writer.warning(code, &format!("{count} {what}")));
            }
        }
        if self.start.as_ref().is_some_and(|start| start.summary) {
            self.socket.say(self.writer.end(report));
        }
        self.round = None;
        self.is_spent |= is_single;
        if let Some(next) = self.next.take() {
            let (start, session) = *next;
            self.begin(start, session);
        }
    }

    /// Tells the client of something that it did wrong, which harms nobody else.
    fn fault(&mut self, code: ErrorCode, message: &str) {
        self.socket.say(self.writer.error(code, message));
        self.n_faults += 1;
        if MAX_FAULTS <= self.n_faults && self.farewell.is_none() {
            self.farewell = Some(Farewell::FAULTS);
        }
    }

    /// Does what time demands; says how this ends if it ends at once.
    fn judge(&mut self, verdict: Verdict) -> Option<Result<Farewell, Gone>> {
        match verdict {
            Verdict::Ping => self.socket.ping(),
            Verdict::Warn(stalled) => {
                let waiting = self.round.as_ref().map_or(0, |round| round.session.n_waiting());
                let message = format!(
                    "nothing of this stream could be done for {} s; {:.1} s of its audio wait, and no more is read meanwhile",
                    stalled.as_secs(),
                    RATE.seconds(waiting as u64),
                );
                self.socket.say(self.writer.warning("backlog", &message));
            }
            Verdict::Idle => {
                let message = "nothing was sent for too long; send keepalive to stay";
                self.socket.say(self.writer.error(ErrorCode::DeadlineExceeded, message));
                self.farewell.get_or_insert(Farewell::IDLE);
                self.clock.asked(Instant::now());
            }
            Verdict::Overloaded => {
                let message = "the server cannot keep up with this stream; try again later";
                self.socket.say(self.writer.error(ErrorCode::Overloaded, message));
                return Some(Ok(Farewell::OVERLOADED));
            }
            Verdict::Cut(why) => {
                tracing::debug!(why, "a stream was cut");
                return Some(Err(Gone::Vanished));
            }
        }
        None
    }
}

/// The next event of a round, if there is one.
async fn next(round: &mut Option<Box<Round>>) -> Event {
    match round {
        Some(round) => round.session.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
pub(crate) mod tests;
