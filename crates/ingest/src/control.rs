//! Cameras as doors steer them.

use std::collections::BTreeSet;

use paceline_pipeline::{
    CameraControl, CameraSnapshot, CameraState, CameraWish, ControlError, DeadLetter, KnownCamera,
    Later, PushedFrame, PushedResult, Reconciled,
};
use paceline_types::ErrorCode;

use crate::{
    Answer, Cameras, Data, Fault, Form, Frame, Payload, PushError, Source, common::now_ms,
    config::is_camera, roster::RosterError,
};

impl CameraControl for Cameras {
    fn snapshot(&self) -> CameraSnapshot {
        Self::snapshot(self)
    }

    fn list(&self, after: &str, most: usize) -> Vec<KnownCamera> {
        let listed = self.roster().list().into_iter().map(|(name, _)| name);
        let listed = listed.filter(|name| after < name.as_str()).take(most);
        let seen = self.common.sightings.names(after, most);
        let names: BTreeSet<String> = listed.chain(seen).collect();
        names.into_iter().take(most).filter_map(|name| self.find(&name)).collect()
    }

    fn find(&self, camera: &str) -> Option<KnownCamera> {
        let sight = self.common.sightings.of(camera);
        let is_listed = self.roster().is_listed(camera);
        // Nobody has heard of it.
        if sight.is_none() && !is_listed {
            return None;
        }
        let sight = sight.unwrap_or_default();
        Some(KnownCamera {
            name: camera.to_owned(),
            state: self.roster().state(camera).unwrap_or(CameraState::Removed),
            frames: sight.frames,
            results: sight.results,
            last_frame_ms: (0 < sight.frames).then_some(sight.last_ms),
        })
    }

    fn set(&self, camera: &str, wish: CameraWish) -> Result<(), ControlError> {
        let roster = self.roster();
        let done = match wish {
            CameraWish::Add => roster.add(camera),
            CameraWish::Remove => roster.remove(camera),
            CameraWish::Pause => roster.pause(camera),
            CameraWish::Resume => roster.resume(camera),
        };
        done.map_err(|error| refused(&error))
    }

    fn reconcile(&self, cameras: &[String]) -> Result<Reconciled, ControlError> {
        self.roster().reconcile(cameras).map_err(|error| refused(&error))
    }

    fn push(&self, frame: PushedFrame) -> Later<'_, PushedResult> {
        let PushedFrame { camera, taken_ms, is_picture, data } = frame;
        let form = if is_picture { Form::Picture } else { Form::Raw { dtype: None, shape: None } };
        let payload = Payload { form, data: Data::Inline(data) };
        let taken_ms = taken_ms.unwrap_or_else(now_ms);
        Box::pin(async move {
            if !is_camera(&camera) {
                return Err(refused(&RosterError::BadName));
            }
            let frame = Frame { camera, seq: None, taken_ms, payload };
            let unpushed =
                |error: PushError| ControlError { code: error.code(), message: error.to_string() };
            Ok(match Self::push(self, frame).await.map_err(unpushed)? {
                Answer::Tensors { outputs, data } => PushedResult::Tensors { outputs, data },
                Answer::Json(json) => PushedResult::Json(json),
            })
        })
    }

    fn dead_letters(&self, most: usize) -> Later<'_, Vec<DeadLetter>> {
        Box::pin(async move {
            // Whoever pushes a frame is told what is wrong with it; nothing is kept.
            if self.common.config.source == Source::Push {
                return Ok(Vec::new());
            }
            let letters = Self::dead_letters(self, most).await.map_err(|fault| away(&fault))?;
            let shown = |letter: crate::DeadLetter| DeadLetter {
                id: letter.name(),
                camera: letter.camera,
                stream: letter.stream,
                frame: letter.frame,
                reason: letter.reason,
                tries: letter.tries,
                bytes: letter.bytes,
            };
            Ok(letters.into_iter().map(shown).collect())
        })
    }

    fn replay<'a>(&'a self, id: &'a str) -> Later<'a, bool> {
        Box::pin(async move {
            let wrong = || ControlError {
                code: ErrorCode::InvalidInput,
                message: "a dead letter is named as the list does, such as s017:1763241600000-0"
                    .to_owned(),
            };
            let (shard, id) = crate::DeadLetter::parse_name(id).ok_or_else(wrong)?;
            let Some(letter) = self.dead_letter(shard, id).await.map_err(|fault| away(&fault))?
            else {
                return Ok(false);
            };
            Ok(Self::replay(self, &letter).await.map_err(|fault| away(&fault))?.is_some())
        })
    }
}

