//! What goes through the socket: messages of 32 bytes. Pure; `python/paceline/frames.py` is the
//! other side.

/// Bytes of every message.
pub(crate) const SIZE: usize = 32;
/// Changes with every change to messages or frames; the worker has the same number.
const MAGIC: u32 = 0x324C_4350;

/// What the worker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Requests lie in the memory that comes with this, of so many bytes.
    Requests(usize),
    /// Results are written into the memory that comes with this, of so many bytes.
    Results(usize),
    /// Run a call whose table has so many bytes, of so many rows.
    Call { call: u64, n_table: usize, rows: usize },
    /// The last result of a stream was taken: go on, or stop.
    Next { call: u64, stop: bool },
    /// Say that you live.
    Ping(u64),
    /// Run the program that comes with this, of so many bytes.
    Program(usize),
    /// A descriptor comes with the next message.
    Descriptor,
}

/// What the worker says. Nothing of it is believed before it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The model is loaded; what it declares has so many bytes.
    Ready(usize),
    /// The model cannot be loaded; why has so many bytes.
    LoadFailed(usize),
    /// The only or last results of a call.
    Result { call: u64, frame: FrameAt },
    /// Results of a call that goes on.
    Partial { call: u64, frame: FrameAt },
    /// The call failed; why has so many bytes.
    Error { call: u64, n_text: usize },
    /// The results of a call take so many bytes.
    Grow { call: u64, n_bytes: usize },
    /// An answer to a ping.
    Pong(u64),
}

/// How long a frame of results is, and where in it its table begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameAt {
    pub(crate) n_bytes: usize,
    pub(crate) table: usize,
}

/// What a worker said that it must not have said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("a message of {0} bytes, not of {SIZE}")]
    Size(usize),
    #[error("another version of the protocol; install the package that came with this server")]
    Version,
    #[error("a message of unknown kind {0}")]
    Kind(u32),
    #[error("{0} at the wrong time")]
    Order(&'static str),
    #[error("an answer to call {actual} instead of {expected}")]
    Call { expected: u64, actual: u64 },
    #[error("{what} of {n_bytes} bytes where there is room for {max}")]
    Length { what: &'static str, n_bytes: usize, max: usize },
    #[error("a table of results that is cut short")]
    CutShort,
    #[error("a tensor outside of its frame")]
    OutOfFrame,
    #[error("unknown dtype {0}")]
    DType(u32),
    #[error("a tensor with {0} extents")]
    Rank(u32),
    #[error("an error for row {row} of {rows}")]
    Row { row: u32, rows: usize },
    #[error("a declaration that cannot be read: {0}")]
    Declaration(String),
}

impl Order {
    pub(crate) fn encode(self) -> [u8; SIZE] {
        let (kind, call, length, extra) = match self {
            Self::Requests(size) => (1, 0, size, 0),
            Self::Results(size) => (2, 0, size, 0),
            Self::Call { call, n_table, rows } => (3, call, n_table, rows),
            Self::Next { call, stop } => (4, call, 0, usize::from(stop)),
            Self::Ping(number) => (5, number, 0, 0),
            Self::Program(n_bytes) => (6, 0, n_bytes, 0),
            Self::Descriptor => (7, 0, 0, 0),
        };
        encode(kind, call, length, extra)
    }
}

impl Report {
    /// Reads a message; `data` is a copy that nobody else can change.
    pub(crate) fn decode(data: &[u8]) -> Result<Self, Violation> {
        let fields: &[u8; SIZE] = data.try_into().map_err(|_| Violation::Size(data.len()))?;
        let (words, _) = fields.as_chunks::<8>();
        let [first, call, length, extra] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        let [magic, kind] = [first & 0xFFFF_FFFF, first >> 32];
        if magic != u64::from(MAGIC) {
            return Err(Violation::Version);
        }
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let frame = FrameAt { n_bytes: size(length), table: size(extra) };
        Ok(match kind {
            16 => Self::Ready(size(length)),
            17 => Self::LoadFailed(size(length)),
            18 => Self::Result { call, frame },
            19 => Self::Partial { call, frame },
            20 => Self::Error { call, n_text: size(length) },
            21 => Self::Grow { call, n_bytes: size(length) },
            22 => Self::Pong(call),
            _ => return Err(Violation::Kind(u32::try_from(kind).unwrap_or(u32::MAX))),
        })
    }

    /// What it is, for a message about it.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Ready(_) => "`ready`",
            Self::LoadFailed(_) => "`load failed`",
            Self::Result { .. } => "a result",
            Self::Partial { .. } => "a partial result",
            Self::Error { .. } => "an error",
            Self::Grow { .. } => "a wish for more room",
            Self::Pong(_) => "a pong",
        }
    }

    /// The call that it is about.
    pub(crate) const fn call(&self) -> Option<u64> {
        match self {
            Self::Result { call, .. }
            | Self::Partial { call, .. }
            | Self::Error { call, .. }
            | Self::Grow { call, .. } => Some(*call),
            Self::Ready(_) | Self::LoadFailed(_) | Self::Pong(_) => None,
        }
    }
}

fn encode(kind: u32, call: u64, length: usize, extra: usize) -> [u8; SIZE] {
    let mut message = [0; SIZE];
    message[..4].copy_from_slice(&MAGIC.to_le_bytes());
    message[4..8].copy_from_slice(&kind.to_le_bytes());
    message[8..16].copy_from_slice(&call.to_le_bytes());
    message[16..24].copy_from_slice(&(length as u64).to_le_bytes());
    message[24..].copy_from_slice(&(extra as u64).to_le_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_report_says_what_was_written() {
        let frame = FrameAt { n_bytes: 300, table: 256 };

        assert_eq!(Report::decode(&encode(18, 7, 300, 256)), Ok(Report::Result { call: 7, frame }));
        assert_eq!(Report::decode(&encode(99, 0, 0, 0)), Err(Violation::Kind(99)));
        assert_eq!(Report::decode(&[0; SIZE]), Err(Violation::Version));
        assert_eq!(Report::decode(&[0; 31]), Err(Violation::Size(31)));
    }

    proptest! {
        #[test]
        fn no_bytes_whatever_upset_the_reader(data in prop::collection::vec(any::<u8>(), 0..64)) {
            Report::decode(&data).ok();
        }
    }
}
