//! What one listener needs next, and by when. Pure: whoever drives it says what time it is, so that
//! sessions and the simulation of `paceline bench tts` run the very same code.

use std::time::Duration;

use paceline_batch::Moment;

use super::{
    plan::{Planner, Window},
    playback::Playback,
    shape::{ChunkShape, Seam},
};

/// How far ahead of a listener's ear sound is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// By when the first sound is wanted.
    pub first: Duration,
    /// Sound that is wanted later than this is left for when there is nothing else to do.
    pub ahead: Duration,
    /// Chunks of one listener that are with the vocoder at once.
    pub in_flight: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::ZERO, ahead: Duration::from_millis(1200), in_flight: 4 }
    }
}

/// One listener: what was asked for, what was heard.
#[derive(Debug, Clone)]
pub struct Listener {
    shape: ChunkShape,
    pace: Pace,
    finalizes: bool,
    planner: Planner,
    /// A window that is planned and not asked for yet.
    planned: Option<Window>,
    /// Sound of each chunk that is with the vocoder, the oldest first.
    asked: std::collections::VecDeque<Duration>,
    playback: Playback,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Ask for this, wanted within so long.
    Ask(Window, Duration),
    /// It is early for the next chunk: ask again then, or at once where there is nothing else to do.
    Early(Moment),
    /// Nothing before more tokens or a chunk have come.
    Wait,
}

impl Listener {
    /// A listener who has heard nothing yet.
    #[must_use]
    pub fn new(shape: ChunkShape, pace: Pace, finalizes: bool) -> Self {
        // A crossfade holds the end of a chunk back, unless that is the last.
        let finalizes = finalizes || shape.seam == Seam::Crossfade;
        Self {
            planner: Planner::new(shape.clone(), finalizes, true),
            shape,
            pace,
            finalizes,
            planned: None,
            asked: std::collections::VecDeque::new(),
            playback: Playback::default(),
        }
    }

    /// What to do, with `n_tokens` there and no more to come where `ended`. `spare` says that there
    /// is nothing else to do, so that a chunk may be asked for before its time.
    pub fn next(&mut self, n_tokens: usize, ended: bool, spare: bool, now: Moment) -> Next {
        if self.planned.is_none() {
            self.planned = self.planner.next(n_tokens, ended);
        }
        let Some(window) = self.planned else { return Next::Wait };
        // The first sound goes alone: whatever went with it would only make it later.
        let most = if self.playback.runs_dry().is_none() { 1 } else { self.pace.in_flight };
        if most <= self.asked.len() {
            return Next::Wait;
        }
        let wanted = self.wanted(now);
        if self.pace.ahead < wanted && !spare {
            return Next::Early(now.after(wanted.saturating_sub(self.pace.ahead)));
        }
        self.planned = None;
        self.asked.push_back(self.shape.time(self.new_samples(&window)));
        Next::Ask(window, wanted)
    }

    /// In how long the next chunk is wanted: when everything before it will have been played.
    #[must_use]
    pub fn wanted(&self, now: Moment) -> Duration {
        let coming: Duration = self.asked.iter().sum();
        match self.playback.runs_dry() {
            Some(dry) => dry.since(now) + coming,
            None => self.pace.first + coming,
        }
    }

    /// The oldest chunk that was asked for is handed over. Says for how long the listener had
    /// heard nothing before, if that was so.
    pub fn hand_over(&mut self, now: Moment) -> Option<Duration> {
        let sound = self.asked.pop_front()?;
        self.playback.hand_over(sound, now)
    }

    /// Goes on with another run of tokens.
    pub fn next_run(&mut self) {
        self.planner = Planner::new(self.shape.clone(), self.finalizes, false);
    }

    /// Whether every token so far is in a chunk that was asked for.
    #[must_use]
    pub const fn has_asked_for_all(&self) -> bool {
        self.planned.is_none()
    }

    /// Chunks that are with the vocoder.
    #[must_use]
    pub fn n_asked(&self) -> usize {
        self.asked.len()
    }

    /// The first token that a later window may want.
    #[must_use]
    pub fn oldest_needed(&self) -> usize {
        self.planned.map_or(self.planner.oldest_needed(), |window| window.from)
    }

    /// What was heard.
    #[must_use]
    pub const fn playback(&self) -> &Playback {
        &self.playback
    }

    fn new_samples(&self, window: &Window) -> u64 {
        (window.new * self.shape.token_samples) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::at(Duration::from_millis(millis))
    }

    #[test]
    fn a_chunk_is_wanted_when_its_listener_would_run_dry_and_not_asked_for_long_before() {
        let mut listener = Listener::new(ChunkShape::default(), Pace::default(), false);
        let ms = Duration::from_millis;

        let Next::Ask(_, wanted) = listener.next(150, true, false, at(0)) else { panic!() };
        assert_eq!(wanted, ms(0), "the first sound is wanted at once");
        assert_eq!(listener.next(150, true, true, at(0)), Next::Wait, "and goes alone");
        assert_eq!(listener.hand_over(at(50)), None);
        for later in [600, 1200] {
            let Next::Ask(_, wanted) = listener.next(150, true, false, at(50)) else { panic!() };
            assert_eq!(wanted, ms(later), "when what is before it will have been played");
        }
        assert_eq!(listener.next(150, true, false, at(50)), Next::Early(at(650)));
        assert!(matches!(listener.next(150, true, true, at(50)), Next::Ask(..)), "nobody else");

        assert_eq!(listener.hand_over(at(700)), Some(ms(50)), "it was dry at 650");
        assert_eq!(listener.playback().gaps, 1);
    }

    #[test]
    fn no_more_than_so_many_chunks_are_under_way() {
        let pace = Pace { in_flight: 2, ahead: Duration::from_mins(1), ..Pace::default() };
        let mut listener = Listener::new(ChunkShape::default(), pace, false);

        assert!(matches!(listener.next(150, true, false, at(0)), Next::Ask(..)));
        listener.hand_over(at(1));
        for _ in 0..2 {
            assert!(matches!(listener.next(150, true, false, at(1)), Next::Ask(..)));
        }
        assert_eq!(listener.next(150, true, true, at(1)), Next::Wait);
        listener.hand_over(at(2));
        assert!(matches!(listener.next(150, true, false, at(2)), Next::Ask(..)));
    }

    #[test]
    fn what_is_under_way_is_counted_and_what_is_still_wanted_is_kept() {
        let pace = Pace { ahead: Duration::from_mins(1), ..Pace::default() };
        let mut listener = Listener::new(ChunkShape::default(), pace, false);
        assert_eq!((listener.n_asked(), listener.oldest_needed()), (0, 0));

        assert!(matches!(listener.next(150, true, false, at(0)), Next::Ask(..)));
        assert_eq!(listener.wanted(at(0)), Duration::from_millis(600), "after the first");
        listener.hand_over(at(0));
        for n_asked in 1..=4 {
            assert!(matches!(listener.next(150, true, false, at(0)), Next::Ask(..)));
            assert_eq!(listener.n_asked(), n_asked);
        }
        // 75 tokens are asked for, and those that follow want the 50 before them.
        assert_eq!(listener.oldest_needed(), 25);

        listener.next_run();
        assert_eq!(listener.oldest_needed(), 0, "another run begins at its own beginning");
    }
}
