//! Whole runs against real servers on ports of their own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use paceline_load::{Arrivals, Fault, Host, Load, Measured, Step, Stop, Target, Watch, run};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, sync::Semaphore};

async fn serve(router: Router) -> Host {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, router).await });
    Host::open(&url).unwrap()
}

fn closed(concurrency: usize, requests: u64) -> Step {
    Step {
        load: Load::Closed { concurrency },
        warm_up: Duration::ZERO,
        lasts: Duration::from_mins(1),
        max_requests: Some(requests),
        timeout: Duration::from_secs(30),
        threads: 2,
        slo: None,
        seed: 1,
    }
}

async fn load(target: &Target, step: &Step) -> Measured {
    load_until(target, step, &Stop::default()).await
}

async fn load_until(target: &Target, plan: &Step, stop: &Stop) -> Measured {
    run(target, plan, stop, Watch { on_progress: &mut |_| {}, counts: None }).await.unwrap()
}

/// Counts requests, and how many are under way at once.
#[derive(Default)]
struct Seen {
    total: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_loop_keeps_so_many_under_way_and_sends_no_more_than_allowed() {
    let seen = Arc::new(Seen::default());
    // Nobody is answered before eight are there, so fewer would never end.
    let gate = Arc::new(tokio::sync::Barrier::new(8));
    let state = (Arc::clone(&seen), gate);
    let router = Router::new()
        .route(
            "/",
            post(async |State((seen, gate)): State<(Arc<Seen>, Arc<tokio::sync::Barrier>)>| {
                seen.total.fetch_add(1, Ordering::SeqCst);
                let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
                seen.most.fetch_max(now, Ordering::SeqCst);
                gate.wait().await;
                seen.now.fetch_sub(1, Ordering::SeqCst);
                "done"
            }),
        )
        .with_state(state);
    let host = serve(router).await;
    let target = Target::Http(host.target("/", &[], Some(b"{}")));

    let measured = load(&target, &closed(8, 80)).await;

    assert_eq!(seen.total.load(Ordering::SeqCst), 80);
    assert_eq!(seen.most.load(Ordering::SeqCst), 8);
    assert_eq!((measured.record.n_offered(), measured.record.faults().len()), (80, 0));
    assert!(measured.record.lasted() < Duration::from_mins(1), "it ended with the last answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_sends_what_is_due_although_nothing_is_answered() {
    let gate = Arc::new(Semaphore::new(0));
    let seen = Arc::new(Seen::default());
    let router = Router::new()
        .route(
            "/",
            get(async |State((seen, gate)): State<(Arc<Seen>, Arc<Semaphore>)>| {
                // The last one that can be sent lets all go.
                if seen.total.fetch_add(1, Ordering::SeqCst) + 1 == 16 {
                    gate.add_permits(16);
                }
                drop(gate.acquire().await);
            }),
        )
        .with_state((Arc::clone(&seen), gate));
    let host = serve(router).await;
    let target = Target::Http(host.target("/", &[], None));
    let arrivals = Arrivals::Trace((0..16).map(Duration::from_millis).collect());
    let step = Step { load: Load::Open { arrivals, in_flight: 16 }, ..closed(0, 1000) };

    let measured = load(&target, &Step { lasts: Duration::from_millis(500), ..step }).await;

    assert_eq!(seen.total.load(Ordering::SeqCst), 16);
    assert_eq!((measured.record.n_offered(), measured.record.faults().len()), (16, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_due_and_never_sent_is_counted() {
    let router = Router::new().route("/", get(async || std::future::pending::<()>().await));
    let host = serve(router).await;
    let target = Target::Http(host.target("/", &[], None));
    let arrivals = Arrivals::Trace((0..10).map(Duration::from_millis).collect());
    let step = Step {
        load: Load::Open { arrivals, in_flight: 1 },
        lasts: Duration::from_millis(50),
        timeout: Duration::from_millis(60),
        ..closed(0, 1000)
    };

    let record = load(&target, &step).await.record;

    assert_eq!((record.faults()[&Fault::Timeout], record.faults()[&Fault::NotSent]), (1, 9));
    assert_eq!((record.n_offered(), record.share_in_slo()), (10, 0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_counted_by_kind_with_what_the_server_said() {
    let count = Arc::new(AtomicUsize::new(0));
    let router = Router::new()
        .route(
            "/",
            post(async |State(count): State<Arc<AtomicUsize>>| {
                if count.fetch_add(1, Ordering::SeqCst) % 4 == 3 {
                    (StatusCode::SERVICE_UNAVAILABLE, "the queue is full")
                } else {
                    (StatusCode::OK, "")
                }
            }),
        )
        .with_state(count);
    let host = serve(router).await;

    let record = load(&Target::Http(host.target("/", &[], Some(b""))), &closed(2, 40)).await.record;

    assert_eq!(record.faults()[&Fault::Status(503)], 10);
    assert_eq!((record.n_offered(), record.said()), (40, "the queue is full"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_up_is_an_error_and_the_run_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = Host::open(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Every second connection is closed without an answer, the others after one.
            if number % 2 == 1 {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            }
            stream.shutdown().await.ok();
        }
    });

    let record = load(&Target::Http(host.target("/", &[], None)), &closed(1, 20)).await.record;

    assert!(record.faults().keys().all(|fault| *fault == Fault::Closed), "{:?}", record.faults());
    assert!((1..20).contains(&record.faults()[&Fault::Closed]));
    assert_eq!(record.n_offered(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_said_before_anything_is_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = Host::open(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let target = Target::Http(host.target("/", &[], None));
    let watch = Watch { on_progress: &mut |_| {}, counts: None };

    let error = run(&target, &closed(4, 1), &Stop::default(), watch).await.unwrap_err();

    assert_eq!(error.to_string(), "no connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_a_run_with_what_it_found() {
    let stop = Stop::default();
    let router = Router::new()
        .route(
            "/",
            get(async |State((stop, count)): State<(Stop, Arc<AtomicUsize>)>| {
                if count.fetch_add(1, Ordering::SeqCst) == 100 {
                    stop.stop();
                }
            }),
        )
        .with_state((stop.clone(), Arc::new(AtomicUsize::new(0))));
    let host = serve(router).await;
    let endless = Step { max_requests: None, ..closed(4, 0) };

    let measured = load_until(&Target::Http(host.target("/", &[], None)), &endless, &stop).await;

    assert!((101..120).contains(&measured.record.n_offered()), "{}", measured.record.n_offered());
    assert!(0.0 < measured.record.answers_per_second());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_gives_the_whole_answer() {
    let long = "x".repeat(100_000);
    let body = long.clone();
    let host = serve(Router::new().route("/a", get(async move || body))).await;

    let answer = host.ask("/a", None, Duration::from_secs(10)).await.unwrap();

    assert_eq!(answer, (200, long.into_bytes()));
    assert_eq!(host.ask("/b", None, Duration::from_secs(10)).await.unwrap().0, 404);
}
