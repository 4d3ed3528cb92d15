//! What every decoder gives its samples to: bounds, trimming and resampling happen here, once.

use crate::{Bounds, DecodeError, Encoding, Ending, Format, Resampler, Sink};

/// Frames that are handed on at once.
const BLOCK_FRAMES: usize = 4096;
/// Audio that may come of however few bytes.
const FREE_SECONDS: u64 = 60;

/// The way from decoded samples to a stream's sink.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) encoding: Encoding,
    pub(super) bounds: Bounds,
    rate: u32,
    format: Option<Format>,
    resampler: Option<Resampler>,
    /// Frames at the start that the encoder added.
    skip: u64,
    /// Frames after which the encoder only filled up.
    until: Option<u64>,
    frames_in: u64,
    frames_out: u64,
    header_bytes: u64,
    /// Encoded bytes that are done with.
    pub(super) bytes: u64,
    pub(super) damaged: u64,
}

impl Output {
    pub(super) fn new(encoding: Encoding, rate: u32, bounds: Bounds) -> Self {
        Self {
            encoding,
            bounds,
            rate,
            format: None,
            resampler: None,
            skip: 0,
            until: None,
            frames_in: 0,
            frames_out: 0,
            header_bytes: 0,
            bytes: 0,
            damaged: 0,
        }
    }

    pub(super) fn format(&self) -> Option<Format> {
        self.format
    }

    /// Says what comes; must be said before samples are given, and must stay so.
    pub(super) fn open(&mut self, format: Format) -> Result<(), DecodeError> {
        if self.format.is_some_and(|known| known != format) {
            return Err(DecodeError::FormatChanged { encoding: self.encoding });
        }
        self.format = Some(format.within(&self.bounds)?);
        Ok(())
    }

    /// Begins another stream of the same format; returns how many frames came before it.
    pub(super) fn begin(&mut self) -> u64 {
        self.until = None;
        self.frames_in
    }

    /// Leaves out the next `frames`.
    pub(super) fn skip(&mut self, frames: u64) {
        self.skip = frames;
    }

    /// Leaves out what comes after `frames` of all that is not skipped.
    pub(super) fn until(&mut self, frames: u64) {
        self.until = Some(frames);
    }

    /// Counts bytes that are not audio.
    pub(super) fn header(&mut self, n_bytes: u64) -> Result<(), DecodeError> {
        self.header_bytes = self.header_bytes.saturating_add(n_bytes);
        let limit = self.bounds.max_header_bytes;
        if self.header_bytes > limit {
            return Err(DecodeError::HeaderTooLong { encoding: self.encoding, limit });
        }
        Ok(())
    }

    /// Takes decoded frames, one plane per channel.
    pub(super) fn take(
        &mut self,
        planes: &[&[f32]],
        sink: &mut dyn Sink,
    ) -> Result<(), DecodeError> {
        let encoding = self.encoding;
        let format = self.format.filter(|format| usize::from(format.channels) == planes.len());
        let format = format.ok_or(DecodeError::FormatChanged { encoding })?;
        let n_frames = planes.first().map_or(0, |plane| plane.len());
        let skipped = usize::try_from(self.skip).map_or(n_frames, |skip| skip.min(n_frames));
        self.skip -= skipped as u64;
        let room = |most: Option<u64>| {
            let room = most.map(|most| most.saturating_sub(self.frames_in));
            room.map_or(n_frames, |room| usize::try_from(room).unwrap_or(n_frames))
        };
        let wanted = (n_frames - skipped).min(room(self.until));
        let longest = u64::try_from(self.bounds.max_duration.as_millis()).unwrap_or(u64::MAX);
        let longest = longest.saturating_mul(u64::from(format.rate)) / 1000;
        let taken = wanted.min(room(Some(longest)));

        let mut at = skipped;
        while at < skipped + taken {
            let end = (at + BLOCK_FRAMES).min(skipped + taken);
            let block: Vec<&[f32]> = planes.iter().map(|plane| &plane[at..end]).collect();
            self.give(&block, format, sink);
            at = end;
        }
        if taken < wanted {
            return Err(DecodeError::TooLong { limit: self.bounds.max_duration });
        }
        self.check_expansion(format)
    }

    /// Takes silence in place of frames that could not be decoded.
    pub(super) fn silence(
        &mut self,
        n_frames: usize,
        sink: &mut dyn Sink,
    ) -> Result<(), DecodeError> {
        self.damaged += 1;
        let Some(format) = self.format else { return Ok(()) };
        let silence = vec![0.0; n_frames];
        self.take(&vec![silence.as_slice(); usize::from(format.channels)], sink)
    }

    pub(super) fn finish(&mut self, left_over: u64, sink: &mut dyn Sink) -> Ending {
        if let Some(resampler) = &mut self.resampler {
            let mut counted = Counted { sink, frames: &mut self.frames_out };
            resampler.finish(&mut counted);
        }
        Ending { frames: self.frames_out, damaged: self.damaged, left_over }
    }

    fn give(&mut self, block: &[&[f32]], format: Format, sink: &mut dyn Sink) {
        self.frames_in += block[0].len() as u64;
        let mut counted = Counted { sink, frames: &mut self.frames_out };
        if format.rate == self.rate {
            counted.take(block);
        } else {
            let new = || Resampler::new(format.rate, self.rate, format.channels);
            self.resampler.get_or_insert_with(new).push(block, &mut counted);
        }
    }

    fn check_expansion(&self, format: Format) -> Result<(), DecodeError> {
        let limit = self.bounds.max_expansion;
        let free = FREE_SECONDS * u64::from(format.rate);
        let samples = self.frames_in.saturating_mul(u64::from(format.channels));
        if self.frames_in > free && samples > self.bytes.saturating_mul(u64::from(limit)) {
            return Err(DecodeError::Expansion { limit });
        }
        Ok(())
    }
}

struct Counted<'a> {
    sink: &'a mut dyn Sink,
    frames: &'a mut u64,
}

impl Sink for Counted<'_> {
    fn take(&mut self, planes: &[&[f32]]) {
        *self.frames += planes[0].len() as u64;
        self.sink.take(planes);
    }
}
