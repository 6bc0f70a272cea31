//! Asking a server what it is among others, for those who look after them: by the call `GetMetrics`, so
//! that whoever may call it, and by which certificate, is what it is for any call.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tonic::Request;

use super::channels::connecting;
use super::peers::ServerAt;
use crate::proto::milvus as wire;
use crate::proto::milvus::milvus_service_client::MilvusServiceClient;

/// What is asked for.
pub(super) const FIGURES: &str = "pipeann_server";
/// The longest answer.
const MOST_BYTES: usize = 1 << 20;

/// Asks each of some servers for its [`figures`](crate::Peers::figures), all at once. `token` is what clients send.
///
/// # Errors
/// Of each server what it said, or why it said nothing within the time; `Err` outside where no threads
/// can be made.
pub fn ask_figures(
    servers: &[ServerAt],
    token: Option<&str>,
    within: Duration,
) -> std::io::Result<Vec<Result<Value, String>>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let asked = servers.iter().map(|server| {
        let (server, token) = (server.clone(), token.map(|token| STANDARD.encode(token)));
        runtime.spawn(async move {
            let late = || Err(format!("no answer in {} s", within.as_secs_f32()));
            tokio::time::timeout(within, ask(&server, token)).await.unwrap_or_else(|_| late())
        })
    });
    let asked: Vec<_> = asked.collect();
    Ok(runtime.block_on(async {
        let mut answers = Vec::with_capacity(asked.len());
        for answer in asked {
            answers.push(answer.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        answers
    }))
}

async fn ask(server: &ServerAt, token: Option<String>) -> Result<Value, String> {
    let channel = connecting(server)?;
    let mut client = MilvusServiceClient::new(channel).max_decoding_message_size(MOST_BYTES);
    let request = json!({"metric_type": FIGURES}).to_string();
    let mut request = Request::new(wire::GetMetricsRequest { request });
    if let Some(token) = token {
        let token = token.parse().map_err(|_| "the token cannot be sent".to_owned())?;
        request.metadata_mut().insert("authorization", token);
    }
    let answer = client
        .get_metrics(request)
        .await
        .map_err(|status| format!("{}: {}", status.code().description(), status.message()))?;
    let answer = answer.into_inner();
    if let Some(status) = answer.status.filter(|status| status.code != 0) {
        return Err(status.reason);
    }
    serde_json::from_str(&answer.response).map_err(|error| error.to_string())
}
