//! Which queries begin, and where: as many as every server has a slot for.

use super::Asker;
use crate::relay::gone::partitions_of;
use crate::relay::query::NoAnswer;
use crate::relay::servers::SERVES_ANOTHER;
use crate::transport::{Network, Refused};
use crate::wire::{Begin, FailureCode, Message, Numbers, PeerId, QueryId};

impl Asker {
    /// Begins what waits, as far as every server has a slot for it.
    pub(super) fn dispatch(&mut self, now: u64, net: &dyn Network) {
        self.cancel_strays(now, net);
        let mut refused = 0;
        while refused < self.servers.there().count()
            && let Some(&number) = self.waiting.front()
            && self.has_slot(number)
        {
            let Some(server) = self.server_for(number) else {
                let words = match self.queries[&number].query.at {
                    Some(server) if self.servers.is_other(server) => {
                        format!("server {server} {SERVES_ANOTHER}")
                    }
                    Some(server) => format!("server {server} is gone"),
                    None => "no server is there".to_owned(),
                };
                self.refuse(now, net, number, (FailureCode::PartitionGone, words));
                continue;
            };
            match self.begin(now, net, number, server) {
                Ok(()) => {}
                Err(Refused::TooLong) => {
                    // By no server, and at no time: those behind it do not wait for that.
                    let words = "the query is longer than a message".to_owned();
                    self.refuse(now, net, number, (FailureCode::Refused, words));
                }
                Err(Refused::Full | Refused::Down | Refused::Unknown) => refused += 1,
            }
        }
    }

    /// Whether every server has a slot for a query. One of which a state may still be somewhere has its
    /// own already, and where nothing else is under way, something is, however few slots there are.
    fn has_slot(&self, number: u64) -> bool {
        let Some(room) = self.servers.there().map(|(_, slots)| slots).min() else { return false };
        let elsewhere = self.under_way + self.lingering.len();
        let astray = self.astray - usize::from(self.queries[&number].lingers);
        elsewhere + astray < room as usize || elsewhere == 0 && room > 0
    }

    /// Where a query begins: at the server that it names, or the next in turn that is not missing.
    fn server_for(&mut self, number: u64) -> Option<u32> {
        let asked = &self.queries[&number];
        if let Some(server) = asked.query.at {
            return self.servers.is_up(server).then_some(server);
        }
        let (gone, partial) = (&asked.gone, asked.takes_partial());
        let left =
            |server: &u32| !(gone.contains(server) || partial && self.heard.is_doubted(*server));
        let there = || self.servers.there().map(|(server, _)| server).filter(left);
        let next = there().find(|server| *server >= self.next_server);
        let server = next.or_else(|| there().next())?;
        self.next_server = server + 1;
        Some(server)
    }

    /// Begins a query at a server.
    fn begin(
        &mut self,
        now: u64,
        net: &dyn Network,
        number: u64,
        server: u32,
    ) -> Result<(), Refused> {
        let asked = self.queries.get_mut(&number).expect("what waits is open");
        let partial = asked.takes_partial();
        if partial {
            let is_there = |of| self.servers.is_up(of) && !self.heard.is_doubted(of);
            let is_gone = |of: u32| asked.gone.contains(&of) || !is_there(of);
            let leaves_out = |of: u32| is_gone(of) || asked.alone && of != server;
            asked.left_out = partitions_of(&self.placement, leaves_out);
        }
        let missing: Vec<u8> = asked.left_out.iter().flat_map(|at| at.to_le_bytes()).collect();
        let begin = Begin {
            query: QueryId { asker: self.settings.me, number },
            attempt: asked.attempt,
            left_us: asked.deadline.saturating_sub(now),
            hops: asked.query.hops,
            mode: asked.query.mode,
            partial,
            missing: Numbers::of(&missing).expect("whole numbers"),
            parameters: &asked.query.parameters,
            vector: &asked.query.vector,
        };
        net.send(PeerId::Server(server), &Message::Begin(begin))?;
        asked.begun += 1;
        let attempt_us = self.settings.attempt_us_of(&asked.query);
        asked.under_way = Some((server, now.saturating_add(attempt_us)));
        asked.since = now;
        let at_most = attempt_us.min(asked.deadline.saturating_sub(now));
        asked.doubts_at = Some(now.saturating_add(at_most / 2));
        (asked.pinged, asked.hurried) = (false, false);
        self.under_way += 1;
        self.astray -= usize::from(asked.lingers);
        self.waiting.pop_front();
        Ok(())
    }

    /// Ends a query that cannot begin.
    fn refuse(
        &mut self,
        now: u64,
        net: &dyn Network,
        number: u64,
        (code, words): (FailureCode, String),
    ) {
        self.end(number, Err(NoAnswer::Failed { code, partition: None, words }));
        self.cancel_strays(now, net);
    }

    /// Has every server give up what it may still have of queries that ended. Such a state may be on its
    /// way from one to another meanwhile, so the slot is kept for a while; where there is none then after
    /// all, a server says so, and what found none is begun again.
    fn cancel_strays(&mut self, now: u64, net: &dyn Network) {
        for (deadline, number) in std::mem::take(&mut self.strays) {
            if deadline <= now {
                // Servers end it by themselves.
                continue;
            }
            let query = QueryId { asker: self.settings.me, number };
            for server in self.servers.connected() {
                // Whoever has no room for it ends it at the deadline.
                let _ = net.send(PeerId::Server(server), &Message::Cancel(query));
            }
            let until = deadline.min(now.saturating_add(self.while_us()));
            self.lingering.insert((until, number));
        }
    }
}