fn refused(error: &RosterError) -> ControlError {
    let code = match error {
        RosterError::BadName => ErrorCode::InvalidInput,
        RosterError::Full(_) => ErrorCode::Overloaded,
        RosterError::Unknown => ErrorCode::NotFound,
    };
    ControlError { code, message: error.to_string() }
}

fn away(fault: &Fault) -> ControlError {
    ControlError { code: ErrorCode::Unavailable, message: fault.to_string() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Config, Reason};

    fn cameras(listed: &[&str]) -> Cameras {
        let cameras = listed.iter().map(|&name| name.to_owned()).collect();
        let config = Config { source: Source::Push, cameras, max_cameras: 32, ..Config::default() };
        Cameras::pair(config, Arc::default()).unwrap().0
    }

    fn names(listed: &[KnownCamera]) -> Vec<&str> {
        listed.iter().map(|camera| &*camera.name).collect()
    }

    #[test]
    fn cameras_that_are_listed_and_that_were_seen_are_listed_page_by_page() {
        let cameras = cameras(&["a", "c", "e"]);
        for name in ["b", "c", "d"] {
            cameras.common.sightings.frame(name, 55);
        }

        assert_eq!(names(&cameras.list("", 2)), ["a", "b"]);
        assert_eq!(names(&cameras.list("b", 2)), ["c", "d"]);
        assert_eq!(names(&cameras.list("a", 9)), ["b", "c", "d", "e"]);
        assert!(cameras.list("e", 9).is_empty());
    }

    #[test]
    fn of_a_camera_is_said_how_it_stands_and_what_was_seen_of_it() {
        let cameras = cameras(&["a"]);
        cameras.common.sightings.frame("b", 55);
        cameras.common.sightings.result("b");
        let known = |name: &str, state, frames, last_frame_ms| {
            Some(KnownCamera {
                name: name.to_owned(),
                state,
                frames,
                results: frames,
                last_frame_ms,
            })
        };

        assert_eq!(cameras.find("a"), known("a", CameraState::Taken, 0, None));
        assert_eq!(cameras.find("b"), known("b", CameraState::Removed, 1, Some(55)));
        assert_eq!(cameras.find("c"), None);
    }

    #[test]
    fn wishes_come_true_or_are_refused_with_a_code() {
        let cameras = cameras(&["a"]);
        let code = |camera: &str, wish| cameras.set(camera, wish).err().map(|error| error.code);

        assert_eq!(code("a", CameraWish::Pause), None);
        assert_eq!(cameras.roster().refuses("a"), Some(Reason::Paused));
        assert_eq!(code("a", CameraWish::Resume), None);
        assert_eq!(cameras.roster().refuses("a"), None);
        assert_eq!(code("b", CameraWish::Resume), Some(ErrorCode::NotFound));
        assert_eq!(code("b", CameraWish::Add), None);
        assert_eq!(code("a", CameraWish::Remove), None);
        assert_eq!(cameras.roster().refuses("a"), Some(Reason::Unlisted));
        assert_eq!(code("", CameraWish::Add), Some(ErrorCode::InvalidInput));
        let many: Vec<String> = (0..33).map(|camera| camera.to_string()).collect();
        let error = cameras.reconcile(&many).unwrap_err();
        assert_eq!(error.code, ErrorCode::Overloaded);
        assert_eq!(error.message, RosterError::Full(32).to_string());
        assert_eq!(cameras.reconcile(&many[..32]).unwrap().removed, ["b"]);
    }

    #[test]
    fn a_redis_that_is_away_is_not_available() {
        let error = away(&Fault::Nonsense("nothing"));

        assert_eq!(error.code, ErrorCode::Unavailable);
        assert_eq!(error.message, "Redis answered nothing, which is not understood");
    }
}
