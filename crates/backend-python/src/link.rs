//! The server's end of one worker: its socket and the memory that both share.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use bytes::Bytes;
use paceline_backend::{Early, EarlyOutputs, Outputs, Piece, Stacked};
use paceline_types::{DType, Spare, Tensor};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        SocketFlags, SocketType, recv, sendmsg, socketpair,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use smallvec::SmallVec;

use crate::{
    aside,
    frame::{self, Expected, Layout, Unusable},
    message::{FrameAt, Order, Report, SIZE, Violation},
    package,
    segment::{MAX, Segment},
};

/// How long a thread that serves clients waits for a worker before it steps aside: much longer than
/// an instant call takes, much shorter than anybody would notice.
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Most bytes of memory that results are copied into that wait to be used again. Answers that are on
/// their way to slow clients are many.
const MAX_SPARE: usize = 128 << 20;
/// Longest text that a worker may send.
const MAX_TEXT: usize = 4096;
/// Longest declaration that a worker may send.
const MAX_DECLARATION: usize = 1 << 16;

/// Why a worker can no longer be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// It closed its end, as it does when it dies.
    #[error("it closed the connection")]
    Closed,
    /// It did not answer in time.
    #[error("it did not answer within {0:?}")]
    TimedOut(Duration),
    /// What it said cannot be believed.
    #[error("it broke the protocol: {0}")]
    Violation(#[from] Violation),
    /// The system.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Why a call has no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The model failed; the worker can go on.
    #[error("{0}")]
    Model(String),
    /// The worker cannot go on.
    #[error(transparent)]
    Lost(#[from] Lost),
}

impl From<Violation> for CallError {
    fn from(violation: Violation) -> Self {
        Self::Lost(violation.into())
    }
}

/// One call's input, perhaps in several pieces.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    pub(crate) pieces: SmallVec<[&'a [u8]; 8]>,
}

/// What zeros are written from.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl<'a> From<&'a Stacked> for Input<'a> {
    fn from(stacked: &'a Stacked) -> Self {
        let mut pieces = SmallVec::new();
        for piece in stacked.pieces() {
            match piece {
                Piece::Data(data) => pieces.push(&data[..]),
                Piece::Zeros(n_zeros) => {
                    let (n_whole, rest) = (n_zeros / ZEROS.len(), n_zeros % ZEROS.len());
                    pieces.extend(std::iter::repeat_n(&ZEROS[..], n_whole));
                    pieces.push(&ZEROS[..rest]);
                }
            }
        }
        Self { dtype: stacked.dtype(), shape: stacked.shape(), pieces }
    }
}

impl<'a> From<&'a Tensor> for Input<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        let pieces = SmallVec::from_slice(&[&tensor.data()[..]]);
        Self { dtype: tensor.dtype(), shape: tensor.shape(), pieces }
    }
}

/// The server's end of one worker.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    requests: Segment,
    results: Segment,
    /// What results are copied into.
    spare: Spare,
    /// Numbers calls and pings, so that an answer is known to belong to its question.
    n_asked: u64,
    /// How long the worker may take to answer.
    patience: Duration,
}

