//! Those who ask: what each has asked, and which index it is promised answers of.

use std::collections::BTreeSet;

use pipeann_cluster::relay::{Asker, Asks, Ended, Orchestrated, Orchestrator, Query};
use pipeann_cluster::transport::sim::SimSender;
use pipeann_cluster::transport::{Event, Handler};
use pipeann_cluster::walker::Asked as AskedFor;
use pipeann_cluster::wire::PeerId;

/// Whose list of candidates travels, or whose stays.
pub(crate) enum Asking {
    Sending(Asker),
    Keeping(Orchestrator),
}

impl Asking {
    pub(crate) fn machine(&mut self) -> &mut dyn Handler {
        match self {
            Self::Sending(asker) => asker,
            Self::Keeping(orchestrator) => orchestrator,
        }
    }

    pub(crate) fn ask(
        &mut self,
        now: u64,
        net: &SimSender,
        query: Query,
        search: &AskedFor,
    ) -> u64 {
        let number = match self {
            Self::Sending(asker) => asker.ask(now, net, query),
            Self::Keeping(orchestrator) => {
                let Query { parameters, vector, left_us, hops, .. } = query;
                let AskedFor { k, list, width, .. } = *search;
                let packed = false;
                let query =
                    Orchestrated { k, list, width, packed, parameters, vector, left_us, hops };
                orchestrator.ask(now, net, query)
            }
        };
        number.expect("there is room")
    }

    pub(crate) fn take_ended(&mut self) -> Vec<(u64, Ended)> {
        match self {
            Self::Sending(asker) => asker.take_ended(),
            Self::Keeping(orchestrator) => orchestrator.take_ended(),
        }
    }
}

pub(crate) struct Caller {
    pub(crate) asking: Asking,
    pub(crate) net: SimSender,
    /// What was asked, by number: query, search, when, and whether it has ended.
    pub(crate) asked: Vec<Asked>,
    /// Servers that are connected.
    connected: BTreeSet<u32>,
    /// Whether the stale index is the one that is searched.
    pub(crate) stale: bool,
}

pub(crate) struct Asked {
    pub(crate) query: usize,
    pub(crate) search: usize,
    pub(crate) at: u64,
    /// Whether it takes a partial answer.
    pub(crate) partial: bool,
    pub(crate) ended: bool,
}

impl Caller {
    pub(crate) fn new(asking: Asking, net: SimSender) -> Self {
        Self { asking, net, asked: Vec::new(), connected: BTreeSet::new(), stale: false }
    }

    /// Notes who is connected: an index is searched as long as one of these has it.
    pub(crate) fn note(&mut self, event: &Event<'_>, stale: &BTreeSet<u32>) {
        match event {
            Event::Up { peer: PeerId::Server(server), .. } => self.connected.insert(*server),
            Event::Down { peer: PeerId::Server(server), .. } => self.connected.remove(server),
            _ => return,
        };
        let has = |server: &u32| stale.contains(server);
        if let Some(first) = self.connected.first()
            && !self.connected.iter().any(|server| has(server) == self.stale)
        {
            self.stale = has(first);
        }
    }
}
