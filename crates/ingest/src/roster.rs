//! Which cameras are taken: listed, removed and paused by name while everything runs.

use std::{
    collections::BTreeMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use paceline_pipeline::{CameraState, Reconciled};
use tokio::sync::Notify;

use crate::{config::is_camera, ledger::Reason};

/// All cameras that are known by name. An open roster takes every camera that is not removed or
/// paused; a closed one takes those that are listed.
#[derive(Debug)]
pub struct Roster {
    state: RwLock<State>,
    /// Whether every camera is taken, so that nobody has to be looked up.
    takes_all: AtomicBool,
    changed: Notify,
    max_cameras: usize,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    cameras: BTreeMap<String, CameraState>,
}

/// Why the roster did not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RosterError {
    /// A name that no camera can have.
    #[error("a camera's name has 1 to 128 bytes")]
    BadName,
    /// No more can be kept track of.
    #[error("there are {0} cameras already, which is `cameras.max_cameras`")]
    Full(usize),
    /// Nobody has heard of it.
    #[error("there is no such camera")]
    Unknown,
}

impl Roster {
    /// A closed roster of these cameras, or an open one where there are none.
    #[must_use]
    pub fn new(cameras: &[String], max_cameras: usize) -> Self {
        let listed = cameras.iter().map(|name| (name.clone(), CameraState::Taken)).collect();
        let state = State { is_open: cameras.is_empty(), cameras: listed };
        let takes_all = AtomicBool::new(state.is_open);
        Self { state: RwLock::new(state), takes_all, changed: Notify::new(), max_cameras }
    }

    /// Why a camera's frames are not taken, if they are not.
    #[must_use]
    pub fn refuses(&self, camera: &str) -> Option<Reason> {
        if self.takes_all.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        match state.cameras.get(camera) {
            Some(CameraState::Taken) => None,
            Some(CameraState::Paused) => Some(Reason::Paused),
            Some(CameraState::Removed) => Some(Reason::Unlisted),
            None => (!state.is_open).then_some(Reason::Unlisted),
        }
    }

