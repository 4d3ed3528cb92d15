//! Where two chunks meet: cut, faded or mixed. Pure.

use super::{
    plan::Window,
    shape::{ChunkShape, Seam},
};

/// Makes one stream of sound out of the sound of windows.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    /// The end of the chunk before, which is mixed with the beginning of the next.
    tail: Vec<f32>,
}

/// A window's sound that is not as long as it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the vocoder gave {actual} samples for a window of {tokens} tokens; {expected} are needed")]
pub struct WrongLength {
    /// What came.
    pub actual: usize,
    /// For how many tokens.
    pub tokens: usize,
    /// What must come at least.
    pub expected: usize,
}

impl Joiner {
    /// Takes a window's sound and gives what can be played. Numbers that are none are silence.
    ///
    /// # Errors
    ///
    /// When it is too short.
    pub(crate) fn join(
        &mut self,
        shape: &ChunkShape,
        window: &Window,
        sound: &[f32],
    ) -> Result<Vec<f32>, WrongLength> {
        let expected = window.skip + window.keep;
        let kept = sound.get(window.skip..expected).ok_or(WrongLength {
            actual: sound.len(),
            tokens: window.len(),
            expected,
        })?;
        let clean = |sample: &f32| if sample.is_finite() { *sample } else { 0.0 };
        let mut chunk: Vec<f32> = kept.iter().map(clean).collect();
        let n_seam = shape.seam_samples();
        match shape.seam {
            Seam::None => {}
            Seam::Fade => {
                for (at, sample) in chunk.iter_mut().take(n_seam).enumerate() {
                    *sample *= progress(at, n_seam);
                }
            }
            Seam::Crossfade => {
                for (at, (new, old)) in chunk.iter_mut().zip(&self.tail).enumerate() {
                    let weight = progress(at, n_seam);
                    *new = *new * weight + old * (1.0 - weight);
                }
                self.tail.clear();
                if !window.is_last {
                    let held = chunk.len().saturating_sub(n_seam);
                    self.tail = chunk.split_off(held);
                }
            }
        }
        Ok(chunk)
    }
}

/// How far into a seam a sample is, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a seam is short")]
fn progress(at: usize, n_seam: usize) -> f32 {
    at as f32 / n_seam as f32
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::synthesis::plan::Planner;

    /// Chunks of a sound of which every window is a true excerpt, joined.
    fn joined(shape: &ChunkShape, n_tokens: usize) -> Vec<f32> {
        let mut planner = Planner::new(shape.clone(), true, true);
        let mut joiner = Joiner::default();
        let mut all = Vec::new();
        while let Some(window) = planner.next(n_tokens, true) {
            let first = window.from * shape.token_samples;
            let sound: Vec<f32> =
                (first..window.to * shape.token_samples).map(|at| 1.0 + at as f32).collect();
            all.extend(joiner.join(shape, &window, &sound).unwrap());
        }
        all
    }

    #[test]
    fn excerpts_of_one_sound_join_to_that_sound_and_a_fade_is_heard_at_each_beginning() {
        let shape = |seam| ChunkShape {
            sample_rate: 1000,
            token_samples: 10,
            chunk: 4,
            first_chunk: 3,
            context: 2,
            seam,
            seam_time: Duration::from_millis(5),
            ..ChunkShape::default()
        };
        let whole: Vec<f32> = (0..210).map(|at| 1.0 + at as f32).collect();

        assert_eq!(joined(&shape(Seam::None), 21), whole);
        let mixed = joined(&shape(Seam::Crossfade), 21);
        assert_eq!(mixed.len(), whole.len());
        assert!(mixed.iter().zip(&whole).all(|(mixed, whole)| (mixed - whole).abs() < 1e-3));
        let faded = joined(&shape(Seam::Fade), 21);
        assert_eq!(faded[30..36], [0.0, 32.0 * 0.2, 33.0 * 0.4, 34.0 * 0.6, 35.0 * 0.8, 36.0]);
        assert_eq!(faded[36..70], whole[36..70]);
    }

    #[test]
    fn too_little_sound_is_named_and_what_is_no_number_is_silence() {
        let shape = ChunkShape { token_samples: 2, seam: Seam::None, ..ChunkShape::default() };
        let window = Planner::new(shape.clone(), false, true).next(2, true).unwrap();
        let mut joiner = Joiner::default();

        let sound = joiner.join(&shape, &window, &[0.5, f32::NAN, f32::INFINITY, -2.0]).unwrap();
        assert_eq!(sound, [0.5, 0.0, 0.0, -2.0]);
        let refused = joiner.join(&shape, &window, &[0.0; 3]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the vocoder gave 3 samples for a window of 2 tokens; 4 are needed"
        );
    }
}
