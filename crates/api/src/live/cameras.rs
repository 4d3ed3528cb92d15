//! What is to be seen of the cameras. Whoever wires the server knows where to look.

use serde::Serialize;

/// How the cameras are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CameraSight {
    /// Whether Redis answers.
    pub is_up: bool,
    /// Whether the model can be asked.
    pub has_model: bool,
    /// Shards that this node owns.
    pub shards: usize,
    /// Nodes that are alive, this one among them.
    pub nodes: usize,
    /// Cameras that are known by name and taken.
    pub taken: usize,
    /// Of the cameras that are paused, the first few.
    pub paused: Vec<String>,
    /// How many are paused in all.
    pub n_paused: usize,
    /// Frames in memory.
    pub held_frames: usize,
    /// Bytes that they hold.
    pub held_bytes: usize,
    /// What went wrong and is not well again.
    pub problem: Option<String>,
    /// Since the server began.
    pub counts: CameraCounts,
}

/// Frames, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CameraCounts {
    /// Read or taken over.
    pub read: u64,
    /// With a result.
    pub committed: u64,
    /// Dropped on purpose.
    pub dropped: u64,
    /// Put to the dead letters.
    pub dead: u64,
    /// Trimmed away by somebody while they were worked on.
    pub lost: u64,
    /// Times that Redis failed or refused.
    pub faults: u64,
}
