//! A Triton model folder as it is: `config.pbtxt` in our own words.
//!
//! What is understood is honoured; what is not is refused by its name, never ignored: a setting
//! that silently does nothing is worse than one that is not there.

mod declared;

use std::{num::NonZeroUsize, time::Duration};

use paceline_api::oip::proto::{
    ModelConfig, ModelDynamicBatching, ModelInstanceGroup, ModelQueuePolicy, ModelSequenceBatching,
    model_config::SchedulingChoice,
    model_instance_group::Kind,
    model_sequence_batching::{State, StrategyChoice, initial_state::StateData},
    model_version_policy::PolicyChoice,
};
use paceline_batch::Settings;
use paceline_pipeline::VersionPolicy;

use crate::config::{BackendName, Device, ModelSection, OnnxSection};

pub(crate) use declared::Declared;

/// Turns a Triton configuration into a model's section.
///
/// # Errors
///
/// Names the first field that is not supported, and what to do about it.
pub(crate) fn section(config: &ModelConfig) -> Result<ModelSection, String> {
    let engine = (config.backend.as_str(), config.platform.as_str());
    if !matches!(engine, ("onnxruntime", _) | (_, "onnxruntime_onnx")) {
        return Err(format!(
            "backend `{}`, platform `{}` is not supported; `onnxruntime` is",
            config.backend, config.platform
        ));
    }
    refuse_unsupported(config)?;
    let max_items = usize::try_from(config.max_batch_size).map_err(|_| {
        format!("max_batch_size is {}; it must not be negative", config.max_batch_size)
    })?;
    let (instances, device) = instances(&config.instance_group)?;
    let mut section = ModelSection {
        backend: Some(BackendName::Onnx),
        version_policy: version_policy(config)?,
        instances: NonZeroUsize::new(instances),
        batch: Settings {
            max_items: (0 < max_items).then_some(max_items),
            // Without a delay of its own, a batch leaves as soon as a device is free.
            max_wait: Some(Duration::ZERO),
            ..Settings::default()
        },
        onnx: Some(OnnxSection { device, batched: Some(0 < max_items), ..OnnxSection::default() }),
        declared: Declared::read(config)?,
        ..ModelSection::default()
    };
    match &config.scheduling_choice {
        None => {}
        Some(SchedulingChoice::DynamicBatching(dynamic)) => {
            dynamic_batching(dynamic, &mut section.batch)?;
        }
        Some(SchedulingChoice::SequenceBatching(sequence)) => {
            sequence_batching(sequence, &mut section)?;
        }
        Some(SchedulingChoice::EnsembleScheduling(_)) => {
            return Err(unsupported("ensemble_scheduling"));
        }
    }
    Ok(section)
}

fn unsupported(field: &str) -> String {
    format!("`{field}` is not supported; take it out, or keep this model on another server")
}

/// Refuses every field that would change something and does not here.
fn refuse_unsupported(config: &ModelConfig) -> Result<(), String> {
    let is_cached = config.response_cache.as_ref().is_some_and(|cache| cache.enable);
    let is_decoupled =
        config.model_transaction_policy.as_ref().is_some_and(|policy| policy.decoupled);
    for (field, is_set) in [
        ("batch_input", !config.batch_input.is_empty()),
        ("batch_output", !config.batch_output.is_empty()),
        ("optimization", config.optimization.is_some()),
        ("default_model_filename", !matches!(&*config.default_model_filename, "" | "model.onnx")),
        ("cc_model_filenames", !config.cc_model_filenames.is_empty()),
        ("parameters", !config.parameters.is_empty()),
        ("model_warmup", !config.model_warmup.is_empty()),
        ("model_operations", config.model_operations.is_some()),
        ("model_transaction_policy.decoupled", is_decoupled),
        ("model_repository_agents", config.model_repository_agents.is_some()),
        ("response_cache", is_cached),
    ] {
        if is_set {
            return Err(unsupported(field));
        }
    }
    Ok(())
}

fn version_policy(config: &ModelConfig) -> Result<Option<VersionPolicy>, String> {
    let choice = config.version_policy.as_ref().and_then(|policy| policy.policy_choice.as_ref());
    Ok(match choice {
        None => None,
        Some(PolicyChoice::Latest(latest)) => {
            NonZeroUsize::new(latest.num_versions as usize).map(VersionPolicy::Latest)
        }
        Some(PolicyChoice::All(_)) => Some(VersionPolicy::All),
        Some(PolicyChoice::Specific(specific)) => {
            let number = |version: &i64| {
                u64::try_from(*version).map_err(|_| {
                    format!("version_policy names version {version}; it must not be negative")
                })
            };
            let named = specific.versions.iter().map(number).collect::<Result<_, _>>()?;
            Some(VersionPolicy::Specific(named))
        }
    })
}

