//! Synthesis with the simulated pair, whose sound says of every sample what it was made of. The
//! clock is paused, and the vocoder takes its curve's time on it.

mod gaps;
mod laws;
mod pairs;
mod rig;
