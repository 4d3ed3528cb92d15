//! WAV as real programs write it.

use paceline_audio::{DecodeError, Encoding, Source};

use crate::fixtures::{Planes, decode, decode_chunks};

fn chunk(kind: [u8; 4], size: u32, body: &[u8]) -> Vec<u8> {
    [&kind[..], &size.to_le_bytes(), body].concat()
}

fn whole(kind: [u8; 4], body: &[u8]) -> Vec<u8> {
    let padding: &[u8] = if body.len().is_multiple_of(2) { &[] } else { &[0] };
    [chunk(kind, u32::try_from(body.len()).unwrap(), body), padding.to_vec()].concat()
}

fn format(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let block = channels * bits.div_ceil(8);
    let fields = [
        &tag.to_le_bytes()[..],
        &channels.to_le_bytes(),
        &rate.to_le_bytes(),
        &(rate * u32::from(block)).to_le_bytes(),
        &block.to_le_bytes(),
        &bits.to_le_bytes(),
    ];
    fields.concat()
}

/// A WAV of these chunks.
pub(crate) fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    let body = chunks.concat();
    let size = u32::try_from(body.len() + 4).unwrap();
    [b"RIFF", &size.to_le_bytes()[..], b"WAVE", &body].concat()
}

/// A plain WAV.
pub(crate) fn wav(tag: u16, bits: u16, channels: u16, rate: u32, data: &[u8]) -> Vec<u8> {
    riff(&[whole(*b"fmt ", &format(tag, channels, rate, bits)), whole(*b"data", data)])
}

fn mono16(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

fn expected(samples: &[i16]) -> Planes {
    vec![samples.iter().map(|sample| f32::from(*sample) / 32_768.0).collect()]
}

const SAMPLES: [i16; 5] = [0, 1, -1, i16::MAX, i16::MIN];

/// Decodes whole and byte by byte, which must agree.
fn both(bytes: &[u8]) -> (Planes, u64) {
    let (planes, ending) = decode(bytes, 16_000).unwrap();
    let source = Source::container(Encoding::Wav);
    assert_eq!(decode_chunks(source, 16_000, bytes, &[1]).unwrap(), (planes.clone(), ending));
    (planes, ending.left_over)
}

#[test]
fn sizes_that_a_pipe_could_not_know_mean_to_the_end() {
    let format = whole(*b"fmt ", &format(1, 1, 16_000, 16));
    for size in [0, u32::MAX, u32::MAX - 36] {
        let bytes = riff(&[format.clone(), chunk(*b"data", size, &mono16(&SAMPLES))]);
        assert_eq!(both(&bytes), (expected(&SAMPLES), 0), "{size:#x}");
    }
}

#[test]
fn chunks_before_and_after_the_samples_are_passed_over() {
    let bytes = riff(&[
        whole(*b"JUNK", &[7; 28]),
        whole(*b"fmt ", &format(1, 1, 16_000, 16)),
        whole(*b"LIST", b"INFOISFT\x05\0\0\0Lavf\0"), // of odd size, so padded
        whole(*b"fact", &[5, 0, 0, 0]),
        whole(*b"data", &mono16(&SAMPLES)),
        whole(*b"LIST", &[1; 99]),
        b"trailing".to_vec(),
    ]);
    assert_eq!(both(&bytes), (expected(&SAMPLES), 0));
}

#[test]
fn a_cut_off_end_costs_the_sample_it_cuts_and_says_so() {
    let bytes = wav(1, 16, 1, 16_000, &mono16(&SAMPLES));
    assert_eq!(both(&bytes[..bytes.len() - 3]), (expected(&SAMPLES[..3]), 1));
    // A data chunk of odd size has half a sample too many.
    let odd = wav(1, 16, 1, 16_000, &[&mono16(&SAMPLES)[..], &[9]].concat());
    assert_eq!(both(&odd), (expected(&SAMPLES), 0));
}

#[test]
fn extensible_headers_say_what_they_extend() {
    for (sub, bits, data, value) in [
        (1_u16, 24_u16, vec![0, 0, 0x40], 0.5),
        (3, 32, 0.25_f32.to_le_bytes().to_vec(), 0.25),
        (3, 64, (-0.25_f64).to_le_bytes().to_vec(), -0.25),
        (7, 8, vec![0x80], 32_124.0 / 32_768.0),
    ] {
        let guid = b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71";
        let extra = [&22_u16.to_le_bytes()[..], &bits.to_le_bytes(), &[4, 0, 0, 0]].concat();
        let body = [format(0xfffe, 1, 16_000, bits), extra, sub.to_le_bytes().to_vec()].concat();
        let body = [&body[..], guid].concat();
        let bytes = riff(&[whole(*b"fmt ", &body), whole(*b"data", &data)]);
        assert_eq!(both(&bytes), (vec![vec![value]], 0));
    }
}

#[test]
fn eight_bits_are_unsigned_and_12_bits_sit_in_16() {
    let bytes = wav(1, 8, 1, 16_000, &[0, 128, 192]);
    assert_eq!(both(&bytes), (vec![vec![-1.0, 0.0, 0.5]], 0));
    let bytes = wav(1, 12, 1, 16_000, &mono16(&[0x4000]));
    assert_eq!(both(&bytes), (vec![vec![0.5]], 0));
}

#[test]
fn rf64_is_read_to_the_end_of_what_comes() {
    let mut bytes = riff(&[
        whole(*b"ds64", &[0; 28]),
        whole(*b"fmt ", &format(1, 1, 16_000, 16)),
        chunk(*b"data", u32::MAX, &mono16(&SAMPLES)),
    ]);
    bytes[..8].copy_from_slice(b"RF64\xff\xff\xff\xff");
    assert_eq!(both(&bytes), (expected(&SAMPLES), 0));
}

#[test]
fn what_is_not_a_wav_is_refused_with_a_reason() {
    let malformed = |bytes: &[u8]| decode(bytes, 16_000).unwrap_err();
    assert!(matches!(malformed(b"RIFF\0\0\0\0AVI LIST"), DecodeError::Malformed { .. }));
    assert!(matches!(malformed(&riff(&[whole(*b"data", &[0; 4])])), DecodeError::Malformed { .. }));
    let adpcm = wav(2, 4, 1, 16_000, &[0; 64]);
    let error = malformed(&adpcm);
    assert!(matches!(error, DecodeError::Unsupported { .. }), "{error}");
    assert!(matches!(malformed(b"RIFF\0\0\0\0WAVEfmt "), DecodeError::EndsInHeader { .. }));
    assert!(matches!(malformed(b"RIF"), DecodeError::UnknownContainer));
    assert_eq!(decode(b"", 16_000).unwrap().1.frames, 0);
}
