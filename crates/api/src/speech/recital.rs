//! A whole file through a session, fed as the session has room: what is held does not depend on how
//! long the file is, and what is decoded is decoded off the async threads, as in every session.

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt as _};
use paceline_pipeline::speech::{Place, Report, Session, Style, Terms, Utterances};
use paceline_types::ErrorCode;

use super::heard::{Final, Heard, seconds};
use crate::{ApiError, ws::Streams};

/// A file that is being heard.
pub(super) struct Recital<S> {
    session: Session,
    source: S,
    is_read: bool,
    is_over: bool,
    n_channels: usize,
    /// Held until it is over: a file is a stream like any other.
    _place: Place,
}

/// What comes of a file.
#[derive(Debug)]
pub(super) enum Line {
    /// An utterance of it.
    Said(Final),
    /// Nothing more.
    End(Summary),
}

/// What a file was.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Summary {
    /// Seconds.
    pub(super) duration: f64,
    pub(super) n_channels: usize,
}

/// How files are heard: utterance by utterance, without telling how far it is.
pub(super) fn style() -> Style {
    Style::Segmented(Utterances::default())
}

/// Begins to hear a file.
///
/// # Errors
///
/// When there is no place for one more stream, or its terms cannot be met.
pub(super) fn begin<S>(streams: &Streams, terms: Terms, source: S) -> Result<Recital<S>, ApiError>
where
    S: Stream<Item = Result<Bytes, ApiError>> + Unpin,
{
    let place = streams.admit()?;
    let session = streams.speech.open(terms);
    let session = session.map_err(|error| ApiError::new(error.code(), error.to_string()))?;
    Ok(Recital { session, source, is_read: false, is_over: false, n_channels: 0, _place: place })
}

impl<S> Recital<S>
where
    S: Stream<Item = Result<Bytes, ApiError>> + Unpin,
{
    /// The next utterance; after [`Line::End`], nothing.
    ///
    /// # Errors
    ///
    /// When the file could not be read or decoded, or a part of it has no result: what is left out
    /// of a transcript cannot be seen in it.
    pub(super) async fn next(&mut self) -> Option<Result<Line, ApiError>> {
        if self.is_over {
            return None;
        }
        let line = self.advance().await;
        self.is_over = !matches!(line, Ok(Line::Said(_)));
        Some(line)
    }

    async fn advance(&mut self) -> Result<Line, ApiError> {
        loop {
            let wants_more = !self.is_read && self.session.has_room();
            // CANCEL SAFETY: an event is returned or kept, and so is a piece of the body.
            let event = tokio::select! {
                biased;
                event = self.session.next() => event,
                piece = self.source.next(), if wants_more => {
                    if let Some(piece) = piece {
                        self.session.push(piece?);
                    } else {
                        self.is_read = true;
                        self.session.finish();
                    }
                    continue;
                }
            };
            self.n_channels = self.n_channels.max(self.session.n_channels());
            match Heard::from(event) {
                Heard::Final(said) => return Ok(Line::Said(said)),
                Heard::Lost { span, lost, .. } => {
                    let (start, end) = span.seconds();
                    let message = format!("from {start} s to {end} s: {}", lost.message);
                    return Err(ApiError::new(lost.code, message));
                }
                Heard::Undecodable(code, message) => return Err(ApiError::new(code, message)),
                Heard::Ended(report) => return self.end(&report),
                _ => {}
            }
        }
    }

    fn end(&self, report: &Report) -> Result<Line, ApiError> {
        let Report { ending, .. } = report;
        if ending.frames == 0 {
            return Err(ApiError::new(ErrorCode::InvalidInput, "there is no audio in the file"));
        }
        let summary = Summary { duration: seconds(ending.frames), n_channels: self.n_channels };
        Ok(Line::End(summary))
    }
}

/// A request's body, as it comes.
pub(super) fn pieces(body: Body) -> impl Stream<Item = Result<Bytes, ApiError>> + Unpin + Send {
    body.into_data_stream().map(|piece| piece.map_err(|error| ApiError::unread(&error)))
}
