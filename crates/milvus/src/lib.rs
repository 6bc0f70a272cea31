//! The wire protocol of Milvus, served from a pipeann database, so that its clients find what they
//! know.
//!
//! This crate translates and adds no capability: `proto` is the wire, `convert` turns it into the
//! typed requests of the database and back, `status` tells failures in the codes and words that
//! clients look at, `metrics` counts, and `service` answers the calls. Which calls those are, and what of them, is in
//! `docs/milvus-coverage.md`, which is made from this code.

mod convert;
mod metrics;
pub mod proto;
mod service;
mod status;

pub use metrics::{MetricFamily, MetricValue};
pub use service::{
    AccessLog, CallEnded, CatchUp, DEFAULT_METRICS_PORT, DEFAULT_PORT, FrontendSettings, InProcess,
    LeaderAt, Listening, NetworkLimits, PeerKey, PeerTls, Peers, PeersError, ReadTime, RefusedCall,
    ServeError, ServeOptions, Served, ServerAt, ServerTls, SharedLogEnd, TakenOver, Takeover,
    ask_figures, bind, coverage, listen, peers_waiting, relay, watch_opening,
};
