//! One stream of audio and a model that is slower or faster than it: everything that waits taken at
//! once, as a session does, beside one message after the other. In virtual time, so that it takes a
//! second and gives the same figures everywhere.
//!
//! `cargo bench -p paceline-pipeline --bench whole`

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;
use paceline_backend::{Backend, BackendError, Call, Outputs, Ragged, Simulated, simulated};
use paceline_batch::Key;
use paceline_pipeline::{
    Blueprint, Mode, Model, Models, SequenceLimits, VersionPolicy, VoiceDetector, VoiceSettings,
    speech::{
        Bounds, Encoding, Event, Format, RATE, Session, Source, Speech, SpeechLimits,
        SpeechSettings, Style, Terms,
    },
};
use paceline_types::Signature;
use tokio::time::{Instant, advance, sleep_until};

const MESSAGE: Duration = Duration::from_millis(100);
const MESSAGES: usize = 600;
const CALLS_MS: [u64; 6] = [20, 50, 90, 110, 200, 400];

/// Takes its time on a clock that is paused.
struct Takes(Simulated, Duration);

impl Backend for Takes {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        // The clock is moved at once; what is left is to let others have a turn.
        advance(self.1).now_or_never();
        self.0.run(call)
    }
}

fn speech(takes: Duration) -> Speech {
    let count = simulated::Settings { answer: simulated::Answer::Count, ..Default::default() };
    let (model, clock) = Model::open(Blueprint {
        name: "m".to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "paceline_simulated".to_owned(),
        mode: Mode::Direct,
        batch: paceline_batch::Settings::default(),
        instances: 1,
        build: Arc::new(move |_| {
            let model = Simulated::build(count.clone(), 0).expect("settings that make sense");
            Ok(Box::new(Takes(model, takes)))
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 1,
        adapter: None,
    })
    .expect("a model");
    // Nothing here has a deadline, so there is nothing for it to do.
    drop(clock);
    let models = Arc::new(Models::default());
    models.replace("m", vec![model]);
    let one = NonZeroUsize::new(1);
    let voices = VoiceDetector::start(VoiceSettings { shards: one, ..VoiceSettings::default() });
    let limits = SpeechLimits { stream_in_flight: 1, ..SpeechLimits::default() };
    let settings = SpeechSettings { model: "m".to_owned(), bounds: Bounds::default(), limits };
    Speech::new(models, voices.expect("a thread"), settings)
}

/// What became of a minute of audio.
struct Played {
    /// From when a message was complete until the result that covers it.
    latencies: Vec<Duration>,
    calls: usize,
    /// From the first message to the last result.
    took: Duration,
}

async fn play(mut session: Session, takes_all: bool) -> Played {
    let began = Instant::now();
    let due = |number: usize| began + MESSAGE * u32::try_from(number + 1).expect("few messages");
    let n_samples = usize::try_from(RATE.samples(MESSAGE)).expect("a tenth of a second");
    let mut played = Played { latencies: Vec::new(), calls: 0, took: Duration::ZERO };
    let mut next = 0;
    loop {
        // Whatever came while the model was busy; or only what the last result leaves room for.
        while next < MESSAGES
            && due(next) <= Instant::now()
            && session.has_room()
            && (takes_all || played.latencies.len() == next)
        {
            session.push(Bytes::from(vec![0; 2 * n_samples]));
            next += 1;
        }
        if played.latencies.len() == MESSAGES {
            played.took = began.elapsed();
            return played;
        }
        let waits = next < MESSAGES && (takes_all || played.latencies.len() == next);
        tokio::select! {
            biased;
            event = session.next() => if let Event::Segment { span, .. } = event {
                let now = Instant::now();
                played.calls += 1;
                let n_done = usize::try_from(span.end).expect("a minute") / n_samples;
                let more = (played.latencies.len()..n_done).map(|number| now - due(number));
                played.latencies.extend(more.collect::<Vec<_>>());
            },
            () = sleep_until(due(next)), if waits => {}
        }
    }
}

fn main() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    println!("| a call takes | taken | calls | p50 | p99 | audio s a second |");
    println!("|---|---|---|---|---|---|");
    for call_ms in CALLS_MS {
        for (way, takes_all) in [("whole", true), ("by message", false)] {
            let mut played = runtime.block_on(async {
                let terms = Terms {
                    source: Source {
                        encoding: Encoding::S16le,
                        format: Some(Format { rate: RATE.hertz(), channels: 1 }),
                    },
                    model: None,
                    params: Key::ANY,
                    style: Style::Simple,
                    mix: false,
                    trace: None,
                };
                let session = speech(Duration::from_millis(call_ms)).open(terms);
                play(session.expect("a session"), takes_all).await
            });
            played.latencies.sort_unstable();
            let at = |share: usize| played.latencies[(MESSAGES - 1) * share / 100].as_secs_f64();
            println!(
                "| {call_ms} ms | {way} | {} | {:.0} ms | {:.0} ms | {:.2} |",
                played.calls,
                at(50) * 1e3,
                at(99) * 1e3,
                MESSAGE.as_secs_f64() * MESSAGES as f64 / played.took.as_secs_f64()
            );
        }
    }
}
