//! Remote models over both protocols: against another Paceline, and against servers that misbehave.

mod conformance;
mod endpoints;
mod faults;
mod support;
