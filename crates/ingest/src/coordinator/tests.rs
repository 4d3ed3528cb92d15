//! What workers are told. No Redis: where one is asked, it is away.

use redis::Value;

use super::*;
use crate::{Config, coordinator::leases::Leased};

/// Of two servers that share the slots by halves.
fn topology(is_swapped: bool) -> Topology {
    let master = |port: i64| {
        let host = Value::BulkString(b"127.0.0.1".to_vec());
        Value::Array(vec![host, Value::Int(port)])
    };
    let range = |first: i64, last: i64, port: i64| {
        Value::Array(vec![Value::Int(first), Value::Int(last), master(port)])
    };
    let (low, high) = if is_swapped { (2, 1) } else { (1, 2) };
    let ranges = Value::Array(vec![range(0, 8191, low), range(8192, 16_383, high)]);
    Topology::of_slots(&Config::default().address().unwrap(), ranges).unwrap()
}

fn config() -> Config {
    Config {
        url: "unix:///nowhere/redis.sock".to_owned(),
        layout: Layout::Camera,
        camera_key: "cam:<shard>:<camera>".to_owned(),
        cameras: (0..20).map(|camera| format!("cam-{camera}")).collect(),
        shards: 8,
        readers: 2,
        ..Config::default()
    }
}

/// A coordinator of a Cluster whose workers are not run: what they are told is looked at.
struct Rig {
    coordinator: Coordinator,
    orders: BTreeMap<(String, usize), mpsc::Receiver<Order>>,
}

impl Rig {
    fn new(config: Config) -> Self {
        let address = config.address().unwrap();
        let common = Arc::new(Common::new(config, address, Arc::default()));
        let mut coordinator = Coordinator::new(common);
        let topology = topology(false);
        let mut orders = BTreeMap::new();
        for home in topology.servers.keys() {
            for reader in 0..2 {
                let (sender, receiver) = mpsc::channel(ORDERS);
                coordinator.workers.insert((home.clone(), reader), sender);
                orders.insert((home.clone(), reader), receiver);
            }
        }
        coordinator.topology = Some(topology);
        coordinator.streams = coordinator.wanted_streams();
        Self { coordinator, orders }
    }

    /// All shards are ours.
    async fn own_all(&mut self) {
        for shard in self.coordinator.common.shards.all() {
            self.lease(shard, "token").await;
        }
    }

    async fn lease(&mut self, shard: ShardId, token: &str) -> Leased {
        let key = self.coordinator.common.shards.lease(shard);
        let home = self.coordinator.home(&key).unwrap();
        let until = Instant::now() + Duration::from_hours(1);
        self.coordinator.leased(&home, shard, token, until).await
    }

    /// What was told since, and to whom, as text.
    fn told(&mut self) -> Vec<((String, usize), Order)> {
        let mut told = Vec::new();
        for (place, orders) in &mut self.orders {
            while let Ok(order) = orders.try_recv() {
                told.push((place.clone(), order));
            }
        }
        told
    }

    fn holds(&self, shard: ShardId) -> bool {
        self.coordinator.common.leases.holds(shard, Instant::now())
    }
}

fn shard_of(order: &Order) -> ShardId {
    match order {
        Order::Grant { shard, .. }
        | Order::Drain(shard)
        | Order::Forget(shard)
        | Order::Add(shard, _)
        | Order::Remove(shard, _) => *shard,
    }
}

#[tokio::test]
async fn a_shard_goes_with_its_cameras_to_one_of_the_workers_of_its_server() {
    let mut rig = Rig::new(config());
    rig.own_all().await;
    for shard in rig.coordinator.common.shards.all() {
        rig.coordinator.grant(shard).await;
    }

    let told = rig.told();
    assert_eq!(told.len(), 8);
    let common = Arc::clone(&rig.coordinator.common);
    let mut n_streams = 0;
    for ((home, reader), order) in told {
        let Order::Grant { shard, token, streams } = order else { panic!("{order:?}") };
        assert_eq!(rig.coordinator.home(&common.shards.lease(shard)).unwrap(), home);
        assert_eq!((reader, &*token), (shard.index() % 2, "token"));
        for NewStream { key, camera } in &streams {
            let camera = camera.as_deref().unwrap();
            assert_eq!(common.shards.of(camera), shard);
            assert_eq!(*key, common.config.key_of(camera, shard));
        }
        n_streams += streams.len();
    }
    assert_eq!(n_streams, 20);
    assert!(rig.coordinator.tasks.is_empty(), "they were there");
}

