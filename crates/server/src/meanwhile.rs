//! What answers until a server has all data: others their calls, and it itself those who watch it.

use anyhow::Result;
use pipeann_milvus::{Listening, ServeOptions, bind, relay, watch_opening};

use crate::clustered::JoinedServer;
use crate::process::tell;

/// See the module's description.
pub(crate) struct Meanwhile {
    /// Sends calls on; `None` where there are no others.
    others: Option<Listening>,
    /// Whether it was said that calls are taken.
    told: bool,
    /// Tells those who watch that it lives, and is not ready.
    health: Option<Listening>,
}

impl Meanwhile {
    /// Begins to answer, from the moment on from which others know of this server: they ask it whether it
    /// has what they have, and it takes connections as they do. The socket goes into the options.
    pub(crate) fn begin(
        joined: &JoinedServer,
        options: &mut ServeOptions,
        metrics_port: Option<u16>,
    ) -> Result<Self> {
        let mut others = None;
        if let Some(peers) = joined.distant_peers() {
            options.socket = Some(bind(&options.host, options.port)?);
            others = Some(relay(peers, options)?);
        }
        let asked = metrics_port.or_else(|| (options.port == 0).then_some(0));
        let health = watch_opening(&options.metrics_host, asked)?;
        Ok(Self { others, told: false, health })
    }

    /// Says that calls are taken, where somebody answers them: it takes long until all data is here.
    pub(crate) fn tell(&mut self, joined: &JoinedServer) {
        // Where nobody leads yet, nobody answers before this server does.
        if let Some(others) = self.others.as_ref().filter(|_| joined.sees_leader()) {
            tell(format_args!("listening on {}", others.address()));
            self.told = true;
        }
    }

    /// Leaves the place where figures are told.
    pub(crate) fn leave_metrics(&mut self) {
        if let Some(health) = self.health.take() {
            health.stop();
        }
    }

    /// Takes no more calls; what is under way is answered. Whether it was said that calls are taken.
    pub(crate) fn end(self) -> bool {
        if let Some(others) = self.others {
            others.stop();
        }
        self.told
    }
}
