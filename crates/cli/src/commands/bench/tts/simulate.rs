//! Listeners and a vocoder in virtual time.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    time::Duration,
};

use paceline_batch::Moment;
use paceline_pipeline::synthesis::{ChunkShape, Listener, Next};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{
    Row,
    policies::{Name, Settings, Step},
};

/// Sound in a chunk.
pub(crate) const CHUNK: Duration = Duration::from_millis(600);
/// Tokens in a chunk, of 40 ms each.
const CHUNK_TOKENS: usize = 15;
/// Chunks of a text: 3 to 18 seconds.
const TEXT_CHUNKS: std::ops::RangeInclusive<usize> = 5..=30;
/// A listener who has heard a text asks for the next one within so many milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 0..1000;
/// What the first listeners find is not what later ones do.
const WARM_UP: Duration = Duration::from_secs(10);

/// Who listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) listeners: usize,
    pub(crate) voices: usize,
    pub(crate) lasts: Duration,
    pub(crate) seed: u64,
}

/// What a call of so many chunks takes.
pub(crate) fn call_time(chunks: usize) -> Duration {
    const POINTS: [(usize, f64); 4] = [(1, 50.0), (8, 70.0), (32, 150.0), (64, 280.0)];
    let after = POINTS.partition_point(|point| point.0 < chunks).clamp(1, POINTS.len() - 1);
    let (low, high) = (POINTS[after - 1], POINTS[after]);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = (chunks as f64 - low.0 as f64) / (high.0 - low.0) as f64;
    Duration::from_secs_f64((low.1 + (high.1 - low.1) * share) / 1000.0)
}

/// One text that is heard.
struct Hearing {
    listener: Listener,
    who: usize,
    voice: usize,
    n_tokens: usize,
    n_left: usize,
    began: Duration,
    first: Option<Duration>,
    gaps: u32,
    /// Chunks that came before an older one did.
    early: BTreeSet<usize>,
    n_asked: usize,
    n_given: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Somebody asks for a text.
    Comes(usize),
    /// A hearing may ask for its next chunk.
    Look(usize),
    /// The vocoder is done.
    Done,
}

struct World {
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    n_events: u64,
    hearings: Vec<Hearing>,
    /// Of which hearing each chunk is, and which of its chunks.
    chunks: Vec<(usize, usize)>,
    random: ChaCha8Rng,
}

impl World {
    fn push(&mut self, at: Duration, event: Event) {
        self.n_events += 1;
        self.events.push(Reverse((at, self.n_events, event)));
    }
}

/// Runs one policy through one scene.
pub(crate) fn simulate(name: Name, settings: &Settings, scene: &Scene) -> Row {
    let mut policy = name.policy(settings);
    let shape =
        ChunkShape { chunk: CHUNK_TOKENS, first_chunk: CHUNK_TOKENS, ..ChunkShape::default() };
    let listener = Listener::new(shape, name.pace(settings), false);
    let mut world = World {
        events: BinaryHeap::new(),
        n_events: 0,
        hearings: Vec::new(),
        chunks: Vec::new(),
        random: ChaCha8Rng::seed_from_u64(scene.seed),
    };
    for who in 0..scene.listeners {
        let at = Duration::from_millis(world.random.random_range(0..3000));
        world.push(at, Event::Comes(who));
    }
    let mut running: Option<(Vec<usize>, Duration)> = None;
    let (mut busy, mut n_calls, mut n_run) = (Duration::ZERO, 0_usize, 0_usize);
    while let Some(Reverse((now, _, event))) = world.events.pop() {
        if scene.lasts < now {
            break;
        }
        match event {
            Event::Comes(who) => come(&mut world, who, scene, &listener, now),
            Event::Look(at) => look(&mut world, at, now, policy.as_mut()),
            Event::Done => {
                let is_done = running.as_ref().is_some_and(|(_, done)| *done <= now);
                if is_done && let Some((chunks, _)) = running.take() {
                    policy.done(call_time(chunks.len()), now);
                    for chunk in chunks {
                        give(&mut world, chunk, now);
                    }
                }
            }
        }
        // Whatever else happens at this very moment comes before the vocoder decides.
        if world.events.peek().is_some_and(|Reverse((next, _, _))| *next <= now)
            || running.is_some()
        {
            continue;
        }
        match policy.next(now) {
            Step::Run(chunks) => {
                let takes = call_time(chunks.len());
                if WARM_UP <= now {
                    busy += takes;
                    n_calls += 1;
                    n_run += chunks.len();
                }
                running = Some((chunks, now + takes));
                world.push(now + takes, Event::Done);
            }
            Step::LookAgain(at) => world.push(at.max(now + Duration::from_nanos(1)), Event::Done),
            Step::Nothing => {}
        }
    }
    let counted = world.hearings.iter().filter(|heard| WARM_UP <= heard.began).collect::<Vec<_>>();
    let busy_share = busy.as_secs_f64() / scene.lasts.saturating_sub(WARM_UP).as_secs_f64();
    Row {
        mean_batch: count(n_run) / count(n_calls.max(1)),
        busy_share,
        ..sum_up(name, scene, &counted)
    }
}

