//! Which endpoint is asked next. Pure: whoever drives it says what time it is.

use std::time::Duration;

use crate::{breaker::Breaker, fault::Fault};

/// What is known of every endpoint of a model.
#[derive(Debug)]
pub(crate) struct Board {
    places: Vec<Place>,
    /// Who is asked first among equals.
    turn: usize,
}

#[derive(Debug)]
struct Place {
    breaker: Breaker,
    in_flight: usize,
    /// Whether it was seen to declare what the model does, since it was last lost.
    is_known: bool,
    trouble: Option<String>,
}

/// An endpoint that was picked, to be given back with what came of it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Pick {
    pub(crate) at: usize,
    /// Whether it was seen to declare what the model does.
    pub(crate) is_known: bool,
}

impl Board {
    pub(crate) fn new(n_endpoints: usize, breaker: &Breaker) -> Self {
        let place =
            || Place { breaker: breaker.clone(), in_flight: 0, is_known: false, trouble: None };
        Self { places: (0..n_endpoints).map(|_| place()).collect(), turn: 0 }
    }

    /// The endpoint to ask: of those that are well the one with least to do, and where none is
    /// well, one whose pause is over. Not one that was tried for this call already.
    pub(crate) fn pick(&mut self, now: Duration, tried: &[usize]) -> Option<Pick> {
        let n_places = self.places.len();
        let all = (0..n_places).map(|step| (self.turn + step) % n_places);
        let mut free = all.filter(|at| !tried.contains(at));
        let well = free.clone().filter(|&at| self.places[at].breaker.is_closed());
        let at = well.min_by_key(|&at| self.places[at].in_flight).or_else(|| {
            free.find(|&at| {
                let Place { breaker, in_flight, .. } = &self.places[at];
                *in_flight == 0 && breaker.open_until().is_some_and(|until| until <= now)
            })
        })?;
        self.turn = (at + 1) % n_places;
        self.places[at].in_flight += 1;
        Some(Pick { at, is_known: self.places[at].is_known })
    }

    /// Gives an endpoint back: it answered, or this is wrong with it.
    pub(crate) fn done(&mut self, pick: &Pick, now: Duration, fault: Option<&Fault>) {
        self.places[pick.at].in_flight -= 1;
        self.note(pick.at, now, fault);
    }

    /// What a call or a probe found.
    pub(crate) fn note(&mut self, at: usize, now: Duration, fault: Option<&Fault>) {
        let place = &mut self.places[at];
        match fault.filter(|fault| fault.blames_endpoint()) {
            None => {
                (place.is_known, place.trouble) = (true, None);
                place.breaker.succeeded();
            }
            Some(fault) => {
                place.is_known &= !fault.forgets();
                place.trouble = Some(fault.to_string());
                place.breaker.failed(now, matches!(fault, Fault::TimedOut(_)));
            }
        }
    }

    /// Whether an endpoint was seen to declare what the model does.
    pub(crate) fn is_known(&self, at: usize) -> bool {
        self.places[at].is_known
    }

    /// How long to wait before an endpoint is probed, `interval` while it is well.
    pub(crate) fn until_probe(&self, at: usize, now: Duration, interval: Duration) -> Duration {
        match self.places[at].breaker.open_until() {
            Some(until) => until.saturating_sub(now),
            None => interval,
        }
    }

    /// What is wrong with each endpoint, where none is well. `name` says what an endpoint is called.
    pub(crate) fn trouble(&self, name: impl Fn(usize) -> String) -> Option<String> {
        if self.places.iter().any(|place| place.breaker.is_closed()) {
            return None;
        }
        let troubles = self.places.iter().enumerate().map(|(at, place)| {
            let trouble = place.trouble.as_deref().unwrap_or("it was not asked yet");
            format!("{}: {trouble}", name(at))
        });
        Some(troubles.collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn board(n_endpoints: usize) -> Board {
        Board::new(n_endpoints, &Breaker::new(1, SECOND))
    }

    fn lost() -> Fault {
        Fault::Broken("gone".to_owned())
    }

    #[test]
    fn the_one_with_least_to_do_is_asked_and_equals_take_turns() {
        let mut board = board(3);
        let picks: Vec<_> = (0..4).map(|_| board.pick(SECOND, &[]).unwrap()).collect();
        assert_eq!(picks.iter().map(|pick| pick.at).collect::<Vec<_>>(), [0, 1, 2, 0]);

        board.done(&picks[2], SECOND, None);

        assert_eq!(board.pick(SECOND, &[]).unwrap().at, 2);
        assert_eq!(board.pick(SECOND, &[1, 2]).unwrap().at, 0);
        assert!(board.pick(SECOND, &[0, 1, 2]).is_none());
    }

    #[test]
    fn one_that_failed_is_left_alone_and_tried_by_one_call_when_its_pause_is_over() {
        let mut board = board(1);
        let pick = board.pick(SECOND, &[]).unwrap();
        board.done(&pick, SECOND, Some(&lost()));

        assert!(board.pick(SECOND, &[]).is_none());
        assert_eq!(board.trouble(|_| "a".into()).unwrap(), "a: the connection was lost: gone");
        assert_eq!(board.until_probe(0, SECOND, 9 * SECOND), SECOND);
        let trial = board.pick(2 * SECOND, &[]).unwrap();
        assert!(!trial.is_known);
        assert!(board.pick(2 * SECOND, &[]).is_none());

        board.done(&trial, 2 * SECOND, None);
        assert!(board.pick(2 * SECOND, &[]).unwrap().is_known);
        assert_eq!(board.trouble(|_| "a".into()), None);
    }

    #[test]
    fn a_call_that_fails_by_itself_says_nothing_about_the_endpoint() {
        let mut board = board(1);
        let pick = board.pick(SECOND, &[]).unwrap();

        board.done(&pick, SECOND, Some(&Fault::Failed("bad input".to_owned())));

        assert!(board.pick(SECOND, &[]).is_some());
    }

    proptest! {
        /// Whatever happens, an endpoint that is well is asked sooner than one that is not, and
        /// nobody is forgotten: once all pauses are over, somebody can be asked.
        #[test]
        fn somebody_can_be_asked_in_the_end(
            steps in prop::collection::vec((any::<bool>(), 0_u64..5), 1..100),
            n_endpoints in 1_usize..4,
        ) {
            let mut board = board(n_endpoints);
            let mut now = Duration::ZERO;
            for (succeeds, seconds) in steps {
                now += Duration::from_secs(seconds);
                let is_well: Vec<_> =
                    board.places.iter().map(|place| place.breaker.is_closed()).collect();
                if let Some(pick) = board.pick(now, &[]) {
                    prop_assert!(is_well[pick.at] || !is_well.contains(&true));
                    board.done(&pick, now, (!succeeds).then(lost).as_ref());
                } else {
                    prop_assert!(!is_well.contains(&true));
                }
            }
            prop_assert!(board.pick(now + 60 * SECOND, &[]).is_some());
        }
    }
}
