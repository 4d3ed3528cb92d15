//! Every call of `inference.GRPCInferenceService`.

use std::sync::Arc;

use paceline_pipeline::Model;
use paceline_types::ErrorCode;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{
    caller::Caller,
    infer::infer,
    stream::{Answers, Errors, answers},
};
use crate::{
    ApiError, App,
    oip::{
        describe::{model_config, model_metadata, model_statistics, repository, server_metadata},
        meta::ModelState,
        parse_version,
        proto::{self, grpc_inference_service_server::GrpcInferenceService},
        statistics::Statistics,
    },
};

/// The protocol over the models.
#[derive(Debug)]
pub(super) struct Door {
    app: App,
    stop: CancellationToken,
}

impl Door {
    pub(super) const fn new(app: App, stop: CancellationToken) -> Self {
        Self { app, stop }
    }

    /// The model, in the version asked for or the latest.
    fn find(&self, name: &str, version: &str) -> Result<Arc<Model>, ApiError> {
        Ok(self.app.models.find(name, parse_version(version)?)?)
    }

    /// The model, in the version asked for or in every one.
    fn find_all(&self, name: &str, version: &str) -> Result<Vec<Arc<Model>>, ApiError> {
        Ok(self.app.models.find_all(name, parse_version(version)?)?)
    }
}

/// A call that is in the protocol and not in this server.
fn unsupported<A>(sentence: &str) -> Result<Response<A>, Status> {
    Err(ApiError::new(ErrorCode::Unsupported, sentence).into())
}

const NO_SHARED_MEMORY: &str = "this server does not share memory with clients; send the bytes";
const NO_TRACE: &str = "this server has no trace settings to read or change on request";
const NO_LOG: &str = "this server has no log settings to read or change on request";

#[tonic::async_trait]
impl GrpcInferenceService for Door {
    type ModelStreamInferStream = Answers;

