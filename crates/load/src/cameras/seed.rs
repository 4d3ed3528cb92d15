//! Reads as an older system did, for comparison: a stream for each camera, one `XREADGROUP` for each
//! with a time-out of a millisecond, one `XACK` for each frame. Frames are taken and forgotten.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use paceline_frames::Placement;
use redis::{AsyncConnectionConfig, Client, RedisError, Value, aio::MultiplexedConnection};
use tokio::task::JoinSet;

use super::schedule::camera_name;

/// Who reads.
#[derive(Debug, Clone)]
pub struct Reader {
    /// Where Redis is.
    pub url: String,
    /// Where the cameras' streams are.
    pub placement: Placement,
    /// Cameras.
    pub cameras: u32,
    /// Tasks that share them, each with a connection; as many as cameras for one task each.
    pub tasks: u32,
}

/// Reads until it is dropped; counts frames in `taken`.
///
/// # Errors
///
/// When Redis cannot be reached.
pub async fn read_as_seed(reader: Reader, taken: Arc<AtomicU64>) -> Result<(), RedisError> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let client = Client::open(&*reader.url)?;
    let mut tasks = JoinSet::new();
    let n_tasks = reader.tasks.clamp(1, reader.cameras.max(1));
    for task in 0..n_tasks {
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let cameras = (0..reader.cameras).filter(|camera| camera % n_tasks == task);
        let keys: Vec<String> =
            cameras.map(|camera| reader.placement.key(&camera_name(camera))).collect();
        for key in &keys {
            let mut create = redis::cmd("XGROUP");
            create.arg("CREATE").arg(key).arg("seed").arg("0").arg("MKSTREAM");
            // It may be there.
            drop(create.query_async::<()>(&mut connection).await);
        }
        // A task with one camera has nobody to go on to.
        let block = if keys.len() == 1 { 100 } else { 1 };
        tasks.spawn(rounds(connection, keys, block, Arc::clone(&taken)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| RedisError::from(std::io::Error::other(error)))??;
    }
    Ok(())
}

async fn rounds(
    mut connection: MultiplexedConnection,
    keys: Vec<String>,
    block: u64,
    taken: Arc<AtomicU64>,
) -> Result<(), RedisError> {
    loop {
        for key in &keys {
            let mut read = redis::cmd("XREADGROUP");
            read.arg(&["GROUP", "seed", "reader", "COUNT", "32", "BLOCK"]).arg(block);
            read.arg("STREAMS").arg(key).arg(">");
            let ids = ids(read.query_async(&mut connection).await?);
            for id in &ids {
                let mut ack = redis::cmd("XACK");
                ack.arg(key).arg("seed").arg(id);
                let _: u64 = ack.query_async(&mut connection).await?;
            }
            taken.fetch_add(ids.len() as u64, Ordering::Relaxed);
        }
        if keys.is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// The ids in a reply over one stream.
fn ids(reply: Value) -> Vec<String> {
    type Streams = Vec<(String, Vec<(String, Value)>)>;
    let streams: Streams = redis::from_redis_value(reply).unwrap_or_default();
    streams.into_iter().flat_map(|(_, entries)| entries).map(|(id, _)| id).collect()
}
