//! Spans of requests: which are kept, where they stand in a trace, and what they say.

use std::sync::{Arc, Mutex};

use paceline_backend::{
    Backend, BackendError, Call, Early, Outputs, Ragged, Simulated, StackedCall, simulated,
};
use paceline_batch::Settings;
use paceline_pipeline::{
    Ask, Blueprint, Mode, Model, Models, RequestSpan, SequenceLimits, Tracer, VersionPolicy,
};
use paceline_types::{ErrorCode, Signature, Tensor, TraceContext};
use smallvec::smallvec;

/// Keeps every span, and begins a trace where it is told to.
#[derive(Default)]
struct Keeper {
    samples: bool,
    spans: Mutex<Vec<RequestSpan>>,
}

impl Tracer for Keeper {
    fn samples(&self, random: u64) -> bool {
        assert_ne!(random, 0);
        self.samples
    }

    fn keep(&self, span: RequestSpan) {
        self.spans.lock().unwrap().push(span);
    }
}

impl Keeper {
    fn take(&self) -> Vec<RequestSpan> {
        std::mem::take(&mut self.spans.lock().unwrap())
    }
}

fn served(samples: bool, failure_rate: f64) -> (Arc<Keeper>, Arc<Model>) {
    let simulated = simulated::Settings { failure_rate, ..simulated::Settings::default() };
    served_by(samples, move || Box::new(Simulated::build(simulated.clone(), 0).unwrap()))
}

fn served_by(
    samples: bool,
    build: impl Fn() -> Box<dyn Backend> + Send + Sync + 'static,
) -> (Arc<Keeper>, Arc<Model>) {
    let (model, clock) = Model::open(Blueprint {
        name: "m".to_owned(),
        version: 3,
        version_policy: VersionPolicy::default(),
        platform: "paceline_simulated".to_owned(),
        mode: Mode::Batch,
        batch: Settings::default(),
        instances: 1,
        build: Arc::new(move |_| Ok(build())),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 4,
        adapter: None,
    })
    .unwrap();
    tokio::spawn(clock.run());
    let keeper = Arc::new(Keeper { samples, ..Keeper::default() });
    let models = Models::default();
    models.trace_with(Arc::clone(&keeper) as Arc<dyn Tracer>);
    models.replace("m", vec![Arc::clone(&model)]);
    (keeper, model)
}

fn ask(trace: Option<TraceContext>) -> Ask {
    Ask { inputs: smallvec![Tensor::from_f32(&[1, 1], &[1.0]).unwrap()], trace, ..Ask::default() }
}

fn context(is_sampled: bool) -> Option<TraceContext> {
    TraceContext::new(7 << 64 | 5, 3, is_sampled)
}

#[tokio::test]
async fn a_request_stands_in_its_clients_trace_where_that_is_sampled() {
    // Whatever the tracer would begin by itself.
    for samples in [false, true] {
        let (keeper, model) = served(samples, 0.0);
        model.infer(ask(context(true))).await.unwrap();
        let mut results = model.infer_stream(ask(context(true)));
        while let Some(result) = results.next().await {
            result.unwrap();
        }
        assert_eq!(results.ride().unwrap().items, 1);
        model.infer(ask(context(false))).await.unwrap();

        let spans = keeper.take();
        assert_eq!(spans.len(), 2, "what is not sampled is not kept");
        for span in &spans {
            assert_eq!((span.context.trace(), span.parent), (7 << 64 | 5, Some(3)));
            assert_ne!(span.context.span(), 3, "it has a place of its own");
            assert_eq!((&*span.model, span.version, &*span.message), ("m", 3, ""));
            assert_eq!(span.outcome.as_ref().unwrap().items, 1);
        }
        assert_ne!(spans[0].context.span(), spans[1].context.span());
    }
}

#[tokio::test]
async fn the_model_is_told_where_its_call_stands_in_the_trace() {
    let heard = Arc::<Mutex<Vec<Option<TraceContext>>>>::default();
    let of_model = Arc::clone(&heard);
    let (keeper, model) = served_by(false, move || {
        let model = Simulated::build(simulated::Settings::default(), 0).unwrap();
        Box::new(Listening { model, heard: Arc::clone(&of_model) })
    });
    heard.lock().unwrap().clear();

    // Whichever way it takes.
    for waits_for_room in [false, true] {
        model.infer(Ask { waits_for_room, ..ask(context(true)) }).await.unwrap();
        model.infer(Ask { waits_for_room, ..ask(None) }).await.unwrap();
    }

    let spans = keeper.take();
    let [first, second] = &spans[..] else { panic!("{spans:?}") };
    let told = |span: &RequestSpan| Some(span.context.of_batch());
    assert_eq!(*heard.lock().unwrap(), [told(first), None, told(second), None]);
}

/// Remembers where its calls stand.
struct Listening {
    model: Simulated,
    heard: Arc<Mutex<Vec<Option<TraceContext>>>>,
}

impl Backend for Listening {
    fn signature(&self) -> &Signature {
        self.model.signature()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        self.model.run(call)
    }

    fn run_stacked(
        &mut self,
        call: &StackedCall<'_>,
        early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        self.heard.lock().unwrap().push(call.trace);
        self.model.run_stacked(call, early)
    }
}

#[tokio::test]
async fn a_request_without_a_trace_begins_one_where_the_tracer_says_so() {
    let (keeper, model) = served(false, 0.0);
    model.infer(ask(None)).await.unwrap();
    assert!(keeper.take().is_empty());

    let (keeper, model) = served(true, 0.0);
    for _ in 0..2 {
        model.infer(ask(None)).await.unwrap();
    }
    let spans = keeper.take();
    let [first, second] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((first.parent, second.parent), (None, None));
    assert_ne!(first.context.trace(), second.context.trace());
    for span in &spans {
        let (high, low) = (span.context.trace() >> 64, span.context.trace() & u128::from(u64::MAX));
        assert!(high != 0 && low != 0 && high != low, "all of it is random");
        assert!(span.context.is_sampled());
    }
}

#[tokio::test]
async fn a_span_says_why_there_is_no_result() {
    let (keeper, model) = served(true, 1.0);
    model.infer(ask(None)).await.unwrap_err();
    model.infer_stream(ask(None)).next().await.unwrap().unwrap_err();
    let wrong = Ask { inputs: smallvec![], ..ask(None) };
    model.infer_stream(wrong.clone()).next().await.unwrap().unwrap_err();
    model.infer(wrong).await.unwrap_err();

    let said: Vec<_> = keeper.take().into_iter().map(|span| span.outcome.unwrap_err()).collect();
    let (failed, invalid) = (ErrorCode::ModelFailed, ErrorCode::InvalidInput);
    assert_eq!(said, [failed, failed, invalid, invalid]);

    drop(model.infer_stream(ask(None)));
    let spans = keeper.take();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    let told = (span.outcome, &*span.message);
    assert_eq!(told, (Err(ErrorCode::Cancelled), "the client left"));
}