    async fn server_live(
        &self,
        _request: Request<proto::ServerLiveRequest>,
    ) -> Result<Response<proto::ServerLiveResponse>, Status> {
        Ok(Response::new(proto::ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _request: Request<proto::ServerReadyRequest>,
    ) -> Result<Response<proto::ServerReadyResponse>, Status> {
        Ok(Response::new(proto::ServerReadyResponse { ready: self.app.is_ready() }))
    }

    async fn model_ready(
        &self,
        request: Request<proto::ModelReadyRequest>,
    ) -> Result<Response<proto::ModelReadyResponse>, Status> {
        let request = request.into_inner();
        // A model that is not there is not ready: clients ask this while they wait for one.
        let model = self.find(&request.name, &request.version);
        let ready = self.app.readiness.get() && model.is_ok_and(|model| model.is_ready());
        Ok(Response::new(proto::ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _request: Request<proto::ServerMetadataRequest>,
    ) -> Result<Response<proto::ServerMetadataResponse>, Status> {
        Ok(Response::new(server_metadata().into()))
    }

    async fn model_metadata(
        &self,
        request: Request<proto::ModelMetadataRequest>,
    ) -> Result<Response<proto::ModelMetadataResponse>, Status> {
        let request = request.into_inner();
        let model = self.find(&request.name, &request.version)?;
        Ok(Response::new(model_metadata(&model, &self.app.models).into()))
    }

    async fn model_infer(
        &self,
        request: Request<proto::ModelInferRequest>,
    ) -> Result<Response<proto::ModelInferResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(infer(&self.app, request.into_inner(), caller).await?))
    }

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<proto::ModelInferRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let caller = Caller::of(&request);
        let errors = Errors::wanted(request.metadata());
        let requests = request.into_inner();
        Ok(Response::new(answers(self.app.clone(), requests, caller, errors, self.stop.clone())))
    }

    async fn model_config(
        &self,
        request: Request<proto::ModelConfigRequest>,
    ) -> Result<Response<proto::ModelConfigResponse>, Status> {
        let request = request.into_inner();
        let model = self.find(&request.name, &request.version)?;
        Ok(Response::new(proto::ModelConfigResponse { config: Some(model_config(&model)) }))
    }

    async fn model_statistics(
        &self,
        request: Request<proto::ModelStatisticsRequest>,
    ) -> Result<Response<proto::ModelStatisticsResponse>, Status> {
        let request = request.into_inner();
        let models = if request.name.is_empty() {
            self.app.models.all()
        } else {
            self.find_all(&request.name, &request.version)?
        };
        let model_stats = models.iter().map(|model| model_statistics(model)).collect();
        Ok(Response::new(Statistics { model_stats }.into()))
    }

    async fn repository_index(
        &self,
        request: Request<proto::RepositoryIndexRequest>,
    ) -> Result<Response<proto::RepositoryIndexResponse>, Status> {
        let only_ready = request.into_inner().ready;
        let mut entries = repository(self.app.control.known());
        entries.retain(|entry| !only_ready || entry.state == ModelState::Ready);
        Ok(Response::new(entries.into_iter().collect()))
    }

    async fn repository_model_load(
        &self,
        request: Request<proto::RepositoryModelLoadRequest>,
    ) -> Result<Response<proto::RepositoryModelLoadResponse>, Status> {
        self.app.control.load(&request.get_ref().model_name).await.map_err(ApiError::from)?;
        Ok(Response::new(proto::RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<proto::RepositoryModelUnloadRequest>,
    ) -> Result<Response<proto::RepositoryModelUnloadResponse>, Status> {
        self.app.control.unload(&request.get_ref().model_name).await.map_err(ApiError::from)?;
        Ok(Response::new(proto::RepositoryModelUnloadResponse {}))
    }

    async fn system_shared_memory_status(
        &self,
        _request: Request<proto::SystemSharedMemoryStatusRequest>,
    ) -> Result<Response<proto::SystemSharedMemoryStatusResponse>, Status> {
        Ok(Response::new(proto::SystemSharedMemoryStatusResponse::default()))
    }

    async fn system_shared_memory_register(
        &self,
        _request: Request<proto::SystemSharedMemoryRegisterRequest>,
    ) -> Result<Response<proto::SystemSharedMemoryRegisterResponse>, Status> {
        unsupported(NO_SHARED_MEMORY)
    }

    async fn system_shared_memory_unregister(
        &self,
        _request: Request<proto::SystemSharedMemoryUnregisterRequest>,
    ) -> Result<Response<proto::SystemSharedMemoryUnregisterResponse>, Status> {
        unsupported(NO_SHARED_MEMORY)
    }

    async fn cuda_shared_memory_status(
        &self,
        _request: Request<proto::CudaSharedMemoryStatusRequest>,
    ) -> Result<Response<proto::CudaSharedMemoryStatusResponse>, Status> {
        Ok(Response::new(proto::CudaSharedMemoryStatusResponse::default()))
    }

    async fn cuda_shared_memory_register(
        &self,
        _request: Request<proto::CudaSharedMemoryRegisterRequest>,
    ) -> Result<Response<proto::CudaSharedMemoryRegisterResponse>, Status> {
        unsupported(NO_SHARED_MEMORY)
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _request: Request<proto::CudaSharedMemoryUnregisterRequest>,
    ) -> Result<Response<proto::CudaSharedMemoryUnregisterResponse>, Status> {
        unsupported(NO_SHARED_MEMORY)
    }

    async fn trace_setting(
        &self,
        _request: Request<proto::TraceSettingRequest>,
    ) -> Result<Response<proto::TraceSettingResponse>, Status> {
        unsupported(NO_TRACE)
    }

    async fn log_settings(
        &self,
        _request: Request<proto::LogSettingsRequest>,
    ) -> Result<Response<proto::LogSettingsResponse>, Status> {
        unsupported(NO_LOG)
    }
}
