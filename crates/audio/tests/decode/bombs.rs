//! Audio made to do harm: small files that become hours, headers that promise the world.

use std::time::Duration;

use paceline_audio::{Bounds, DecodeError, Decoder, Encoding, Source};

use crate::{
    fixtures::{decode, read},
    flac::{frame, head},
    wav::wav,
};

/// What a stream is refused with, and how many frames came out of it before.
fn refusal(bytes: &[u8], bounds: &Bounds) -> (DecodeError, u64) {
    let source = Source::container(Encoding::Auto);
    let mut decoder = Decoder::new(source, 16_000, bounds).unwrap();
    let mut n_frames = 0;
    let mut sink = |planes: &[&[f32]]| n_frames += planes[0].len() as u64;
    let refused = bytes.chunks(65_536).find_map(|bytes| decoder.push(bytes, &mut sink).err());
    let refused = refused.or_else(|| decoder.finish(&mut sink).err());
    (refused.expect("it is refused"), n_frames)
}

fn ten_minutes() -> Bounds {
    Bounds { max_duration: Duration::from_mins(10), ..Bounds::default() }
}

/// Ogg pages of Opus packets that say "nothing changed" for 60 ms, two bytes each with their length.
fn hours_of_opus(n_pages: u32) -> Vec<u8> {
    let page = |flags: u8, number: u32, packets: &[&[u8]]| {
        let lacing: Vec<u8> = packets.iter().map(|packet| packet.len() as u8).collect();
        let mut page = [b"OggS\0", &[flags][..], &[0; 8], &[1; 4], &number.to_le_bytes()].concat();
        page.extend([&[0; 4], &[lacing.len() as u8][..], &lacing, &packets.concat()].concat());
        let crc = page.iter().fold(0_u32, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
                crc << 1 ^ if crc >> 31 == 0 { 0 } else { 0x04c1_1db7 }
            })
        });
        page[22..26].copy_from_slice(&crc.to_le_bytes());
        page
    };
    let mut bytes = page(2, 0, &[b"OpusHead\x01\x01\0\0\x80\xbb\0\0\0\0\0"]);
    bytes.extend(page(0, 1, &[b"OpusTags\0\0\0\0\0\0\0\0"]));
    for number in 0..n_pages {
        bytes.extend(page(0, number + 2, &[&[0x58][..]; 255]));
    }
    bytes
}

#[test]
fn opus_that_decodes_to_hours_stops_at_the_longest_that_is_taken() {
    let bytes = hours_of_opus(100);
    assert!(bytes.len() < 60_000, "{} bytes for 25 minutes", bytes.len());
    let (error, n_frames) = refusal(&bytes, &ten_minutes());
    assert_eq!(error, DecodeError::TooLong { limit: Duration::from_mins(10) });
    // All that is allowed came out, but for what the resampler still looks ahead to.
    assert!((9_599_900..=9_600_000).contains(&n_frames), "{n_frames}");
}

#[test]
fn flac_that_explodes_is_refused() {
    // 8 channels, each of which is one value for 65 535 frames.
    let frames = (0..200).map(|number| frame(number, 8, 65_535, &[0, 0, 1].repeat(8)));
    let bytes = [head(48_000, 8, 65_535), frames.flatten().collect()].concat();
    let (error, _) = refusal(&bytes, &Bounds::default());
    assert_eq!(error, DecodeError::Expansion { limit: 4096 });
}

#[test]
fn headers_that_promise_the_world_are_refused_at_once() {
    let refuse = |bytes: &[u8]| refusal(bytes, &Bounds::default()).0;
    assert!(matches!(refuse(&wav(1, 16, 1, 1, &[0; 4])), DecodeError::Rate { rate: 1, .. }));
    // The rate of a FLAC has 20 bits: 655 350 Hz.
    let mut flac = read("six.flac");
    flac[18..21].copy_from_slice(&[0x9f, 0xff, 0x6a]);
    assert!(matches!(refuse(&flac), DecodeError::Rate { rate: 655_350, .. }));
    let mut channels = wav(6, 8, 1, 16_000, &[0; 4]);
    channels[22..24].copy_from_slice(&u16::MAX.to_le_bytes());
    channels[32..34].copy_from_slice(&u16::MAX.to_le_bytes());
    assert!(matches!(refuse(&channels), DecodeError::Channels { channels: u16::MAX, .. }));
    // An ID3 tag of 256 MB less one, and a WAV chunk of 4 GB, are refused on sight.
    let id3 = refuse(b"ID3\x04\0\0\x7f\x7f\x7f\x7fxxxx");
    assert!(matches!(id3, DecodeError::HeaderTooLong { limit: 4_194_304, .. }), "{id3}");
    let junk = refuse(b"RIFF\0\0\0\0WAVEJUNK\xff\xff\xff\xff");
    assert!(matches!(junk, DecodeError::HeaderTooLong { .. }), "{junk}");
    let tracks =
        refuse(b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\xff\x16\x54\xae\x6b\x01\0\0\0\xff\0\0\0");
    assert!(matches!(tracks, DecodeError::HeaderTooLong { .. }), "{tracks}");
    let moov = refuse(b"\0\0\0\x08ftyp\xff\xff\xff\xffmoov");
    assert!(matches!(moov, DecodeError::HeaderTooLong { .. }), "{moov}");
}

#[test]
fn a_wav_that_claims_4_gb_is_as_long_as_what_came() {
    let mut bytes = wav(1, 16, 1, 16_000, &[0; 2000]);
    bytes[40..44].copy_from_slice(&(u32::MAX - 1000).to_le_bytes());
    assert_eq!(decode(&bytes, 16_000).unwrap().1.frames, 1000);
}

#[test]
fn an_m4a_with_its_index_last_is_held_within_bounds_or_refused() {
    let bytes = read("index-last.m4a");
    assert_eq!(decode(&bytes, 16_000).unwrap().1.frames, 19_201);
    for limit in [0, 4000] {
        let bounds = Bounds { max_held_bytes: limit, ..Bounds::default() };
        let (error, n_frames) = refusal(&bytes, &bounds);
        assert_eq!((&error, n_frames), (&DecodeError::IndexAtEnd { limit }, 0));
        assert!(error.to_string().contains("+faststart"), "{error}");
    }
}

#[test]
fn a_format_that_changes_midway_is_refused_and_one_that_does_not_goes_on() {
    let both = |one: &str, other: &str| [read(one), read(other)].concat();
    let (error, n_frames) = refusal(&both("stereo.mp3", "mono.mp3"), &Bounds::default());
    assert_eq!(error, DecodeError::FormatChanged { encoding: Encoding::Mp3 });
    assert!(n_frames > 5_000);
    let (error, _) = refusal(&both("hybrid.ogg", "celt.ogg"), &Bounds::default());
    assert_eq!(error, DecodeError::FormatChanged { encoding: Encoding::Ogg });
    // Chained streams of the same format are one.
    let (_, ending) = decode(&both("hybrid.ogg", "silk.ogg"), 48_000).unwrap();
    assert_eq!((ending.frames, ending.damaged), (2 * 57_603, 0));
}

#[test]
fn a_stream_of_junk_is_given_up() {
    for encoding in [Encoding::Mp3, Encoding::Aac] {
        let source = Source::container(encoding);
        let mut decoder = Decoder::new(source, 16_000, &Bounds::default()).unwrap();
        let mut sink = |_: &[&[f32]]| {};
        let junk = vec![0x55; 100_000];
        assert!(matches!(decoder.push(&junk, &mut sink), Err(DecodeError::Malformed { .. })));
    }
}
