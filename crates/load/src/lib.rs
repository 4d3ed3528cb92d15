//! Loads a server over HTTP or gRPC, measures it, and draws what it saw.
//!
//! ```text
//!  arrivals ─▶ pace ─▶ worker (one per connection) ─▶ http or grpc ─▶ the server
//!                        │
//!                        ▼
//!                      record (one per thread) ─▶ run ─▶ report, plot
//! ```
//!
//! It knows nothing of the server but what its wires say, so that any server that speaks them is
//! measured by the same means. `arrivals`, `record`, `batches`, `search`, `oip`, `report` and
//! `plot` are pure; `worker` and `run` wait. [`cameras`] feeds frames into Redis and judges the results.

mod alarm;
mod arrivals;
mod batches;
pub mod cameras;
mod grpc;
mod http;
pub mod oip;
mod pace;
pub mod plot;
mod record;
mod report;
mod run;
mod search;
mod stress;
mod worker;

pub use arrivals::{Arrivals, Due, TraceError};
pub use batches::Batches;
pub use grpc::GrpcTarget;
pub use http::{Host, HttpTarget, UrlError};
pub use record::{Failure, Fault, Record};
pub use report::{Report, Row, figure};
pub use run::{Counts, Load, Measured, Progress, ReadCounts, RunError, Step, Target, Watch, run};
pub use search::{MAX_RATE, Search};
pub use stress::{Stress, StressModel, StressRow, Wave};
pub(crate) use worker::Caller;
pub use worker::Stop;
