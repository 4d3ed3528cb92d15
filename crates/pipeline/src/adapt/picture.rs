//! Pictures for any model that takes one: a PNG or JPEG in, its pixels resized and normalised as the
//! model's configuration says; the model's outputs are the answer.

use bytes::Bytes;
use image::{
    RgbImage,
    imageops::{self, FilterType},
};
use paceline_types::{DType, Shape, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AdaptError, Adapter, Encoded, decode::read};

/// Longest side of what a model takes.
const MAX_SIDE: u32 = 8192;

/// How a picture becomes a model's input: `(pixel * scale - mean) / std`, channel by channel.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PictureSettings {
    /// Of the input.
    pub width: u32,
    /// Of the input.
    pub height: u32,
    /// Whether channels lie one after the other or pixel by pixel.
    #[serde(default)]
    pub layout: Planes,
    /// Which channels there are, in which order.
    #[serde(default)]
    pub channels: Channels,
    /// How the picture is brought to its size.
    #[serde(default)]
    pub resize: Resize,
    /// Pixels as `FP32`, normalised, or as they are, `UINT8`.
    #[serde(default)]
    pub elements: Elements,
    /// What a pixel of 0 to 255 is multiplied by.
    #[serde(default = "one_by_255")]
    pub scale: f32,
    /// What is subtracted then.
    #[serde(default)]
    pub mean: [f32; 3],
    /// What is divided by at last.
    #[serde(default = "ones")]
    pub std: [f32; 3],
}

const fn one_by_255() -> f32 {
    1.0 / 255.0
}

const fn ones() -> [f32; 3] {
    [1.0; 3]
}

/// How channels lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Planes {
    /// One after the other: `[1, channels, height, width]`.
    #[default]
    Nchw,
    /// Pixel by pixel: `[1, height, width, channels]`.
    Nhwc,
    /// One after the other, in one row: `[1, channels * height * width]`.
    Flat,
}

/// Which channels there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Channels {
    /// Red first.
    #[default]
    Rgb,
    /// Blue first.
    Bgr,
    /// Brightness only.
    Gray,
}

/// How a picture is brought to its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resize {
    /// Both sides, whatever its form.
    #[default]
    Stretch,
    /// As large as fits, in the middle, on black.
    Letterbox,
    /// As small as covers, its middle.
    Crop,
}

/// What the input's elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub enum Elements {
    /// Normalised.
    #[default]
    #[serde(rename = "FP32")]
    F32,
    /// As they are.
    #[serde(rename = "UINT8")]
    U8,
}

/// Settings that make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    /// A size that no input has.
    #[error("picture.width and picture.height must be from 1 to {MAX_SIDE}")]
    Size,
    /// A division by nothing.
    #[error("picture.std must not be 0, and all numbers must be finite")]
    Numbers,
}

/// The adapter that `[picture]` makes.
#[derive(Debug, Clone)]
pub struct Picture(PictureSettings);

impl Picture {
    /// An adapter with these settings.
    ///
    /// # Errors
    ///
    /// When they make no sense.
    pub fn build(settings: PictureSettings) -> Result<Self, PictureError> {
        let is_side = |side: u32| (1..=MAX_SIDE).contains(&side);
        if !is_side(settings.width) || !is_side(settings.height) {
            return Err(PictureError::Size);
        }
        let is_finite = settings.mean.iter().chain(&settings.std).all(|number| number.is_finite());
        if settings.std.contains(&0.0) || !is_finite || !settings.scale.is_finite() {
            return Err(PictureError::Numbers);
        }
        Ok(Self(settings))
    }

