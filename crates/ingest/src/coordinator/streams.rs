//! Camera streams, where each camera has its own: found, and told to those who read them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use paceline_pipeline::CameraState;
use redis::Pipeline;

use super::Coordinator;
use crate::{
    Layout,
    link::{Fault, list, number, text},
    shard::ShardId,
    worker::{NewStream, Order},
};

/// Most keys that are asked about at once.
const MAX_KEYS: usize = 1024;

impl Coordinator {
    pub(super) fn camera_stream(&self, shard: ShardId, camera: &str) -> NewStream {
        let key = self.common.config.key_of(camera, shard);
        NewStream { key, camera: Some(camera.to_owned()) }
    }

    /// Cameras by shard, where each has its own stream.
    pub(super) fn wanted_streams(&self) -> BTreeMap<ShardId, BTreeSet<String>> {
        let mut wanted: BTreeMap<ShardId, BTreeSet<String>> = BTreeMap::new();
        if self.common.config.layout == Layout::Camera {
            for (camera, standing) in self.common.roster.list() {
                if standing != CameraState::Removed {
                    wanted.entry(self.common.shards.of(&camera)).or_default().insert(camera);
                }
            }
        }
        wanted
    }

    /// Tells workers which camera streams came and went.
    pub(super) async fn tell_streams(&mut self) {
        let wanted = self.wanted_streams();
        let none = BTreeSet::new();
        let mut orders = Vec::new();
        for (shard, lease) in &self.leases {
            let old = self.streams.get(shard).unwrap_or(&none);
            let new = wanted.get(shard).unwrap_or(&none);
            for camera in new.difference(old) {
                let order = Order::Add(*shard, self.camera_stream(*shard, camera));
                orders.push((*shard, lease.home.clone(), order));
            }
            for camera in old.difference(new) {
                let order = Order::Remove(*shard, self.common.config.key_of(camera, *shard));
                orders.push((*shard, lease.home.clone(), order));
            }
        }
        self.streams = wanted;
        for (shard, home, order) in orders {
            self.send(&home, shard, order).await;
        }
    }

    /// Looks how many frames wait in the streams of our shards and were not read by anybody.
    pub(super) async fn count_unread(&mut self) -> Result<(), Fault> {
        let common = Arc::clone(&self.common);
        let mut by_home: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (shard, lease) in &self.leases {
            let keys = by_home.entry(lease.home.clone()).or_default();
            match common.config.layout {
                Layout::Shard => keys.push(common.shards.frames(*shard)),
                Layout::Camera => {
                    let cameras = self.streams.get(shard).into_iter().flatten();
                    keys.extend(cameras.map(|camera| common.config.key_of(camera, *shard)));
                }
            }
        }
        let mut in_streams = 0;
        for (home, keys) in by_home {
            for keys in keys.chunks(MAX_KEYS) {
                let mut commands = Pipeline::new();
                for key in keys {
                    commands.cmd("XLEN").arg(key);
                }
                let lengths = self.link(&home).await?.ask(&commands).await?;
                in_streams += lengths.iter().filter_map(number).sum::<u64>();
            }
        }
        // What is read and not settled is in the streams as well, and nearly all of it is ours.
        let unread = in_streams.saturating_sub(common.ledger.counts().in_flight);
        common.flow.unread.store(unread, Ordering::Relaxed);
        Ok(())
    }

    /// Looks for camera streams that nobody named.
    pub(super) async fn discover_cameras(&mut self) -> Result<(), Fault> {
        let pattern = self.common.config.key_pattern();
        for address in self.addresses() {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(&pattern);
                scan.arg("COUNT").arg(1000).arg("TYPE").arg("stream");
                let reply = self.link(&address).await?.ask_one(scan).await?;
                let mut parts = list(reply).unwrap_or_default().into_iter();
                cursor = parts.next().and_then(text).unwrap_or_else(|| "0".to_owned());
                for key in parts.next().and_then(list).unwrap_or_default() {
                    if let Some(camera) =
                        text(key).and_then(|key| self.common.config.camera_of(&key))
                    {
                        self.common.roster.found(&camera);
                    }
                }
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }
}
