//! The recogniser as it is served: the suite that every backend passes, and that an utterance's text
//! is its own, alone or among others who come and go.

use std::{path::Path, sync::LazyLock};

use paceline_backend::{
    Instance, Item, Output,
    conformance::{self, Options},
};
use paceline_backend_moonshine::{Knowledge, MoonshineBackend, SAMPLE_RATE};
use paceline_batch::{Batcher, Dropped, Settings, Stepper, Tag, Ticket};
use paceline_types::Tensor;

static KNOWLEDGE: LazyLock<Knowledge> = LazyLock::new(|| {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/moonshine/1");
    Knowledge::load(Path::new(root)).unwrap()
});

/// The samples of a WAV file of 16-bit samples, and what is said in some of its parts.
fn clips() -> Vec<(Vec<f32>, &'static str)> {
    let wav = |file: &[u8]| -> Vec<f32> {
        let data = file.windows(4).position(|name| name == b"data").unwrap() + 8;
        let samples = file[data..].as_chunks().0.iter();
        samples.map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32768.0).collect()
    };
    let jfk = wav(include_bytes!("../../audio/tests/golden/jfk.wav"));
    let beckett = wav(include_bytes!("../../asr/tests/golden/beckett.wav"));
    let cities = wav(include_bytes!("../../asr/tests/golden/two_cities.wav"));
    vec![
        (jfk[..72_000].to_vec(), "And so my fellow Americans ask not."),
        (
            beckett[..158_400].to_vec(),
            "Ever tried, ever failed, no matter, try again, fail again, fail better.",
        ),
        (
            cities[..96_000].to_vec(),
            "It was the best of times. It was the worst of times. It was the age of wisdom.",
        ),
    ]
}

fn batcher(seats: usize) -> Batcher<Item, Output, Vec<Tensor>> {
    let settings = Settings { max_items: Some(1), ..Settings::default() };
    let (batcher, timekeeper) = Batcher::pair(settings.validate().unwrap());
    tokio::spawn(timekeeper.run());
    let build = || Ok(Box::new(MoonshineBackend::new(&KNOWLEDGE)) as _);
    let instance = Instance::new(build().unwrap(), Box::new(build), std::sync::Arc::default());
    let stepper = Stepper::new(batcher.attach_seats(seats), instance);
    std::thread::spawn(|| stepper.run_blocking().unwrap());
    batcher
}

fn submit(batcher: &Batcher<Item, Output, Vec<Tensor>>, samples: &[f32]) -> Ticket<Output> {
    let audio = Tensor::from_f32(&[1, samples.len()], samples).unwrap();
    batcher.try_submit(Item::new([audio].into_iter().collect()), &Tag::default()).unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output[0].byte_elements().next().unwrap().to_vec()).unwrap()
}

#[test]
fn it_conforms() {
    let sizes = Options { max_rows: 3, length: SAMPLE_RATE, ..Options::default() };
    conformance::check_with(&sizes, || Ok(Box::new(MoonshineBackend::new(&KNOWLEDGE)))).unwrap();
}

#[tokio::test]
async fn everybody_gets_their_own_words_whoever_comes_and_goes() {
    let (clips, batcher) = (clips(), batcher(4));
    let leaver = submit(&batcher, &clips[2].0);
    let tickets: Vec<_> = (0..9)
        .map(|at| {
            let (samples, words) = &clips[at % 3];
            (submit(&batcher, samples), *words)
        })
        .collect();
    drop(leaver);
    let broken = submit(&batcher, &[f32::NAN; 1000]);
    let short = submit(&batcher, &[0.5; 10]);

    for (ticket, words) in tickets {
        assert_eq!(text(&ticket.await.unwrap()), words);
    }
    let refused = broken.await.unwrap_err().to_string();
    assert!(refused.contains("sample 0 is no sound"), "{refused}");
    assert_eq!(text(&short.await.unwrap()), "", "nothing is said in less than a frame");
    let stats = batcher.stats();
    assert_eq!((stats.items_dropped(Dropped::Cancelled), stats.failed_calls), (1, 1));
}
