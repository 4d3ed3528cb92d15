//! Rings alone: no Redis, no server.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::*;

fn frame(number: u64, bytes: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

#[test]
fn a_frame_is_read_until_it_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = Ring::create(folder.path(), "door", 100, 3).unwrap();
    let reader = Reader::new(folder.path().to_owned());
    let handles: Vec<Handle> = (0..7).map(|n| ring.write(&frame(n, 77)).unwrap()).collect();

    for (n, handle) in (0..).zip(&handles) {
        match reader.read(handle) {
            Ok(found) => assert!(4 <= n && found == frame(n, 77), "{n}"),
            Err(error) => assert!(n < 4 && matches!(error, ReadError::Overwritten), "{n} {error}"),
        }
    }
    assert!(matches!(ring.write(&[0; 101]), Err(RingError::TooLarge { actual: 101, max: 100 })));
}

#[test]
fn what_a_dead_producer_wrote_can_be_read_and_is_removed_only_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = Ring::create(folder.path(), "door", 100, 3).unwrap();
    let handle = ring.write(b"last words").unwrap();
    let path = ring.path.clone();
    let reader = Reader::new(folder.path().to_owned());
    let is_old = || {
        let old = SystemTime::now() - KEPT_FOR * 2;
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    };

    is_old();
    sweep(folder.path());
    assert!(path.exists(), "its producer lives");
    ring.write(b"last words again").unwrap();
    drop(ring);
    sweep(folder.path());
    assert!(path.exists(), "it was written just now");
    assert_eq!(reader.read(&handle).unwrap(), b"last words");
    is_old();
    sweep(folder.path());
    assert!(!path.exists());
    assert_eq!(reader.read(&handle).unwrap(), b"last words", "it is still open");
    reader.close_all();
    assert!(matches!(reader.read(&handle), Err(ReadError::NoRing(_))));
}

#[test]
fn a_half_written_frame_is_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = Ring::create(folder.path(), "door", 100, 1).unwrap();
    let handle = ring.write(b"whole").unwrap();
    let reader = Reader::new(folder.path().to_owned());
    // As a producer leaves it that dies in the middle of the next.
    ring.file.write_all_at(&5_u64.to_le_bytes(), SLOTS_AT).unwrap();

    for generation in [1, 2] {
        let handle = Handle { generation, ..handle.clone() };
        assert!(matches!(reader.read(&handle), Err(ReadError::Overwritten)));
    }
}

#[test]
fn handles_and_files_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = Ring::create(folder.path(), "door", 100, 3).unwrap();
    let handle = ring.write(b"x").unwrap();
    let reader = Reader::new(folder.path().to_owned());
    fs::write(folder.path().join("paceline-ring-text"), "no ring at all, but long enough").unwrap();
    std::os::unix::fs::symlink(&ring.path, folder.path().join("paceline-ring-link")).unwrap();

    for (slot, len) in [(3, 1), (0, 101), (u64::MAX, 1), (0, u64::MAX)] {
        let handle = Handle { slot, len, ..handle.clone() };
        assert!(matches!(reader.read(&handle), Err(ReadError::Misfit(_))), "{handle}");
    }
    let elsewhere = |ring: &str| Handle { ring: ring.to_owned(), ..handle.clone() };
    assert!(matches!(reader.read(&elsewhere("text")), Err(ReadError::Misfit(_))));
    assert!(
        matches!(reader.read(&elsewhere("link")), Err(ReadError::Io(..))),
        "links are not followed"
    );
    assert!(matches!(Ring::create(folder.path(), "a/b", 1, 1), Err(RingError::BadName)));
    ring.file.set_len(10).unwrap();
    assert!(matches!(reader.read(&handle), Err(ReadError::Io(..))), "cut short is an error");
}

/// A writer that laps the reader all the time: what is read is one whole frame, or nothing.
#[test]
fn nobody_ever_gets_parts_of_two_frames() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = Ring::create(folder.path(), "door", 20_000, 1).unwrap();
    let reader = Reader::new(folder.path().to_owned());
    let latest = Mutex::new(ring.write(&frame(1, 20_000)).unwrap());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 2.. {
                let handle = ring.write(&frame(n, 20_000)).unwrap();
                *latest.lock().unwrap() = handle;
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..5_000 {
            let handle = latest.lock().unwrap().clone();
            match reader.read(&handle) {
                Ok(found) => assert_eq!(found, frame(handle.generation, 20_000)),
                Err(error) => assert!(matches!(error, ReadError::Overwritten), "{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
