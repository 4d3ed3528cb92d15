//! Model configurations: made from what the server knows, written as JSON.
//!
//! There is one type for them, the gRPC message, because a second one by hand for its sixty
//! messages would only drift. The JSON is the message by the names of its fields, with 64-bit
//! integers as numbers and every plain field present, as clients of this protocol expect.

use std::{sync::LazyLock, time::Duration};

use paceline_pipeline::VersionPolicy;
use paceline_types::{DType, Signature};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};

use super::{
    meta::dims,
    proto::{
        self, DataType, ModelDynamicBatching, ModelInput, ModelInstanceGroup, ModelOutput,
        ModelSequenceBatching, ModelTransactionPolicy, ModelVersionPolicy,
        model_config::SchedulingChoice,
        model_instance_group::Kind,
        model_version_policy::{All, Latest, PolicyChoice, Specific},
    },
};

/// What the server knows about a model beyond its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFacts {
    /// The model's name.
    pub name: String,
    /// Which of its versions are served.
    pub version_policy: VersionPolicy,
    /// What runs it, in the words of metadata.
    pub platform: String,
    /// What runs it, in one word.
    pub backend: String,
    /// Most rows in a call; 0 where the model has no batch extent.
    pub max_batch_size: u32,
    /// How requests share calls.
    pub batching: Batching,
    /// How many instances run at once.
    pub instances: u32,
    /// Whether they run on a GPU.
    pub kind: InstanceKind,
    /// Whether one request may have any number of answers.
    pub decoupled: bool,
}

/// How requests share calls of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batching {
    /// They do not.
    Off,
    /// Whoever waits shares the next call.
    Dynamic {
        /// Longest that a request waits for company.
        max_wait: Duration,
    },
    /// As dynamic, with requests of one sequence in order and on one lane.
    Sequence {
        /// How long a silent sequence is kept.
        max_idle: Duration,
    },
}

/// Where instances run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceKind {
    /// On the host.
    Cpu,
    /// On a GPU.
    Gpu,
}

/// The configuration of a model, as clients ask for it.
#[must_use]
pub fn describe(facts: ConfigFacts, signature: &Signature) -> proto::ModelConfig {
    let input = |spec: &paceline_types::TensorSpec| ModelInput {
        name: spec.name.clone(),
        data_type: data_type(spec.dtype).into(),
        dims: dims(spec).collect(),
        ..ModelInput::default()
    };
    let output = |spec: &paceline_types::TensorSpec| ModelOutput {
        name: spec.name.clone(),
        data_type: data_type(spec.dtype).into(),
        dims: dims(spec).collect(),
        ..ModelOutput::default()
    };
    let kind = match facts.kind {
        InstanceKind::Cpu => Kind::Cpu,
        InstanceKind::Gpu => Kind::Gpu,
    };
    let group = ModelInstanceGroup {
        name: facts.name.clone(),
        kind: kind.into(),
        count: saturate(facts.instances),
        ..ModelInstanceGroup::default()
    };
    proto::ModelConfig {
        name: facts.name,
        platform: facts.platform,
        backend: facts.backend,
        version_policy: Some(version_policy(&facts.version_policy)),
        max_batch_size: saturate(facts.max_batch_size),
        input: signature.inputs.iter().map(input).collect(),
        output: signature.outputs.iter().map(output).collect(),
        instance_group: vec![group],
        model_transaction_policy: Some(ModelTransactionPolicy { decoupled: facts.decoupled }),
        scheduling_choice: scheduling(&facts.batching),
        ..proto::ModelConfig::default()
    }
}

/// Writes a configuration as JSON.
#[must_use]
pub fn to_json(config: &proto::ModelConfig) -> Vec<u8> {
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    let mut out = Vec::new();
    let dynamic = DynamicMessage::decode(descriptor(), &*config.encode_to_vec());
    let written = dynamic.map(|message| {
        message.serialize_with_options(&mut serde_json::Serializer::new(&mut out), &options)
    });
    debug_assert!(matches!(written, Ok(Ok(()))), "a message has JSON: {written:?}");
    out
}

/// The datatype as configurations name it.
#[must_use]
pub const fn data_type(dtype: DType) -> DataType {
    match dtype {
        DType::Bool => DataType::TypeBool,
        DType::U8 => DataType::TypeUint8,
        DType::U16 => DataType::TypeUint16,
        DType::U32 => DataType::TypeUint32,
        DType::U64 => DataType::TypeUint64,
        DType::I8 => DataType::TypeInt8,
        DType::I16 => DataType::TypeInt16,
        DType::I32 => DataType::TypeInt32,
        DType::I64 => DataType::TypeInt64,
        DType::F16 => DataType::TypeFp16,
        DType::BF16 => DataType::TypeBf16,
        DType::F32 => DataType::TypeFp32,
        DType::F64 => DataType::TypeFp64,
        DType::Bytes => DataType::TypeString,
    }
}

