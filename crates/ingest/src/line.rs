//! Frames between reading and commit: who goes next, what is dropped, and in which order results
//! leave. Pure.
//!
//! Each camera has a queue of frames that wait and a queue of frames that were begun. Cameras take
//! turns, each by bytes (deficit round robin), so that a camera with large or many frames takes no
//! more than its share. At most so many frames of a camera are begun at once, and what they end in
//! is released in the order in which they came.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    ledger::Reason,
    policy::{Keep, Policy},
    shard::ShardId,
};

/// What a camera's turn is worth, in bytes; smaller frames count as this much.
const QUANTUM: usize = 4096;

/// One frame that waits.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// When it was taken, in milliseconds since 1970.
    pub(crate) taken_ms: u64,
    /// What it weighs.
    pub(crate) bytes: usize,
    /// The frame.
    pub(crate) body: T,
}

/// One frame's place among those of its camera that were begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    camera: Arc<str>,
    number: u64,
}

/// All frames of one reader. `T` is a frame, `E` what it ends in.
#[derive(Debug)]
pub(crate) struct Line<T, E> {
    per_camera: usize,
    cameras: HashMap<Arc<str>, Camera<T, E>>,
    /// Cameras with a frame that may begin now, each once.
    ring: VecDeque<Arc<str>>,
    next_number: u64,
}

#[derive(Debug)]
struct Camera<T, E> {
    shard: ShardId,
    policy: Policy,
    waiting: VecDeque<Waiting<T>>,
    begun: VecDeque<(u64, Option<E>)>,
    deficit: usize,
    is_in_ring: bool,
}

impl<T, E> Line<T, E> {
    /// A line in which at most `per_camera` frames of a camera are begun at once.
    pub(crate) fn new(per_camera: usize) -> Self {
        Self {
            per_camera: per_camera.max(1),
            cameras: HashMap::new(),
            ring: VecDeque::new(),
            next_number: 0,
        }
    }

    /// A frame arrives, behind all of its camera. Frames that its policy gives up for it are handed
    /// to `dropped`.
    pub(crate) fn arrive(
        &mut self,
        camera: &str,
        (shard, policy): (ShardId, Policy),
        frame: Waiting<T>,
        mut dropped: impl FnMut(T, Reason),
    ) {
        if !self.cameras.contains_key(camera) {
            let fresh = Camera {
                shard,
                policy,
                waiting: VecDeque::new(),
                begun: VecDeque::new(),
                deficit: 0,
                is_in_ring: false,
            };
            self.cameras.insert(camera.into(), fresh);
        }
        let Some(state) = self.cameras.get_mut(camera) else { return };
        state.policy = policy;
        if policy.keep == Keep::Latest {
            for older in state.waiting.drain(..) {
                dropped(older.body, Reason::Superseded);
            }
        }
        state.waiting.push_back(frame);
        self.let_in(camera);
    }

    /// The next frame to begin; frames found too old are handed to `dropped`. Its place must be
    /// given back with [`finish`](Self::finish).
    pub(crate) fn next(
        &mut self,
        now_ms: u64,
        mut dropped: impl FnMut(T, Reason),
    ) -> Option<(Place, T)> {
        loop {
            let name = Arc::clone(self.ring.front()?);
            let Some(camera) = self.cameras.get_mut(&name) else {
                self.ring.pop_front();
                continue;
            };
            let Some(first) = camera.waiting.front() else {
                self.leave_ring(&name);
                continue;
            };
            if camera.policy.is_stale(first.taken_ms, now_ms) {
                if let Some(stale) = camera.waiting.pop_front() {
                    dropped(stale.body, Reason::Stale);
                }
                continue;
            }
            let cost = first.bytes.max(QUANTUM);
            if camera.deficit < cost {
                camera.deficit += QUANTUM;
                self.ring.rotate_left(1);
                continue;
            }
            let Some(frame) = camera.waiting.pop_front() else { continue };
            camera.deficit -= cost;
            let number = self.next_number;
            self.next_number += 1;
            camera.begun.push_back((number, None));
            if camera.waiting.is_empty() || self.per_camera <= camera.begun.len() {
                self.leave_ring(&name);
            }
            return Some((Place { camera: name, number }, frame.body));
        }
    }

