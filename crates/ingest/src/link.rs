//! One connection to one Redis server, for one user at a time.
//!
//! Every call is a pipeline with a time-out of its own. After a time-out or an I/O error the
//! connection must not be used again: Redis may still do what was asked, so whoever reads has to look
//! for what was delivered to nobody first.

use std::{sync::LazyLock, time::Duration};

use paceline_frames::address::{Address, Wire};
use redis::{Pipeline, ServerError, Value};

/// A script, and the hash by which Redis knows it.
#[derive(Debug)]
pub(crate) struct Script {
    text: &'static str,
    hash: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $($file:literal),+) => {
        pub(crate) static $name: Script = Script {
            text: concat!($(include_str!(concat!("scripts/", $file))),+),
            hash: LazyLock::new(|| sha1_smol::Sha1::from($name.text).digest().to_string()),
        };
    };
}

script!(COMMIT, "gone.lua", "commit.lua");
script!(LEASE, "lease.lua");
script!(HEARTBEAT, "heartbeat.lua");
script!(GROUP, "gone.lua", "group.lua");
script!(REPLAY, "replay.lua");
script!(UNSETTLED, "gone.lua", "unsettled.lua");

impl Script {
    /// A call of it on these keys; arguments are added by the caller.
    pub(crate) fn call<K: redis::ToRedisArgs>(&self, keys: &[K]) -> redis::Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&*self.hash).arg(keys.len()).arg(keys);
        call
    }
}

/// Why a call has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// Redis did not answer in time.
    #[error("Redis did not answer within {0:?}")]
    Timeout(Duration),
    /// The connection failed.
    #[error("the connection to Redis failed: {0}")]
    Broken(#[from] redis::RedisError),
    /// Redis refused.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// The reply is not what was asked for.
    #[error("Redis answered {0}, which is not understood")]
    Nonsense(&'static str),
}

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The stream has no such group, or is not there.
    NoGroup,
    /// The key holds something else than a stream.
    WrongType,
    /// The key lives on another server.
    Moved,
    /// The server takes no writes: it is a replica by now, or a master that has lost its replicas.
    ReadOnly,
    /// It may work later: loading, out of memory, cluster down.
    Later,
    /// Nothing that is known.
    Other,
}

pub(crate) fn refusal(error: &ServerError) -> Refusal {
    match error.code() {
        "NOGROUP" => Refusal::NoGroup,
        "WRONGTYPE" => Refusal::WrongType,
        "MOVED" | "ASK" => Refusal::Moved,
        "READONLY" | "NOREPLICAS" => Refusal::ReadOnly,
        "LOADING" | "OOM" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "MISCONF" | "BUSY"
        | "UNBLOCKED" => Refusal::Later,
        _ => Refusal::Other,
    }
}

impl Fault {
    pub(crate) fn of(error: &ServerError) -> Self {
        Self::Refused(format!("{} {}", error.code(), error.details().unwrap_or_default()))
    }

    /// Whether it should be looked again who serves.
    pub(crate) fn is_moved(&self) -> bool {
        match self {
            Self::Refused(text) => ["MOVED", "ASK", "READONLY", "NOREPLICAS", "CLUSTERDOWN"]
                .iter()
                .any(|code| text.starts_with(code)),
            Self::Timeout(_) | Self::Broken(_) => true,
            Self::Nonsense(_) => false,
        }
    }
}

/// One connection.
pub(crate) struct Link {
    wire: Wire,
    timeout: Duration,
}

impl Link {
    /// Connects and makes the scripts known.
    pub(crate) async fn open(server: &Address, timeout: Duration) -> Result<Self, Fault> {
        // Time-outs are kept call by call: one of the connection's would end blocked reads.
        let wire = server.connect_unhurried(timeout).await.map_err(|error| {
            if error.is_timeout() { Fault::Timeout(timeout) } else { Fault::Broken(error) }
        })?;
        let mut link = Self { wire, timeout };
        let mut load = Pipeline::new();
        for script in [&COMMIT, &LEASE, &HEARTBEAT, &GROUP, &REPLAY, &UNSETTLED] {
            load.cmd("SCRIPT").arg("LOAD").arg(script.text);
        }
        for value in link.ask(&load).await? {
            if let Value::ServerError(error) = value {
                return Err(Fault::of(&error));
            }
        }
        Ok(link)
    }

    /// The server at its other end.
    pub(crate) const fn server(&self) -> &Address {
        &self.wire.at
    }

