//! Redis Sentinel: several watchers that agree on which server is the master, and are asked for it.
//!
//! They are asked in turn, each time a connection is opened, and none is believed blindly: one that was
//! cut off may name a server that is a replica by now, so the server is asked for its role.

pub(crate) mod url;

use std::{
    collections::BTreeMap,
    fmt, io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redis::{RedisError, Value};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::address::{Address, Wire};

/// Why there is no connection to the master.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SentinelError {
    /// None of them answered.
    #[error("no Sentinel can be asked for the master of `{service}`: {tried}")]
    Unreachable {
        /// What they were to be asked for.
        service: String,
        /// Each of them, with what went wrong.
        tried: String,
    },
    /// Those that answered watch other services.
    #[error("the Sentinels know no service `{service}`: {tried}")]
    UnknownService {
        /// What they were asked for.
        service: String,
        /// Each of them, with what it said.
        tried: String,
    },
    /// Nobody whom they named can be used.
    #[error("the Sentinels name no master of `{service}` that can be used: {tried}")]
    NoMaster {
        /// What they were asked for.
        service: String,
        /// Each of them, with whom it named.
        tried: String,
    },
    /// Another is the master than the one that was to be connected to.
    #[error("the master of `{service}` is {to} now, and no longer {from}")]
    Moved {
        /// What they were asked for.
        service: String,
        /// The one that was.
        from: String,
        /// The one that is.
        to: String,
    },
}

impl From<SentinelError> for RedisError {
    fn from(error: SentinelError) -> Self {
        io::Error::other(error).into()
    }
}

/// Those who watch one service.
pub(crate) struct Sentinels {
    service: String,
    all: Vec<Address>,
    /// Who is asked first.
    first: AtomicUsize,
}

/// Who answered, and where the master is, if it knows.
type Answer = (usize, Result<Option<(String, u16)>, RedisError>);

/// What became of asking one of them.
enum Said {
    /// Nothing, for this reason.
    Nothing(String),
    /// It does not watch the service.
    Unknown,
    /// A master that cannot be used, and why.
    Useless(Address, String),
}

impl Sentinels {
    pub(crate) const fn new(service: String, all: Vec<Address>) -> Self {
        Self { service, all, first: AtomicUsize::new(0) }
    }

    /// Connects to the master that the first of them names whose answer is right; to `wanted` only,
    /// where that is a certain one. All together may take so long to answer, and the master then.
    pub(crate) async fn find(
        self: &Arc<Self>,
        wanted: &Address,
        longest: Duration,
        answer: Option<Duration>,
    ) -> Result<Wire, RedisError> {
        let n = self.all.len();
        let mut said = BTreeMap::new();
        let mut round = Round::new(Arc::clone(self), longest);
        while let Some((place, named)) = round.next().await {
            let master = match named {
                Ok(Some((host, port))) => wanted.named(host, port, self),
                Ok(None) => {
                    said.insert(place, Said::Unknown);
                    continue;
                }
                Err(error) => {
                    said.insert(place, Said::Nothing(error.to_string()));
                    continue;
                }
            };
            if wanted.excludes(&master) {
                let (from, to) = (wanted.to_string(), master.to_string());
                return Err(SentinelError::Moved { service: self.service.clone(), from, to }.into());
            }
            // Another is asked first until this answer has proved right, also if nobody waits for
            // that any longer.
            self.first.store((place + 1) % n, Ordering::Relaxed);
            match open(&master, answer).await {
                Ok(wire) => {
                    self.first.store(place, Ordering::Relaxed);
                    return Ok(wire);
                }
                Err(error) => said.insert(place, Said::Useless(master, error.to_string())),
            };
        }
        for place in 0..n {
            let late = || Said::Nothing(format!("no answer within {longest:?}"));
            said.entry(place).or_insert_with(late);
        }
        Err(self.failed(&said).into())
    }

    /// What a Sentinel says where the master is.
    async fn ask(self: Arc<Self>, place: usize) -> Answer {
        let asked = async {
            let mut wire = self.all[place].open(None).await?;
            let mut command = redis::cmd("SENTINEL");
            command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
            command.query_async(&mut wire.connection).await
        };
        (place, asked.await)
    }

    fn failed(&self, said: &BTreeMap<usize, Said>) -> SentinelError {
        let one = |(place, said): (&usize, &Said)| {
            let sentinel = &self.all[*place];
            match said {
                Said::Nothing(why) => format!("{sentinel} ({why})"),
                Said::Unknown => format!("{sentinel} (does not know it)"),
                Said::Useless(master, why) => format!("{sentinel} (names {master}: {why})"),
            }
        };
        let tried = said.iter().map(one).collect::<Vec<_>>().join(", ");
        let service = self.service.clone();
        let has = |wanted: fn(&Said) -> bool| said.values().any(wanted);
        if has(|said| matches!(said, Said::Useless(..))) {
            SentinelError::NoMaster { service, tried }
        } else if has(|said| matches!(said, Said::Unknown)) {
            SentinelError::UnknownService { service, tried }
        } else {
            SentinelError::Unreachable { service, tried }
        }
    }
}

/// One asking of all: the next when one has failed, or is slow. Who is slow may still answer: on a
/// busy machine all are, and to begin anew with each would end with none.
struct Round {
    sentinels: Arc<Sentinels>,
    under_way: JoinSet<Answer>,
    left: Range<usize>,
    /// How long one is waited for before the next is asked too.
    head_start: Duration,
    until: Instant,
}

impl Round {
    fn new(sentinels: Arc<Sentinels>, longest: Duration) -> Self {
        let (first, n) = (sentinels.first.load(Ordering::Relaxed), sentinels.all.len());
        Self {
            sentinels,
            under_way: JoinSet::new(),
            left: first..first + n,
            head_start: longest / u32::try_from(n + 1).unwrap_or(u32::MAX),
            until: Instant::now() + longest,
        }
    }

    /// The next answer; none when all have answered or it is too late.
    async fn next(&mut self) -> Option<Answer> {
        loop {
            if let Some(place) = self.left.next() {
                let sentinels = Arc::clone(&self.sentinels);
                let place = place % sentinels.all.len();
                self.under_way.spawn(sentinels.ask(place));
            }
            let is_last = self.left.is_empty();
            let next = Instant::now() + self.head_start;
            let wake = if is_last { self.until } else { self.until.min(next) };
            match timeout_at(wake, self.under_way.join_next()).await {
                Ok(Some(Ok(answer))) => return Some(answer),
                Ok(None) => return None,
                Err(_) if is_last || self.until <= Instant::now() => return None,
                // One that panicked says nothing.
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
    }
}

/// Connects to a server that says itself that it is a master.
async fn open(server: &Address, answer: Option<Duration>) -> Result<Wire, RedisError> {
    let mut wire = server.open(answer).await?;
    let said: Vec<Value> = redis::cmd("ROLE").query_async(&mut wire.connection).await?;
    match said.into_iter().next() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(wire),
        Some(Value::BulkString(role)) => {
            let role = String::from_utf8_lossy(&role);
            Err(io::Error::other(format!("says that it is a {role}")).into())
        }
        _ => Err(io::Error::other("does not say what it is").into()),
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, of Sentinels at ", self.service)?;
        for (place, sentinel) in self.all.iter().enumerate() {
            write!(f, "{}{sentinel}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
