//! Streaming speech, over real sockets to a whole server.

mod apis;
mod defects;
mod limits;
mod recognised;
mod segmented;
mod simple;
mod support;
