//! HTTP bodies of the Open Inference Protocol: what they mean, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/tensors.rs"]
mod common;

use std::time::Duration;

use bytes::Bytes;
use paceline_api::oip::{
    InferResponse, OipError, ParamValue, RequestedOutput, Sequence, SequenceId, decode_http,
    encode_http,
};
use paceline_types::{DType, Dim, ErrorCode, Shape, Signature, Tensor, TensorSpec};
use proptest::{collection::vec, prelude::*, sample::Index, sample::select};

use common::{body, decode, decode_text, named, textual};

/// A request with one input, written in the usual order.
fn one(datatype: &str, shape: &str, data: &str) -> String {
    format!(
        r#"{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{datatype}","data":{data}}}]}}"#
    )
}

fn refusal(json: &str) -> String {
    decode_text(json).unwrap_err().to_string()
}

#[test]
fn a_whole_request_is_read() {
    let request = decode_text(
        r#" { "id" : "7", "unknown": [{"a": [1, {}]}, null], "parameters": {"priority": 2,
        "timeout": 1500, "sequence_id": "s", "sequence_start": true, "sequence_end": false,
        "binary_data_output": true, "temperature": 0.5, "lang": "ko", "top": -3, "none": null,
        "big": 18446744073709551615 }, "inputs": [ { "name": "a", "shape": [2], "datatype": "FP32",
        "parameters": {"content_type": "np", "x": {}}, "data": [1, -2.5e0] } ],
        "outputs": [ {"name": "y", "parameters": {"binary_data": false, "classification": 3}},
        {"name": "z"} ] } "#,
    )
    .unwrap();

    assert_eq!(request.id.as_deref(), Some("7"));
    assert_eq!(request.params.priority, Some(2));
    assert_eq!(request.params.timeout, Some(Duration::from_micros(1500)));
    let id = SequenceId::Text("s".to_owned());
    assert_eq!(request.params.sequence, Some(Sequence { id, start: true, end: false }));
    assert!(request.params.binary_data_output);
    let pair = |key: &str, value| (key.to_owned(), value);
    assert_eq!(
        request.params.other,
        [
            pair("temperature", ParamValue::Float(0.5)),
            pair("lang", ParamValue::Text("ko".to_owned())),
            pair("top", ParamValue::Int(-3)),
            pair("big", ParamValue::Uint(u64::MAX)),
        ]
    );
    assert_eq!(request.inputs, [("a".to_owned(), Tensor::from_f32(&[2], &[1.0, -2.5]).unwrap())]);
    let output =
        |name: &str, binary, classes| RequestedOutput { name: name.to_owned(), binary, classes };
    assert_eq!(request.outputs, [output("y", Some(false), Some(3)), output("z", None, None)]);
}

#[test]
fn data_may_come_before_the_shape_and_the_type_that_explain_it() {
    let usual = decode_text(&one("INT16", "[2,1]", "[[-1],[2]]")).unwrap();
    let early = r#"{"inputs":[{"data":[[-1],[2]],"shape":[2,1],"datatype":"INT16","name":"x"}]}"#;

    assert_eq!(decode_text(early).unwrap(), usual);
}

