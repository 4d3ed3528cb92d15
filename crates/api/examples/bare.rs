//! What axum alone can do: the same JSON answered without a model, to measure the server's own cost against.
//!
//! `PORT=9130 cargo run --release -p paceline-api --example bare`

use axum::{Json, Router, routing::post};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::var("PORT").unwrap_or_else(|_| "9130".into());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let count = async |Json(body): Json<serde_json::Value>| {
        let length = body["input"].as_str().map_or(0, str::len);
        Json(serde_json::json!({ "length": length }))
    };
    axum::serve(listener, Router::new().route("/infer", post(count))).await
}
