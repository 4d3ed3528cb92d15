//! The files under `tests/fixtures` (its `make` says where they come from), and ways to decode them.

use std::{fs, path::Path};

use paceline_audio::{Bounds, DecodeError, Decoder, Encoding, Ending, Source};

/// Every container; with what rate and channels it has.
pub(crate) const ALL: &[(&str, u32, usize)] = &[
    ("speech.flac", 16_000, 1),
    ("stereo24.flac", 44_100, 2),
    ("six.flac", 48_000, 6),
    ("stereo.mp3", 44_100, 2),
    ("mono.mp3", 16_000, 1),
    ("bare.mp3", 24_000, 1),
    ("mono.aac", 16_000, 1),
    ("stereo.aac", 44_100, 2),
    ("index-last.m4a", 16_000, 1),
    ("index-first.m4a", 16_000, 1),
    ("fragments.m4a", 16_000, 1),
    ("silk.ogg", 48_000, 1),
    ("hybrid.ogg", 48_000, 1),
    ("celt.ogg", 48_000, 2),
    ("six.ogg", 48_000, 6),
    ("file.webm", 48_000, 1),
    ("live.webm", 48_000, 1),
    ("video.webm", 48_000, 1),
    ("extensible.wav", 48_000, 6),
];

pub(crate) type Planes = Vec<Vec<f32>>;

pub(crate) fn read(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Decodes bytes that come in chunks of these sizes, over and over.
pub(crate) fn decode_chunks(
    source: Source,
    rate: u32,
    bytes: &[u8],
    chunks: &[usize],
) -> Result<(Planes, Ending), DecodeError> {
    let mut decoder = Decoder::new(source, rate, &Bounds::default())?;
    let mut planes = Planes::new();
    let (mut rest, mut sizes) = (bytes, chunks.iter().cycle());
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        decoder.push(now, &mut planes)?;
        rest = later;
    }
    let ending = decoder.finish(&mut planes)?;
    assert_eq!(planes.first().map_or(0, Vec::len) as u64, ending.frames);
    Ok((planes, ending))
}

/// Decodes bytes of a container that come all at once.
pub(crate) fn decode(bytes: &[u8], rate: u32) -> Result<(Planes, Ending), DecodeError> {
    decode_chunks(Source::container(Encoding::Auto), rate, bytes, &[usize::MAX])
}

/// How loud the difference is, in dB of what is wanted.
pub(crate) fn error_db(heard: &[f32], wanted: &[f32]) -> f64 {
    let power = |x: f32| f64::from(x) * f64::from(x);
    let error: f64 = heard.iter().zip(wanted).map(|(a, b)| power(a - b)).sum();
    let signal: f64 = wanted.iter().map(|x| power(*x)).sum();
    10.0 * (error / signal).log10()
}
