//! One round of one client: carries out the steps of its channels, and waits.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};

use bytes::Bytes;
use paceline_audio::DecodeError;

use super::{
    Event, RATE, Report, Speech, SpeechError, Style, Terms, Transcript, Values,
    agreement::Agreement,
    board::Seat,
    channel::{Channel, Part, Said, Step},
    counts::Counts,
    event::Lost,
    infer::{Answer, Asker},
    intake::{Decoded, Intake, Planes},
};
use crate::{Probabilities, VoiceError, VoiceStream};

/// Numbers streams, for fairness among them.
static NEXT_STREAM: AtomicU64 = AtomicU64::new(0);

type Judging =
    Pin<Box<dyn Future<Output = (VoiceStream, Result<Probabilities, VoiceError>)> + Send>>;
type Asking = Pin<Box<dyn Future<Output = Result<Answer, Lost>> + Send>>;

/// One round. Dropping it withdraws what is with the models.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Session {
    asker: Asker,
    seat: Seat,
    style: Style,
    mix: bool,
    intake: Intake,
    /// What was pushed and is not decoded yet.
    bytes: Bytes,
    /// Somebody waits for [`Event::Room`].
    owes_room: bool,
    lanes: Vec<Lane>,
    wish: Wish,
    /// Whether the channels know of the wish.
    is_flushing: bool,
    /// Somebody waits for [`Event::Flushed`].
    owes_flushed: bool,
    undecodable: Option<DecodeError>,
    report: Report,
}

/// What the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Nothing in particular.
    More,
    /// That everything so far is answered.
    Flush,
    /// The same, and nothing more comes.
    End,
    /// Nothing any more.
    Nothing,
}

impl Session {
    pub(super) fn open(speech: Speech, terms: Terms, values: Values) -> Result<Self, SpeechError> {
        let Terms { source, model, params, style, mix, trace } = terms;
        let settings = speech.settings();
        if let Style::Segmented(utterances) = &style
            && let Some(interval) = utterances.interim
        {
            settings.limits.check_interim(interval)?;
        }
        let intake = Intake::new(source, &settings.bounds)?;
        let model = model.as_deref().unwrap_or(&settings.model).into();
        let stream = NEXT_STREAM.fetch_add(1, Ordering::Relaxed);
        let asker = Asker { speech, model, params, values, stream, trace };
        // What would be refused for each segment is refused now.
        asker.inputs(&*asker.find()?, &[])?;
        asker.counts().rounds.fetch_add(1, Ordering::Relaxed);
        let seat = asker.speech.0.board.enter(stream, &asker.model, &style);
        Ok(Self {
            asker,
            seat,
            style,
            mix,
            intake,
            bytes: Bytes::new(),
            owes_room: false,
            lanes: Vec::new(),
            wish: Wish::More,
            is_flushing: false,
            owes_flushed: false,
            undecodable: None,
            report: Report::default(),
        })
    }

