//! Rounds of speech against models that answer as tests need it.

mod rig;
mod rounds;
mod utterances;
