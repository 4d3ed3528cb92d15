//! Every method of the gRPC door, and what it needs.

use crate::access::{Needs, Role};

const ALL: Needs = Needs::Nothing;
const INFER: Needs = Needs::Role(Role::Infer);
const STREAM: Needs = Needs::Role(Role::Stream);
const ADMIN: Needs = Needs::Role(Role::Admin);

/// The path of every method and what it needs. One that is not here is open to no stranger.
#[rustfmt::skip]
pub const METHODS: &[(&str, Needs)] = &[
    ("/inference.GRPCInferenceService/ServerLive", ALL),
    ("/inference.GRPCInferenceService/ServerReady", ALL),
    ("/inference.GRPCInferenceService/ModelReady", ALL),
    ("/inference.GRPCInferenceService/ServerMetadata", INFER),
    ("/inference.GRPCInferenceService/ModelMetadata", INFER),
    ("/inference.GRPCInferenceService/ModelInfer", INFER),
    ("/inference.GRPCInferenceService/ModelStreamInfer", INFER),
    ("/inference.GRPCInferenceService/ModelConfig", INFER),
    ("/inference.GRPCInferenceService/ModelStatistics", INFER),
    ("/inference.GRPCInferenceService/RepositoryIndex", ADMIN),
    ("/inference.GRPCInferenceService/RepositoryModelLoad", ADMIN),
    ("/inference.GRPCInferenceService/RepositoryModelUnload", ADMIN),
    ("/inference.GRPCInferenceService/SystemSharedMemoryStatus", INFER),
    ("/inference.GRPCInferenceService/SystemSharedMemoryRegister", INFER),
    ("/inference.GRPCInferenceService/SystemSharedMemoryUnregister", INFER),
    ("/inference.GRPCInferenceService/CudaSharedMemoryStatus", INFER),
    ("/inference.GRPCInferenceService/CudaSharedMemoryRegister", INFER),
    ("/inference.GRPCInferenceService/CudaSharedMemoryUnregister", INFER),
    ("/inference.GRPCInferenceService/TraceSetting", ADMIN),
    ("/inference.GRPCInferenceService/LogSettings", ADMIN),
    ("/paceline.v1.Cameras/Push", STREAM),
    ("/grpc.health.v1.Health/Check", ALL),
    ("/grpc.health.v1.Health/Watch", ALL),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", INFER),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", INFER),
];

/// Whether a path is that of a method whose client sends one message after the other.
pub(crate) fn is_stream(path: &str) -> bool {
    path == "/inference.GRPCInferenceService/ModelStreamInfer"
        || path == "/paceline.v1.Cameras/Push"
        || path.starts_with("/grpc.reflection.")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost_reflect::DescriptorPool;

    use super::*;
    use crate::{grpc::cameras, oip::proto};

    #[test]
    fn every_method_that_is_offered_says_what_it_needs() {
        let mut offered = BTreeSet::new();
        let mut streams = Vec::new();
        for set in [
            proto::FILE_DESCRIPTOR_SET,
            cameras::FILE_DESCRIPTOR_SET,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ] {
            let pool = DescriptorPool::decode(set).unwrap();
            for service in pool.services() {
                for method in service.methods() {
                    let path = format!("/{}/{}", service.full_name(), method.name());
                    streams.extend(method.is_client_streaming().then(|| path.clone()));
                    offered.insert(path);
                }
            }
        }
        let listed: BTreeSet<_> = METHODS.iter().map(|(path, _)| (*path).to_owned()).collect();

        assert_eq!(offered, listed);
        assert!(listed.iter().all(|path| is_stream(path) == streams.contains(path)));
    }
}