fn dynamic_batching(dynamic: &ModelDynamicBatching, batch: &mut Settings) -> Result<(), String> {
    for (field, is_set) in [
        ("dynamic_batching.preferred_batch_size", !dynamic.preferred_batch_size.is_empty()),
        ("dynamic_batching.preserve_ordering", dynamic.preserve_ordering),
        ("dynamic_batching.priority_queue_policy", !dynamic.priority_queue_policy.is_empty()),
        ("dynamic_batching.priority_levels above 7", 7 < dynamic.priority_levels),
    ] {
        if is_set {
            return Err(unsupported(field));
        }
    }
    batch.max_wait = Some(Duration::from_micros(dynamic.max_queue_delay_microseconds));
    if let Some(policy) = &dynamic.default_queue_policy {
        queue_policy(policy, batch)?;
    }
    Ok(())
}

/// State that the server keeps for each sequence. Models that want to be told where a sequence
/// begins, by control inputs, are not among those that can be served.
fn sequence_batching(
    sequence: &ModelSequenceBatching,
    section: &mut ModelSection,
) -> Result<(), String> {
    let starts_elsewhere = |state: &State| {
        let is_zero = |data: &Option<StateData>| matches!(data, Some(StateData::ZeroData(_)));
        state.initial_state.iter().any(|initial| !is_zero(&initial.state_data))
    };
    let oldest = match &sequence.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => Some(oldest),
        Some(StrategyChoice::Direct(_)) | None => None,
    };
    for (field, is_set) in [
        ("sequence_batching without `state`", sequence.state.is_empty()),
        ("sequence_batching.control_input", !sequence.control_input.is_empty()),
        ("sequence_batching.iterative_sequence", sequence.iterative_sequence),
        ("sequence_batching.state.initial_state", sequence.state.iter().any(starts_elsewhere)),
        (
            "sequence_batching.oldest.preferred_batch_size",
            oldest.is_some_and(|oldest| !oldest.preferred_batch_size.is_empty()),
        ),
    ] {
        if is_set {
            return Err(unsupported(field));
        }
    }
    let delay = match &sequence.strategy_choice {
        Some(StrategyChoice::Direct(direct)) => direct.max_queue_delay_microseconds,
        Some(StrategyChoice::Oldest(oldest)) => oldest.max_queue_delay_microseconds,
        None => 0,
    };
    section.batch.max_wait = Some(Duration::from_micros(delay));
    section.max_sequences = oldest
        .and_then(|oldest| usize::try_from(oldest.max_candidate_sequences).ok())
        .and_then(NonZeroUsize::new);
    // What Triton takes where nothing is said.
    let idle = match sequence.max_sequence_idle_microseconds {
        0 => 1_000_000,
        micros => micros,
    };
    section.sequence_idle = Some(Duration::from_micros(idle));
    if let Some(onnx) = &mut section.onnx {
        let link = |state: &State| (state.input_name.clone(), state.output_name.clone());
        onnx.states = sequence.state.iter().map(link).collect();
    }
    Ok(())
}

fn queue_policy(policy: &ModelQueuePolicy, batch: &mut Settings) -> Result<(), String> {
    if policy.timeout_action != 0 {
        return Err(unsupported("dynamic_batching.default_queue_policy.timeout_action: DELAY"));
    }
    if 0 < policy.default_timeout_microseconds {
        batch.timeout = Some(Duration::from_micros(policy.default_timeout_microseconds));
    }
    if 0 < policy.max_queue_size {
        batch.queue_items = Some(policy.max_queue_size as usize);
    }
    Ok(())
}

