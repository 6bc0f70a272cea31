//! Connecting, and asking how the server is.

use std::collections::HashMap;

use serde_json::json;

use super::frontend::Call;
use crate::proto::common::{ServerInfo, StateCode};
use crate::proto::milvus as wire;
use crate::status::CallFailure;

/// The version of Milvus that is spoken. Clients read features from it.
const SPOKEN_VERSION: &str = "v2.6.9";
const NODE: i64 = 1;
const ROLE: &str = "standalone";
/// The longest question for figures; clients ask in some thirty bytes.
const METRICS_REQUEST_BYTES: usize = 4 << 10;

/// Registers a client, where the database is there that it means.
pub(super) fn connect(
    call: &Call,
    _request: wire::ConnectRequest,
) -> Result<wire::ConnectResponse, CallFailure> {
    call.sight().database(call.database_name(""))?;
    let server_info = ServerInfo {
        build_tags: SPOKEN_VERSION.to_owned(),
        build_time: String::new(),
        git_commit: format!("pipeann-{}", env!("CARGO_PKG_VERSION")),
        go_version: String::new(),
        deploy_mode: "STANDALONE".to_owned(),
    };
    Ok(wire::ConnectResponse {
        server_info: Some(server_info),
        identifier: call.session(),
        ..Default::default()
    })
}

pub(super) fn version(
    _call: &Call,
    _request: wire::GetVersionRequest,
) -> Result<wire::GetVersionResponse, CallFailure> {
    Ok(wire::GetVersionResponse { version: SPOKEN_VERSION.to_owned(), ..Default::default() })
}

/// Healthy unless a collection accepts no writes any more.
pub(super) fn health(
    call: &Call,
    _request: wire::CheckHealthRequest,
) -> Result<wire::CheckHealthResponse, CallFailure> {
    let sight = call.sight();
    let mut reasons = Vec::new();
    for (database, _) in sight.databases() {
        for entry in sight.collections(database)? {
            // Whoever drops it meanwhile makes it no concern of ours.
            let Ok(collection) = call.database().collection(database, &entry.name) else {
                continue;
            };
            if let Some(why) = collection.stats().stopped {
                let reason = format!("collection {database}/{}: {why}", entry.name);
                reasons.push(call.without_path(reason));
            }
        }
    }
    let is_healthy = reasons.is_empty();
    Ok(wire::CheckHealthResponse { is_healthy, reasons, ..Default::default() })
}

pub(super) fn components(
    _call: &Call,
    _request: wire::GetComponentStatesRequest,
) -> Result<wire::ComponentStates, CallFailure> {
    let state = wire::ComponentInfo {
        node_id: NODE,
        role: ROLE.to_owned(),
        state_code: StateCode::Healthy.into(),
    };
    let subcomponent_states = vec![state.clone()];
    Ok(wire::ComponentStates { state: Some(state), subcomponent_states, ..Default::default() })
}

pub(super) fn timestamp(
    call: &Call,
    _request: wire::AllocTimestampRequest,
) -> Result<wire::AllocTimestampResponse, CallFailure> {
    Ok(wire::AllocTimestampResponse { timestamp: call.timestamp(), ..Default::default() })
}

/// What the nodes are, for clients that show it.
pub(super) fn metrics(
    call: &Call,
    request: wire::GetMetricsRequest,
) -> Result<wire::GetMetricsResponse, CallFailure> {
    if request.request.len() > METRICS_REQUEST_BYTES {
        return Err(CallFailure::parameter(format!(
            "the request has {} bytes, at most {METRICS_REQUEST_BYTES} are possible",
            request.request.len()
        )));
    }
    let asked: HashMap<String, serde_json::Value> = serde_json::from_str(&request.request)
        .map_err(|error| CallFailure::parameter(format!("the request is not JSON: {error}")))?;
    let kind = asked.get("metric_type").and_then(serde_json::Value::as_str).unwrap_or_default();
    if kind == super::figures::FIGURES
        && let Some(peers) = call.peers()
    {
        let response = peers.figures().to_string();
        let component_name = ROLE.to_owned();
        return Ok(wire::GetMetricsResponse { response, component_name, ..Default::default() });
    }
    if kind != "system_info" {
        return Err(CallFailure::unsupported(format!("the metric type `{kind}`")));
    }
    let infos = json!({
        "name": ROLE,
        "type": ROLE,
        "id": NODE,
        "has_error": false,
        "system_info": {"system_version": SPOKEN_VERSION, "deploy_mode": "STANDALONE"},
    });
    let response = json!({"nodes_info": [{"identifier": NODE, "infos": infos}]}).to_string();
    Ok(wire::GetMetricsResponse { response, component_name: ROLE.to_owned(), ..Default::default() })
}
