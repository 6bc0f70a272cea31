//! For those who watch the server: `/metrics` for Prometheus, `/healthz` and `/readyz`, over plain HTTP.

use std::future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pipeann_engine::io::DeviceCounts;
use pipeann_engine::memory::Pool;
use tokio::sync::watch;

use super::connections::{CountedConnection, Incoming};
use super::frontend::FrontendContext;
use crate::metrics::{self, MetricFamily, MetricValue};

/// The text format that the metrics are in.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where those who watch come from.
struct Listener(Incoming, SocketAddr);

impl axum::serve::Listener for Listener {
    type Io = CountedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (CountedConnection, SocketAddr) {
        match self.0.next().await {
            Some(connection) => (connection, self.1),
            // Nothing is accepted any more; whoever waits is told of the end otherwise.
            None => future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.1)
    }
}

/// Answers until the server ends.
pub(super) async fn serve(
    door: Arc<FrontendContext>,
    listener: (Incoming, SocketAddr),
    ending: watch::Receiver<bool>,
) {
    let routes = Router::new()
        .route("/metrics", get(text))
        .route("/healthz", get(async || "OK"))
        .route("/readyz", get(ready))
        .with_state(door);
    answer(listener, routes, ending).await;
}

/// Answers until it is dropped, for a server that has not all data yet: it lives, and is not ready.
pub(super) async fn serve_opening(listener: (Incoming, SocketAddr), ending: watch::Receiver<bool>) {
    let not_yet = async || (StatusCode::SERVICE_UNAVAILABLE, "not all data is here yet");
    let routes = Router::new().route("/healthz", get(async || "OK")).fallback(not_yet);
    answer(listener, routes, ending).await;
}

async fn answer(
    listener: (Incoming, SocketAddr),
    routes: Router,
    mut ending: watch::Receiver<bool>,
) {
    let ended = async move {
        // Told or dropped, it means the same.
        let _ = ending.wait_for(|ending| *ending).await;
    };
    if let Err(error) =
        axum::serve(Listener(listener.0, listener.1), routes).with_graceful_shutdown(ended).await
    {
        tracing::error!("metrics are not served any more: {error}");
    }
}

/// Whether new callers are wanted: not of a server that is about to end.
async fn ready(State(door): State<Arc<FrontendContext>>) -> (StatusCode, &'static str) {
    if door.peers.as_ref().is_some_and(|peers| peers.is_ending()) {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending");
    }
    (StatusCode::OK, "OK")
}

async fn text(State(door): State<Arc<FrontendContext>>) -> Response {
    // Counting rows takes latches that a write may hold for a while.
    let text = tokio::task::spawn_blocking(move || door.metrics.text(state(&door))).await;
    match text {
        Ok(Ok(text)) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        failed => {
            tracing::error!("metrics cannot be told: {failed:?}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn state(door: &FrontendContext) -> metrics::Gauges {
    let database = &door.settings.database;
    let catalog = database.catalog();
    let named = catalog.databases().flat_map(|(name, _)| {
        let of_database = catalog.collections(name).into_iter().flatten();
        of_database.map(move |entry| (name, entry))
    });
    let collections = named.map(|(name, entry)| {
        let collection = database.collection(name, &entry.name).ok();
        // Of one that is being dropped nothing is known any more.
        let rows = collection.as_ref().and_then(|collection| collection.count(None).ok());
        metrics::CollectionGauges {
            id: entry.id,
            names: [name.to_owned(), entry.name.clone()],
            rows: rows.unwrap_or(0),
            growing: collection.as_ref().map_or(0, |collection| collection.growing_rows()),
            adopted: collection.map_or(0, |collection| collection.adopted_links()),
        }
    });
    let accountant = database.accountant();
    let pools = Pool::ALL.into_iter().map(|pool| (pool.name(), accountant.pool_bytes(pool)));
    let devices = database.backend().map(|backend| backend.device_counts()).unwrap_or_default();
    let device = |counts: DeviceCounts| metrics::DeviceGauges {
        reads: counts.reads,
        errors: counts.errors,
        from_files: counts.from_files,
    };
    metrics::Gauges {
        collections: collections.collect(),
        waiting: door.scheduler.waiting(),
        refused: database.access().refused(),
        delayed: door.attempts.delayed(),
        pools: pools.collect(),
        limit: accountant.limit_bytes(),
        devices: devices.into_iter().map(device).collect(),
        families: families(door),
    }
}

/// What the other servers are to this one, where there are some.
fn families(door: &FrontendContext) -> Vec<MetricFamily> {
    let Some(peers) = &door.peers else { return Vec::new() };
    let sent = door.edge.all().map(|(why, n)| (why.to_owned(), MetricValue::Counter(n)));
    let (name, help) =
        ("pipeann_forwarded_calls", "Calls that were sent to another server, by why");
    let (hedged, won) = door.edge.hedges();
    let one = |name, help, count| MetricFamily::one(name, help, MetricValue::Counter(count));
    let mut families = vec![
        MetricFamily::by(name, help, "reason", sent),
        one("pipeann_hedged_reads", "Reads that were asked of a second server", hedged),
        one("pipeann_hedged_reads_won", "Those that the second server answered first", won),
    ];
    families.extend(peers.families());
    families
}