    /// A frame that was begun ended. What may leave now, in the camera's order, is handed to
    /// `released`; nothing where its shard was given up meanwhile.
    pub(crate) fn finish(&mut self, place: &Place, ending: E, mut released: impl FnMut(E)) {
        let Some(camera) = self.cameras.get_mut(&place.camera) else { return };
        let Some(at) = camera.begun.iter().position(|(number, _)| *number == place.number) else {
            return;
        };
        camera.begun[at].1 = Some(ending);
        while let Some((_, Some(_))) = camera.begun.front() {
            if let Some((_, Some(ending))) = camera.begun.pop_front() {
                released(ending);
            }
        }
        if camera.waiting.is_empty() && camera.begun.is_empty() {
            self.cameras.remove(&place.camera);
        } else {
            let name = Arc::clone(&place.camera);
            self.let_in(&name);
        }
    }

    /// Frames of a camera that wait.
    pub(crate) fn n_waiting(&self, camera: &str) -> usize {
        self.cameras.get(camera).map_or(0, |camera| camera.waiting.len())
    }

    /// Whether a frame that was begun is still wanted.
    pub(crate) fn holds(&self, place: &Place) -> bool {
        let is_it = |camera: &Camera<T, E>| {
            camera.begun.iter().any(|(number, ending)| *number == place.number && ending.is_none())
        };
        self.cameras.get(&place.camera).is_some_and(is_it)
    }

    /// Forgets all frames of a shard.
    pub(crate) fn abandon(&mut self, shard: ShardId) {
        self.cameras.retain(|_, camera| camera.shard != shard);
        let cameras = &self.cameras;
        self.ring.retain(|name| cameras.contains_key(name));
    }

    fn let_in(&mut self, name: &str) {
        let Some((name, _)) = self.cameras.get_key_value(name) else { return };
        let name = Arc::clone(name);
        let Some(camera) = self.cameras.get_mut(&name) else { return };
        let may_begin = !camera.waiting.is_empty() && camera.begun.len() < self.per_camera;
        if may_begin && !camera.is_in_ring {
            camera.is_in_ring = true;
            self.ring.push_back(name);
        }
    }

