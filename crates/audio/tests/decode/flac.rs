//! FLAC made by hand, with checksums that are right, so that what is in the frames is looked at.

use proptest::prelude::*;

use crate::fixtures::decode;

/// The marker and the stream information of 16-bit samples in blocks of `block` frames.
pub(crate) fn head(rate: u32, channels: usize, block: u16) -> Vec<u8> {
    let about = u64::from(rate) << 44 | (channels as u64 - 1) << 41 | 15 << 36;
    let block = block.to_be_bytes();
    let info = [&block[..], &block, &[0; 6], &about.to_be_bytes(), &[0; 16]].concat();
    [b"fLaC\x80\0\0\x22", &info[..]].concat()
}

/// A frame of `n_frames` with these subframes.
pub(crate) fn frame(number: u32, channels: usize, n_frames: u16, subframes: &[u8]) -> Vec<u8> {
    let number = char::from_u32(number).unwrap().to_string();
    let mut frame = vec![0xff, 0xf8, 0x70, (channels as u8 - 1) << 4 | 0x08];
    frame.extend([number.as_bytes(), &(n_frames - 1).to_be_bytes()].concat());
    frame.push(crc(0x07, 8, &frame) as u8);
    frame.extend(subframes);
    frame.extend((crc(0x8005, 16, &frame) as u16).to_be_bytes());
    frame
}

/// The simplest FLAC: nothing is compressed.
pub(crate) fn verbatim(rate: u32, channels: usize, samples: &[i16]) -> Vec<u8> {
    const BLOCK: u16 = 1000;
    let mut bytes = head(rate, channels, BLOCK);
    for (number, frames) in (0..).zip(samples.chunks(usize::from(BLOCK) * channels)) {
        let mut subframes = Vec::new();
        for channel in 0..channels {
            subframes.push(0x02);
            let plane = frames.iter().skip(channel).step_by(channels);
            subframes.extend(plane.flat_map(|sample| sample.to_be_bytes()));
        }
        bytes.extend(frame(number, channels, (frames.len() / channels) as u16, &subframes));
    }
    bytes
}

fn crc(polynomial: u32, width: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << (width - 8), |crc, _| {
            let top = crc >> (width - 1) & 1;
            (crc << 1 & ((1 << width) - 1)) ^ (top * polynomial)
        })
    })
}

#[test]
fn a_damaged_frame_becomes_silence_and_the_rest_is_as_it_was() {
    let samples: Vec<i16> = (0..5000).map(|i| i % 300 + 1).collect();
    let mut bytes = verbatim(16_000, 1, &samples);
    let (sound, _) = decode(&bytes, 16_000).unwrap();
    bytes[42 + 2011 + 500] ^= 0x10; // in the second frame
    let (damaged, ending) = decode(&bytes, 16_000).unwrap();
    assert_eq!((ending.frames, ending.damaged), (5000, 1));
    assert_eq!(damaged[0][..1000], sound[0][..1000]);
    assert_eq!(damaged[0][1000..2000], [0.0; 1000]);
    assert_eq!(damaged[0][2000..], sound[0][2000..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn frames_of_garbage_are_survived(
        channels in 1_usize..=8,
        frames in prop::collection::vec(
            (1_u16..=4000, prop::collection::vec(any::<u8>(), 1..300)), 1..4),
    ) {
        let mut bytes = head(44_100, channels, 4000);
        for (number, (n_frames, subframes)) in (0..).zip(&frames) {
            bytes.extend(frame(number, channels, *n_frames, subframes));
        }
        let (planes, ending) = decode(&bytes, 16_000).unwrap();
        prop_assert!(planes.iter().flatten().all(|x| x.abs() <= 1.0));
        prop_assert!(ending.damaged <= 2 * frames.len() as u64);
    }
}