    /// Whether it takes audio now. If not, [`Event::Room`] says when it does.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.wish == Wish::More
            && self.bytes.is_empty()
            && self.intake.is_here()
            && self.lanes.iter().all(|lane| lane.channel.has_room())
    }

    /// Audio channels that were heard so far; a container says how many there are.
    #[must_use]
    pub fn n_channels(&self) -> usize {
        self.lanes.len()
    }

    /// Takes audio. Only to be called while there is [room](Self::has_room); then any amount is
    /// taken, and there is no room until it is done with.
    pub fn push(&mut self, bytes: Bytes) {
        debug_assert!(self.bytes.is_empty(), "pushed without room");
        self.bytes = bytes;
        self.take_in();
        self.owes_room = !self.has_room();
    }

    /// Asks for answers to everything so far; [`Event::Flushed`] says when they are there. What a
    /// decoder holds back (parts of a packet, the few milliseconds that a resampler looks ahead)
    /// comes with what follows.
    pub fn flush(&mut self) {
        self.owes_flushed = true;
        if self.wish == Wish::More {
            self.wish = Wish::Flush;
        }
    }

    /// Nothing more comes. Everything so far is answered, and [`Event::Ended`] is the last word.
    pub fn finish(&mut self) {
        if matches!(self.wish, Wish::More | Wish::Flush) {
            (self.wish, self.is_flushing) = (Wish::End, false);
        }
    }

    /// Samples that wait, of the channel where most do: how far behind this round is.
    #[must_use]
    pub fn n_waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.channel.n_waiting()).max().unwrap_or(0)
    }

    /// What happens next. After [`Event::Ended`], nothing ever.
    ///
    /// CANCEL SAFETY: everything that is waited for is kept.
    pub async fn next(&mut self) -> Event {
        poll_fn(|context| {
            let polled = self.poll_next(context);
            self.seat.waits(self.n_waiting());
            if let Poll::Ready(event) = &polled {
                self.seat.said(event);
            }
            polled
        })
        .await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        loop {
            // ORDER: what is taken in may be decoded elsewhere, and wakes nobody before it is polled.
            self.take_in();
            if let Poll::Ready(decoded) = self.intake.poll(context) {
                self.hear(decoded);
                continue;
            }
            for (number, lane) in self.lanes.iter_mut().enumerate() {
                if let Some(said) = lane.carry_on(&self.asker) {
                    return Poll::Ready(lane.event(number, said, self.asker.counts()));
                }
            }
            if self.lanes.iter_mut().any(|lane| lane.poll(context)) {
                continue;
            }
            match self.settle() {
                Settled::Event(event) => return Poll::Ready(event),
                Settled::Moved => {}
                Settled::Waits => return Poll::Pending,
            }
        }
    }

    /// Decodes what was pushed, as far as the channels have room for it.
    fn take_in(&mut self) {
        while !self.bytes.is_empty()
            && self.intake.is_here()
            && self.lanes.iter().all(|lane| lane.channel.has_room())
        {
            if let Some(decoded) = self.intake.push(&mut self.bytes, self.asker.decoders()) {
                self.hear(decoded);
            }
        }
    }

    /// Gives decoded samples to the channels. A channel that is heard for the first time begins.
    fn hear(&mut self, decoded: Decoded) {
        let Decoded { mut planes, ended, took } = decoded;
        if self.mix {
            mix(&mut planes);
        }
        let (style, speech) = (&self.style, &self.asker.speech);
        self.lanes.reserve_exact(planes.len().saturating_sub(self.lanes.len()));
        while self.lanes.len() < planes.len() {
            self.lanes.push(Lane::new(style, speech));
        }
        let n_samples: usize = planes.iter().map(Vec::len).sum();
        self.asker.counts().samples.fetch_add(n_samples as u64, Ordering::Relaxed);
        self.seat.heard(n_samples);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.asker.counts().decode_ns.fetch_add(took, Ordering::Relaxed);
        for (lane, plane) in self.lanes.iter_mut().zip(&planes) {
            lane.channel.push(plane);
        }
        match ended {
            None => {}
            Some(Ok(ending)) => self.report.ending = ending,
            Some(Err(error)) => {
                self.undecodable = Some(error);
                self.finish();
            }
        }
    }

    /// What follows when the channels have nothing more to do by themselves.
    fn settle(&mut self) -> Settled {
        if self.wish == Wish::More && self.lanes.iter().any(|lane| lane.channel.is_over()) {
            self.finish();
        }
        if self.owes_room && self.has_room() {
            self.owes_room = false;
            return Settled::Event(Event::Room);
        }
        let is_hearing =
            !self.bytes.is_empty() && !self.lanes.iter().any(|lane| lane.channel.is_over());
        match self.wish {
            Wish::More | Wish::Nothing => return Settled::Waits,
            // What was pushed before is a part of it.
            Wish::Flush | Wish::End if is_hearing && self.intake.is_here() => {
                return Settled::Waits;
            }
            Wish::End if self.intake.is_here() => {
                if let Some(decoded) = self.intake.finish(self.asker.decoders()) {
                    self.hear(decoded);
                }
                return Settled::Moved;
            }
            Wish::Flush | Wish::End if self.intake.is_away() => return Settled::Waits,
            Wish::Flush | Wish::End => {}
        }
        if !std::mem::replace(&mut self.is_flushing, true) {
            self.lanes.iter_mut().for_each(|lane| lane.channel.flush());
            return Settled::Moved;
        }
        if !self.lanes.iter().all(|lane| lane.channel.is_idle()) {
            return Settled::Waits;
        }
        if std::mem::take(&mut self.owes_flushed) {
            if self.wish == Wish::Flush {
                (self.wish, self.is_flushing) = (Wish::More, false);
            }
            return Settled::Event(Event::Flushed);
        }
        if let Some(error) = self.undecodable.take() {
            return Settled::Event(Event::Undecodable(error));
        }
        self.wish = Wish::Nothing;
        let n_ignored = self.lanes.iter().map(|lane| lane.channel.n_ignored());
        self.report.ignored = n_ignored.max().unwrap_or(0);
        self.report.unread = std::mem::take(&mut self.bytes).len() as u64;
        Settled::Event(Event::Ended(self.report))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let n_open: usize = self.lanes.iter().map(|lane| lane.asking.len()).sum();
        self.asker.counts().cancelled.fetch_add(n_open as u64, Ordering::Relaxed);
    }
}

enum Settled {
    Event(Event),
    Moved,
    Waits,
}

