//! The calls, answered.
//!
//! Each call is a function from a request to an answer or a [`CallFailure`](crate::status::CallFailure);
//! `calls` lists them all, and says which of them wait for something and so run on threads of their
//! own. `frontend` knows the database, `listen` the network. Nothing here is a capability: what a call
//! needs and the database lacks is refused.

mod access_log;
mod aim;
mod aliases;
mod asking;
mod attempts;
mod caller;
mod calls;
mod channels;
mod collections;
mod connections;
mod coverage;
mod databases;
mod describe;
mod edge;
mod edge_counts;
mod figures;
mod flush;
mod freshness;
mod frontend;
mod grants;
mod graph_links;
mod guard;
mod hedged;
mod hedging;
mod hybrid;
mod in_process;
mod indexes;
mod leaving;
mod listen;
mod lite;
mod loading;
mod marks;
mod messages;
mod moments;
mod network_limits;
mod partitions;
mod peers;
mod privileges;
mod progress;
mod query;
mod queued;
mod relay;
mod relayed_body;
mod repeats;
mod rights;
mod roles;
mod routes;
mod search;
mod segments;
mod serve_options;
mod server;
mod shown;
mod sight;
mod sockets;
mod statistics;
mod taking;
mod transport;
mod users;
mod viewer;
mod watch;
mod whole;
mod whole_answer;
mod writes;

pub use access_log::{AccessLog, CallEnded};
pub use coverage::coverage;
pub use figures::ask_figures;
pub use frontend::FrontendSettings;
pub use in_process::{InProcess, RefusedCall};
pub use listen::{Listening, Served, listen, watch_opening};
pub use lite::{TakenOver, Takeover};
pub use network_limits::NetworkLimits;
pub use peers::{
    CatchUp, LeaderAt, PeerKey, PeerTls, Peers, PeersError, ReadTime, ServerAt, SharedLogEnd,
    peers_waiting,
};
pub use relay::relay;
pub use serve_options::{DEFAULT_METRICS_PORT, DEFAULT_PORT, ServeError, ServeOptions, ServerTls};
pub use sockets::bind;
