//! A model on another Paceline does all that a model here must do.

use paceline_backend::{Backend, conformance};
use paceline_backend_remote::RemoteModel;

use crate::support::{Paceline, options};

#[test]
fn a_remote_model_is_like_a_local_one_over_both_protocols() {
    let types = ["FP32", "INT64", "BYTES", "FP16", "BOOL"];
    let settings = types.map(|dtype| [format!("simulated.dtype={dtype}")]);
    let settings = settings.each_ref().map(|all| all.each_ref().map(String::as_str));
    let models: Vec<_> = types.iter().zip(&settings).map(|(name, all)| (*name, &all[..])).collect();
    let server = Paceline::start(&models);
    for endpoint in server.endpoints() {
        for name in types {
            let mut options = options(&[&endpoint]);
            name.clone_into(&mut options.model);
            let model = RemoteModel::new(options);

            let checked = conformance::check(|| Ok(Box::new(model.open()?) as Box<dyn Backend>));

            assert_eq!(checked, Ok(()), "{name} at {endpoint}");
        }
    }
}

#[test]
fn what_the_remote_declares_is_what_the_model_declares_here() {
    let server = Paceline::start(&[("m", &["batch.max_items=7", "simulated.dtype=UINT8"])]);
    let backends = server.endpoints().map(|endpoint| {
        let backend = RemoteModel::new(options(&[&endpoint])).open().unwrap();
        (backend.signature().clone(), backend.max_rows())
    });

    assert_eq!(backends[0], backends[1]);
    assert_eq!(backends[0].1, Some(7));
    assert!(backends[0].0.batched);
    assert_eq!(backends[0].0.inputs[0].name, "INPUT");
}