/// The datatype that a configuration names; `None` for `TYPE_INVALID`.
#[must_use]
pub fn dtype(data_type: DataType) -> Option<DType> {
    DType::ALL.into_iter().find(|dtype| self::data_type(*dtype) == data_type)
}

/// The descriptor of a configuration.
pub(super) fn descriptor() -> MessageDescriptor {
    static DESCRIPTOR: LazyLock<MessageDescriptor> = LazyLock::new(|| {
        DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET)
            .ok()
            .and_then(|pool| pool.get_message_by_name("inference.ModelConfig"))
            .expect("the checked-in descriptors have the message, as a test makes sure")
    });
    DESCRIPTOR.clone()
}

fn version_policy(policy: &VersionPolicy) -> ModelVersionPolicy {
    let signed = |version: u64| i64::try_from(version).unwrap_or(i64::MAX);
    let choice = match policy {
        VersionPolicy::Latest(most) => {
            let num_versions = u32::try_from(most.get()).unwrap_or(u32::MAX);
            PolicyChoice::Latest(Latest { num_versions })
        }
        VersionPolicy::All => PolicyChoice::All(All {}),
        VersionPolicy::Specific(named) => PolicyChoice::Specific(Specific {
            versions: named.iter().map(|version| signed(*version)).collect(),
        }),
    };
    ModelVersionPolicy { policy_choice: Some(choice) }
}

fn scheduling(batching: &Batching) -> Option<SchedulingChoice> {
    match batching {
        Batching::Off => None,
        Batching::Dynamic { max_wait } => {
            Some(SchedulingChoice::DynamicBatching(ModelDynamicBatching {
                max_queue_delay_microseconds: micros(*max_wait),
                ..ModelDynamicBatching::default()
            }))
        }
        Batching::Sequence { max_idle } => {
            Some(SchedulingChoice::SequenceBatching(ModelSequenceBatching {
                max_sequence_idle_microseconds: micros(*max_idle),
                ..ModelSequenceBatching::default()
            }))
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn saturate(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_types::{Dim, TensorSpec};

    fn config(batching: Batching) -> proto::ModelConfig {
        let spec = TensorSpec {
            name: "x".to_owned(),
            dtype: DType::Bytes,
            dims: vec![Dim::Any, Dim::Fixed(3)],
        };
        let signature = Signature { inputs: vec![spec], outputs: vec![], batched: true };
        let facts = ConfigFacts {
            version_policy: VersionPolicy::default(),
            name: "m".to_owned(),
            platform: "onnxruntime_onnx".to_owned(),
            backend: "onnxruntime".to_owned(),
            max_batch_size: 8,
            batching,
            instances: 2,
            kind: InstanceKind::Cpu,
            decoupled: true,
        };
        describe(facts, &signature)
    }

    #[test]
    fn json_has_what_load_generators_read() {
        let dynamic = Batching::Dynamic { max_wait: Duration::from_millis(2) };
        let json: serde_json::Value = serde_json::from_slice(&to_json(&config(dynamic))).unwrap();

        assert_eq!(json["max_batch_size"], 8);
        assert_eq!(json["input"][0]["name"], "x");
        assert_eq!(json["input"][0]["data_type"], "TYPE_STRING");
        assert_eq!(json["input"][0]["dims"], serde_json::json!([-1, 3]));
        assert_eq!(json["input"][0]["optional"], false);
        assert_eq!(json["input"][0]["is_shape_tensor"], false);
        assert_eq!(json["dynamic_batching"]["max_queue_delay_microseconds"], 2000);
        assert_eq!(json["instance_group"][0]["kind"], "KIND_CPU");
        assert_eq!(json["version_policy"]["latest"]["num_versions"], 1);
        assert_eq!(json["model_transaction_policy"]["decoupled"], true);
        assert_eq!(json.get("sequence_batching"), None);
        assert_eq!(json.get("response_cache"), None);
    }

    #[test]
    fn a_model_that_shares_no_calls_has_no_batching_at_all() {
        let json: serde_json::Value =
            serde_json::from_slice(&to_json(&config(Batching::Off))).unwrap();

        assert_eq!(json.get("dynamic_batching"), None);
        assert_eq!(json.get("sequence_batching"), None);
    }

    #[test]
    fn every_datatype_has_a_name_in_configurations_and_back() {
        for dtype in DType::ALL {
            assert_eq!(self::dtype(data_type(dtype)), Some(dtype));
        }
        assert_eq!(self::dtype(DataType::TypeInvalid), None);
    }
}
