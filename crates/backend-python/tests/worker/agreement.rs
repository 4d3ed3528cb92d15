//! What crosses into a worker and back is what it was, for every type and any mix of rows.

use bytes::Bytes;
use paceline_backend::{Backend, BackendError, Simulated, simulated};
use paceline_types::{DType, Tensor};

use crate::support::{options, serve, serve_any};

/// An item of so many rows and columns, whose bytes all differ.
fn item(dtype: DType, rows: usize, columns: usize, seed: usize) -> Tensor {
    let byte = |at: usize| u8::try_from((at * 31 + seed * 17) % 251).unwrap();
    let data: Vec<u8> = match dtype.size() {
        Some(size) if dtype == DType::Bool => {
            (0..rows * columns * size).map(|at| byte(at) % 2).collect()
        }
        Some(size) => (0..rows * columns * size).map(byte).collect(),
        None => (0..rows * columns)
            .flat_map(|at| {
                let length = at % 5;
                let text = (0..length).map(byte).collect::<Vec<u8>>();
                [u32::try_from(length).unwrap().to_le_bytes().to_vec(), text].concat()
            })
            .collect(),
    };
    Tensor::build(dtype, [rows, columns].as_slice().into(), Bytes::from(data)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_agrees_with_an_in_process_model_on_every_type() {
    for dtype in DType::ALL {
        for class in ["Echo", "Rows"] {
            let mut options = options(class);
            options.env.insert("DTYPE".to_owned(), dtype.as_str().to_owned());
            let python = serve(&options, 1);
            let in_process = serve_any(
                move |_| {
                    let settings = simulated::Settings { dtype, ..simulated::Settings::default() };
                    let model = Simulated::build(settings, 0);
                    let model = model.map_err(|error| BackendError::Load(error.to_string()))?;
                    Ok(Box::new(model) as Box<dyn Backend>)
                },
                1,
            );
            let items: Vec<Tensor> = [(1, 3), (3, 3), (2, 3), (1, 7), (4, 7), (1, 0), (8, 3)]
                .into_iter()
                .enumerate()
                .map(|(seed, (rows, columns))| item(dtype, rows, columns, seed))
                .collect();
            let answers = futures(items.iter().map(|item| python.ask(vec![item.clone()]))).await;
            let expected =
                futures(items.iter().map(|item| in_process.ask(vec![item.clone()]))).await;
            for ((answer, expected), item) in answers.into_iter().zip(expected).zip(&items) {
                let (answer, expected) = (answer.unwrap(), expected.unwrap());
                assert_eq!(answer, expected, "{dtype} through {class}");
                assert_eq!(&answer[0], item);
            }
        }
    }
}

/// Waits for all of them at once, so that they share calls.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_written_straight_into_shared_memory_is_the_answer() {
    let served = serve(&options("InPlace"), 1);

    assert_eq!(served.numbers(&[1.0, 2.5]).await.unwrap(), [1.0, 2.5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_grows_with_what_is_sent_and_what_comes_back() {
    let served = serve(&options("Echo"), 1);
    let large: Vec<f32> = (0..1_500_000_u32).map(|n| n as f32).collect();
    assert_eq!(served.numbers(&large).await.unwrap(), large);

    let served = serve(&options("Grow"), 1);
    for n in [3_i64, 1_000_000, 5] {
        let input = Tensor::build(
            DType::I64,
            [1, 1].as_slice().into(),
            Bytes::copy_from_slice(&n.to_le_bytes()),
        );
        let answer = served.ask(vec![input.unwrap()]).await.unwrap();
        let last = answer[0].data().last_chunk::<8>().unwrap();
        assert_eq!(i64::from_le_bytes(*last), n - 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_batch_gets_tensors_as_they_are() {
    let served = serve(&options("Whole"), 1);
    let text = Bytes::from_static(b"\x02\0\0\0hi\0\0\0\0");
    let text = Tensor::build(DType::Bytes, [2].as_slice().into(), text).unwrap();
    let times = Bytes::copy_from_slice(&3_i64.to_le_bytes());
    let times = Tensor::build(DType::I64, [].as_slice().into(), times).unwrap();

    let answer = served.ask(vec![text, times]).await.unwrap();

    assert_eq!(answer[0].byte_elements().collect::<Vec<_>>(), [&b"hihihi"[..], b""]);
    assert_eq!(answer[1].data()[..], 2_i32.to_le_bytes());
}