#[tokio::test]
async fn a_shard_whose_cameras_share_its_stream_goes_with_that() {
    let mut rig = Rig::new(Config { layout: Layout::Shard, ..config() });
    rig.own_all().await;
    rig.coordinator.grant(ShardId(3)).await;

    let told = rig.told();
    let [(_, Order::Grant { streams, .. })] = &told[..] else { panic!("{told:?}") };
    let key = rig.coordinator.common.shards.frames(ShardId(3));
    assert_eq!((streams.len(), &streams[0].key, &streams[0].camera), (1, &key, &None));
}

#[tokio::test]
async fn cameras_that_come_and_go_are_told_to_who_owns_their_shards() {
    let mut rig = Rig::new(config());
    let common = Arc::clone(&rig.coordinator.common);
    let (own, other) = (common.shards.of("cam-0"), common.shards.of("new"));
    assert_ne!(own, other);
    rig.lease(own, "token").await;
    rig.coordinator.tell_streams().await;
    assert!(rig.told().is_empty(), "nothing changed");

    common.roster.remove("cam-0").unwrap();
    common.roster.add("new").unwrap();
    rig.coordinator.tell_streams().await;
    let told = rig.told();
    let [(_, Order::Remove(shard, key))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*shard, &**key), (own, &*common.config.key_of("cam-0", own)));

    // A shard that is taken later begins with the cameras that there are then.
    rig.lease(other, "token").await;
    common.roster.add("cam-0").unwrap();
    rig.coordinator.tell_streams().await;
    let told = rig.told();
    let [(_, Order::Add(shard, stream))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*shard, stream.camera.as_deref()), (own, Some("cam-0")));
    rig.coordinator.grant(other).await;
    let told = rig.told();
    let [(_, Order::Grant { streams, .. })] = &told[..] else { panic!("{told:?}") };
    assert!(streams.iter().any(|stream| stream.camera.as_deref() == Some("new")));
}

#[test]
fn cameras_that_were_removed_are_not_read_and_paused_ones_are_kept() {
    let rig = Rig::new(Config { cameras: Vec::new(), ..config() });
    let roster = &rig.coordinator.common.roster;
    roster.remove("gone").unwrap();
    roster.pause("later").unwrap();

    let wanted = rig.coordinator.wanted_streams();
    let cameras: Vec<&String> = wanted.values().flatten().collect();
    assert_eq!(cameras, ["later"]);
}

