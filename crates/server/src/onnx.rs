//! How an ONNX file is run: the section of a `model.toml`, and what the backend is told.

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf};

use paceline_backend_onnx::{Engine, GraphLevel, OnnxOptions, StateLink};
use paceline_types::{DType, Dim, Shape, Tensor};
use serde::{Deserialize, Serialize};

/// How an ONNX file is run.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnnxSection {
    /// `auto`, `rten` or `onnxruntime`.
    pub engine: EngineName,
    /// `cpu`, or `cuda:0` and so on where ONNX Runtime has CUDA.
    pub device: Device,
    /// Threads that one call may use; the engine's own choice where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZeroUsize>,
    /// How far the graph is rewritten for speed.
    pub graph_level: LevelName,
    /// Where `libonnxruntime` is; looked for where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// Where to look for it: folders that hold it, Python environments, `site-packages` folders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub library_dirs: Vec<PathBuf>,
    /// The Python that is asked for its package `onnxruntime` where nothing else was found;
    /// `python3`, which is the active environment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
    /// Tensors that a stream carries from call to call, as `input = "output"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, String>,
    /// Where the batch stands in state tensors.
    pub state_batch_axis: usize,
    /// Inputs that always have the same value, so that clients do not send them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub constants: BTreeMap<String, Constant>,
    /// What inputs are when the model is warmed up, where it does not take any number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub warm_up: BTreeMap<String, f32>,
    /// Shapes, batch included, that the file leaves out or tells wrong; -1 for what varies.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shapes: BTreeMap<String, Vec<i64>>,
    /// Files with weights beside the model's own, by name; others are not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_data: Vec<String>,
    /// Whether the first extent of every tensor is the batch; found from the file where left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batched: Option<bool>,
}

/// Which engine runs an ONNX file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// `rten` where it can, else ONNX Runtime.
    #[default]
    Auto,
    /// Built in.
    Rten,
    /// Loaded from an installed library.
    OnnxRuntime,
}

/// How far a graph is rewritten when it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelName {
    /// As written.
    Off,
    /// Constants folded, dead nodes removed.
    Basic,
    /// And nodes fused.
    Extended,
    /// And layouts changed.
    #[default]
    All,
}

/// Where a model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// On the processor.
    #[default]
    Cpu,
    /// On the CUDA device of this number.
    Cuda(u32),
}

/// A tensor that is the same in every call.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Its element type, such as `INT64`.
    pub datatype: String,
    /// Its extents; a lone number where there are none.
    #[serde(default)]
    pub shape: Vec<usize>,
    /// Its elements, row by row.
    pub data: Vec<f64>,
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            Some(("cuda", number)) if number.parse::<u32>().is_ok() => {
                Ok(Self::Cuda(number.parse().unwrap_or_default()))
            }
            _ => Err(format!("`{text}` is no device; write \"cpu\" or \"cuda:0\"")),
        }
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        match device {
            Device::Cpu => "cpu".to_owned(),
            Device::Cuda(number) => format!("cuda:{number}"),
        }
    }
}

impl OnnxSection {
    /// What the backend is told to run this file.
    ///
    /// # Errors
    ///
    /// When a constant or a shape makes no sense.
    pub(crate) fn options(&self, path: PathBuf) -> Result<OnnxOptions, String> {
        let state = |(input, output): (&String, &String)| StateLink {
            input: input.clone(),
            output: output.clone(),
            batch_axis: self.state_batch_axis,
        };
        let shape = |(name, extents): (&String, &Vec<i64>)| {
            let dims = extents.iter().map(|extent| match usize::try_from(*extent) {
                Ok(extent) => Ok(Dim::Fixed(extent)),
                Err(_) if *extent == -1 => Ok(Dim::Any),
                Err(_) => Err(format!("onnx.shapes.{name}: {extent} is no extent; -1 is any")),
            });
            Ok((name.clone(), dims.collect::<Result<_, String>>()?))
        };
        let constant = |(name, constant): (&String, &Constant)| {
            let tensor = constant.tensor();
            let tensor = tensor.map_err(|error| format!("onnx.constants.{name}: {error}"))?;
            Ok::<_, String>((name.clone(), tensor))
        };
        Ok(OnnxOptions {
            path,
            engine: match self.engine {
                EngineName::Auto => Engine::Auto,
                EngineName::Rten => Engine::Rten,
                EngineName::OnnxRuntime => Engine::OnnxRuntime,
            },
            threads: self.threads,
            graph_level: match self.graph_level {
                LevelName::Off => GraphLevel::Off,
                LevelName::Basic => GraphLevel::Basic,
                LevelName::Extended => GraphLevel::Extended,
                LevelName::All => GraphLevel::All,
            },
            cuda_device: match self.device {
                Device::Cpu => None,
                Device::Cuda(number) => Some(number),
            },
            batched: self.batched,
            states: self.states.iter().map(state).collect(),
            constants: self.constants.iter().map(constant).collect::<Result<_, _>>()?,
            trial_values: self.warm_up.clone(),
            shapes: self.shapes.iter().map(shape).collect::<Result<_, String>>()?,
            external_data: self.external_data.clone(),
            library: self.library.clone(),
            library_dirs: self.library_dirs.clone(),
            python: Some(self.python.clone().unwrap_or_else(|| "python3".into())),
        })
    }
}

