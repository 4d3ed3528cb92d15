//! How the cameras are, as those see it who watch.

use paceline_api::live::{CameraCounts, CameraSight};
use paceline_ingest::Cameras;
use paceline_pipeline::CameraState;

/// Most paused cameras that are named.
const NAMED: usize = 12;

/// Looks at the cameras; Redis is not asked.
pub(crate) fn look_at(cameras: &Cameras) -> CameraSight {
    let (health, counts) = (cameras.health(), cameras.counts());
    let (held_bytes, held_frames) = cameras.held();
    let known = cameras.roster().list();
    let stand = |how| known.iter().filter(move |(_, standing)| *standing == how);
    CameraSight {
        is_up: health.is_up,
        has_model: health.has_model,
        shards: health.n_shards,
        nodes: health.nodes.len(),
        taken: stand(CameraState::Taken).count(),
        paused: stand(CameraState::Paused).take(NAMED).map(|(name, _)| name.clone()).collect(),
        n_paused: stand(CameraState::Paused).count(),
        held_frames,
        held_bytes,
        problem: health.problem,
        counts: CameraCounts {
            read: counts.taken,
            committed: counts.committed,
            dropped: counts.all_dropped(),
            dead: counts.dead,
            lost: counts.lost,
            faults: health.n_faults,
        },
    }
}
