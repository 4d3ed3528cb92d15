//! gRPC messages of the Open Inference Protocol mean what HTTP bodies mean.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/tensors.rs"]
mod common;

use bytes::Bytes;
use paceline_api::oip::{
    InferParams, InferRequest, InferResponse, OipError, ParamValue, RequestedOutput, Sequence,
    SequenceId,
    grpc::{decode_request, decode_response, encode_request, encode_response, encode_stream_error},
    proto::{
        InferParameter, ModelInferRequest, infer_parameter::ParameterChoice,
        model_infer_request::InferInputTensor,
    },
};
use paceline_types::{DType, ErrorCode, Tensor};
use proptest::{collection::vec, prelude::*, sample::Index, sample::select};
use prost::Message as _;

use common::{contents, named, textual};

fn request(inputs: Vec<(String, Tensor)>) -> InferRequest {
    InferRequest {
        model: "m".to_owned(),
        version: Some(2),
        id: Some("7".to_owned()),
        params: InferParams::default(),
        inputs,
        outputs: vec![],
    }
}

fn typed(name: &str, tensor: &Tensor) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: tensor.dtype().as_str().to_owned(),
        shape: tensor.shape().iter().map(|&extent| i64::try_from(extent).unwrap()).collect(),
        contents: Some(contents(tensor)),
        ..InferInputTensor::default()
    }
}

fn floats() -> Tensor {
    Tensor::from_f32(&[2], &[1.0, f32::NAN]).unwrap()
}

fn refusal(message: ModelInferRequest) -> String {
    decode_request(message).unwrap_err().to_string()
}

#[test]
fn every_parameter_survives_the_wire() {
    let mut sent = request(vec![("x".to_owned(), floats())]);
    sent.params = InferParams {
        priority: Some(1),
        timeout: Some(std::time::Duration::from_micros(20)),
        sequence: Some(Sequence { id: SequenceId::Number(9), start: true, end: true }),
        binary_data_output: true,
        empty_final_response: true,
        other: vec![
            ("a".to_owned(), ParamValue::Float(0.5)),
            ("b".to_owned(), ParamValue::Text("ko".to_owned())),
            ("c".to_owned(), ParamValue::Uint(3)),
        ],
    };
    sent.outputs =
        vec![RequestedOutput { name: "y".to_owned(), binary: Some(true), classes: Some(5) }];

    assert_eq!(decode_request(encode_request(sent.clone())).unwrap(), sent);
}

#[test]
fn the_flag_that_every_client_sends_does_no_harm() {
    let mut message = encode_request(request(vec![("x".to_owned(), floats())]));
    let flag = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(false)) };
    message.parameters.insert("triton_enable_empty_final_response".to_owned(), flag);
    message.parameters.insert("nothing".to_owned(), InferParameter::default());

    assert_eq!(decode_request(message).unwrap().params, InferParams::default());
}

