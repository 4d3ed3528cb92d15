//! Ways in for fuzz targets: what strangers send to a door, without the door.
//!
//! What is wrong with it is of no interest here; that it is found without a panic, in bounded work,
//! is.

pub use crate::{
    http::plain_value,
    speak::fuzz::speak,
    speech::{
        fuzz::{deepgram, openai_form, openai_realtime, vosk, wyoming},
        native::read_message,
    },
};

#[cfg(test)]
mod tests {
    //! The inputs that fuzzing keeps, as they are and changed a little: what can be had of fuzzing
    //! without building for it.

    use std::{fs, path::Path};

    use bytes::Bytes;
    use proptest::{prelude::*, test_runner::TestRunner};
    use prost::Message as _;

    use super::*;
    use crate::oip::{grpc::decode_request, pbtxt, proto::ModelInferRequest};

    /// As the targets of this name call what they test.
    fn give(target: &str, data: &[u8]) {
        match (target, data) {
            ("deepgram", _) => deepgram(data),
            ("grpc", _) => {
                let message = ModelInferRequest::decode(Bytes::copy_from_slice(data));
                drop(message.map(decode_request));
            }
            ("openai", [0, piece, form @ ..]) => openai_form(*piece, form),
            ("openai", [1, messages @ ..]) => openai_realtime(messages),
            ("pbtxt", _) => drop(pbtxt::parse(&String::from_utf8_lossy(data))),
            ("plain", [dtype, n_dims, body @ ..]) => plain_value(*dtype, *n_dims, body),
            ("speak", _) => speak(&String::from_utf8_lossy(data), data),
            ("speech_message", _) => read_message(&String::from_utf8_lossy(data)),
            ("wyoming", [0, piece, frames @ ..]) => wyoming(*piece, frames),
            ("wyoming", [1, messages @ ..]) => vosk(messages),
            _ => {}
        }
    }

    #[test]
    fn kept_inputs_break_nothing_nor_do_others_like_them() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let targets =
            "deepgram grpc openai pbtxt plain speak speech_message wyoming".split_whitespace();
        for target in targets {
            for file in fs::read_dir(folder.join(target)).unwrap() {
                let input = fs::read(file.unwrap().path()).unwrap();
                give(target, &input);
                let edits =
                    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
                let cases = (edits, any::<prop::sample::Index>(), any::<bool>());
                // A runner counts over all its runs, so each has its own.
                let mut runner = TestRunner::deterministic();
                let tried = runner.run(&cases, |(edits, end, is_cut)| {
                    let mut changed = input.clone();
                    for (at, byte) in edits {
                        let at = at.index(changed.len());
                        changed[at] = byte;
                    }
                    if is_cut {
                        changed.truncate(end.index(changed.len()));
                    }
                    give(target, &changed);
                    Ok(())
                });
                tried.unwrap();
            }
        }
    }
}