    fn resized(&self, picture: &RgbImage) -> RgbImage {
        let PictureSettings { width, height, resize, .. } = self.0;
        let (own_width, own_height) = picture.dimensions();
        let filter = FilterType::Triangle;
        // `side` by `to / from`, rounded, and never nothing: a picture of 1 x 4000 pixels is a line.
        let scaled = |side: u32, to: u32, from: u32| {
            let from = u64::from(from.max(1));
            let scaled = (u64::from(side) * u64::from(to) + from / 2) / from;
            u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
        };
        let is_wider =
            u64::from(width) * u64::from(own_height) < u64::from(height) * u64::from(own_width);
        match resize {
            _ if picture.dimensions() == (width, height) => picture.clone(),
            Resize::Stretch => imageops::resize(picture, width, height, filter),
            Resize::Crop => {
                // Cut before it is scaled, so that nothing larger than the picture is ever made.
                let (cut_width, cut_height) = if is_wider {
                    (scaled(own_height, width, height).min(own_width), own_height)
                } else {
                    (own_width, scaled(own_width, height, width).min(own_height))
                };
                let (x, y) = ((own_width - cut_width) / 2, (own_height - cut_height) / 2);
                let cut = imageops::crop_imm(picture, x, y, cut_width, cut_height);
                imageops::resize(&*cut, width, height, filter)
            }
            Resize::Letterbox => {
                let (inner_width, inner_height) = if is_wider {
                    (width, scaled(own_height, width, own_width).min(height))
                } else {
                    (scaled(own_width, height, own_height).min(width), height)
                };
                let inner = imageops::resize(picture, inner_width, inner_height, filter);
                let mut whole = RgbImage::new(width, height);
                let (x, y) = ((width - inner_width) / 2, (height - inner_height) / 2);
                imageops::replace(&mut whole, &inner, i64::from(x), i64::from(y));
                whole
            }
        }
    }

    /// The input, channel by channel or pixel by pixel.
    fn tensor(&self, picture: &RgbImage) -> Result<Tensor, AdaptError> {
        let settings = &self.0;
        let (width, height) = (settings.width as usize, settings.height as usize);
        let n_channels = if settings.channels == Channels::Gray { 1 } else { 3 };
        let n_pixels = width * height;
        let shape: Shape = match settings.layout {
            Planes::Nchw => [1, n_channels, height, width].as_slice().into(),
            Planes::Nhwc => [1, height, width, n_channels].as_slice().into(),
            Planes::Flat => [1, n_channels * n_pixels].as_slice().into(),
        };
        let place = |pixel: usize, channel: usize| match settings.layout {
            Planes::Nchw | Planes::Flat => channel * n_pixels + pixel,
            Planes::Nhwc => pixel * n_channels + channel,
        };
        let mut bytes = vec![0; n_pixels * n_channels];
        for (at, pixel) in picture.pixels().enumerate() {
            let [red, green, blue] = pixel.0;
            match settings.channels {
                Channels::Gray => bytes[place(at, 0)] = brightness(pixel.0),
                Channels::Rgb => {
                    for (channel, value) in [red, green, blue].into_iter().enumerate() {
                        bytes[place(at, channel)] = value;
                    }
                }
                Channels::Bgr => {
                    for (channel, value) in [blue, green, red].into_iter().enumerate() {
                        bytes[place(at, channel)] = value;
                    }
                }
            }
        }
        if settings.elements == Elements::U8 {
            return Ok(Tensor::build(DType::U8, shape, Bytes::from(bytes))?);
        }
        // What each of 256 values becomes, for each channel.
        let table = |channel: usize| -> Vec<f32> {
            let (mean, std) = (settings.mean[channel], settings.std[channel]);
            (0..=u8::MAX).map(|value| (f32::from(value) * settings.scale - mean) / std).collect()
        };
        let tables = [table(0), table(1), table(2)];
        let channel_of = |at: usize| match settings.layout {
            Planes::Nchw | Planes::Flat => at / n_pixels,
            Planes::Nhwc => at % n_channels,
        };
        let numbers: Vec<f32> = bytes
            .iter()
            .enumerate()
            .map(|(at, value)| tables[channel_of(at)][usize::from(*value)])
            .collect();
        Ok(Tensor::from_f32(&shape, &numbers)?)
    }
}

/// As television has it, in whole numbers.
fn brightness([red, green, blue]: [u8; 3]) -> u8 {
    let sum = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    u8::try_from((sum + 500) / 1000).unwrap_or(u8::MAX)
}

impl Adapter for Picture {
    fn encode(&self, body: &[u8]) -> Result<Encoded, AdaptError> {
        let picture = self.resized(&read(body)?);
        let inputs = vec![self.tensor(&picture)?];
        Ok(Encoded::Ask { inputs, decode: Box::new(|outputs| Ok(answer(outputs))) })
    }

