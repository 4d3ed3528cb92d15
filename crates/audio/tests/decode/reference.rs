//! What comes out is what other decoders say.

use crate::fixtures::{ALL, decode, error_db, read};

/// The file of `decoded/` for a fixture, and how many frames it must have if not as many.
fn reference(name: &str) -> Option<(&str, Option<usize>)> {
    match name {
        "file.webm" | "live.webm" | "video.webm" => Some(("hybrid.ogg", None)),
        // The index says where the audio ends, which ffmpeg does not follow.
        "index-last.m4a" => Some(("index-first.m4a", Some(19_201))),
        name if name.ends_with("flac") || name.ends_with("wav") || name == "fragments.m4a" => None,
        name => Some((name, None)),
    }
}

#[test]
fn every_lossy_file_decodes_to_what_ffmpeg_makes_of_it() {
    for (name, rate, channels) in ALL {
        let Some((reference, length)) = reference(name) else { continue };
        let (heard, ending) = decode(&read(name), *rate).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (wanted, _) = decode(&read(&format!("decoded/{reference}.flac")), *rate).unwrap();
        assert_eq!(heard.len(), *channels, "{name}");
        assert_eq!(heard[0].len(), length.unwrap_or(wanted[0].len()), "{name}");
        assert_eq!((ending.damaged, ending.left_over), (0, 0), "{name}");
        for (channel, (heard, wanted)) in heard.iter().zip(&wanted).enumerate() {
            let error = error_db(heard, wanted);
            println!("{name} channel {channel}: {error:.1} dB");
            assert!(error < -45.0, "{name} channel {channel}: {error:.1} dB");
        }
    }
}

#[test]
fn fragments_decode_to_what_the_whole_file_does() {
    let (whole, _) = decode(&read("index-first.m4a"), 16_000).unwrap();
    let (fragments, ending) = decode(&read("fragments.m4a"), 16_000).unwrap();
    let n_frames = fragments[0].len();
    // Fragments do not say what the encoder added: 1024 frames before, and the end of the last.
    assert!(n_frames >= whole[0].len(), "{n_frames}");
    let skip = if n_frames > whole[0].len() + 1000 { 1024 } else { 0 };
    assert_eq!(fragments[0][skip..skip + whole[0].len()], whole[0][..]);
    assert_eq!((ending.damaged, ending.left_over), (0, 0));
}

#[test]
fn what_is_lossless_is_equal_to_the_bit() {
    let (speech, ending) = decode(&read("speech.flac"), 16_000).unwrap();
    assert_eq!((ending.frames, ending.damaged, ending.left_over), (19_201, 0, 0));
    assert!(speech[0].iter().all(|x| (x * 32_768.0).fract() == 0.0));
    assert!(speech[0].iter().any(|x| x.abs() > 0.1));
    let (stereo, _) = decode(&read("stereo24.flac"), 44_100).unwrap();
    let halved: Vec<f32> = stereo[0].iter().map(|x| x * -0.5).collect();
    assert!(error_db(&stereo[1], &halved) < -90.0);
    let (six, _) = decode(&read("six.flac"), 48_000).unwrap();
    let (wav, _) = decode(&read("extensible.wav"), 48_000).unwrap();
    for (flac, wav) in six.iter().zip(&wav) {
        // The same sound, of which the WAV has half, in 24 bits: equal but for the rounding, and
        // for the end, which was resampled.
        let n_frames = wav.len() - 200;
        assert!(error_db(&flac[..n_frames], &wav[..n_frames]) < -40.0);
    }
}
