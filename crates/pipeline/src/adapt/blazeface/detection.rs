//! Numbers at anchors to faces: the short-range detector's anchors, and weighted suppression.

/// Where the model looks: two squares at each of 16 x 16 places and six at each of 8 x 8.
pub(super) const N_ANCHORS: usize = 16 * 16 * 2 + 8 * 8 * 6;
/// A box and six points.
pub(super) const N_NUMBERS: usize = 16;

/// The model's square in pixels, in which its numbers are given.
const SIDE: f32 = 128.0;
/// Below this a face is not reported.
const MIN_SCORE: f32 = 0.5;
/// Two boxes that share more than this of their joint area are one face.
const SAME_FACE: f32 = 0.3;

/// A face in the model's square, 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Detection {
    pub(super) score: f32,
    /// The lower corner, the higher corner, then six points.
    points: [[f32; 2]; 8],
}

impl Detection {
    /// The upper left corner.
    pub(super) const fn low(&self) -> [f32; 2] {
        self.points[0]
    }

    /// The lower right corner.
    pub(super) const fn high(&self) -> [f32; 2] {
        self.points[1]
    }

    /// Eyes, nose, mouth, ears.
    pub(super) fn keypoints(&self) -> impl Iterator<Item = [f32; 2]> {
        self.points[2..].iter().copied()
    }

    fn area(&self) -> f32 {
        let ([x0, y0], [x1, y1]) = (self.low(), self.high());
        (x1 - x0).max(0.0) * (y1 - y0).max(0.0)
    }

    /// The part of their joint area that both boxes cover.
    fn overlap(&self, other: &Self) -> f32 {
        let axis = |axis: usize| {
            let low = self.low()[axis].max(other.low()[axis]);
            (self.high()[axis].min(other.high()[axis]) - low).max(0.0)
        };
        let shared = axis(0) * axis(1);
        let joint = self.area() + other.area() - shared;
        if joint > 0.0 { shared / joint } else { 0.0 }
    }
}

/// The anchors' centres, in the order of the model's outputs.
fn centres() -> impl Iterator<Item = [f32; 2]> {
    [(16_u8, 2), (8, 6)].into_iter().flat_map(|(grid, n_here)| {
        let middle = move |cell: u8| (f32::from(cell) + 0.5) / f32::from(grid);
        (0..grid).flat_map(move |y| {
            (0..grid).flat_map(move |x| std::iter::repeat_n([middle(x), middle(y)], n_here))
        })
    })
}

/// The anchors that see a face. The model counts pixels from the anchor's centre.
pub(super) fn decoded(boxes: &[f32], logits: &[f32]) -> Vec<Detection> {
    let anchors = centres().zip(boxes.as_chunks::<N_NUMBERS>().0).zip(logits);
    anchors
        .filter_map(|((centre, numbers), logit)| {
            let score = 1.0 / (1.0 + (-logit.clamp(-100.0, 100.0)).exp());
            // A NaN is no face either.
            let is_face = score >= MIN_SCORE && numbers.iter().all(|number| number.is_finite());
            if !is_face {
                return None;
            }
            let at = |x: f32, y: f32| [x / SIDE + centre[0], y / SIDE + centre[1]];
            let [x, y, width, height] = [numbers[0], numbers[1], numbers[2], numbers[3]];
            let mut points = [[0.0; 2]; 8];
            points[0] = at(x - width / 2.0, y - height / 2.0);
            points[1] = at(x + width / 2.0, y + height / 2.0);
            for (point, [x, y]) in points[2..].iter_mut().zip(numbers[4..].as_chunks().0) {
                *point = at(*x, *y);
            }
            Some(Detection { score, points })
        })
        .collect()
}

/// One detection per face, the surest first: the mean of those that overlap the surest of them,
/// weighted by score, with that one's score.
pub(super) fn merged(mut rest: Vec<Detection>) -> Vec<Detection> {
    rest.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut faces = Vec::new();
    while let Some(surest) = rest.first().cloned() {
        let is_same = |other: &mut Detection| surest.overlap(other) > SAME_FACE;
        let mut same: Vec<Detection> = rest.extract_if(.., is_same).collect();
        if same.is_empty() {
            // A box without area overlaps nothing, itself included.
            same.push(rest.remove(0));
        }
        let total: f32 = same.iter().map(|one| one.score).sum();
        let mut points = [[0.0; 2]; 8];
        for one in &same {
            for (mean, point) in points.iter_mut().zip(one.points) {
                mean[0] += point[0] * one.score / total;
                mean[1] += point[1] * one.score / total;
            }
        }
        faces.push(Detection { score: surest.score, points });
    }
    faces
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are sums of powers of two")]
mod tests {
    use super::*;

    fn face(score: f32, [x0, y0, x1, y1]: [f32; 4]) -> Detection {
        let mut points = [[x0; 2]; 8];
        points[0] = [x0, y0];
        points[1] = [x1, y1];
        Detection { score, points }
    }

    #[test]
    fn there_is_an_anchor_for_every_output_in_row_major_order() {
        let centres: Vec<_> = centres().collect();

        assert_eq!(centres.len(), N_ANCHORS);
        assert_eq!(centres[1], [0.5 / 16.0, 0.5 / 16.0]);
        assert_eq!(centres[2], [1.5 / 16.0, 0.5 / 16.0]);
        assert_eq!(centres[512 + 6 * 8], [0.5 / 8.0, 1.5 / 8.0]);
        assert_eq!(centres[895], [7.5 / 8.0, 7.5 / 8.0]);
    }

    #[test]
    fn numbers_are_pixels_from_the_anchor() {
        let mut boxes = vec![0.0; N_ANCHORS * N_NUMBERS];
        let mut logits = vec![-10.0; N_ANCHORS];
        boxes[512 * 16..][..6].copy_from_slice(&[8.0, 0.0, 16.0, 32.0, 64.0, 8.0]);
        logits[512] = 0.0;
        logits[3] = f32::NAN;

        let found = decoded(&boxes, &logits);

        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.low(), one.high()), ([0.0625, -0.0625], [0.1875, 0.1875]));
        assert_eq!(one.keypoints().next(), Some([0.5625, 0.125]));
        assert_eq!(one.score, 0.5);
    }

    #[test]
    fn overlapping_boxes_are_averaged_by_score_and_others_stay() {
        let merged = merged(vec![
            face(0.6, [0.1, 0.0, 0.5, 0.4]),
            face(0.7, [0.6, 0.6, 0.9, 0.9]),
            face(0.9, [0.0, 0.0, 0.4, 0.4]),
        ]);

        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0].score, 0.9);
        assert!((merged[0].low()[0] - 0.04).abs() < 1e-6, "{:?}", merged[0]);
        assert!((merged[1].low()[0] - 0.6).abs() < 1e-6);
    }

    #[test]
    fn boxes_without_area_end_as_well() {
        assert_eq!(merged(vec![face(0.9, [0.1; 4]), face(0.8, [0.1; 4])]).len(), 2);
        assert_eq!(merged(Vec::new()), []);
    }
}
