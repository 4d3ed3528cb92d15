//! Small graphs, written for one test each.

use std::{fs, path::PathBuf};

use rten_onnx::onnx::{
    DataLocation, DataType, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, TypeProtoTensor,
    ValueInfoProto,
};

/// A file with one graph, in a folder of its own that goes when this does.
pub(crate) struct GraphFile {
    folder: tempfile::TempDir,
}

impl GraphFile {
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("model.onnx")
    }

    /// A file of any content.
    pub(crate) fn of_bytes(content: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("model.onnx"), content).unwrap();
        Self { folder }
    }

    fn of_graph(graph: GraphProto) -> Self {
        let model = ModelProto {
            ir_version: Some(8),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto { version: Some(17), domain: None }],
            ..ModelProto::default()
        };
        Self::of_bytes(&model.write_buf().unwrap())
    }

    /// `y = op(x)`, both of the given type and of shape [batch, 2].
    pub(crate) fn unary(op: &str, dtype: DataType) -> Self {
        Self::of_graph(GraphProto {
            node: vec![node(op, &["x"])],
            input: vec![value("x", dtype)],
            output: vec![value("y", dtype)],
            ..GraphProto::default()
        })
    }

    /// `y = x + w`, where `w` is two numbers in another file.
    pub(crate) fn external(location: &str) -> Self {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        let weight = TensorProto {
            name: Some("w".to_owned()),
            dims: vec![2],
            data_type: Some(DataType::FLOAT),
            data_location: Some(DataLocation::EXTERNAL),
            external_data: vec![
                entry("location", location),
                entry("offset", "0"),
                entry("length", "8"),
            ],
            ..TensorProto::default()
        };
        Self::of_graph(GraphProto {
            node: vec![node("Add", &["x", "w"])],
            initializer: vec![weight],
            input: vec![value("x", DataType::FLOAT)],
            output: vec![value("y", DataType::FLOAT)],
            ..GraphProto::default()
        })
    }

    /// `y` has a row more than `x`, whatever its declaration says.
    pub(crate) fn adding_a_row() -> Self {
        let extra = TensorProto {
            name: Some("extra".to_owned()),
            dims: vec![1, 2],
            data_type: Some(DataType::FLOAT),
            float_data: vec![0.0, 0.0],
            ..TensorProto::default()
        };
        let mut concat = node("Concat", &["x", "extra"]);
        concat.attribute = vec![rten_onnx::onnx::AttributeProto {
            name: Some("axis".to_owned()),
            i: Some(0),
            r#type: Some(rten_onnx::onnx::AttributeType::INT),
            ..Default::default()
        }];
        Self::of_graph(GraphProto {
            node: vec![concat],
            initializer: vec![extra],
            input: vec![value("x", DataType::FLOAT)],
            output: vec![value("y", DataType::FLOAT)],
            ..GraphProto::default()
        })
    }
}

fn node(op: &str, inputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        name: Some("only".to_owned()),
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec!["y".to_owned()],
        ..NodeProto::default()
    }
}

fn value(name: &str, dtype: DataType) -> ValueInfoProto {
    let batch = Dimension { dim_param: Some(format!("{name}_batch")), dim_value: None };
    let two = Dimension { dim_value: Some(2), dim_param: None };
    let tensor_type = TypeProtoTensor {
        elem_type: Some(dtype),
        shape: Some(TensorShapeProto { dim: vec![batch, two] }),
    };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { tensor_type: Some(tensor_type), sequence: None }),
    }
}