    fn leaves_outputs(&self) -> bool {
        true
    }
}

/// The outputs in words, for those who cannot take tensors.
fn answer(outputs: &[Tensor]) -> Value {
    let output = |tensor: &Tensor| {
        let data = match tensor.to_f32() {
            Some(numbers) => json!(numbers),
            None => json!(tensor.data().to_vec()),
        };
        json!({ "datatype": tensor.dtype().as_str(), "shape": tensor.shape(), "data": data })
    };
    json!({ "outputs": outputs.iter().map(output).collect::<Vec<_>>() })
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are whole")]
mod tests {
    use super::*;
    use image::{ImageFormat, Rgb};

    fn settings() -> PictureSettings {
        serde_json::from_str(r#"{"width": 4, "height": 2, "elements": "UINT8"}"#).unwrap()
    }

    fn input(settings: PictureSettings, picture: &RgbImage) -> Tensor {
        let mut bytes = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        let adapter = Picture::build(settings).unwrap();
        match adapter.encode(bytes.get_ref()).unwrap() {
            Encoded::Ask { mut inputs, .. } => inputs.remove(0),
            Encoded::Answer(_) => panic!("a model is needed"),
        }
    }

    #[test]
    fn layout_and_channels_are_the_models() {
        let picture = RgbImage::from_pixel(4, 2, Rgb([10, 20, 30]));
        let planes = input(settings(), &picture);
        let bgr = PictureSettings { layout: Planes::Nhwc, channels: Channels::Bgr, ..settings() };
        let pixels = input(bgr, &picture);
        let gray = input(PictureSettings { channels: Channels::Gray, ..settings() }, &picture);

        assert_eq!((planes.shape(), &planes.data()[7..9]), (&[1, 3, 2, 4][..], &[10, 20][..]));
        assert_eq!(
            (pixels.shape(), &pixels.data()[..4]),
            (&[1, 2, 4, 3][..], &[30, 20, 10, 30][..])
        );
        assert_eq!((gray.shape(), gray.data()[0]), (&[1, 1, 2, 4][..], 18));
    }

    /// A picture of which every channel of every pixel is another number.
    fn numbered(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            let first = u8::try_from(3 * (y * width + x)).unwrap();
            Rgb([first, first + 1, first + 2])
        })
    }

    #[test]
    fn every_number_is_where_the_layout_has_it_scaled_shifted_and_divided_by_channel() {
        let (mean, std) = ([10.0, 0.0, 4.0], [1.0, 2.0, 4.0]);
        let picture = numbered(4, 2);
        for layout in [Planes::Nchw, Planes::Nhwc, Planes::Flat] {
            let normal = PictureSettings {
                layout,
                elements: Elements::F32,
                scale: 0.5,
                mean,
                std,
                ..settings()
            };
            let input = input(normal, &picture);
            let shape: &[usize] = match layout {
                Planes::Nchw => &[1, 3, 2, 4],
                Planes::Nhwc => &[1, 2, 4, 3],
                Planes::Flat => &[1, 24],
            };
            assert_eq!(input.shape(), shape);
            let numbers = input.to_f32().unwrap();
            for (pixel, channel) in (0..8).flat_map(|pixel| (0..3).map(move |c| (pixel, c))) {
                let at =
                    if layout == Planes::Nhwc { 3 * pixel + channel } else { 8 * channel + pixel };
                let own = (3 * pixel + channel) as f32;
                assert_eq!(
                    numbers[at],
                    (own * 0.5 - mean[channel]) / std[channel],
                    "channel {channel} of pixel {pixel}, {layout:?}"
                );
            }
        }
    }

    #[test]
    fn unless_it_is_said_numbers_are_from_0_to_1() {
        let settings = serde_json::from_str(r#"{"width": 1, "height": 1}"#).unwrap();
        let numbers = input(settings, &RgbImage::from_pixel(1, 1, Rgb([255, 0, 128])));

        assert_eq!(numbers.to_f32().unwrap(), [1.0, 0.0, 128.0 / 255.0]);
    }

    /// All small widths and heights of a picture and of a model's input.
    fn sizes() -> impl Iterator<Item = [u32; 4]> {
        (0..6_u32.pow(4)).map(|n| [n, n / 6, n / 36, n / 216].map(|n| n % 6 + 1))
    }

    #[test]
    fn a_boxed_picture_is_as_large_as_fits_and_in_the_middle() {
        for [width, height, to_width, to_height] in sizes() {
            let boxed = PictureSettings {
                width: to_width,
                height: to_height,
                resize: Resize::Letterbox,
                channels: Channels::Gray,
                ..settings()
            };
            let white = RgbImage::from_pixel(width, height, Rgb([255; 3]));
            let tensor = input(boxed, &white);

            // It is scaled by what the tighter side allows, and rounded.
            let (by, of) = if to_width * height < to_height * width {
                (to_width, width)
            } else {
                (to_height, height)
            };
            let inside = |at: u32, own: u32, to: u32| {
                let inner = ((2 * own * by + of) / (2 * of)).clamp(1, to);
                let start = (to - inner) / 2;
                (start..start + inner).contains(&at)
            };
            for (at, value) in (0..).zip(tensor.data().iter()) {
                let (x, y) = (at % to_width, at / to_width);
                let is_white = inside(x, width, to_width) && inside(y, height, to_height);
                assert_eq!(
                    *value,
                    if is_white { 255 } else { 0 },
                    "{width} x {height} in {to_width} x {to_height}, at {x}, {y}"
                );
            }
        }
    }

    #[test]
    fn a_cropped_picture_is_its_middle() {
        for [width, height, to_width, to_height] in sizes() {
            // Else what is cut out is scaled as well.
            let fits = (width == to_width && to_height <= height)
                || (height == to_height && to_width <= width);
            if !fits {
                continue;
            }
            let cropped = PictureSettings {
                width: to_width,
                height: to_height,
                resize: Resize::Crop,
                layout: Planes::Nhwc,
                ..settings()
            };
            let picture = numbered(width, height);
            let (left, top) = ((width - to_width) / 2, (height - to_height) / 2);
            let middle = imageops::crop_imm(&picture, left, top, to_width, to_height).to_image();

            assert_eq!(
                input(cropped, &picture).data()[..],
                middle.into_raw(),
                "{width} x {height} to {to_width} x {to_height}"
            );
        }
    }

    #[test]
    fn the_outputs_are_the_answer() {
        let adapter = Picture::build(settings()).unwrap();
        assert!(adapter.leaves_outputs());
        let outputs = [
            Tensor::from_f32(&[1, 2], &[0.5, 2.0]).unwrap(),
            Tensor::build(DType::U8, [2].as_slice().into(), Bytes::from_static(b"\x01\x02"))
                .unwrap(),
        ];

        assert_eq!(
            answer(&outputs),
            json!({"outputs": [
                {"datatype": "FP32", "shape": [1, 2], "data": [0.5, 2.0]},
                {"datatype": "UINT8", "shape": [2], "data": [1, 2]},
            ]})
        );
    }

    #[test]
    fn a_picture_of_another_form_is_stretched_boxed_or_cropped() {
        let mut square = RgbImage::from_pixel(4, 4, Rgb([200, 200, 200]));
        for x in 0..4 {
            square.put_pixel(x, 0, Rgb([0, 0, 0]));
            square.put_pixel(x, 3, Rgb([0, 0, 0]));
        }
        let red = |resize| {
            let gray = PictureSettings { resize, channels: Channels::Gray, ..settings() };
            input(gray, &square).data().to_vec()
        };

        let boxed = red(Resize::Letterbox);
        assert_eq!((boxed[0], boxed[3]), (0, 0), "bars");
        assert!(0 < boxed[1] && boxed[1] == boxed[2]);
        assert_eq!(red(Resize::Crop), [200; 8], "the middle only");
        assert!(red(Resize::Stretch).iter().all(|value| 0 < *value && *value < 200));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let build = |settings| Picture::build(settings).unwrap_err();
        assert_eq!(build(PictureSettings { width: 0, ..settings() }), PictureError::Size);
        assert_eq!(
            build(PictureSettings { std: [1.0, 0.0, 1.0], ..settings() }),
            PictureError::Numbers
        );
        assert_eq!(build(PictureSettings { scale: f32::NAN, ..settings() }), PictureError::Numbers);
    }
}