    /// Takes the camera at the front out of the ring.
    fn leave_ring(&mut self, name: &Arc<str>) {
        self.ring.pop_front();
        let Some(camera) = self.cameras.get_mut(name) else { return };
        camera.is_in_ring = false;
        if camera.waiting.is_empty() {
            camera.deficit = 0;
            if camera.begun.is_empty() {
                self.cameras.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::HashSet, time::Duration};

    const SHARD: ShardId = ShardId(0);

    fn frame(bytes: usize, taken_ms: u64, body: u32) -> Waiting<u32> {
        Waiting { taken_ms, bytes, body }
    }

    fn keep() -> (ShardId, Policy) {
        (SHARD, Policy::default())
    }

    #[test]
    fn cameras_take_turns_by_bytes() {
        let mut line: Line<u32, ()> = Line::new(1000);
        for n in 0..100 {
            line.arrive("small", keep(), frame(100, 0, n), |_, _| ());
            line.arrive("large", keep(), frame(4 * QUANTUM, 0, 1000 + n), |_, _| ());
        }

        let begun: Vec<u32> =
            (0..50).filter_map(|_| line.next(0, |_, _| ())).map(|(_, body)| body).collect();
        let n_large = begun.iter().filter(|&&body| 1000 <= body).count();
        assert_eq!(n_large, 10, "{begun:?}");
    }

    #[test]
    fn results_leave_in_order_whatever_order_they_come_in() {
        let mut line: Line<u32, u32> = Line::new(3);
        for n in 0..4 {
            line.arrive("a", keep(), frame(1, 0, n), |_, _| ());
        }
        let places: Vec<_> = std::iter::from_fn(|| line.next(0, |_, _| ())).collect();
        assert_eq!(places.len(), 3, "no more than three at once");
        assert_eq!((line.n_waiting("a"), line.n_waiting("b")), (1, 0));

        let mut released = Vec::new();
        line.finish(&places[2].0, 2, |ending| released.push(ending));
        let wanted: Vec<bool> = places.iter().map(|(place, _)| line.holds(place)).collect();
        assert_eq!(wanted, [true, true, false], "one has ended");
        line.finish(&places[0].0, 0, |ending| released.push(ending));
        assert_eq!(released, [0]);
        line.finish(&places[1].0, 1, |ending| released.push(ending));
        assert_eq!(released, [0, 1, 2]);
        assert!(line.next(0, |_, _| ()).is_some());
    }

    #[test]
    fn the_latest_wins_and_the_stale_are_dropped() {
        let mut line: Line<u32, ()> = Line::new(1);
        let mut dropped = Vec::new();
        let latest = Policy { keep: Keep::Latest, max_age: None };
        for n in 0..3 {
            let drop = |body, reason| dropped.push((body, reason));
            line.arrive("a", (SHARD, latest), frame(1, 0, n), drop);
        }
        let fresh = Policy { max_age: Some(Duration::from_millis(10)), ..Policy::default() };
        line.arrive("b", (SHARD, fresh), frame(1, 100, 7), |_, _| ());

        assert_eq!(dropped, [(0, Reason::Superseded), (1, Reason::Superseded)]);
        let mut stale = Vec::new();
        let begun = line.next(200, |body, reason| stale.push((body, reason))).map(|(_, body)| body);
        assert_eq!(begun, Some(2));
        assert!(line.next(200, |body, reason| stale.push((body, reason))).is_none());
        assert_eq!(stale, [(7, Reason::Stale)]);
    }

    #[derive(Debug, Clone)]
    enum Move {
        Arrive { camera: u8, bytes: usize, taken_ms: u64 },
        Begin,
        Finish(usize),
        Abandon(u8),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let arrive = (0_u8..6, 1_usize..20_000, 0_u64..100)
            .prop_map(|(camera, bytes, taken_ms)| Move::Arrive { camera, bytes, taken_ms });
        let one = prop_oneof![
            6 => arrive,
            5 => Just(Move::Begin),
            5 => any::<usize>().prop_map(Move::Finish),
            1 => (0_u8..2).prop_map(Move::Abandon),
        ];
        proptest::collection::vec(one, 1..300)
    }

    proptest! {
        /// Every frame ends once, nothing of a camera overtakes, no limit is exceeded, and nothing
        /// is left behind.
        #[test]
        fn law(moves in moves()) {
            let mut line: Line<u32, u32> = Line::new(2);
            let policies = [
                Policy::default(),
                Policy { keep: Keep::Latest, max_age: None },
                Policy { max_age: Some(Duration::from_millis(30)), ..Policy::default() },
            ];
            let (mut n, mut ended, mut begun) = (0_u32, HashSet::new(), Vec::new());
            let mut camera_of = Vec::new();
            let mut last_released = [None; 6];
            let mut release = |body: u32, camera_of: &[u8]| {
                let last = &mut last_released[usize::from(camera_of[body as usize])];
                let in_order = last.is_none_or(|last| last < body);
                *last = Some(body);
                in_order
            };
            for (now, one) in moves.into_iter().enumerate() {
                match one {
                    Move::Arrive { camera, bytes, taken_ms } => {
                        let policy = policies[usize::from(camera % 3)];
                        let at = (ShardId(u16::from(camera % 2)), policy);
                        let drop = |body, _| assert!(ended.insert(body));
                        line.arrive(&camera.to_string(), at, frame(bytes, taken_ms, n), drop);
                        camera_of.push(camera);
                        n += 1;
                    }
                    Move::Begin => {
                        let drop = |body, _| assert!(ended.insert(body));
                        begun.extend(line.next(now as u64, drop));
                    }
                    Move::Finish(at) if !begun.is_empty() => {
                        let (place, body) = begun.swap_remove(at % begun.len());
                        line.finish(&place, body, |body| {
                            assert!(ended.insert(body));
                            assert!(release(body, &camera_of), "overtaken");
                        });
                    }
                    Move::Finish(_) => {}
                    Move::Abandon(shard) => {
                        line.abandon(ShardId(u16::from(shard)));
                        for body in 0..n {
                            if camera_of[body as usize] % 2 == shard {
                                ended.insert(body);
                            }
                        }
                    }
                }
                for camera in line.cameras.values() {
                    prop_assert!(camera.begun.len() <= 2);
                }
            }
            loop {
                let drop = |body, _| assert!(ended.insert(body));
                begun.extend(line.next(0, drop));
                let Some((place, body)) = begun.pop() else { break };
                line.finish(&place, body, |body| {
                    assert!(ended.insert(body));
                    assert!(release(body, &camera_of), "overtaken");
                });
            }
            prop_assert_eq!(ended.len(), n as usize);
            prop_assert_eq!(line.cameras.len(), 0);
            prop_assert!(line.ring.is_empty());
        }
    }
}