/// How many instances all groups together have, and where they run.
fn instances(groups: &[ModelInstanceGroup]) -> Result<(usize, Device), String> {
    let mut total = 0;
    let mut device = None;
    for group in groups {
        if group.kind() == Kind::Gpu || !group.gpus.is_empty() {
            let gpu = group.gpus.first().copied().unwrap_or(0);
            let own = u32::try_from(gpu)
                .map(Device::Cuda)
                .map_err(|_| format!("there is no GPU {gpu}"))?;
            if 1 < group.gpus.len() || device.is_some_and(|device| device != own) {
                return Err(unsupported("instance_group on several GPUs"));
            }
            device = Some(own);
        } else if device.replace(Device::Cpu).is_some_and(|device| device != Device::Cpu) {
            return Err(unsupported("instance_group on a GPU and on the CPU"));
        }
        if group.rate_limiter.is_some() {
            return Err(unsupported("instance_group.rate_limiter"));
        }
        if group.passive || !group.secondary_devices.is_empty() || !group.host_policy.is_empty() {
            return Err(unsupported("instance_group (passive, secondary_devices, host_policy)"));
        }
        total += usize::try_from(group.count.max(1)).unwrap_or(1);
    }
    Ok((total.max(1), device.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_api::oip::pbtxt::parse;

    fn read(text: &str) -> Result<ModelSection, String> {
        section(&parse(&format!("platform: \"onnxruntime_onnx\" {text}")).unwrap())
    }

    #[test]
    fn what_is_understood_is_honoured() {
        let section = read(
            "max_batch_size: 32
             dynamic_batching {
               max_queue_delay_microseconds: 1500
               default_queue_policy { default_timeout_microseconds: 90000 max_queue_size: 64 }
             }
             instance_group [ { count: 2 kind: KIND_CPU }, { count: 1 } ]",
        )
        .unwrap();

        assert_eq!(section.batch.max_items, Some(32));
        assert_eq!(section.batch.max_wait, Some(Duration::from_micros(1500)));
        assert_eq!(section.batch.timeout, Some(Duration::from_millis(90)));
        assert_eq!(section.batch.queue_items, Some(64));
        assert_eq!(section.instances, NonZeroUsize::new(3));
        section.batch.validate().unwrap();
    }

    #[test]
    fn versions_are_served_as_the_policy_says() {
        let policy = |text: &str| read(&format!("version_policy {{ {text} }}")).unwrap();
        let latest = |most| NonZeroUsize::new(most).map(VersionPolicy::Latest);

        assert_eq!(policy("all { }").version_policy, Some(VersionPolicy::All));
        assert_eq!(policy("latest { num_versions: 2 }").version_policy, latest(2));
        assert_eq!(policy("latest { }").version_policy, None);
        let specific = policy("specific { versions: [1, 3] }").version_policy;
        assert_eq!(specific, Some(VersionPolicy::Specific([1, 3].into())));
        assert!(read("version_policy { specific { versions: [-1] } }").is_err());
    }

    #[test]
    fn state_that_the_server_keeps_is_kept() {
        let section = read(
            "max_batch_size: 8
             sequence_batching {
               max_sequence_idle_microseconds: 5000000
               oldest { max_candidate_sequences: 4 max_queue_delay_microseconds: 100 }
               state [ { input_name: \"IN\" output_name: \"OUT\" data_type: TYPE_FP32 dims: [2] } ]
             }",
        )
        .unwrap();

        assert_eq!(section.sequence_idle, Some(Duration::from_secs(5)));
        assert_eq!(section.max_sequences, NonZeroUsize::new(4));
        assert_eq!(section.batch.max_wait, Some(Duration::from_micros(100)));
        assert_eq!(section.onnx.unwrap().states, [("IN".to_owned(), "OUT".to_owned())].into());
    }

    #[test]
    fn what_is_not_is_refused_by_name() {
        for (text, field) in [
            ("dynamic_batching { preferred_batch_size: [4] }", "preferred_batch_size"),
            ("sequence_batching { }", "sequence_batching without `state`"),
            (
                "sequence_batching { state { } control_input { name: \"START\" } }",
                "sequence_batching.control_input",
            ),
            (
                "sequence_batching { state { initial_state { data_file: \"x\" } } }",
                "sequence_batching.state.initial_state",
            ),
            ("ensemble_scheduling { }", "ensemble_scheduling"),
            ("instance_group [ { kind: KIND_GPU gpus: [0, 1] } ]", "several GPUs"),
            (
                "instance_group [ { kind: KIND_GPU }, { kind: KIND_CPU } ]",
                "on a GPU and on the CPU",
            ),
            ("response_cache { enable: true }", "response_cache"),
            ("optimization { graph { level: 1 } }", "optimization"),
            ("model_transaction_policy { decoupled: true }", "decoupled"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(field), "{text}: {refused}");
        }
        let other = section(&parse("backend: \"python\"").unwrap()).unwrap_err();
        assert!(other.starts_with("backend `python`"), "{other}");
    }
}
