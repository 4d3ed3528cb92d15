//! Bytes to samples: at once where that is cheap, off the async threads where it is not.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use paceline_audio::{Bounds, Cost, DecodeError, Decoder, Ending, Source};
use tokio::{sync::Semaphore, task::spawn_blocking, time::Instant};

use super::RATE;

/// Most bytes that are decoded in one go: it bounds what comes back.
const SLICE: usize = 16 << 10;
/// The same for codecs, of which a byte holds more.
const HEAVY_SLICE: usize = 4 << 10;

/// What was decoded: one plane per channel.
pub(super) type Planes = Vec<Vec<f32>>;

/// Work that was done somewhere else.
type Away = Pin<Box<dyn Future<Output = (Box<Decoder>, Decoded)> + Send>>;

/// What decoding gave, and how it ended if it did.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) planes: Planes,
    pub(super) ended: Option<Result<Ending, DecodeError>>,
    /// How long it worked.
    pub(super) took: Duration,
}

pub(super) enum Intake {
    Here(Box<Decoder>),
    Away(Away),
    Over,
}

/// What the decoder is to do.
enum Task {
    Push(Bytes),
    Finish,
}

impl Intake {
    pub(super) fn new(source: Source, bounds: &Bounds) -> Result<Self, DecodeError> {
        Ok(Self::Here(Box::new(Decoder::new(source, RATE.hertz(), bounds)?)))
    }

    /// Whether it takes bytes now.
    pub(super) const fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// Whether something is being decoded elsewhere.
    pub(super) const fn is_away(&self) -> bool {
        matches!(self, Self::Away(_))
    }

    /// Decodes some of these bytes and leaves the rest. What is decoded elsewhere comes out of
    /// [`poll`](Self::poll).
    pub(super) fn push(&mut self, bytes: &mut Bytes, decoders: &Arc<Semaphore>) -> Option<Decoded> {
        let Self::Here(decoder) = &*self else { return None };
        let most = if decoder.cost() == Cost::Heavy { HEAVY_SLICE } else { SLICE };
        let slice = bytes.split_to(most.min(bytes.len()));
        self.run(Task::Push(slice), decoders)
    }

    /// Gives what the decoder still held, and how it ended.
    pub(super) fn finish(&mut self, decoders: &Arc<Semaphore>) -> Option<Decoded> {
        self.run(Task::Finish, decoders)
    }

    /// What was decoded elsewhere, once it is there.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Decoded> {
        let Self::Away(away) = self else { return Poll::Pending };
        let (decoder, result) = ready!(away.as_mut().poll(context));
        *self = Self::after(decoder, &result);
        Poll::Ready(result)
    }

    fn run(&mut self, task: Task, decoders: &Arc<Semaphore>) -> Option<Decoded> {
        let Self::Here(mut decoder) = std::mem::replace(self, Self::Over) else { return None };
        if decoder.cost() == Cost::Light {
            let result = decode(&mut decoder, &task);
            *self = Self::after(decoder, &result);
            return Some(result);
        }
        let decoders = Arc::clone(decoders);
        *self = Self::Away(Box::pin(async move {
            // Never closed; and without a permit there is only more company.
            let permit = decoders.acquire_owned().await.ok();
            let away = spawn_blocking(move || {
                let result = decode(&mut decoder, &task);
                drop(permit);
                (decoder, result)
            });
            away.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        }));
        None
    }

    fn after(decoder: Box<Decoder>, result: &Decoded) -> Self {
        if result.ended.is_some() { Self::Over } else { Self::Here(decoder) }
    }
}

fn decode(decoder: &mut Decoder, task: &Task) -> Decoded {
    let began = Instant::now();
    let mut planes = Planes::new();
    let ended = match task {
        Task::Push(bytes) => decoder.push(bytes, &mut planes).err().map(Err),
        Task::Finish => Some(decoder.finish(&mut planes)),
    };
    Decoded { planes, ended, took: began.elapsed() }
}

impl std::fmt::Debug for Intake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::Away(_) => "Away",
            Self::Over => "Over",
        })
    }
}