#[test]
fn raw_inputs_are_shared_with_the_message() {
    let wire =
        Bytes::from(encode_request(request(vec![("x".to_owned(), floats())])).encode_to_vec());
    let message = ModelInferRequest::decode(wire.clone()).unwrap();

    let data = decode_request(message).unwrap().inputs[0].1.data().clone();

    assert!(wire.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn raw_and_typed_inputs_do_not_mix() {
    let mut mixed = encode_request(request(vec![("x".to_owned(), floats())]));
    mixed.inputs[0].contents = Some(contents(&floats()));
    assert!(refusal(mixed.clone()).starts_with("input `x` has typed `contents`, but"));

    mixed.inputs[0].contents = Some(paceline_api::oip::proto::InferTensorContents::default());
    assert!(decode_request(mixed.clone()).is_ok());
    mixed.raw_input_contents.push(Bytes::new());
    assert_eq!(refusal(mixed), "the request has 1 inputs but 2 `raw_input_contents`");
}

#[test]
fn typed_contents_are_checked_as_json_is() {
    let check = |edit: &dyn Fn(&mut InferInputTensor)| {
        let mut input = typed("x", &floats());
        edit(&mut input);
        refusal(ModelInferRequest { inputs: vec![input], ..ModelInferRequest::default() })
    };

    assert_eq!(
        check(&|input| input.shape = vec![3]),
        "input `x` has 2 elements in its `contents`, where shape [3] asks for 3"
    );
    assert_eq!(
        check(&|input| input.datatype = "INT8".to_owned()),
        "INT8 input `x` has its contents in `fp32_contents`, where `int_contents` is expected"
    );
    assert_eq!(
        check(&|input| {
            input.datatype = "UINT8".to_owned();
            input.shape = vec![1];
            let contents = input.contents.get_or_insert_default();
            contents.fp32_contents.clear();
            contents.uint_contents = vec![256];
        }),
        "element 0 of input `x` is not UINT8: 256 is out of range"
    );
    assert_eq!(
        check(&|input| input.shape = vec![2, -1]),
        "extent 1 of input `x` is -1, where a size is expected"
    );
    assert!(check(&|input| input.shape = vec![1 << 40, 1 << 40]).contains("addressed"));
    assert!(check(&|input| input.shape = vec![1; 33]).contains("32 extents"));
    assert!(check(&|input| input.datatype = "FP16".to_owned()).contains("raw_input_contents"));
    assert!(check(&|input| input.datatype = "fp32".to_owned()).contains("datatype `fp32`"));
    assert!(check(&|input| input.name.clear()).contains("has no `name`"));
    assert_eq!(refusal(ModelInferRequest::default()), "the request has no `inputs`");
}

#[test]
fn shared_memory_is_not_offered() {
    let mut message = encode_request(request(vec![("x".to_owned(), floats())]));
    let region = ("shared_memory_region".to_owned(), InferParameter::default());
    message.inputs[0].parameters.extend([region]);

    assert_eq!(decode_request(message).unwrap_err().code(), ErrorCode::Unsupported);
}

#[test]
fn a_version_is_a_number() {
    let mut message = encode_request(request(vec![("x".to_owned(), floats())]));
    message.model_version = "latest".to_owned();

    assert!(matches!(decode_request(message), Err(OipError::Version(_))));
}

#[test]
fn a_failure_on_a_stream_says_which_request_failed() {
    let message = encode_stream_error(Some("7".to_owned()), "no".to_owned());

    assert_eq!(message.infer_response.unwrap().id, "7");
    assert_eq!(message.error_message, "no");
}

proptest! {
    #[test]
    fn requests_read_back_raw(inputs in named(select(DType::ALL.to_vec()))) {
        let sent = request(inputs);
        let wire = Bytes::from(encode_request(sent.clone()).encode_to_vec());

        let message = ModelInferRequest::decode(wire).unwrap();
        prop_assert_eq!(decode_request(message).unwrap(), sent);
    }

    #[test]
    fn typed_contents_mean_the_same_as_raw(inputs in named(textual())) {
        let mut message = encode_request(request(inputs.clone()));
        message.raw_input_contents.clear();
        message.inputs = inputs.iter().map(|(name, tensor)| typed(name, tensor)).collect();

        prop_assert_eq!(decode_request(message).unwrap(), request(inputs));
    }

    #[test]
    fn responses_have_one_raw_entry_per_output(outputs in named(select(DType::ALL.to_vec()))) {
        let sent = InferResponse {
            model_name: "m".to_owned(),
            model_version: "1".to_owned(),
            id: None,
            parameters: vec![("p".to_owned(), ParamValue::Bool(true))],
            outputs,
        };
        let message = encode_response(sent.clone());

        prop_assert_eq!(message.raw_output_contents.len(), sent.outputs.len());
        prop_assert!(message.outputs.iter().all(|output| output.contents.is_none()));
        prop_assert_eq!(decode_response(message).unwrap(), sent);
    }

    #[test]
    fn no_message_makes_the_reader_panic(
        inputs in named(select(DType::ALL.to_vec())),
        edits in vec((any::<Index>(), any::<u8>()), 1..6),
    ) {
        let mut wire = encode_request(request(inputs)).encode_to_vec();
        for (index, byte) in edits {
            let at = index.index(wire.len());
            wire[at] = byte;
        }

        if let Ok(message) = ModelInferRequest::decode(Bytes::from(wire))
            && let Err(error) = decode_request(message)
        {
            prop_assert!(error.to_string().len() < 2048);
        }
    }
}
