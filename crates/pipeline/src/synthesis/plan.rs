//! Which tokens make which chunk. Pure: counts of tokens in, windows out.

use super::shape::{ChunkShape, Seam};

/// One call of the vocoder: a window of tokens, and which part of its sound is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Tokens that stand before the first there is.
    pub edge_before: usize,
    /// The first token of the window.
    pub from: usize,
    /// One past its last.
    pub to: usize,
    /// Tokens that stand after the last there is.
    pub edge_after: usize,
    /// How many of its tokens are new.
    pub new: usize,
    /// Samples of its sound that come before what is wanted.
    pub skip: usize,
    /// Samples that are wanted: the new ones, and before them what a crossfade mixes.
    pub keep: usize,
    /// Whether no more tokens come after it.
    pub is_last: bool,
}

impl Window {
    /// Tokens that the vocoder gets.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.edge_before + (self.to - self.from) + self.edge_after
    }

    /// Whether there is nothing in it; there always is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Cuts one run of tokens into windows.
#[derive(Debug, Clone)]
pub struct Planner {
    shape: ChunkShape,
    /// Whether a chunk may only leave once it is known whether it is the last.
    finalizes: bool,
    is_begin: bool,
    /// The first token that is in no chunk yet.
    next: usize,
}

impl Planner {
    /// Of a run that begins the sound, or of one that goes on after another.
    #[must_use]
    pub const fn new(shape: ChunkShape, finalizes: bool, is_begin: bool) -> Self {
        Self { shape, finalizes, is_begin, next: 0 }
    }

    /// The next window, once there are tokens enough for it: `n_tokens` are there, and `ended`
    /// says that no more come.
    pub fn next(&mut self, n_tokens: usize, ended: bool) -> Option<Window> {
        let ChunkShape { token_samples, context, lookahead, .. } = self.shape;
        let size = if self.is_begin { self.shape.first_chunk } else { self.shape.chunk };
        let start = self.next;
        let due = start + size;
        // One token more tells that this chunk is not the last.
        let needed = due + lookahead.max(usize::from(self.finalizes));
        if !ended && n_tokens < needed {
            return None;
        }
        let end = due.min(n_tokens);
        if end <= start {
            return None;
        }
        let (from, to) = (start.saturating_sub(context), (end + lookahead).min(n_tokens));
        let (edge_before, edge_after) = match self.shape.edge {
            Some(_) => (context - (start - from), end + lookahead - to),
            None => (0, 0),
        };
        let mixed = match self.shape.seam {
            Seam::Crossfade if 0 < start => self.shape.seam_samples(),
            _ => 0,
        };
        // What comes before the new tokens in the window's sound; a vocoder that trims gives none.
        let old = if self.shape.trims { 0 } else { edge_before + start - from };
        self.next = end;
        self.is_begin = false;
        Some(Window {
            edge_before,
            from,
            to,
            edge_after,
            new: end - start,
            skip: old * token_samples - mixed,
            keep: (end - start) * token_samples + mixed,
            is_last: ended && end == n_tokens,
        })
    }

    /// The first token that a later window may want.
    #[must_use]
    pub const fn oldest_needed(&self) -> usize {
        self.next.saturating_sub(self.shape.context)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shapes() -> impl Strategy<Value = ChunkShape> {
        (1_usize..20, 1_usize..20, 0_usize..60, 0_usize..20, any::<bool>(), any::<bool>()).prop_map(
            |(chunk, first_chunk, context, lookahead, has_edge, trims)| ChunkShape {
                token_samples: 4,
                chunk,
                first_chunk,
                context,
                lookahead,
                edge: has_edge.then_some(0.0),
                trims,
                seam: Seam::None,
                ..ChunkShape::default()
            },
        )
    }

    proptest! {
        /// However tokens come, each is new in exactly one window, in order; only the last window
        /// is the last; and no window leaves before its lookahead is there or will never be.
        #[test]
        fn every_token_is_new_once(
            shape in shapes(),
            finalizes in any::<bool>(),
            portions in prop::collection::vec(0_usize..30, 1..12),
        ) {
            let mut planner = Planner::new(shape.clone(), finalizes, true);
            let (mut there, mut done, mut windows) = (0, 0, Vec::new());
            for (at, portion) in portions.iter().enumerate() {
                there += portion;
                let ended = at + 1 == portions.len();
                while let Some(window) = planner.next(there, ended) {
                    let start = window.from + shape.context.min(done);
                    prop_assert_eq!(start, done, "the new tokens follow the old ones");
                    prop_assert!(window.to <= there);
                    prop_assert!(ended || done + window.new + shape.lookahead <= there);
                    prop_assert_eq!(window.keep, window.new * 4);
                    if shape.edge.is_some() {
                        prop_assert_eq!(window.len(), window.new + shape.context + shape.lookahead);
                    }
                    done += window.new;
                    prop_assert!(planner.oldest_needed() <= done);
                    windows.push(window);
                }
            }
            prop_assert_eq!(done, there);
            let lasts: Vec<bool> = windows.iter().map(|window| window.is_last).collect();
            if finalizes {
                let n_last = lasts.iter().filter(|last| **last).count();
                prop_assert_eq!(n_last, usize::from(there != 0));
            }
            prop_assert!(lasts.iter().rev().skip(1).all(|last| !last));
        }
    }

    #[test]
    fn the_seeds_numbers_vocode_sixty_five_tokens_and_keep_fifteen() {
        let mut planner = Planner::new(ChunkShape::default(), false, true);
        let windows: Vec<Window> = std::iter::from_fn(|| planner.next(75, true)).collect();

        assert_eq!(windows.len(), 5);
        assert_eq!((windows[0].len(), windows[0].skip), (15, 0));
        let last = windows[4];
        assert_eq!((last.len(), last.skip, last.keep), (65, 50 * 960, 15 * 960));
        assert!(last.is_last && !windows[3].is_last);
    }

    #[test]
    fn a_crossfade_keeps_what_is_mixed_from_before_the_chunk() {
        let shape = ChunkShape { seam: Seam::Crossfade, ..ChunkShape::default() };
        let mut planner = Planner::new(shape, false, true);
        let first = planner.next(30, true).unwrap();
        let second = planner.next(30, true).unwrap();

        assert_eq!((first.skip, first.keep), (0, 15 * 960));
        assert_eq!((second.skip, second.keep), (15 * 960 - 480, 15 * 960 + 480));
    }

    #[test]
    fn a_chunk_leaves_with_the_very_token_that_it_waits_for() {
        let shape = ChunkShape { lookahead: 3, ..ChunkShape::default() };
        let mut planner = Planner::new(shape, false, true);

        assert_eq!(planner.next(17, false), None);
        let window = planner.next(18, false).unwrap();
        assert_eq!((window.new, window.to, window.is_last), (15, 18, false));
        assert!(!window.is_empty());
        assert_eq!(planner.oldest_needed(), 0);
        planner.next(200, false).unwrap();
        planner.next(200, false).unwrap();
        planner.next(200, false).unwrap();
        assert_eq!(planner.oldest_needed(), 10, "60 are done, and 50 of these are context");
    }
}