impl Constant {
    fn tensor(&self) -> Result<Tensor, String> {
        let dtype: DType =
            self.datatype.parse().map_err(|_| format!("`{}` is no datatype", self.datatype))?;
        let mut data = Vec::new();
        for &value in &self.data {
            write(value, dtype, &mut data).ok_or_else(|| format!("{value} is no {dtype}"))?;
        }
        let shape = Shape::from_slice(&self.shape);
        Tensor::build(dtype, shape, data.into()).map_err(|error| error.to_string())
    }
}

/// Appends a number, if the type has it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding is what FP32 means; the rest saturates"
)]
fn write(value: f64, dtype: DType, data: &mut Vec<u8>) -> Option<()> {
    let whole = (value.fract() == 0.0).then_some(value as i128);
    macro_rules! whole {
        ($type:ty) => {
            data.extend(<$type>::try_from(whole?).ok()?.to_le_bytes())
        };
    }
    match dtype {
        DType::Bool => data.push(u8::try_from(whole?).ok().filter(|bit| *bit <= 1)?),
        DType::U8 => whole!(u8),
        DType::U16 => whole!(u16),
        DType::U32 => whole!(u32),
        DType::U64 => whole!(u64),
        DType::I8 => whole!(i8),
        DType::I16 => whole!(i16),
        DType::I32 => whole!(i32),
        DType::I64 => whole!(i64),
        DType::F32 => data.extend((value as f32).to_le_bytes()),
        DType::F64 => data.extend(value.to_le_bytes()),
        DType::F16 | DType::BF16 | DType::Bytes => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<OnnxOptions, String> {
        let section: OnnxSection = toml::from_str(text).map_err(|error| error.to_string())?;
        section.options("model.onnx".into())
    }

    #[test]
    fn every_option_reaches_the_backend() {
        let options = options(
            "engine = \"onnxruntime\"
             device = \"cuda:1\"
             graph_level = \"basic\"
             library_dirs = [\"/opt/ort\"]
             python = \"/opt/py/bin/python\"
             states = { a = \"b\" }
             constants = { sr = { datatype = \"INT64\", data = [16000] } }
             shapes = { x = [-1, 80] }",
        )
        .unwrap();

        assert_eq!(options.engine, Engine::OnnxRuntime);
        assert_eq!(options.cuda_device, Some(1));
        assert_eq!(options.graph_level, GraphLevel::Basic);
        assert_eq!(options.library_dirs, [PathBuf::from("/opt/ort")]);
        assert_eq!(options.python, Some("/opt/py/bin/python".into()));
        assert_eq!(options.constants[0].1.data()[..], 16000_i64.to_le_bytes());
        assert_eq!(options.shapes, [("x".to_owned(), vec![Dim::Any, Dim::Fixed(80)])]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        let refused = |text: &str| options(text).unwrap_err();

        assert!(refused("device = \"gpu\"").contains("write \"cpu\" or \"cuda:0\""));
        assert!(refused("device = \"cuda:x\"").contains("`cuda:x` is no device"));
        assert!(refused("shapes = { x = [-2] }").contains("onnx.shapes.x: -2 is no extent"));
        let constant = "constants = { sr = { datatype = \"INT8\", data = [300] } }";
        assert_eq!(refused(constant), "onnx.constants.sr: 300 is no INT8");
    }
}
