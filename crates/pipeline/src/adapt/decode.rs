//! Bytes of a stranger to pixels, with bounds on what is decoded.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder as _, ImageReader, Limits, RgbImage};

use super::AdaptError;

/// About twice the pixels of a phone's camera. A few hundred bytes can claim far more.
const MAX_PIXELS: u64 = 32_000_000;

/// What the pixels may take, and what the decoder may take beside them: four channels of 8 bits,
/// and some to spare.
const MAX_BYTES: u64 = 192 << 20;

/// Decodes a PNG or JPEG picture and turns it the way its EXIF data say.
pub(super) fn read(body: &[u8]) -> Result<RgbImage, AdaptError> {
    let broken = |cause: image::ImageError| AdaptError::NotAPicture(cause.to_string());
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_BYTES);
    let mut reader = ImageReader::new(Cursor::new(body))
        .with_guessed_format()
        .map_err(|cause| AdaptError::NotAPicture(cause.to_string()))?;
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(broken)?;

    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(AdaptError::TooManyPixels { width, height, limit: MAX_PIXELS });
    }
    // The decoder's limit is for its own work, not for the pixels it gives.
    let n_bytes = decoder.total_bytes();
    if n_bytes > MAX_BYTES {
        return Err(AdaptError::TooManyBytes { n_bytes, limit: MAX_BYTES });
    }
    // A picture with a broken orientation is better looked at as it lies than refused.
    let orientation = decoder.orientation();
    let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
    if let Ok(orientation) = orientation {
        picture.apply_orientation(orientation);
    }
    Ok(picture.into_rgb8())
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{ImageFormat, Rgb};

    fn png(picture: &RgbImage) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn a_picture_is_turned_the_way_its_exif_data_say() {
        let mut upright = Cursor::new(Vec::new());
        RgbImage::new(40, 20).write_to(&mut upright, ImageFormat::Jpeg).unwrap();
        // One entry, orientation 6: what is on the left belongs at the top.
        let exif = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let turned = [&upright.get_ref()[..2], exif, &upright.get_ref()[2..]].concat();

        assert_eq!(read(upright.get_ref()).unwrap().dimensions(), (40, 20));
        assert_eq!(read(&turned).unwrap().dimensions(), (20, 40));
    }

    /// A PNG of one pixel whose header says otherwise.
    fn claiming(side: u32, depth: u8, colour: u8) -> Vec<u8> {
        let mut png = png(&RgbImage::new(1, 1));
        png[16..20].copy_from_slice(&side.to_be_bytes());
        png[20..24].copy_from_slice(&side.to_be_bytes());
        png[24..26].copy_from_slice(&[depth, colour]);
        let checksum = crc32(&png[12..29]);
        png[29..33].copy_from_slice(&checksum.to_be_bytes());
        png
    }

    #[test]
    fn a_picture_that_claims_to_be_huge_is_refused_by_its_header() {
        let mut jpeg = Cursor::new(Vec::new());
        RgbImage::new(8, 8).write_to(&mut jpeg, ImageFormat::Jpeg).unwrap();
        let mut jpeg = jpeg.into_inner();
        let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x20]);

        for bomb in [claiming(20_000, 8, 2), jpeg] {
            assert_eq!(
                read(&bomb).unwrap_err().to_string(),
                "the picture has 20000 x 20000 pixels; at most 32000000 pixels are read"
            );
        }
    }

    #[test]
    fn a_picture_of_few_but_wide_pixels_is_refused_by_its_memory() {
        // 31 million pixels in four channels of 16 bits are 239 MiB.
        let error = read(&claiming(5_600, 16, 6)).unwrap_err().to_string();

        assert_eq!(
            error,
            "the picture takes 250880000 bytes once decoded; at most 201326592 are spent on one"
        );
    }

    #[test]
    fn what_is_no_picture_is_refused_with_a_sentence() {
        let whole = png(&RgbImage::from_pixel(40, 40, Rgb([1, 2, 3])));
        for body in [&b""[..], b"hello", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", &whole[..60]] {
            let error = read(body).unwrap_err();
            assert!(matches!(error, AdaptError::NotAPicture(_)), "{error}");
            assert!(error.to_string().starts_with("the body is not a PNG or JPEG picture"));
        }
    }

    /// As PNG has it.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
        let byte = |crc: u32, &byte: &u8| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc));
        !bytes.iter().fold(u32::MAX, byte)
    }
}