#[tokio::test]
async fn what_a_lease_says_is_whose_a_shard_is() {
    let mut rig = Rig::new(config());
    let shard = ShardId(3);
    assert_eq!((rig.lease(shard, "").await, rig.holds(shard)), (Leased::Elsewhere, false));
    assert_eq!((rig.lease(shard, "token").await, rig.holds(shard)), (Leased::New, true));
    assert_eq!((rig.lease(shard, "token").await, rig.holds(shard)), (Leased::Still, true));
    assert!(rig.told().is_empty());

    assert_eq!((rig.lease(shard, "").await, rig.holds(shard)), (Leased::Lost, false));
    let told = rig.told();
    assert!(matches!(&told[..], [(_, Order::Forget(lost))] if *lost == shard), "{told:?}");
    assert!(rig.coordinator.leases.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_wanted_is_finished_and_after_a_while_left_to_the_next() {
    let mut rig = Rig::new(config());
    let lease = rig.coordinator.common.config.lease;
    rig.lease(ShardId(1), "token").await;
    rig.lease(ShardId(2), "token").await;
    let wanted = BTreeSet::from([ShardId(1)]);

    rig.coordinator.give_back(&wanted).await.unwrap();
    let told = rig.told();
    assert!(matches!(&told[..], [(_, Order::Drain(ShardId(2)))]), "{told:?}");
    rig.coordinator.give_back(&wanted).await.unwrap();
    assert!(rig.told().is_empty(), "it is told once");
    tokio::time::advance(lease * 2).await;
    rig.coordinator.give_back(&wanted).await.unwrap();
    assert_eq!(rig.coordinator.leases.len(), 2, "it has time");
    tokio::time::advance(Duration::from_millis(1)).await;
    // Redis cannot be told so; the lease ends by itself.
    assert!(rig.coordinator.give_back(&wanted).await.is_err());
    let told = rig.told();
    assert!(matches!(&told[..], [(_, Order::Forget(ShardId(2)))]), "{told:?}");
    assert_eq!(rig.coordinator.leases.keys().collect::<Vec<_>>(), [&ShardId(1)]);
    assert!(!rig.holds(ShardId(2)) && rig.holds(ShardId(1)));
}

#[tokio::test]
async fn a_report_of_an_older_lease_takes_nothing_away() {
    let mut rig = Rig::new(config());
    let shard = ShardId(3);
    rig.lease(shard, "token").await;
    rig.coordinator.hear(Report::Fenced(shard, "older".into())).await;
    assert!(rig.holds(shard) && rig.told().is_empty());

    rig.coordinator.hear(Report::Fenced(shard, "token".into())).await;
    assert!(!rig.holds(shard) && rig.coordinator.leases.is_empty());
    rig.lease(shard, "token").await;
    rig.coordinator.hear(Report::Drained(shard)).await;
    assert!(!rig.holds(shard) && rig.coordinator.leases.is_empty(), "it is given back");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_what_it_was_is_asked_soon_who_there_is() {
    let mut rig = Rig::new(config());
    let (now, soon) = (Instant::now(), rig.coordinator.common.config.lease / 10);
    rig.coordinator.topology_at = now + Duration::from_hours(1);
    rig.coordinator.hear(Report::Moved).await;
    assert_eq!(rig.coordinator.topology_at, now + soon);
    rig.coordinator.topology_at = now;
    rig.coordinator.hear(Report::Moved).await;
    assert_eq!(rig.coordinator.topology_at, now, "it is asked before");
}

#[tokio::test]
async fn shards_whose_slots_moved_are_worked_on_there() {
    let mut rig = Rig::new(config());
    rig.own_all().await;
    rig.coordinator.follow_moves().await;
    assert!(rig.told().is_empty(), "nothing moved");

    rig.coordinator.topology = Some(topology(true));
    rig.coordinator.follow_moves().await;

    let told = rig.told();
    let homes = |wanted: fn(&Order) -> bool| -> BTreeMap<ShardId, String> {
        let matching = told.iter().filter(|(_, order)| wanted(order));
        matching.map(|((home, _), order)| (shard_of(order), home.clone())).collect()
    };
    let forgotten = homes(|order| matches!(order, Order::Forget(_)));
    let granted = homes(|order| matches!(order, Order::Grant { .. }));
    assert_eq!((told.len(), forgotten.len(), granted.len()), (16, 8, 8));
    for (shard, home) in &granted {
        assert_ne!(forgotten[shard], *home);
        let lease = &rig.coordinator.leases[shard];
        assert_eq!((&lease.home, &*lease.token), (home, "token"));
    }
}

#[tokio::test]
async fn the_shards_of_a_worker_that_is_gone_go_to_another() {
    let mut rig = Rig::new(config());
    rig.own_all().await;
    let place = rig.orders.keys().next().unwrap().clone();
    drop(rig.orders.remove(&place));

    let panicked = tokio::spawn(async { panic!("a mistake") }).await.unwrap_err();
    rig.coordinator.replace_workers(&panicked).await;

    assert!(rig.told().is_empty(), "the others go on");
    assert_eq!(rig.coordinator.tasks.len(), 1);
    assert!(!rig.coordinator.workers[&place].is_closed());
}

#[tokio::test]
async fn workers_on_a_server_that_is_gone_are_let_go() {
    let mut rig = Rig::new(config());
    let servers = rig.coordinator.addresses();
    rig.coordinator.leave_others(&servers[..1]);

    let homes: Vec<&String> = rig.coordinator.workers.keys().map(|(home, _)| home).collect();
    assert_eq!(homes, [&servers[0], &servers[0]]);
}

#[test]
fn every_shard_is_wanted_by_one_of_the_nodes() {
    let nodes = ["node-1", "node-2", "node-3"].map(str::to_owned);
    let wanted = |node: &String, members: &[String]| {
        let mut rig = Rig::new(Config { node: node.clone(), ..config() });
        rig.coordinator.members = members.to_vec();
        rig.coordinator.wanted()
    };

    let all: Vec<ShardId> = nodes.iter().flat_map(|node| wanted(node, &nodes)).collect();
    assert_eq!(all.len(), 8);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 8, "no shard twice");
    assert_eq!(wanted(&nodes[0], &nodes[..1]).len(), 8, "who is alone wants all");
    assert!(wanted(&nodes[0], &nodes[1..]).is_empty(), "who is not alive wants none");
}

#[tokio::test(start_paused = true)]
async fn a_redis_that_cannot_be_used_is_said_and_left_alone_for_a_while() {
    let mut rig = Rig::new(config());
    let coordinator = &mut rig.coordinator;
    coordinator.topology = None;
    coordinator.common.health.update(|health| health.is_up = true);
    let longest = coordinator.common.config.lease / 3;
    coordinator.topology_at = Instant::now() + Duration::from_hours(1);
    for n in 1..=6 {
        let pause = coordinator.beat_or_back_off().await;
        assert!(Duration::ZERO < pause && pause <= longest, "{pause:?}");
        let health = coordinator.common.health.now();
        assert!(!health.is_up && health.problem.is_some());
        assert_eq!(health.is_circuit_open, 5 <= n);
        assert_eq!(coordinator.topology_at, Instant::now(), "it may be elsewhere");
    }
}

#[test]
fn a_slot_that_nobody_serves_is_nobodys() {
    let mut rig = Rig::new(config());
    rig.coordinator.topology = None;

    assert!(rig.coordinator.addresses().is_empty());
    let fault = rig.coordinator.home("key").unwrap_err();
    assert!(fault.is_moved(), "{fault}");
}

#[test]
fn all_workers_on_all_servers_share_what_may_be_in_the_model() {
    let rig = Rig::new(Config { readers: 3, in_model: 600, ..config() });
    let home = rig.coordinator.addresses()[0].clone();

    let post = rig.coordinator.post(&home).unwrap();
    assert_eq!((post.in_model, post.is_cluster), (100, true));
    assert_eq!(post.server.to_string(), home);
    assert!(rig.coordinator.post("elsewhere").is_none());
}

#[tokio::test(start_paused = true)]
async fn who_there_is_is_asked_when_it_may_have_changed() {
    let mut rig = Rig::new(config());
    let (coordinator, soon) = (&mut rig.coordinator, Duration::from_secs(1));
    coordinator.topology_at = Instant::now() + soon;
    assert!(coordinator.look_around().await.is_ok(), "it is known");
    tokio::time::advance(soon).await;
    assert!(coordinator.look_around().await.is_err(), "it is asked, and nobody answers");

    coordinator.topology = None;
    coordinator.topology_at = Instant::now() + soon;
    assert!(coordinator.look_around().await.is_err(), "it was never known");
}

#[tokio::test(start_paused = true)]
async fn while_redis_is_away_there_is_a_pause_between_rounds() {
    let config = Config { ring_folder: "/nowhere".into(), ..config() };
    let mut coordinator = Rig::new(config).coordinator;
    coordinator.topology = None;
    let common = Arc::clone(&coordinator.common);
    let stop = CancellationToken::new();
    let run = tokio::spawn(coordinator.run(stop.clone()));

    // Time that nobody waits for does not pass.
    tokio::time::sleep(Duration::from_mins(1)).await;

    assert!(common.health.now().is_circuit_open);
    stop.cancel();
    run.await.unwrap();
}
