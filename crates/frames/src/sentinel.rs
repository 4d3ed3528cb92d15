//! Redis Sentinel: several watchers that agree on which server is the master, and are asked for it.
//!
//! They are asked in turn, each time a connection is opened, and none is believed blindly: one that was
//! cut off may name a server that is a replica by now, so the server is asked for its role.

pub(crate) mod url;

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redis::{RedisError, Value};
use tokio::time::timeout;

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

/// What one of them said.
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
    /// where that is a certain one. Each may take an equal part of `longest`, and the master what is
    /// left, which is as much at least.
    pub(crate) async fn find(
        self: &Arc<Self>,
        wanted: &Address,
        longest: Duration,
        answer: Option<Duration>,
    ) -> Result<Wire, RedisError> {
        let n = self.all.len();
        let share = longest / u32::try_from(n + 1).unwrap_or(u32::MAX);
        let first = self.first.load(Ordering::Relaxed);
        let mut said: Vec<(&Address, Said)> = Vec::new();
        for place in (first..first + n).map(|place| place % n) {
            let sentinel = &self.all[place];
            // Whoever is asked goes to the end of the line until its answer has proved right, also if
            // nobody waits for that any longer.
            self.first.store((place + 1) % n, Ordering::Relaxed);
            let master = match timeout(share, self.ask(sentinel)).await {
                Ok(Ok(Some((host, port)))) => wanted.named(host, port, self),
                Ok(Ok(None)) => {
                    said.push((sentinel, Said::Unknown));
                    continue;
                }
                Ok(Err(error)) => {
                    said.push((sentinel, Said::Nothing(error.to_string())));
                    continue;
                }
                Err(_) => {
                    said.push((sentinel, Said::Nothing(format!("no answer within {share:?}"))));
                    continue;
                }
            };
            if wanted.excludes(&master) {
                let (from, to) = (wanted.to_string(), master.to_string());
                return Err(SentinelError::Moved { service: self.service.clone(), from, to }.into());
            }
            match open(&master, answer).await {
                Ok(wire) => {
                    self.first.store(place, Ordering::Relaxed);
                    return Ok(wire);
                }
                Err(error) => said.push((sentinel, Said::Useless(master, error.to_string()))),
            }
        }
        Err(self.failed(&said).into())
    }

    /// What a Sentinel says where the master is.
    async fn ask(&self, sentinel: &Address) -> Result<Option<(String, u16)>, RedisError> {
        let mut wire = sentinel.open(None).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        command.query_async(&mut wire.connection).await
    }

    fn failed(&self, said: &[(&Address, Said)]) -> SentinelError {
        let one = |(sentinel, said): &(&Address, Said)| match said {
            Said::Nothing(why) => format!("{sentinel} ({why})"),
            Said::Unknown => format!("{sentinel} (does not know it)"),
            Said::Useless(master, why) => format!("{sentinel} (names {master}: {why})"),
        };
        let tried = said.iter().map(one).collect::<Vec<_>>().join(", ");
        let service = self.service.clone();
        let has = |wanted: fn(&Said) -> bool| said.iter().any(|(_, said)| wanted(said));
        if has(|said| matches!(said, Said::Useless(..))) {
            SentinelError::NoMaster { service, tried }
        } else if has(|said| matches!(said, Said::Unknown)) {
            SentinelError::UnknownService { service, tried }
        } else {
            SentinelError::Unreachable { service, tried }
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