    /// How a camera stands, where it is known by name or everybody is taken.
    #[must_use]
    pub fn state(&self, camera: &str) -> Option<CameraState> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let known = state.cameras.get(camera).copied();
        known.or(state.is_open.then_some(CameraState::Taken))
    }

    /// Whether a camera is known by name.
    #[must_use]
    pub fn is_listed(&self, camera: &str) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.cameras.contains_key(camera)
    }

    /// Every camera that is known by name.
    #[must_use]
    pub fn list(&self) -> Vec<(String, CameraState)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.cameras.iter().map(|(name, standing)| (name.clone(), *standing)).collect()
    }

    /// Takes a camera, also one that was removed or paused.
    ///
    /// # Errors
    ///
    /// When the name is none or there is no room.
    pub fn add(&self, camera: &str) -> Result<(), RosterError> {
        self.set(camera, CameraState::Taken)
    }

    /// Takes no more frames of a camera. Those that were begun are finished.
    ///
    /// # Errors
    ///
    /// When a closed roster does not list it.
    pub fn remove(&self, camera: &str) -> Result<(), RosterError> {
        self.change(|state| {
            if state.is_open {
                return Ok(Some((camera.to_owned(), CameraState::Removed)));
            }
            state.cameras.remove(camera).map(|_| None).ok_or(RosterError::Unknown)
        })
    }

    /// Takes no frames of a camera until it is resumed.
    ///
    /// # Errors
    ///
    /// When a closed roster does not list it, or there is no room.
    pub fn pause(&self, camera: &str) -> Result<(), RosterError> {
        self.known(camera)?;
        self.set(camera, CameraState::Paused)
    }

    /// Takes a paused camera's frames again.
    ///
    /// # Errors
    ///
    /// When a closed roster does not list it, or there is no room.
    pub fn resume(&self, camera: &str) -> Result<(), RosterError> {
        self.known(camera)?;
        self.set(camera, CameraState::Taken)
    }

    /// Makes the roster a closed list of these cameras; those listed before stay as they were.
    ///
    /// # Errors
    ///
    /// When a name is none or there are too many; nothing is changed then.
    pub fn reconcile(&self, cameras: &[String]) -> Result<Reconciled, RosterError> {
        if !cameras.iter().all(|name| is_camera(name)) {
            return Err(RosterError::BadName);
        }
        if self.max_cameras < cameras.len() {
            return Err(RosterError::Full(self.max_cameras));
        }
        let mut done = Reconciled::default();
        self.change(|state| {
            let mut before = std::mem::take(&mut state.cameras);
            before.retain(|_, standing| *standing != CameraState::Removed);
            for name in cameras {
                if state.cameras.contains_key(name) {
                    continue;
                }
                let standing = before.remove(name);
                match standing {
                    Some(_) => done.unchanged += 1,
                    None => done.added.push(name.clone()),
                }
                state.cameras.insert(name.clone(), standing.unwrap_or(CameraState::Taken));
            }
            done.removed = before.into_keys().collect();
            state.is_open = false;
            Ok(None)
        })?;
        Ok(done)
    }

    /// A camera was found: an open roster takes it, unless it is known already.
    pub(crate) fn found(&self, camera: &str) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if !state.is_open || state.cameras.contains_key(camera) {
            return;
        }
        drop(state);
        if let Err(error) = self.add(camera) {
            tracing::warn!(%error, "a camera was found and is not taken");
        }
    }

    /// Resolves when something changed since the last time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn known(&self, camera: &str) -> Result<(), RosterError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let is_known = state.is_open || state.cameras.contains_key(camera);
        is_known.then_some(()).ok_or(RosterError::Unknown)
    }

    fn set(&self, camera: &str, standing: CameraState) -> Result<(), RosterError> {
        self.change(|_| Ok(Some((camera.to_owned(), standing))))
    }

    fn change(
        &self,
        how: impl FnOnce(&mut State) -> Result<Option<(String, CameraState)>, RosterError>,
    ) -> Result<(), RosterError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, standing)) = how(&mut state)? {
            if !is_camera(&name) {
                return Err(RosterError::BadName);
            }
            if !state.cameras.contains_key(&name) && self.max_cameras <= state.cameras.len() {
                return Err(RosterError::Full(self.max_cameras));
            }
            state.cameras.insert(name, standing);
        }
        let all_taken = state.cameras.values().all(|standing| *standing == CameraState::Taken);
        self.takes_all.store(state.is_open && all_taken, Ordering::Relaxed);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_roster_takes_everyone_but_who_was_removed_or_paused() {
        let roster = Roster::new(&[], 10);
        assert_eq!(roster.refuses("a"), None);

        roster.pause("a").unwrap();
        roster.remove("b").unwrap();
        assert_eq!(roster.refuses("a"), Some(Reason::Paused));
        assert_eq!(roster.refuses("b"), Some(Reason::Unlisted));
        assert_eq!(roster.refuses("c"), None);
        roster.resume("a").unwrap();
        roster.add("b").unwrap();
        assert!(roster.takes_all.load(Ordering::Relaxed));
    }

    #[test]
    fn reconciling_closes_it_and_leaves_the_unchanged_alone() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let roster = Roster::new(&names(&["a", "b"]), 10);
        roster.pause("b").unwrap();

        let done = roster.reconcile(&names(&["b", "c", "c"])).unwrap();

        let expected = Reconciled { added: names(&["c"]), removed: names(&["a"]), unchanged: 1 };
        assert_eq!(done, expected);
        assert_eq!(roster.refuses("b"), Some(Reason::Paused));
        assert_eq!(roster.refuses("a"), Some(Reason::Unlisted));
        assert_eq!(roster.pause("a"), Err(RosterError::Unknown));
    }

    #[test]
    fn whoever_is_found_is_listed_where_it_is_open_and_stays_as_it_was() {
        let roster = Roster::new(&[], 10);
        roster.pause("a").unwrap();
        roster.found("a");
        roster.found("b");

        let listed = [("a", CameraState::Paused), ("b", CameraState::Taken)];
        assert_eq!(roster.list(), listed.map(|(name, state)| (name.to_owned(), state)));
        assert!(roster.is_listed("b") && !roster.is_listed("c"));
        assert_eq!(roster.state("a"), Some(CameraState::Paused));
        assert_eq!(roster.state("c"), Some(CameraState::Taken), "everybody is");

        roster.reconcile(&["a".to_owned()]).unwrap();
        roster.found("b");
        assert!(!roster.is_listed("b"), "a closed one takes nobody who is found");
        assert_eq!(roster.state("b"), None);
    }

    #[test]
    fn it_is_bounded() {
        let roster = Roster::new(&[], 1);
        roster.pause("a").unwrap();

        assert_eq!(roster.pause("b"), Err(RosterError::Full(1)));
        assert!(roster.reconcile(&["b".to_owned()]).is_ok(), "one is not too many");
        let two = ["b", "c"].map(str::to_owned);
        assert_eq!(roster.reconcile(&two), Err(RosterError::Full(1)));
        assert_eq!(roster.add(""), Err(RosterError::BadName));
    }
}
