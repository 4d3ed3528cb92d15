//! Faces: a PNG or JPEG picture in, `{"width", "height", "faces": [...]}` out.

mod detection;
mod picture;

use paceline_types::Tensor;
use serde_json::{Value, json};

use self::{
    detection::{Detection, N_ANCHORS, N_NUMBERS},
    picture::Letterbox,
};
use super::{AdaptError, Adapter, Encoded, decode::read, numbers};

/// The adapter `blazeface`.
///
/// Each face has `box`, `[x0, y0, x1, y1]`; `score`, from 0.5 to 1; and `keypoints`, six times
/// `[x, y]`: the right eye, the left eye, the tip of the nose, the mouth, the right ear, the left
/// ear, right and left being the person's. All are in pixels of the picture, from its upper left
/// corner, once it has been turned the way its EXIF data say; `width` and `height` are of that
/// picture. Boxes end at its edges; points may lie beyond them. The surest face comes first.
#[derive(Debug, Default)]
pub struct BlazeFace;

impl BlazeFace {
    /// An adapter for the short-range model.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Adapter for BlazeFace {
    fn encode(&self, body: &[u8]) -> Result<Encoded, AdaptError> {
        let picture = read(body)?;
        let (letterbox, pixels) = picture::letterboxed(&picture);
        let side = picture::SIDE as usize;
        Ok(Encoded::Ask {
            inputs: vec![Tensor::from_f32(&[1, 3, side, side], &pixels)?],
            decode: Box::new(move |outputs| decode(outputs, &letterbox)),
        })
    }
}

fn decode(outputs: &[Tensor], letterbox: &Letterbox) -> Result<Value, AdaptError> {
    let expected = "FP32 of shape [1, 896, 16] and [1, 896, 1]";
    let boxes = numbers(outputs, 0, &[1, N_ANCHORS, N_NUMBERS], expected)?;
    let logits = numbers(outputs, 1, &[1, N_ANCHORS, 1], expected)?;
    let found = detection::merged(detection::decoded(&boxes, &logits));
    let faces: Vec<Value> = found.iter().map(|face| answer(face, letterbox)).collect();
    Ok(json!({ "width": letterbox.width, "height": letterbox.height, "faces": faces }))
}

fn answer(face: &Detection, letterbox: &Letterbox) -> Value {
    let inside = |[x, y]: [f32; 2]| {
        [x.clamp(0.0, letterbox.width_f32()), y.clamp(0.0, letterbox.height_f32())]
    };
    let [x0, y0] = inside(letterbox.to_picture(face.low()));
    let [x1, y1] = inside(letterbox.to_picture(face.high()));
    let keypoints: Vec<_> = face.keypoints().map(|point| letterbox.to_picture(point)).collect();
    json!({ "box": [x0, y0, x1, y1], "score": face.score, "keypoints": keypoints })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_at_the_edge_has_a_box_that_ends_there() {
        let mut boxes = vec![0.0; N_ANCHORS * N_NUMBERS];
        let mut logits = vec![-10.0; N_ANCHORS];
        // At the first anchor, 4 pixels from the corner, a face of 32 x 32 with an ear outside.
        boxes[..6].copy_from_slice(&[0.0, 0.0, 32.0, 32.0, -12.0, 0.0]);
        logits[0] = 3.0;
        let outputs = [
            Tensor::from_f32(&[1, N_ANCHORS, N_NUMBERS], &boxes).unwrap(),
            Tensor::from_f32(&[1, N_ANCHORS, 1], &logits).unwrap(),
        ];
        let (letterbox, _) = picture::letterboxed(&image::RgbImage::new(256, 256));

        let answer = decode(&outputs, &letterbox).unwrap();

        assert_eq!(answer["faces"][0]["box"], json!([0.0, 0.0, 40.0, 40.0]));
        assert_eq!(answer["faces"][0]["keypoints"][0], json!([-16.0, 8.0]));
    }
}