    /// Sends commands together and waits for their replies; a refused one is a
    /// [`Value::ServerError`] in its place.
    pub(crate) async fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        self.ask_for(commands, Duration::ZERO).await
    }

    /// The same, where Redis may take `longer` because it was asked to block.
    pub(crate) async fn ask_for(
        &mut self,
        commands: &Pipeline,
        longer: Duration,
    ) -> Result<Vec<Value>, Fault> {
        let timeout = self.timeout + longer;
        let n = commands.len();
        let asking = self.wire.connection.send_packed_commands(commands, 0, n);
        let values =
            tokio::time::timeout(timeout, asking).await.map_err(|_| Fault::Timeout(timeout))??;
        if values.len() == n { Ok(values) } else { Err(Fault::Nonsense("too little or too much")) }
    }

    /// Sends one command and waits for its reply; a refusal is a fault.
    pub(crate) async fn ask_one(&mut self, command: redis::Cmd) -> Result<Value, Fault> {
        let mut commands = Pipeline::new();
        commands.add_command(command);
        match self.ask(&commands).await?.pop() {
            Some(Value::ServerError(error)) => Err(Fault::of(&error)),
            Some(value) => Ok(value),
            None => Err(Fault::Nonsense("nothing")),
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The elements of a list.
pub(crate) fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) | Value::Set(values) => Some(values),
        Value::Nil => Some(Vec::new()),
        _ => None,
    }
}

/// The bytes of a string.
pub(crate) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// The text of a string.
pub(crate) fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

/// A number, however it is written.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

/// Names and values that come one after the other.
pub(crate) fn pairs(value: Value) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut values = list(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        pairs.push((bytes(name)?, bytes(value)?));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{code} what was wrong\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    fn text_of(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_refusal_means_what_its_code_says() {
        for (codes, meaning) in [
            (&["NOGROUP"][..], Refusal::NoGroup),
            (&["WRONGTYPE"], Refusal::WrongType),
            (&["MOVED", "ASK"], Refusal::Moved),
            (&["READONLY", "NOREPLICAS"], Refusal::ReadOnly),
            (&["LOADING", "OOM", "CLUSTERDOWN", "MASTERDOWN"], Refusal::Later),
            (&["TRYAGAIN", "MISCONF", "BUSY", "UNBLOCKED"], Refusal::Later),
            (&["ERR", "NOSCRIPT", "NOAUTH"], Refusal::Other),
        ] {
            for code in codes {
                assert_eq!(refusal(&error(code)), meaning, "{code}");
            }
        }
    }

    #[test]
    fn whoever_moved_or_is_silent_may_be_elsewhere() {
        for code in ["MOVED", "ASK", "READONLY", "NOREPLICAS", "CLUSTERDOWN"] {
            assert!(Fault::of(&error(code)).is_moved(), "{code}");
        }
        assert!(Fault::Timeout(Duration::ZERO).is_moved());
        assert!(!Fault::of(&error("OOM")).is_moved());
        assert!(!Fault::Nonsense("nothing").is_moved());
        assert_eq!(Fault::of(&error("OOM")).to_string(), "Redis refused: OOM what was wrong");
    }

    #[test]
    fn values_are_read_however_they_are_written() {
        assert_eq!(list(Value::Set(vec![Value::Int(1)])), Some(vec![Value::Int(1)]));
        assert_eq!(list(Value::Nil), Some(Vec::new()));
        assert_eq!(list(Value::Int(1)), None);
        assert_eq!(text(text_of("a")).as_deref(), Some("a"));
        assert_eq!(text(Value::SimpleString("a".to_owned())).as_deref(), Some("a"));
        assert_eq!(text(Value::BulkString(vec![0xff])), None);
        assert_eq!(text(Value::Int(1)), None);
        assert_eq!(number(&Value::Int(12)), Some(12));
        assert_eq!(number(&text_of("12")), Some(12));
        assert_eq!((number(&Value::Int(-1)), number(&text_of("x"))), (None, None));
        assert_eq!(number(&Value::Nil), None);
    }

    #[test]
    fn pairs_are_names_and_values_and_nothing_else() {
        let both = ["a", "1", "b", "2"].map(text_of).to_vec();
        let expected = [("a", "1"), ("b", "2")]
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));

        assert_eq!(pairs(Value::Array(both)), Some(expected.to_vec()));
        assert_eq!(pairs(Value::Array(vec![text_of("a"), Value::Int(1)])), None);
        assert_eq!(pairs(Value::Int(1)), None);
    }
}
