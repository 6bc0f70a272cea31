//! What everybody has who does something for one connection to etcd.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tonic::transport::Endpoint;
use uuid::Uuid;

use super::Options;
use super::calls::EndpointCalls;
use crate::BootClock;
use crate::counts::Tallies;
use crate::keys::KeySpace;
use crate::view::View;

/// What the tasks share. They hold no thread, so that dropping the last caller's end ends them.
pub(super) struct Shared {
    pub(super) keys: KeySpace,
    pub(super) cluster: Uuid,
    pub(super) founds: bool,
    pub(super) clock: Arc<dyn BootClock>,
    pub(super) calls: EndpointCalls,
    pub(super) view: View,
    pub(super) tallies: Arc<Tallies>,
    pub(super) join_patience: Duration,
    /// What was asked for, and what the cluster has.
    asked_ttl: Duration,
    ttl: OnceLock<Duration>,
}

impl Shared {
    /// To be made inside the runtime. `endpoints` are not empty.
    pub(super) fn new(
        keys: KeySpace,
        endpoints: Vec<(String, Endpoint)>,
        options: &Options,
    ) -> Self {
        let tallies = Arc::<Tallies>::default();
        let timeout = options.call_timeout.min(options.connect_timeout);
        let user = options.user.clone();
        Self {
            view: View::new(keys.clone(), Arc::clone(&tallies)),
            keys,
            cluster: options.cluster,
            founds: options.founds,
            clock: Arc::clone(&options.clock),
            calls: EndpointCalls::new(endpoints, user, timeout, Arc::clone(&tallies)),
            tallies,
            join_patience: options.join_patience,
            asked_ttl: options.ttl,
            ttl: OnceLock::new(),
        }
    }

    /// How long leases are in this cluster: what was asked for, until that is known.
    pub(super) fn ttl(&self) -> Duration {
        self.ttl.get().copied().unwrap_or(self.asked_ttl)
    }

    /// Leases are so long in this cluster, whatever was asked for.
    pub(super) fn agree_on_ttl(&self, ttl: Duration) {
        if ttl != self.asked_ttl {
            tracing::warn!(asked = ?self.asked_ttl, ?ttl, "leases are as long as the cluster's are");
        }
        self.ttl.get_or_init(|| ttl);
    }
}
