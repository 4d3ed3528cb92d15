//! What an ONNX file says about itself, read before any engine sees it.

use std::{fs, path::Path};

use paceline_types::{DType, Dim};
use rten_onnx::onnx::{DataType, GraphProto, ModelProto, ValueInfoProto};

use crate::{
    engine::guarded,
    error::{LoadError, Side},
    external, wire,
};

/// The ends of a model, and the file's bytes.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// The whole file, so that the engine loads what was checked.
    pub(crate) bytes: Vec<u8>,
    /// Whether weights lie in files beside it, so that the engine must be given the path.
    pub(crate) has_external_data: bool,
}

/// One input or output as the file declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// All extents, the batch included; absent where the file leaves the shape out.
    pub(crate) dims: Option<Vec<Dim>>,
}

impl Graph {
    /// Reads the file and checks that its weights are in it, or where they are `declared` to be.
    pub(crate) fn open(path: &Path, declared: &[String]) -> Result<Self, LoadError> {
        let bytes = fs::read(path)
            .map_err(|cause| LoadError::Unreadable { path: path.to_owned(), cause })?;
        let not_onnx = |cause| LoadError::NotOnnx { path: path.to_owned(), cause };
        let n_outside = wire::check(&bytes).map_err(|cause| not_onnx(cause.to_string()))?;
        let model = guarded(|| ModelProto::parse_buf(&bytes).map_err(|cause| cause.to_string()))
            .map_err(not_onnx)?;
        let graph = model.graph.ok_or_else(|| not_onnx("it holds no graph".to_owned()))?;
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let n_checked = external::check(&graph, folder, declared)?;
        // What the parser does not read, an engine may.
        if n_checked < n_outside {
            return Err(not_onnx("weights in other files are hidden where none belong".to_owned()));
        }
        Ok(Self {
            inputs: inputs(&graph)?,
            outputs: ports(Side::Output, graph.output.iter())?,
            bytes,
            has_external_data: n_checked > 0,
        })
    }
}

/// The inputs that a caller must give. Old files list their weights among the inputs.
fn inputs(graph: &GraphProto) -> Result<Vec<Port>, LoadError> {
    let is_weight =
        |input: &&ValueInfoProto| graph.initializer.iter().any(|weight| weight.name == input.name);
    ports(Side::Input, graph.input.iter().filter(|input| !is_weight(input)))
}

fn ports<'a>(
    side: Side,
    values: impl Iterator<Item = &'a ValueInfoProto>,
) -> Result<Vec<Port>, LoadError> {
    values.map(|value| port(side, value)).collect()
}

fn port(side: Side, value: &ValueInfoProto) -> Result<Port, LoadError> {
    let name = value.name.clone().unwrap_or_default();
    let refuse = |kind: String| LoadError::Unservable { side, name: name.clone(), kind };
    let tensor = value
        .r#type
        .as_ref()
        .and_then(|declared| declared.tensor_type.as_ref())
        .ok_or_else(|| refuse("not a tensor".to_owned()))?;
    let element = tensor.elem_type.ok_or_else(|| refuse("of no declared type".to_owned()))?;
    let dtype = dtype(element).ok_or_else(|| refuse(element.to_string()))?;
    let dims = tensor.shape.as_ref().map(|shape| {
        // A value below zero or absent, and any name, all mean "decided by the call".
        let extent = |value: Option<i64>| value.and_then(|value| usize::try_from(value).ok());
        shape.dim.iter().map(|dim| extent(dim.dim_value).map_or(Dim::Any, Dim::Fixed)).collect()
    });
    Ok(Port { name, dtype, dims })
}

/// Our name for an ONNX element type; none for those that the protocol does not carry.
fn dtype(element: DataType) -> Option<DType> {
    Some(match element {
        DataType::BOOL => DType::Bool,
        DataType::UINT8 => DType::U8,
        DataType::UINT16 => DType::U16,
        DataType::UINT32 => DType::U32,
        DataType::UINT64 => DType::U64,
        DataType::INT8 => DType::I8,
        DataType::INT16 => DType::I16,
        DataType::INT32 => DType::I32,
        DataType::INT64 => DType::I64,
        DataType::FLOAT16 => DType::F16,
        DataType::BFLOAT16 => DType::BF16,
        DataType::FLOAT => DType::F32,
        DataType::DOUBLE => DType::F64,
        DataType::STRING => DType::Bytes,
        _ => return None,
    })
}
