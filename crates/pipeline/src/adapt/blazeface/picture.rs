//! A picture in the model's square of 128 x 128 pixels.

use image::{
    RgbImage,
    imageops::{self, FilterType},
};

/// The model's square.
pub(super) const SIDE: u32 = 128;

/// How a picture was put into the model's square.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letterbox {
    /// Of the picture.
    pub(super) width: u32,
    /// Of the picture.
    pub(super) height: u32,
    /// Of the picture in the square.
    inner: (u32, u32),
    /// Where the picture begins in the square.
    start: (u32, u32),
}

impl Letterbox {
    fn of(width: u32, height: u32) -> Self {
        let longest = u64::from(width.max(height)).max(1);
        // Rounded, and never nothing: a picture of 1 x 4000 pixels is a line.
        let scaled = |extent: u32| {
            let scaled = (u64::from(extent) * u64::from(SIDE) + longest / 2) / longest;
            u32::try_from(scaled).unwrap_or(SIDE).clamp(1, SIDE)
        };
        let inner = (scaled(width), scaled(height));
        let start = ((SIDE - inner.0) / 2, (SIDE - inner.1) / 2);
        Self { width, height, inner, start }
    }

    /// The picture's width, for arithmetic.
    pub(super) fn width_f32(&self) -> f32 {
        to_f32(self.width)
    }

    /// The picture's height, for arithmetic.
    pub(super) fn height_f32(&self) -> f32 {
        to_f32(self.height)
    }

    /// From the square, 0 to 1, to the picture, in pixels.
    pub(super) fn to_picture(self, [x, y]: [f32; 2]) -> [f32; 2] {
        let side = to_f32(SIDE);
        [
            (x * side - to_f32(self.start.0)) * self.width_f32() / to_f32(self.inner.0),
            (y * side - to_f32(self.start.1)) * self.height_f32() / to_f32(self.inner.1),
        ]
    }
}

#[expect(clippy::cast_precision_loss, reason = "a picture has fewer than 2^24 pixels a side")]
const fn to_f32(extent: u32) -> f32 {
    extent as f32
}

/// The picture scaled into the middle of a black square: three planes, from -1 to 1, red first.
pub(super) fn letterboxed(picture: &RgbImage) -> (Letterbox, Vec<f32>) {
    let letterbox = Letterbox::of(picture.width(), picture.height());
    let (width, height) = letterbox.inner;
    let scaled = imageops::resize(picture, width, height, FilterType::Triangle);
    let plane = (SIDE * SIDE) as usize;
    let mut planes = vec![-1.0; 3 * plane];
    for (x, y, pixel) in scaled.enumerate_pixels() {
        let at = ((y + letterbox.start.1) * SIDE + x + letterbox.start.0) as usize;
        for (channel, &value) in pixel.0.iter().enumerate() {
            planes[channel * plane + at] = f32::from(value) / 127.5 - 1.0;
        }
    }
    (letterbox, planes)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are whole")]
mod tests {
    use super::*;
    use image::Rgb;

    #[test]
    fn a_wide_picture_lies_in_the_middle_between_black_bars() {
        let red = RgbImage::from_pixel(256, 64, Rgb([255, 0, 0]));

        let (_, planes) = letterboxed(&red);

        let row = |channel: usize, y: usize| planes[(channel * 128 + y) * 128 + 5];
        assert_eq!([row(0, 47), row(0, 48), row(0, 79), row(0, 80)], [-1.0, 1.0, 1.0, -1.0]);
        assert_eq!(row(1, 60), -1.0);
    }

    #[test]
    fn the_corners_of_the_picture_come_back_as_its_corners() {
        for (width, height) in [(256, 64), (100, 300), (1, 4000), (128, 128), (33, 31)] {
            let letterbox = Letterbox::of(width, height);
            let corner = |x: u32, y: u32| [to_f32(x) / 128.0, to_f32(y) / 128.0];
            let (start, inner) = (letterbox.start, letterbox.inner);

            let low = letterbox.to_picture(corner(start.0, start.1));
            let high = letterbox.to_picture(corner(start.0 + inner.0, start.1 + inner.1));

            assert_eq!(low, [0.0, 0.0]);
            assert_eq!(high, [to_f32(width), to_f32(height)]);
        }
    }
}
