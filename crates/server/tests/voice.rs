//! The whole product: text is spoken by each voice and given back to the recogniser, and the text
//! comes back.

use std::{path::PathBuf, time::Duration};

use paceline_pipeline::{
    Ask, Model,
    synthesis::{Request, Synthesis},
};
use paceline_server::{Server, config::load::load};
use paceline_types::Tensor;
use smallvec::smallvec;

/// Written before anything was heard.
const SENTENCES: [&str; 24] = [
    "The weather was cold and clear on the morning of the race.",
    "She asked the driver to wait outside the station for an hour.",
    "Nobody in the village could remember a longer winter.",
    "Please send me the report before the end of the week.",
    "The children were playing football behind the old church.",
    "He opened the window and looked down at the busy street.",
    "We decided to walk home because the last train had left.",
    "My brother works in a hospital near the river.",
    "The new bridge will be finished in about three years.",
    "I would like a cup of coffee and a piece of apple cake.",
    "They found the missing keys under a pile of newspapers.",
    "The teacher wrote the answer on the board and smiled.",
    "A small dog followed us all the way to the market.",
    "Can you tell me where the nearest post office is?",
    "The doctor told him to rest and drink plenty of water.",
    "Our flight was delayed by two hours because of the storm.",
    "She bought a blue dress, a pair of shoes, and a leather bag.",
    "The museum is closed on Mondays and during the holidays.",
    "After dinner, the old man told us a story about the sea.",
    "It is difficult to learn a language without making mistakes.",
    "The price of bread has gone up again this month.",
    "The farmer sold his horses and moved to the city.",
    "Turn left at the second corner and then go straight ahead.",
    "He has forty seven books about the history of music.",
];

/// The word error rates that were measured on other sentences when the voices were made; one word
/// in 256 is 0.4 %.
const VOICES: [(&str, f64); 4] = [("slt", 9.7), ("rms", 11.7), ("awb", 11.2), ("kal16", 9.7)];

async fn server() -> Server {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let sets = [
        "server.listen=127.0.0.1:0".to_owned(),
        "server.grpc_listen=127.0.0.1:0".to_owned(),
        format!("server.model_repository={:?}", models.display().to_string()),
    ];
    Server::build(load(None, [], &sets).unwrap()).await.unwrap()
}

async fn speak(synthesis: &Synthesis, text: &str, voice: &str) -> Vec<f32> {
    let request =
        Request { text: text.to_owned(), voice: Some(voice.to_owned()), ..Request::default() };
    let mut session = synthesis.open(&request).unwrap();
    let mut sound = Vec::new();
    while let Some(chunk) = session.next().await {
        sound.extend(chunk.unwrap().samples);
    }
    sound
}

async fn recognise(model: &Model, sound: &[f32]) -> String {
    let audio = Tensor::from_f32(&[1, sound.len()], sound).unwrap();
    let ask = Ask { inputs: smallvec![audio], ..Ask::default() };
    let (outputs, _) = model.infer(ask).await.unwrap();
    let text = outputs[0].byte_elements().next().unwrap();
    String::from_utf8_lossy(text).into_owned()
}

fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase().replace('-', " ").replace("47", "forty seven");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '\'';
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// How many words must change to make one text of another.
fn errors(said: &[String], heard: &[String]) -> usize {
    let mut row: Vec<usize> = (0..=heard.len()).collect();
    for (at, word) in said.iter().enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (place, other) in heard.iter().enumerate() {
            let same = before + usize::from(word != other);
            before = row[place + 1];
            row[place + 1] = same.min(before + 1).min(row[place] + 1);
        }
    }
    row[heard.len()]
}

#[tokio::test]
async fn what_every_voice_says_is_understood() {
    let server = server().await;
    let recogniser = server.models().find("moonshine", None).unwrap();
    for (voice, most) in VOICES {
        let (mut wrong, mut all) = (0, 0);
        for sentence in SENTENCES {
            let sound = speak(server.synthesis(), sentence, voice).await;
            let heard = words(&recognise(&recogniser, &sound).await);
            let said = words(sentence);
            wrong += errors(&said, &heard);
            all += said.len();
        }
        let rate = 100.0 * wrong as f64 / all as f64;
        println!("{voice}: {wrong} of {all} words, {rate:.1} %");
        assert!(rate <= most, "{voice}: {rate:.1} % of words are not understood, {most} % may be");
    }
}

#[tokio::test]
async fn the_first_sentence_is_heard_while_the_second_is_made_and_numbers_are_words() {
    let server = server().await;
    let text = "It is 8:30 on May 5, 2024. Dr. Lee paid $3.50 for the book. He was happy.";
    let mut session =
        server.synthesis().open(&Request { text: text.to_owned(), ..Request::default() }).unwrap();
    let first = session.next().await.unwrap().unwrap();
    let n_first = first.samples.len();
    assert_eq!(n_first, 24 * 200, "a small first chunk");
    let mut n_samples = n_first;
    while let Some(chunk) = session.next().await {
        n_samples += chunk.unwrap().samples.len();
    }
    let seconds = Duration::from_secs_f64(n_samples as f64 / 16_000.0);
    assert!(Duration::from_secs(5) < seconds && seconds < Duration::from_secs(20), "{seconds:?}");
    let spelled = "It is eight thirty on May fifth, twenty twenty four. Doctor Lee paid three \
                   dollars and fifty cents for the book. He was happy.";
    assert_eq!(speak(server.synthesis(), spelled, "slt").await.len(), n_samples);
}