#[test]
fn absent_and_null_are_the_same_for_what_is_optional() {
    let inputs = r#""inputs":[{"name":"x","shape":[1],"datatype":"BOOL","data":[true]}]"#;
    let bare = decode_text(&format!("{{{inputs}}}")).unwrap();
    let nulls = format!(r#"{{"id":null,"parameters":null,"outputs":null,{inputs}}}"#);

    assert_eq!(decode_text(&nulls).unwrap(), bare);
}

#[test]
fn what_is_wrong_is_said_with_the_name_of_the_input() {
    let check = |json: &str, expected: &str| assert_eq!(refusal(json), expected, "{json}");

    check(&one("INT8", "[1]", "[300]"), "element 0 of input `x` is not INT8: 300 is out of range");
    check(
        &one("UINT64", "[1]", "[18446744073709551616]"),
        "element 0 of input `x` is not UINT64: 18446744073709551616 is out of range",
    );
    check(r#"{"inputs":[{"name":"x","shape":[1],"data":[1]}]}"#, "input `x` has no `datatype`");
    check(r#"{"inputs":[{"name":"x","datatype":"BOOL","data":[1]}]}"#, "input `x` has no `shape`");
    check(r#"{"inputs":[{"name":"x","shape":[1],"datatype":"BOOL"}]}"#, "input `x` has no `data`");
    check(
        r#"{"inputs":[{"shape":[1],"datatype":"BOOL","data":[true]}]}"#,
        "entry 0 of `inputs` has no `name`",
    );
    check(r#"{"inputs":[]}"#, "the request has no `inputs`");
    check("{}", "the request has no `inputs`");
    check(
        r#"{"inputs":[{"name":"x","shape":[1],"datatype":"BOOL","data":[true]},{"name":"x","shape":[1],"datatype":"BOOL","data":[true]}]}"#,
        "`x` occurs twice in `inputs`",
    );
    check(
        r#"{"inputs":[{"name":"x","shape":[1],"shape":[1],"datatype":"BOOL","data":[true]}]}"#,
        "`shape` occurs twice in one object, at byte 46",
    );
    check(
        r#"{"inputs":[{"name":"x","shape":[4],"datatype":"UINT8","parameters":{"binary_data_size":4}}]}"#,
        "input `x` has `binary_data_size`, but there is no Inference-Header-Content-Length that says where the JSON ends",
    );
    assert!(refusal(&one("FP16", "[1]", "[1]")).contains("has no JSON form"));
    assert!(refusal(&one("FP128", "[1]", "[1]")).contains("datatype `FP128`"));
    assert!(refusal(&one("FP32", "[-1]", "[1]")).contains("not negative"));
    assert!(refusal(&one("FP32", "[1]", "[NaN]")).contains("malformed"));
    assert!(refusal(&(one("FP32", "[1]", "[1]") + "x")).contains("the end is expected"));
}

#[test]
fn shared_memory_is_not_offered() {
    let error = decode_text(
        r#"{"inputs":[{"name":"x","shape":[1],"datatype":"BOOL","parameters":{"shared_memory_region":"r"}}]}"#,
    )
    .unwrap_err();

    assert_eq!(error.code(), ErrorCode::Unsupported);
}

#[test]
fn lists_have_an_end() {
    let inputs: Vec<_> = (0..300)
        .map(|index| format!(r#"{{"name":"{index}","shape":[1],"datatype":"BOOL","data":[true]}}"#))
        .collect();
    assert_eq!(
        refusal(&format!(r#"{{"inputs":[{}]}}"#, inputs.join(","))),
        "the request has more than 256 inputs"
    );
    let extents = ["1"; 33].join(",");
    assert_eq!(
        refusal(&one("BOOL", &format!("[{extents}]"), "[true]")),
        "a shape has more than 32 extents"
    );
    let parameters: Vec<_> = (0..129).map(|index| format!("\"{index}\":1")).collect();
    let parameters = parameters.join(",");
    assert_eq!(
        refusal(&format!(r#"{{"parameters":{{{parameters}}},"inputs":[]}}"#)),
        "the request has more than 128 parameters"
    );
}

#[test]
fn a_message_is_short_however_long_the_name() {
    let name = "\\u0000é".repeat(100_000);
    let json =
        format!(r#"{{"inputs":[{{"name":"{name}","shape":[1],"datatype":"{name}","data":[1]}}]}}"#);

    assert!(refusal(&json).len() < 2048, "{}", refusal(&json).len());
}

#[test]
fn binary_and_json_inputs_may_be_mixed() {
    let json = r#"{"inputs":[
        {"name":"a","shape":[2],"datatype":"FP16","parameters":{"binary_data_size":4}},
        {"name":"b","shape":[1],"datatype":"INT8","data":[5]},
        {"name":"c","shape":[0],"datatype":"INT8","parameters":{"binary_data_size":0}},
        {"name":"d","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}}]}"#;
    let whole = [json.as_bytes(), b"\x01\x02\x03\x04\x02\0\0\0hi"].concat();
    let whole = Bytes::from(whole);
    let header = json.len().to_string();

    let request = decode(Some(&header), &whole).unwrap();

    let data: Vec<_> = request.inputs.iter().map(|(_, tensor)| tensor.data().clone()).collect();
    assert_eq!(data, [&b"\x01\x02\x03\x04"[..], b"\x05", b"", b"\x02\0\0\0hi"]);
    let shared = whole.as_ptr_range().contains(&data[0].as_ptr());
    assert!(shared, "binary inputs are slices of the body");
}

#[test]
fn binary_sizes_must_add_up_to_the_body() {
    let json = r#"{"inputs":[{"name":"a","shape":[4],"datatype":"UINT8","parameters":{"binary_data_size":4}}]}"#;
    let check = |header: &str, tail: &[u8]| {
        decode(Some(header), &[json.as_bytes(), tail].concat().into()).unwrap_err().to_string()
    };
    let length = json.len().to_string();

    assert_eq!(check(&length, b"123"), "input `a` announces 4 bytes, but 3 are left in the body");
    assert!(check(&length, b"12345").starts_with("the body has 1 bytes more"));
    assert!(check("100000", b"").starts_with("Inference-Header-Content-Length is 100000, but"));
    assert!(check("50", b"1234").contains("malformed"));
    for header in ["", "-1", "1e3", "0x10", "+5", "99999999999999999999999999", "é"] {
        let error = check(header, b"1234");
        assert!(error.ends_with("where a number of bytes is expected"), "{header}: {error}");
    }
    let bool = json.replace("UINT8", "BOOL");
    let bool = [bool.as_bytes(), &[0, 1, 2, 1]].concat();
    let error = decode(Some(&(json.len() - 1).to_string()), &bool.into()).unwrap_err();
    assert!(error.to_string().contains("is the byte 2, where 0 or 1 is expected"), "{error}");
}

#[test]
fn a_body_without_json_is_the_only_input() {
    let spec =
        |dtype, dims: &[Dim]| TensorSpec { name: "x".to_owned(), dtype, dims: dims.to_vec() };
    let check = |inputs: Vec<TensorSpec>, batched, body: &'static [u8]| {
        let signature = Signature { inputs, outputs: vec![], batched };
        let body = Bytes::from_static(body);
        decode_http("m".to_owned(), None, Some(b"0"), &body, &signature)
            .map(|request| {
                assert!(request.params.binary_data_output);
                let (_, tensor) = &request.inputs[0];
                (tensor.shape().to_vec(), tensor.data().to_vec())
            })
            .map_err(|error| error.to_string())
    };
    let (fixed, any) = (Dim::Fixed, Dim::Any);

    assert_eq!(
        check(vec![spec(DType::U16, &[fixed(2)])], true, b"abcd"),
        Ok((vec![1, 2], b"abcd".to_vec()))
    );
    assert_eq!(
        check(vec![spec(DType::U16, &[any])], false, b"abcd"),
        Ok((vec![2], b"abcd".to_vec()))
    );
    assert_eq!(
        check(vec![spec(DType::Bytes, &[any])], true, b"hi"),
        Ok((vec![1, 1], b"\x02\0\0\0hi".to_vec()))
    );
    assert!(
        check(vec![spec(DType::U16, &[any])], false, b"abc")
            .unwrap_err()
            .contains("determine the shape")
    );
    assert!(check(vec![spec(DType::U16, &[any, any])], false, b"abcd").is_err());
    assert!(check(vec![spec(DType::U16, &[fixed(3)])], false, b"abcd").is_err());
    assert!(check(vec![], false, b"abcd").unwrap_err().contains("has 0 inputs"));
}

fn response(tensor: Tensor) -> InferResponse {
    InferResponse {
        model_name: "m".to_owned(),
        model_version: "3".to_owned(),
        id: Some("a\"b".to_owned()),
        parameters: vec![("sure".to_owned(), ParamValue::Bool(true))],
        outputs: vec![("y".to_owned(), tensor)],
    }
}

#[test]
fn a_response_is_written_as_clients_expect_it() {
    let tensor = Tensor::from_f32(&[1, 3], &[1.0, -0.5, 1e+20]).unwrap();
    let json = encode_http(&response(tensor.clone()), &[], false).unwrap();
    let asked = RequestedOutput { name: "y".to_owned(), binary: Some(true), classes: None };
    let binary = encode_http(&response(tensor), &[asked], false).unwrap();

    let text = String::from_utf8(json.json.to_vec()).unwrap();
    assert_eq!(
        text,
        r#"{"model_name":"m","model_version":"3","id":"a\"b","parameters":{"sure":true},"outputs":[{"name":"y","datatype":"FP32","shape":[1,3],"data":[1.0,-0.5,1e+20]}]}"#
    );
    assert_eq!(json.header, None);
    assert_eq!(
        String::from_utf8(binary.json.to_vec()).unwrap(),
        r#"{"model_name":"m","model_version":"3","id":"a\"b","parameters":{"sure":true},"outputs":[{"name":"y","datatype":"FP32","shape":[1,3],"parameters":{"binary_data_size":12}}]}"#
    );
    assert_eq!(binary.header, Some(binary.json.len()));
}

#[test]
fn every_letter_is_written_so_that_another_reader_reads_it() {
    let letters: String = ('\0'..='\u{ff}').chain(['\u{2028}', '한']).collect();
    let length = u32::try_from(letters.len()).unwrap();
    let data = [&length.to_le_bytes(), letters.as_bytes()].concat();
    let tensor = Tensor::build(DType::Bytes, Shape::from(&[1][..]), data.into()).unwrap();

    let json = encode_http(&response(tensor), &[], false).unwrap().json;

    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["outputs"][0]["data"][0], letters);
}

#[test]
fn numbers_that_json_cannot_write_are_an_error_and_not_null() {
    let build = |dtype, data: &[u8]| {
        let shape = Shape::from(&[data.len() / dtype_size(dtype)][..]);
        Tensor::build(dtype, shape, Bytes::copy_from_slice(data)).unwrap()
    };
    let refused = |tensor| encode_http(&response(tensor), &[], false).unwrap_err();
    let nan = Tensor::from_f32(&[2], &[1.0, f32::NAN]).unwrap();

    assert_eq!(
        refused(nan.clone()).to_string(),
        "element 1 of output `y` is NaN, which JSON cannot write; ask for binary output"
    );
    assert_eq!(refused(nan.clone()).code(), ErrorCode::ModelFailed);
    assert!(
        refused(build(DType::F64, &f64::NEG_INFINITY.to_le_bytes())).to_string().contains("-inf")
    );
    assert_eq!(refused(build(DType::F16, &[0, 0])).code(), ErrorCode::Unsupported);
    assert!(encode_http(&response(nan), &[], true).is_ok());
    let bytes =
        Tensor::build(DType::Bytes, Shape::from(&[1][..]), Bytes::from_static(b"\x01\0\0\0\xff"));
    assert!(matches!(refused(bytes.unwrap()), OipError::NotText { index: 0, .. }));
}

fn dtype_size(dtype: DType) -> usize {
    dtype.size().unwrap()
}

proptest! {
    #[test]
    fn what_is_written_as_json_reads_back(inputs in named(textual())) {
        let (header, body) = body(&inputs, false);

        prop_assert_eq!(&header, &None);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
        prop_assert_eq!(decode(None, &body).unwrap().inputs, inputs);
    }

    #[test]
    fn what_is_written_as_bytes_reads_back(inputs in named(select(DType::ALL.to_vec()))) {
        let (header, body) = body(&inputs, true);

        prop_assert_eq!(decode(header.as_deref(), &body).unwrap().inputs, inputs);
    }

    #[test]
    fn json_and_bytes_mean_the_same(inputs in named(textual())) {
        let (_, json) = body(&inputs, false);
        let (header, binary) = body(&inputs, true);

        prop_assert_eq!(decode(None, &json).unwrap(), decode(header.as_deref(), &binary).unwrap());
    }

    #[test]
    fn no_body_makes_the_reader_panic_or_talk_too_much(
        inputs in named(textual()),
        binary in any::<bool>(),
        edits in vec((any::<Index>(), any::<u8>(), 0_u8..4), 0..6),
        shift in -3_isize..4,
    ) {
        let (header, body) = body(&inputs, binary);
        let mut body = body.to_vec();
        for (index, byte, edit) in edits {
            let at = index.index(body.len().max(1));
            match edit {
                0 if at < body.len() => body[at] = byte,
                1 => body.insert(at, byte),
                2 if at < body.len() => drop(body.remove(at)),
                _ => body.truncate(at.max(body.len() / 2)),
            }
        }
        let header = header.map(|length| {
            let length = length.parse::<isize>().unwrap() + shift;
            length.to_string()
        });

        if let Err(error) = decode(header.as_deref(), &body.into()) {
            prop_assert!(error.to_string().len() < 2048);
            prop_assert_eq!(error.code(), error.code());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in vec(any::<u8>(), 0..200), header in "[0-9]{0,3}") {
        let body = Bytes::from(body);
        drop(decode(None, &body));
        drop(decode(Some(&header), &body));
    }
}
