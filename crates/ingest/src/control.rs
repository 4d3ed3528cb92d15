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
