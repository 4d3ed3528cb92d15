//! A server that misbehaves costs the call it had, is told apart from a bad call, and is not
//! believed.

use std::{io::Write as _, net::TcpListener, time::Duration};

use paceline_backend::{Backend as _, BackendError};
use paceline_backend_remote::RemoteOptions;

use crate::support::{Does, ECHO, Paceline, Told, call, open, options};

#[test]
fn a_batch_is_one_request_and_shows_its_token() {
    let (told, server) = Told::start(-1);
    let token = Some("a-secret".to_owned());
    let mut backend = open(RemoteOptions { token, ..options(&[&server.endpoint]) }).unwrap();

    call(&mut backend, 5).unwrap();

    let bearer = Some("Bearer a-secret".to_owned());
    assert_eq!(told.calls(), [(serde_json::json!([5, 3]), bearer)]);
}

/// What a call gives when the first server does this: alone, with another one beside it, and with
/// another and leave to send it twice.
fn outcomes(does: Does) -> [Result<(), BackendError>; 3] {
    let (told, bad) = Told::start(-1);
    let (_, good) = Told::start(-1);
    let alone: &[&str] = &[&bad.endpoint];
    let both: &[&str] = &[&bad.endpoint, &good.endpoint];
    [(alone, false), (both, false), (both, true)].map(|(endpoints, retry_safe)| {
        told.tell(Does::Echo);
        let mut backend = open(RemoteOptions { retry_safe, ..options(endpoints) }).unwrap();
        told.tell(does);
        call(&mut backend, 2).map(drop)
    })
}

#[test]
fn a_refused_call_goes_to_another_server() {
    for status in [503, 429, 404] {
        let [alone, both, _] = outcomes(Does::Refuse(status));

        let said = alone.unwrap_err();
        assert!(matches!(said, BackendError::Unavailable(_)), "{said}");
        assert!(said.to_string().contains("told to\\nrefuse"), "{said}");
        assert_eq!(both, Ok(()));
    }
}

#[test]
fn a_bad_call_is_the_callers_matter_and_goes_nowhere_else() {
    for status in [400, 500] {
        for outcome in outcomes(Does::Refuse(status)) {
            assert!(matches!(outcome, Err(BackendError::Failed(_))), "{outcome:?}");
        }
    }
}

#[test]
fn what_may_have_been_run_is_sent_again_only_with_leave() {
    for does in [Does::Vanish, Does::Babble, Does::AddRow, Does::Lie] {
        let [alone, both, with_leave] = outcomes(does);

        assert!(matches!(alone, Err(BackendError::Crashed(_))), "{does:?}: {alone:?}");
        assert!(matches!(both, Err(BackendError::Crashed(_))), "{does:?}: {both:?}");
        assert_eq!(with_leave, Ok(()), "{does:?}");
    }
}

#[test]
fn a_wrong_shape_is_named() {
    let [alone, ..] = outcomes(Does::AddRow);

    let said = alone.unwrap_err().to_string();
    assert!(said.contains("output `y` is UINT8 [-1, -1] with 2 rows, but UINT8 [3, 3]"), "{said}");
}

#[test]
fn an_answer_that_is_too_long_is_not_taken() {
    let (_, server) = Told::start(-1);
    let max_response = 200;
    let mut backend = open(RemoteOptions { max_response, ..options(&[&server.endpoint]) }).unwrap();
    call(&mut backend, 1).unwrap();

    let error = call(&mut backend, 80).unwrap_err();

    assert!(matches!(error, BackendError::Crashed(_)), "{error}");
    assert!(error.to_string().contains("more than 200 bytes"), "{error}");
}

#[test]
fn after_a_hang_calls_go_elsewhere_at_once() {
    let (told, bad) = Told::start(-1);
    let (_, good) = Told::start(-1);
    let call_timeout = Duration::from_millis(300);
    let endpoints = [&*bad.endpoint, &*good.endpoint];
    let mut backend = open(RemoteOptions { call_timeout, ..options(&endpoints) }).unwrap();
    told.tell(Does::Hang);

    let outcomes: Vec<_> = (0..5).map(|_| call(&mut backend, 1).map(drop)).collect();

    let lost: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(
        matches!(&lost[..], [BackendError::Crashed(said)] if said.contains("did not answer within")),
        "{lost:?}"
    );
    assert_eq!(told.calls().len(), 1);
}

#[test]
fn what_is_no_server_of_the_protocol_is_passed_over() {
    let good = Paceline::start(&[("m", ECHO)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let babble = std::thread::spawn(move || {
        while let Ok((mut connection, _)) = listener.accept() {
            if connection.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").is_err() {
                return;
            }
        }
    });
    for (scheme, endpoint) in ["http", "grpc"].iter().zip(good.endpoints()) {
        let babbler = format!("{scheme}://{address}");
        let mut backend = open(options(&[&babbler, &endpoint])).unwrap();

        for _ in 0..4 {
            call(&mut backend, 1).unwrap();
        }

        assert_eq!(backend.health().trouble(), None);
    }
    assert!(!babble.is_finished());
}

#[test]
fn a_failing_model_there_is_a_failing_model_here() {
    let server =
        Paceline::start(&[("m", &["simulated.failure_rate=1.0", "simulated.dtype=UINT8"])]);
    // A model that cannot be warmed up is served all the same by this one; it fails every call.
    for endpoint in server.endpoints() {
        let mut backend = open(options(&[&endpoint])).unwrap();
        let shape = [1_usize, 3].as_slice().into();
        let input =
            paceline_types::Tensor::build(paceline_types::DType::U8, shape, vec![0; 3].into());
        let call = paceline_backend::Call { inputs: &[input.unwrap()], rows: 1 };

        let failed = backend.run(&call).unwrap_err();

        assert!(matches!(failed, BackendError::Failed(_)), "{failed}");
    }
}
