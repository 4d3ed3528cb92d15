//! Several endpoints of one model: who is asked, and who takes over.

use std::{net::TcpListener, time::Duration};

use paceline_backend::{Backend as _, BackendError};
use paceline_backend_remote::RemoteOptions;

use crate::support::{Does, ECHO, Paceline, Told, call, nobody, open, options};

fn paceline() -> Paceline {
    Paceline::start(&[("m", ECHO)])
}

#[test]
fn one_that_nobody_listens_at_is_passed_over() {
    let server = paceline();
    for (endpoint, scheme) in server.endpoints().iter().zip(["http", "grpc"]) {
        let nobody = format!("{scheme}://{}", nobody());
        let mut backend = open(options(&[&nobody, endpoint])).unwrap();

        for rows in 1..8 {
            call(&mut backend, rows).unwrap();
        }

        assert_eq!(backend.health().trouble(), None);
    }
}

#[test]
fn when_one_dies_the_other_takes_over_and_when_both_do_it_is_said() {
    let (first, second) = (paceline(), paceline());
    for at in 0..2 {
        let [a, b] = [&first, &second].map(|server| server.endpoints()[at].clone());
        let mut backend = open(options(&[&a, &b])).unwrap();
        call(&mut backend, 2).unwrap();
        call(&mut backend, 2).unwrap();
    }
    let both = [&first, &second].map(Paceline::endpoints);
    let mut backends = [0, 1].map(|at| open(options(&[&both[0][at], &both[1][at]])).unwrap());
    drop(first);
    for backend in &mut backends {
        // The connection of the dead one may be found broken by a call that was sent; after that,
        // nothing is sent to it.
        let outcomes: Vec<_> = (0..6).map(|_| call(backend, 1).map(drop)).collect();
        let lost = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert!(lost <= 1 && outcomes[5].is_ok(), "{outcomes:?}");
        assert_eq!(backend.health().trouble(), None);
    }
    drop(second);
    for backend in &mut backends {
        let outcomes: Vec<_> = (0..8).map(|_| call(backend, 1).unwrap_err()).collect();
        assert!(matches!(outcomes[7], BackendError::Unavailable(_)), "{outcomes:?}");
        let trouble = backend.health().trouble().unwrap();
        assert_eq!(trouble.matches("cannot be asked").count(), 2, "{trouble}");
    }
}

#[test]
fn those_that_declare_different_tensors_are_not_one_model() {
    let ((_, any), (_, three)) = (Told::start(-1), Told::start(3));

    let error = open(options(&[&any.endpoint, &three.endpoint])).unwrap_err();

    assert!(error.to_string().contains("declare different tensors"), "{error}");
}

#[test]
fn one_that_turns_out_to_have_another_model_is_not_asked() {
    let (told, server) = Told::start(-1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let mut backend = open(RemoteOptions {
        connect_timeout: Duration::from_millis(200),
        first_pause: Duration::ZERO,
        max_failures: 1,
        ..options(&[&server.endpoint, &silent])
    })
    .unwrap();
    let (other, _server) = Told::start_at(listener, 3);
    told.tell(Does::Refuse(503));

    let error = call(&mut backend, 1).unwrap_err().to_string();

    assert!(error.contains("it declares other inputs or outputs"), "{error}");
    assert_eq!(other.calls(), []);
}

#[test]
fn nobody_at_all_is_said_when_the_model_is_loaded() {
    for scheme in ["http", "grpc"] {
        let error = open(options(&[&format!("{scheme}://{}", nobody())])).unwrap_err();

        assert!(
            matches!(&error, BackendError::Load(said) if said.contains("cannot be asked")),
            "{error}"
        );
    }
}

#[test]
fn a_model_that_is_not_there_is_said_with_the_servers_own_words() {
    let server = paceline();
    for endpoint in server.endpoints() {
        let error = open(RemoteOptions { model: "nope".into(), ..options(&[&endpoint]) });

        let error = error.unwrap_err().to_string();
        assert!(error.contains("nope") && error.contains("it refuses"), "{error}");
    }
}

#[test]
fn one_that_is_well_again_is_asked_again() {
    let (told, server) = Told::start(-1);
    let mut backend = open(RemoteOptions {
        first_pause: Duration::ZERO,
        max_failures: 1,
        ..options(&[&server.endpoint])
    })
    .unwrap();
    told.tell(Does::Refuse(503));
    assert!(matches!(call(&mut backend, 1), Err(BackendError::Unavailable(_))));
    assert!(backend.health().trouble().is_some());

    told.tell(Does::Echo);

    call(&mut backend, 1).unwrap();
    assert_eq!(backend.health().trouble(), None);
}

#[test]
fn instances_share_one_client() {
    let (told, server) = Told::start(-1);
    let model = paceline_backend_remote::RemoteModel::new(RemoteOptions {
        max_failures: 1,
        ..options(&[&server.endpoint])
    });
    let (mut one, mut other) = (model.open().unwrap(), model.open().unwrap());
    told.tell(Does::Refuse(503));
    call(&mut one, 1).unwrap_err();

    call(&mut other, 1).unwrap_err();

    assert_eq!(told.calls().len(), 1, "what one found out, the other knows");
}
