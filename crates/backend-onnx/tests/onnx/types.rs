//! Every element type that an engine has goes through it unchanged; the others are refused by name.

use paceline_backend::{Backend as _, Call};
use paceline_backend_onnx::{Engine, OnnxBackend};
use paceline_types::{DType, Tensor};
use rten_onnx::onnx::DataType;

use crate::{graphs::GraphFile, support::options};

const TYPES: [(DataType, DType); 14] = [
    (DataType::BOOL, DType::Bool),
    (DataType::UINT8, DType::U8),
    (DataType::UINT16, DType::U16),
    (DataType::UINT32, DType::U32),
    (DataType::UINT64, DType::U64),
    (DataType::INT8, DType::I8),
    (DataType::INT16, DType::I16),
    (DataType::INT32, DType::I32),
    (DataType::INT64, DType::I64),
    (DataType::FLOAT16, DType::F16),
    (DataType::BFLOAT16, DType::BF16),
    (DataType::FLOAT, DType::F32),
    (DataType::DOUBLE, DType::F64),
    (DataType::STRING, DType::Bytes),
];

/// Two rows of two elements, each with another pattern of bits. None is a NaN.
fn sample(dtype: DType) -> Tensor {
    let data: Vec<u8> = match dtype {
        DType::Bool => vec![0, 1, 1, 0],
        DType::Bytes => b"\x02\0\0\0hi\0\0\0\0\x01\0\0\0!\x03\0\0\0\xe2\x82\xac".to_vec(),
        DType::I64 => [-2_i64, 0, 7, 65_536].iter().flat_map(|value| value.to_le_bytes()).collect(),
        _ => (1..=4 * u8::try_from(dtype.size().unwrap()).unwrap()).collect(),
    };
    Tensor::build(dtype, [2, 2].as_slice().into(), data.into()).unwrap()
}

#[test]
fn onnx_runtime_carries_every_type_of_the_protocol() {
    for (element, dtype) in TYPES {
        let file = GraphFile::unary("Identity", element);
        let mut backend = OnnxBackend::load(&options(file.path(), Engine::OnnxRuntime)).unwrap();
        let inputs = [sample(dtype)];

        let outputs = backend.run(&Call { inputs: &inputs, rows: 2 }).unwrap();

        assert_eq!(outputs.tensors, inputs, "{dtype}");
    }
}

#[test]
fn rten_carries_six_types_and_refuses_the_others_by_name() {
    let known = [DType::Bool, DType::U8, DType::I8, DType::I32, DType::I64, DType::F32];
    for (element, dtype) in TYPES {
        let file = GraphFile::unary("Identity", element);
        let backend = OnnxBackend::load(&options(file.path(), Engine::Rten));
        let inputs = [sample(dtype)];
        if known.contains(&dtype) {
            let outputs = backend.unwrap().run(&Call { inputs: &inputs, rows: 2 }).unwrap();
            assert_eq!(outputs.tensors, inputs, "{dtype}");
        } else {
            let error = backend.unwrap_err().to_string();
            let expected = format!("rten does not have {dtype}, the type of input `x`");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[test]
fn a_type_that_is_not_in_the_protocol_is_refused_by_name() {
    let file = GraphFile::unary("Identity", DataType::COMPLEX64);

    let error = OnnxBackend::load(&options(file.path(), Engine::Auto)).unwrap_err().to_string();

    assert!(error.contains("input `x` is COMPLEX64, which cannot be served"), "{error}");
}

#[test]
fn auto_takes_rten_where_it_can_and_else_onnx_runtime() {
    let engine = |element| {
        let file = GraphFile::unary("Identity", element);
        // Asking for ONNX Runtime first makes a missing library fail with its own sentence.
        let options = options(file.path(), Engine::OnnxRuntime);
        let auto = paceline_backend_onnx::OnnxOptions { engine: Engine::Auto, ..options };
        OnnxBackend::load(&auto).unwrap().engine()
    };

    assert_eq!(engine(DataType::FLOAT), "rten");
    assert_eq!(engine(DataType::DOUBLE), "onnxruntime");
}
