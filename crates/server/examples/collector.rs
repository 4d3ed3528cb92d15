//! A collector of traces that reads spans and keeps none: what `bench/metrics.sh` has them sent to.
//! It says where it listens, and serves until it is killed.

use std::io::Write as _;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

struct Forgetful;

#[tonic::async_trait]
impl TraceService for Forgetful {
    async fn export(
        &self,
        _: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    let service = TraceServiceServer::new(Forgetful);
    Ok(Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener))
        .await?)
}
