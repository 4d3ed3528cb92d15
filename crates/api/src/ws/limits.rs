//! Bounds of one socket.

use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Bounds of one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketLimits {
    /// Largest message in bytes.
    pub max_message: usize,
    /// Bytes that are read at once. Each open socket holds as many.
    pub read_buffer: usize,
    /// Bytes that may wait to be written because the client does not read.
    pub max_write_buffer: usize,
    /// How often the client is asked whether it is there. One that was not heard of since it was
    /// last asked is gone.
    pub ping_interval: Duration,
    /// How long a client may send nothing at all before its stream is closed.
    pub idle_timeout: Duration,
    /// How long a client may not read what is ready for it.
    pub write_timeout: Duration,
    /// How long nothing of a stream may be done before its client is told so.
    pub stall_warning: Duration,
    /// How long nothing of a stream may be done before it is closed.
    pub stall_timeout: Duration,
    /// How long a client may take to close its side.
    pub close_timeout: Duration,
}

impl SocketLimits {
    /// As the library wants them. What is sent is flushed at once, so that no more than one message
    /// waits to be written.
    pub(super) fn config(&self) -> WebSocketConfig {
        WebSocketConfig::default()
            .read_buffer_size(self.read_buffer)
            .write_buffer_size(0)
            .max_write_buffer_size(self.max_write_buffer)
            .max_message_size(Some(self.max_message))
            .max_frame_size(Some(self.max_message))
    }
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self {
            max_message: 1 << 20,
            read_buffer: 4 << 10,
            max_write_buffer: 256 << 10,
            ping_interval: Duration::from_secs(20),
            idle_timeout: Duration::from_mins(5),
            write_timeout: Duration::from_secs(20),
            stall_warning: Duration::from_secs(5),
            stall_timeout: Duration::from_mins(1),
            close_timeout: Duration::from_secs(5),
        }
    }
}
