//! Mistakes that servers like this one have made with audio, each by name.

use paceline_audio::{Bounds, DecodeError, Decoder, Encoding, Source};
use paceline_types::ErrorCode;

use crate::fixtures::{Planes, decode_chunks};

fn ramp(n_samples: usize) -> Vec<u8> {
    (0..n_samples).flat_map(|i| (((i * 7) % 20_000) as i16).to_le_bytes()).collect()
}

#[test]
fn a_message_of_more_than_4096_frames_leaves_no_backlog() {
    let mut decoder =
        Decoder::new(Source::raw(Encoding::S16le, 48_000, 1), 16_000, &Bounds::default()).unwrap();
    let mut planes = Planes::new();
    let mut sent = 0;
    for _ in 0..20 {
        decoder.push(&ramp(30_000), &mut planes).unwrap();
        sent += 30_000;
        // What is held back is half the filter, not a growing queue.
        let held_back = sent / 3 - planes[0].len();
        assert!(held_back < 100, "{held_back} frames behind after {sent}");
    }
}

#[test]
fn the_end_of_a_resampled_stream_is_not_cut_to_one_block() {
    let source = Source::raw(Encoding::S16le, 44_100, 1);
    for n_frames in [1, 4095, 4096, 4097, 50_000] {
        let (planes, _) = decode_chunks(source, 16_000, &ramp(n_frames), &[usize::MAX]).unwrap();
        let length = (n_frames as f64 * 16_000.0 / 44_100.0).round() as usize;
        assert_eq!(planes.first().map_or(0, Vec::len), length);
        let tail = &planes.first().map_or(&[][..], |plane| &plane[length * 9 / 10..]);
        assert!(length < 100 || tail.iter().any(|x| x.abs() > 0.01), "the tail is zeros");
    }
}

#[test]
fn stereo_that_is_resampled_ends_without_an_underflow() {
    let source = Source::raw(Encoding::S16le, 44_100, 2);
    let (planes, ending) = decode_chunks(source, 16_000, &ramp(20_001 * 2), &[4096]).unwrap();
    assert_eq!((planes.len(), ending.frames), (2, 7257));
}

#[test]
fn a_sample_split_between_messages_is_kept() {
    for (encoding, channels) in [(Encoding::S16le, 2), (Encoding::S24le, 1), (Encoding::F32le, 3)] {
        let source = Source::raw(encoding, 16_000, channels);
        let bytes = ramp(12 * 500);
        let whole = decode_chunks(source, 16_000, &bytes, &[usize::MAX]).unwrap();
        for chunk in [1, 2, 3, 5, 7, 11, 13] {
            assert_eq!(decode_chunks(source, 16_000, &bytes, &[chunk]).unwrap(), whole);
        }
    }
}

#[test]
fn half_a_sample_at_the_end_is_reported_and_not_fatal() {
    let source = Source::raw(Encoding::S16le, 16_000, 2);
    let (planes, ending) = decode_chunks(source, 16_000, &[0, 64, 0, 64, 1, 2, 3], &[2]).unwrap();
    assert_eq!(planes, [[0.5], [0.5]]);
    assert_eq!((ending.frames, ending.left_over), (1, 3));
}

#[test]
fn no_channels_no_rate_and_too_many_of_either_are_refused() {
    let refused = |rate, channels| {
        let source = Source::raw(Encoding::S16le, rate, channels);
        let error = Decoder::new(source, 16_000, &Bounds::default()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidInput);
        error
    };
    assert!(matches!(refused(16_000, 0), DecodeError::Channels { channels: 0, most: 8 }));
    assert!(matches!(refused(16_000, 9), DecodeError::Channels { channels: 9, most: 8 }));
    assert!(matches!(refused(16_000, u16::MAX), DecodeError::Channels { .. }));
    for rate in [0, 1, 7_999, 192_001, u32::MAX] {
        assert!(matches!(refused(rate, 1), DecodeError::Rate { lowest: 8_000, .. }));
    }
    let source = Source::container(Encoding::S16le);
    let missing = Decoder::new(source, 16_000, &Bounds::default()).unwrap_err();
    assert_eq!(missing.to_string(), "s16le audio carries neither rate nor channels; say both");
}

#[test]
fn the_quietest_sample_is_not_below_minus_one() {
    let source = Source::raw(Encoding::S16le, 16_000, 1);
    let (planes, _) = decode_chunks(source, 16_000, &i16::MIN.to_le_bytes(), &[2]).unwrap();
    assert_eq!(planes, [[-1.0]]);
}

#[test]
fn a_stream_of_nothing_is_no_error() {
    for encoding in Encoding::all() {
        let source = Source::raw(encoding, 44_100, 2);
        let (planes, ending) = decode_chunks(source, 16_000, &[], &[1]).unwrap();
        assert!(planes.is_empty());
        assert_eq!(ending.frames, 0);
    }
}

#[test]
fn a_decoder_that_ended_takes_no_more() {
    let source = Source::container(Encoding::Wav);
    let mut decoder = Decoder::new(source, 16_000, &Bounds::default()).unwrap();
    let mut planes = Planes::new();
    assert!(matches!(decoder.push(&[0; 64], &mut planes), Err(DecodeError::Malformed { .. })));
    assert_eq!(decoder.push(&[0; 64], &mut planes), Err(DecodeError::Over));
    assert_eq!(decoder.finish(&mut planes), Err(DecodeError::Over));
}