/// All channels as one, which is as loud as they are on average.
fn mix(planes: &mut Planes) {
    let Some((first, others)) = planes.split_first_mut().filter(|(_, others)| !others.is_empty())
    else {
        return;
    };
    #[expect(clippy::cast_precision_loss, reason = "a stream has a handful of channels")]
    let share = 1.0 / (1 + others.len()) as f32;
    for (at, sample) in first.iter_mut().enumerate() {
        let sum = others.iter().filter_map(|plane| plane.get(at)).fold(*sample, |sum, s| sum + s);
        *sample = sum * share;
    }
    planes.truncate(1);
}

/// One audio channel, and what it waits for.
struct Lane {
    channel: Channel<Answer>,
    /// The detector's ear; away while it is judging, and not there where nothing is judged.
    voice: Option<VoiceStream>,
    judging: Option<Judging>,
    asking: Vec<(u64, Asking)>,
    /// What is stable of the utterance under way.
    agreement: Agreement,
    /// Whether that binds the final word.
    keeps_stable: bool,
}

impl Lane {
    fn new(style: &Style, speech: &Speech) -> Self {
        let is_segmented = matches!(style, Style::Segmented(_));
        let keeps_stable = matches!(style, Style::Segmented(found) if found.keeps_stable);
        Self {
            channel: Channel::new(style, &speech.settings().limits),
            voice: is_segmented.then(|| speech.0.voices.open(RATE)),
            judging: None,
            asking: Vec::new(),
            agreement: Agreement::default(),
            keeps_stable,
        }
    }

    /// Begins everything that the channel wants done, until it has something to say.
    fn carry_on(&mut self, asker: &Asker) -> Option<Said<Answer>> {
        while let Some(step) = self.channel.step() {
            match step {
                Step::Say(said) => return Some(said),
                Step::Detect(frames) => {
                    let mut voice = self.voice.take()?;
                    asker.counts().judged.fetch_add(frames.len() as u64, Ordering::Relaxed);
                    self.judging = Some(Box::pin(async move {
                        let judged = voice.detect(frames).await;
                        (voice, judged)
                    }));
                }
                Step::Infer(job) => {
                    self.asking.push((job.number, Box::pin(asker.clone().ask(job))));
                }
                Step::Withdraw(number) => {
                    self.asking.retain(|(open, _)| *open != number);
                    asker.counts().superseded.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        None
    }

    /// What the client is told.
    fn event(&mut self, channel: usize, said: Said<Answer>, counts: &Counts) -> Event {
        match said {
            Said::Active(at) => Event::Active { channel, at },
            Said::Inactive(at) => Event::Inactive { channel, at },
            Said::Paused(since) => Event::Paused { channel, since },
            Said::Unheard(span, lost) => Event::Lost { channel, span, ended: None, lost },
            Said::Answer(Part { span, is_final, ended }, answer) => {
                let is_interim = is_final == Some(false);
                let transcript = answer.as_ref().ok().and_then(Answer::text).map(|text| {
                    if is_interim {
                        self.agreement.hear(&text)
                    } else if self.keeps_stable {
                        self.agreement.end(&text)
                    } else {
                        Transcript { stable: text.len(), text }
                    }
                });
                if !is_interim {
                    // What follows is another utterance.
                    self.agreement = Agreement::default();
                }
                let count = if answer.is_ok() { &counts.segments } else { &counts.failed };
                count.fetch_add(1, Ordering::Relaxed);
                let Answer { model, output } = match answer {
                    Ok(answer) => answer,
                    Err(lost) => return Event::Lost { channel, span, ended, lost },
                };
                Event::Segment { channel, span, is_final, ended, model, output, transcript }
            }
        }
    }

    /// Whether something came of what is waited for.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(judging) = &mut self.judging
            && let Poll::Ready((voice, judged)) = judging.as_mut().poll(context)
        {
            (self.voice, self.judging) = (Some(voice), None);
            self.channel.detected(judged.as_deref().map_err(unheard));
            return true;
        }
        for at in 0..self.asking.len() {
            let (number, asking) = &mut self.asking[at];
            if let Poll::Ready(answer) = asking.as_mut().poll(context) {
                self.channel.answered(*number, answer);
                drop(self.asking.swap_remove(at));
                return true;
            }
        }
        false
    }
}

fn unheard(error: &VoiceError) -> Lost {
    tracing::error!(%error, "frames were not judged");
    Lost { code: error.code(), message: "Internal server error".to_owned() }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("channel", &self.channel).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_are_mixed_are_one_that_is_as_loud_as_they_are_on_average() {
        let mut planes = vec![vec![1.0, 0.5], vec![0.0, -0.5]];
        mix(&mut planes);
        assert_eq!(planes, [[0.5, 0.0]]);

        let mut alone = vec![vec![0.25]];
        mix(&mut alone);
        assert_eq!(alone, [[0.25]]);
        mix(&mut Planes::new());
    }
}
