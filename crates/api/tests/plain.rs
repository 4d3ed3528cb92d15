//! `POST /v1/models/{model}/infer`: who shares a call with whom.

#[path = "common/app.rs"]
mod app;
#[path = "common/model.rs"]
mod model;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::Request,
};
use paceline_api::http::{self};
use paceline_backend::{Backend, BackendError, Call, Outputs, Simulated, simulated};
use paceline_pipeline::{Model, Models};
use paceline_types::Signature;
use parking_lot::{Condvar, Mutex};
use serde_json::Value;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

/// What calls wait at while it is shut.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn shut(&self) {
        *self.is_shut.lock() = true;
    }

    fn open(&self) {
        *self.is_shut.lock() = false;
        self.opened.notify_all();
    }
}

/// The simulated model behind a gate.
struct Gated {
    model: Simulated,
    gate: Arc<Gate>,
}

impl Backend for Gated {
    fn signature(&self) -> &Signature {
        self.model.signature()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        self.gate.opened.wait_while(&mut self.gate.is_shut.lock(), |is_shut| *is_shut);
        self.model.run(call)
    }
}

struct Door {
    router: Router,
    model: Arc<Model>,
    gate: Arc<Gate>,
}

impl Door {
    fn open() -> Self {
        let gate = Arc::new(Gate::default());
        let build = {
            let gate = Arc::clone(&gate);
            Arc::new(move |_| {
                let model = Simulated::build(simulated::Settings::default(), 0).unwrap();
                Ok(Box::new(Gated { model, gate: Arc::clone(&gate) }) as Box<dyn Backend>)
            })
        };
        let models = Arc::new(Models::default());
        let model = model::open(&models, model::blueprint(build));
        let entrance = Arc::new(paceline_api::gate::Gate::open());
        Self { router: http::router(app::app(&models), entrance), model, gate }
    }

    /// Sends a request, and gives how many items shared each answer's call.
    fn ask(&self, query: &str, body: &str) -> JoinHandle<Vec<u64>> {
        let request = Request::post(format!("/v1/models/m/infer?ride=on{query}"))
            .body(Body::from(body.to_owned()))
            .unwrap();
        let answer = self.router.clone().oneshot(request);
        tokio::spawn(async move {
            let body = answer.await.unwrap().into_body();
            let answer: Value =
                serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap()).unwrap();
            let items = |answer: &Value| answer["ride"]["items"].as_u64().unwrap();
            answer
                .as_array()
                .map_or_else(|| vec![items(&answer)], |all| all.iter().map(items).collect())
        })
    }

    async fn until(&self, holds: impl Fn(paceline_batch::Stats) -> bool) {
        while !holds(self.model.batch_stats()) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn batch_off_shares_a_call_with_nobody_and_ordinary_requests_share_theirs() {
    let door = Door::open();
    door.gate.shut();
    let first = door.ask("", "[0]");
    door.until(|stats| stats.in_flight == 1).await;

    // All of these wait together, behind the one at the gate.
    let ordinary = [door.ask("", "1"), door.ask("", "2")];
    let alone = [door.ask("&batch=off", "3"), door.ask("&batch=off", "4")];
    let list = door.ask("&batch=off", "[5, 6, 7]");
    door.until(|stats| stats.waiting_items == 5).await;
    door.gate.open();

    assert_eq!(first.await.unwrap(), [1]);
    for ordinary in ordinary {
        assert_eq!(ordinary.await.unwrap(), [2]);
    }
    for alone in alone {
        assert_eq!(alone.await.unwrap(), [1]);
    }
    assert_eq!(list.await.unwrap(), [1, 1, 1]);
}