/// What was heard.
fn sum_up(policy: Name, scene: &Scene, counted: &[&Hearing]) -> Row {
    let mut firsts: Vec<Duration> = counted.iter().filter_map(|heard| heard.first).collect();
    firsts.sort_unstable();
    let ended: Vec<_> = counted.iter().filter(|heard| heard.n_left == 0).collect();
    let n_free = ended.iter().filter(|heard| heard.gaps == 0).count();
    Row {
        listeners: scene.listeners,
        policy,
        ttfc_p50_ms: quantile(&firsts, 0.5),
        ttfc_p95_ms: quantile(&firsts, 0.95),
        gap_free_share: count(n_free) / count(ended.len().max(1)),
        mean_batch: 0.0,
        busy_share: 0.0,
    }
}

/// Somebody asks for a text.
fn come(world: &mut World, who: usize, scene: &Scene, listener: &Listener, now: Duration) {
    let n_chunks = world.random.random_range(TEXT_CHUNKS);
    world.hearings.push(Hearing {
        listener: listener.clone(),
        who,
        voice: who % scene.voices,
        n_tokens: n_chunks * CHUNK_TOKENS,
        n_left: n_chunks,
        began: now,
        first: None,
        gaps: 0,
        early: BTreeSet::new(),
        n_asked: 0,
        n_given: 0,
    });
    let hearing = world.hearings.len() - 1;
    world.push(now, Event::Look(hearing));
}

/// A hearing asks for what it needs now.
fn look(world: &mut World, at: usize, now: Duration, policy: &mut dyn super::policies::Policy) {
    loop {
        let hearing = &mut world.hearings[at];
        let (n_tokens, voice) = (hearing.n_tokens, hearing.voice);
        match hearing.listener.next(n_tokens, true, false, Moment::at(now)) {
            Next::Ask(_, wanted) => {
                let chunk = world.chunks.len();
                world.chunks.push((at, hearing.n_asked));
                hearing.n_asked += 1;
                policy.offer(chunk, voice, wanted, now);
            }
            Next::Early(until) => {
                world.push(until.since(Moment::START), Event::Look(at));
                return;
            }
            Next::Wait => return,
        }
    }
}

/// A chunk is there: it is handed over in its turn.
fn give(world: &mut World, chunk: usize, now: Duration) {
    let (at, number) = world.chunks[chunk];
    let hearing = &mut world.hearings[at];
    hearing.early.insert(number);
    while hearing.early.remove(&hearing.n_given) {
        hearing.n_given += 1;
        hearing.n_left -= 1;
        hearing.gaps += u32::from(hearing.listener.hand_over(Moment::at(now)).is_some());
        hearing.first.get_or_insert(now.saturating_sub(hearing.began));
    }
    let dry = hearing.listener.playback().runs_dry().map(|dry| dry.since(Moment::START));
    let (who, is_over) = (hearing.who, hearing.n_left == 0);
    world.push(now, Event::Look(at));
    if is_over {
        let pause = Duration::from_millis(world.random.random_range(PAUSE_MS));
        world.push(dry.unwrap_or(now) + pause, Event::Comes(who));
    }
}

/// In milliseconds.
fn quantile(sorted: &[Duration], share: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let rank = (count(sorted.len()) * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[expect(clippy::cast_precision_loss, reason = "millions at most")]
fn count(n: usize) -> f64 {
    n as f64
}
