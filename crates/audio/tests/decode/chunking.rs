//! Any chunking gives the same samples, and no bytes make it panic.

use paceline_audio::{Bounds, Decoder, Encoding, Source};
use proptest::prelude::*;

use crate::fixtures::{ALL, Planes, decode, decode_chunks, read};

#[test]
fn one_byte_at_a_time_gives_the_same_samples() {
    for (name, _, _) in ALL {
        let bytes = read(name);
        let whole = decode(&bytes, 16_000).unwrap();
        let auto = Source::container(Encoding::Auto);
        assert_eq!(decode_chunks(auto, 16_000, &bytes, &[1]).unwrap(), whole, "{name}");
    }
}

fn fixture() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    prop::sample::select(ALL).prop_map(|(name, _, _)| (name, read(name)))
}

/// How containers begin.
const BEGINNINGS: &[&[u8]] = &[
    b"",
    b"fLaC",
    b"OggS\0",
    b"RIFF\0\0\0\0WAVE",
    b"ID3",
    b"\x1a\x45\xdf\xa3",
    b"\0\0\0\x08ftyp",
    b"\xff\xfb\x90",
    b"\xff\xf1\x50\x80",
];

/// Changes bytes here and there, and cuts something off.
fn damaged() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let changes = prop::collection::vec(change, 0..40);
    let cut = prop::option::of(any::<prop::sample::Index>());
    (fixture(), changes, cut).prop_map(|((name, mut bytes), changes, cut)| {
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        (name, bytes)
    })
}

/// Everything that comes out, errors too.
fn outcome(source: Source, bytes: &[u8], chunks: &[usize]) -> (Planes, String) {
    let mut decoder = Decoder::new(source, 16_000, &Bounds::default()).unwrap();
    let mut planes = Planes::new();
    let (mut rest, mut sizes) = (bytes, chunks.iter().cycle());
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        if let Err(error) = decoder.push(now, &mut planes) {
            return (planes, error.to_string());
        }
        rest = later;
    }
    let ending = decoder.finish(&mut planes);
    (planes, format!("{ending:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_chunking_gives_the_same_samples(
        (name, bytes) in fixture(),
        chunks in prop::collection::vec(1_usize..5000, 1..8),
    ) {
        let whole = decode(&bytes, 16_000).unwrap();
        let auto = Source::container(Encoding::Auto);
        prop_assert_eq!(decode_chunks(auto, 16_000, &bytes, &chunks).unwrap(), whole, "{}", name);
    }

    #[test]
    fn damage_is_survived_and_is_the_same_in_any_chunking(
        (name, bytes) in damaged(),
        chunks in prop::collection::vec(1_usize..3000, 1..8),
    ) {
        let auto = Source::container(Encoding::Auto);
        let whole = outcome(auto, &bytes, &[usize::MAX]);
        for sample in whole.0.iter().flatten() {
            prop_assert!(sample.abs() <= 1.0);
        }
        prop_assert_eq!(outcome(auto, &bytes, &chunks), whole, "{}", name);
    }

    #[test]
    fn garbage_is_survived_by_every_reader(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        prefix in prop::sample::select(BEGINNINGS),
        chunk in 1_usize..500,
    ) {
        let bytes = [prefix, &bytes].concat();
        for encoding in Encoding::all() {
            let source = Source::raw(encoding, 44_100, 3);
            let whole = outcome(source, &bytes, &[usize::MAX]);
            prop_assert_eq!(outcome(source, &bytes, &[chunk]), whole, "{}", encoding);
        }
    }
}
