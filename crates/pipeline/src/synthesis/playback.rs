//! What a listener hears, reckoned from when sound was handed over. Pure.

use std::time::Duration;

use paceline_batch::Moment;

/// One listener's loudspeaker: it plays from the first sound on, and falls silent where the next
/// comes too late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Playback {
    /// When everything handed over so far will have been played.
    dry: Option<Moment>,
    /// How often it fell silent.
    pub gaps: u32,
    /// For how long, in all.
    pub silence: Duration,
    /// How long all that was handed over sounds.
    pub sound: Duration,
}

impl Playback {
    /// Sound was handed over. Says for how long it had been silent before, where it had.
    pub fn hand_over(&mut self, sound: Duration, now: Moment) -> Option<Duration> {
        self.sound += sound;
        let (from, gap) = match self.dry {
            Some(dry) if dry < now => (now, Some(now.since(dry))),
            Some(dry) => (dry, None),
            None => (now, None),
        };
        if let Some(gap) = gap {
            self.gaps += 1;
            self.silence += gap;
        }
        self.dry = Some(from.after(sound));
        gap
    }

    /// When it falls silent unless more comes; `None` before it began.
    #[must_use]
    pub const fn runs_dry(&self) -> Option<Moment> {
        self.dry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_exactly_as_long_as_nothing_was_there_to_play() {
        let at = |millis| Moment::at(Duration::from_millis(millis));
        let chunk = Duration::from_millis(600);
        let mut heard = Playback::default();

        assert_eq!(heard.runs_dry(), None);
        assert_eq!(heard.hand_over(chunk, at(100)), None);
        assert_eq!(heard.hand_over(chunk, at(700)), None, "in the very last moment");
        assert_eq!(heard.hand_over(chunk, at(800)), None, "early");
        assert_eq!(heard.runs_dry(), Some(at(1900)));
        assert_eq!(heard.hand_over(chunk, at(1950)), Some(Duration::from_millis(50)));
        assert_eq!(heard.hand_over(chunk, at(2551)), Some(Duration::from_millis(1)));
        assert_eq!((heard.gaps, heard.silence), (2, Duration::from_millis(51)));
        assert_eq!(heard.runs_dry(), Some(at(3151)));
    }
}