impl Link {
    /// A link, and the end that the worker is to have.
    pub(crate) fn pair(patience: Duration) -> Result<(Self, OwnedFd), Lost> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io::Error::from)?;
        let (requests, results) = (Segment::create(0)?, Segment::create(0)?);
        let spare = Spare::new(MAX_SPARE);
        let mut link = Self { socket: ours, requests, results, spare, n_asked: 0, patience };
        link.be_patient(patience)?;
        let (program, n_bytes) = package::program()?;
        link.send(Order::Program(n_bytes), Some(program.as_fd()))?;
        link.hand_over(Order::Requests(link.requests.size()), link.requests.as_fd())?;
        link.hand_over(Order::Results(link.results.size()), link.results.as_fd())?;
        Ok((link, theirs))
    }

    /// Waits so long for answers from now on.
    pub(crate) fn be_patient(&mut self, patience: Duration) -> io::Result<()> {
        for timeout in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&self.socket, timeout, Some(patience))?;
        }
        self.patience = patience;
        Ok(())
    }

    /// Waits until the model is loaded and gives what it declares, or why it cannot be loaded.
    pub(crate) fn wait_for_load(&mut self) -> Result<Result<Bytes, String>, Lost> {
        match self.receive()? {
            Report::Ready(n_bytes) => {
                Ok(Ok(self.copy_out("a declaration", n_bytes, MAX_DECLARATION)?))
            }
            Report::LoadFailed(n_text) => Ok(Err(self.text(n_text)?)),
            other => Err(Violation::Order(other.name()).into()),
        }
    }

    /// Asks whether the worker lives.
    pub(crate) fn ping(&mut self) -> Result<(), Lost> {
        self.n_asked += 1;
        self.send(Order::Ping(self.n_asked), None)?;
        match self.receive()? {
            Report::Pong(number) if number == self.n_asked => Ok(()),
            other => Err(Violation::Order(other.name()).into()),
        }
    }

    /// Runs a call. Results that come before the last go to `early`.
    pub(crate) fn call(
        &mut self,
        inputs: &[Input<'_>],
        expected: &Expected<'_>,
        early: &mut Early<'_>,
    ) -> Result<Outputs, CallError> {
        let n_table = self.write(inputs)?;
        self.n_asked += 1;
        let call = self.n_asked;
        self.send(Order::Call { call, n_table, rows: expected.rows }, None)?;
        // A partial result that cannot be used fails the call, but the stream must be ended first.
        let mut failed = None;
        // A worker that is told to stop, or that there is no more room, has one last word.
        let mut is_last_word = false;
        loop {
            let report = self.receive()?;
            match report.call() {
                Some(actual) if actual == call => {}
                Some(actual) => return Err(Violation::Call { expected: call, actual }.into()),
                None => return Err(Violation::Order(report.name()).into()),
            }
            let is_last = matches!(report, Report::Result { .. } | Report::Error { .. });
            if is_last_word && !is_last {
                return Err(Violation::Order(report.name()).into());
            }
            match report {
                Report::Result { frame, .. } => {
                    let last = self.read(frame, expected)?;
                    return failed
                        .map_or(last, Err)
                        .map(|read| read.outputs)
                        .map_err(CallError::Model);
                }
                Report::Partial { frame, .. } => {
                    let is_wanted = match self.read(frame, expected)? {
                        Ok(read) => early(read),
                        Err(message) => {
                            failed = Some(message);
                            false
                        }
                    };
                    is_last_word = !is_wanted;
                    self.send(Order::Next { call, stop: is_last_word }, None)?;
                }
                Report::Error { n_text, .. } => return Err(CallError::Model(self.text(n_text)?)),
                Report::Grow { n_bytes, .. } => {
                    is_last_word = !self.grow_results(call, n_bytes)?;
                }
                Report::Ready(_) | Report::LoadFailed(_) | Report::Pong(_) => {
                    return Err(Violation::Order(report.name()).into());
                }
            }
        }
    }

    /// Writes a call's inputs into shared memory and says how long their table is.
    fn write(&mut self, inputs: &[Input<'_>]) -> Result<usize, CallError> {
        let sizes = inputs.iter().map(|input| {
            let n_bytes = input.pieces.iter().map(|piece| piece.len()).sum();
            (input.dtype, input.shape, n_bytes)
        });
        let layout = Layout::of(sizes);
        if self.requests.size() < layout.n_bytes {
            self.requests = Segment::create(layout.n_bytes)
                .map_err(|error| CallError::Model(error.to_string()))?;
            self.hand_over(Order::Requests(self.requests.size()), self.requests.as_fd())?;
        }
        self.requests.write(0, &layout.table).map_err(Lost::System)?;
        for (input, &offset) in inputs.iter().zip(&layout.offsets) {
            let mut at = offset;
            for piece in &input.pieces {
                self.requests.write(at, piece).map_err(Lost::System)?;
                at += piece.len();
            }
        }
        Ok(layout.table.len())
    }

    /// Copies results out and reads the copy. An error in the inner place is the model's.
    fn read(
        &self,
        at: FrameAt,
        expected: &Expected<'_>,
    ) -> Result<Result<EarlyOutputs, String>, Lost> {
        let frame = self.copy_out("results", at.n_bytes, self.results.size())?;
        match frame::read(&frame, at.table, expected) {
            Ok(read) => Ok(Ok(read)),
            Err(Unusable::Undeclared(message)) => Ok(Err(message)),
            Err(Unusable::Violation(violation)) => Err(violation.into()),
        }
    }

    /// Gives the worker more room; `false` if it asks for more than there may be.
    fn grow_results(&mut self, call: u64, n_bytes: usize) -> Result<bool, Lost> {
        if MAX < n_bytes || n_bytes <= self.results.size() {
            self.send(Order::Next { call, stop: true }, None)?;
            return Ok(false);
        }
        self.results = Segment::create(n_bytes)?;
        self.hand_over(Order::Results(self.results.size()), self.results.as_fd())?;
        Ok(true)
    }

    fn text(&self, n_text: usize) -> Result<String, Lost> {
        let text = self.copy_out("a text", n_text, MAX_TEXT)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn copy_out(&self, what: &'static str, n_bytes: usize, max: usize) -> Result<Bytes, Lost> {
        if max < n_bytes {
            return Err(Violation::Length { what, n_bytes, max }.into());
        }
        Ok(self.results.read(n_bytes, &self.spare)?)
    }

    /// Sends an order with a descriptor, announced: Python takes one only where it is told to.
    fn hand_over(&self, order: Order, with: BorrowedFd<'_>) -> Result<(), Lost> {
        self.send(Order::Descriptor, None)?;
        self.send(order, Some(with))
    }

    fn send(&self, order: Order, with: Option<BorrowedFd<'_>>) -> Result<(), Lost> {
        let message = order.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptor) = &with {
            ancillary.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
        }
        loop {
            match sendmsg(
                &self.socket,
                &[IoSlice::new(&message)],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            ) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    fn receive(&self) -> Result<Report, Lost> {
        if aside::is_needed() && !self.is_readable_soon() {
            return aside::step_aside(|| self.take_report());
        }
        self.take_report()
    }

    /// Whether something comes within the time that an instant model takes.
    fn is_readable_soon(&self) -> bool {
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        matches!(poll(&mut ready, Some(&SOON)), Ok(1..))
    }

    fn take_report(&self) -> Result<Report, Lost> {
        // A byte more than a message has, so that a longer one is seen to be longer. Descriptors
        // that a worker sends are dropped by the system: no room is offered for them.
        let mut message = [0; SIZE + 1];
        loop {
            match recv(&self.socket, &mut message, RecvFlags::CMSG_CLOEXEC) {
                Ok((0, _)) => return Err(Lost::Closed),
                Ok((n_bytes, _)) => return Ok(Report::decode(&message[..n_bytes])?),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    fn lost(&self, error: Errno) -> Lost {
        match error {
            Errno::AGAIN => Lost::TimedOut(self.patience),
            Errno::PIPE | Errno::CONNRESET => Lost::Closed,
            other => Lost::System(other.into()),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_types::{Dim, TensorSpec};
    use proptest::prelude::*;
    use rustix::net::send;

    fn outputs() -> Vec<TensorSpec> {
        vec![TensorSpec { name: "y".to_owned(), dtype: DType::U8, dims: vec![Dim::Any] }]
    }

    /// A worker's end that has already said all that it will ever say, and then left.
    fn against(said: &[Vec<u8>], results: &[u8]) -> Result<Outputs, CallError> {
        let (mut link, theirs) = Link::pair(Duration::from_secs(5)).unwrap();
        link.results.write(0, results).unwrap();
        for message in said {
            send(&theirs, message, SendFlags::NOSIGNAL).unwrap();
        }
        rustix::net::shutdown(&theirs, rustix::net::Shutdown::Write).unwrap();
        let outputs = outputs();
        let expected = Expected { outputs: &outputs, batched: true, rows: 2 };
        let tensor =
            Tensor::build(DType::U8, [2, 1].as_slice().into(), Bytes::from_static(&[1, 2]));
        link.call(&[Input::from(&tensor.unwrap())], &expected, &mut |_| true)
    }

    fn message(kind: u32, call: u64, length: u64, extra: u64) -> Vec<u8> {
        let mut message = Order::Ping(call).encode().to_vec();
        message[4..8].copy_from_slice(&kind.to_le_bytes());
        message[16..24].copy_from_slice(&length.to_le_bytes());
        message[24..].copy_from_slice(&extra.to_le_bytes());
        message
    }

    #[test]
    fn an_answer_to_another_call_is_no_answer() {
        let error = against(&[message(18, 2, 0, 0)], &[]).unwrap_err();

        assert_eq!(error.to_string(), "it broke the protocol: an answer to call 2 instead of 1");
    }

    #[test]
    fn a_length_that_is_not_there_is_not_read() {
        for length in [1 << 20 | 1, u64::MAX, u64::MAX - 31] {
            let error = against(&[message(18, 1, length, 0)], &[]).unwrap_err();
            assert!(error.to_string().contains("where there is room for"), "{error}");
            let error = against(&[message(20, 1, length, 0)], &[]).unwrap_err();
            assert!(error.to_string().contains("where there is room for"), "{error}");
        }
    }

    #[test]
    fn a_worker_cannot_keep_the_server_busy_with_wishes() {
        let wish = message(21, 1, u64::MAX, 0);

        let error = against(&[wish.clone(), wish], &[]).unwrap_err();

        assert!(error.to_string().contains("a wish for more room at the wrong time"), "{error}");
    }

    proptest! {
        /// Any messages at all, most of them nearly right, over any results.
        #[test]
        fn no_worker_whatever_upsets_the_server(
            said in prop::collection::vec(
                prop_oneof![
                    4 => (14_u32..24, 0_u64..3, 0_u64..300, 0_u64..300)
                        .prop_map(|(kind, call, length, extra)| message(kind, call, length, extra)),
                    1 => (any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>())
                        .prop_map(|(kind, call, length, extra)| message(kind, call, length, extra)),
                    1 => prop::collection::vec(any::<u8>(), 1..80),
                ],
                0..6,
            ),
            results in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            if let Ok(outputs) = against(&said, &results) {
                prop_assert!(outputs.tensors.iter().all(|tensor| tensor.data().len() <= 300));
            }
        }
    }
}
