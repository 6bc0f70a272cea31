//! The steps of a query: whom to ask for what, and what their answers change.

use std::collections::BTreeMap;

use super::{Asked, Nearest, Orchestrator, Request};
use crate::relay::query::Found;
use crate::transport::{Network, Refused};
use crate::wire::{
    FailureCode, Hits, Message, NEIGHBOURS_MAX, NODES_MAX, Numbers, PeerId, QueryId, Read, Score,
    Scored,
};

impl Orchestrator {
    /// Sends what found no room before, and begins what waits.
    pub(super) fn go_on(&mut self, now: u64, net: &dyn Network) {
        let unsent = |asked: &Asked| asked.requests.values().any(|request| !request.sent);
        for number in self.chosen(unsent) {
            self.send(now, net, number);
        }
        self.begin_waiting(now, net);
    }

    /// Begins what waits, as far as every server has a slot for it.
    pub(super) fn begin_waiting(&mut self, now: u64, net: &dyn Network) {
        while let Some(&number) = self.waiting.front()
            && let Some((server, partition)) = self.next_server()
        {
            self.waiting.pop_front();
            self.next_server = server + 1;
            let asked = self.queries.get_mut(&number).expect("what waits is open");
            asked.list = Nearest::new(asked.query.list as usize, asked.query.k as usize);
            asked.hops = asked.query.hops;
            asked.came.clear();
            asked.met.clear();
            asked.begun += 1;
            asked.until = Some(now.saturating_add(self.settings.attempt_us));
            self.under_way += 1;
            let request = Request { partition, nodes: Vec::new(), sent: false };
            self.ask_all(now, net, number, [(server, request)].into());
        }
    }

    /// The server in turn for entries, and a partition of its; none where there is none, or one of them has
    /// no slot for another query. One that owns nothing has nothing to be asked for.
    fn next_server(&self) -> Option<(u32, u32)> {
        let first = |server: u32| -> Option<u32> {
            self.placement.server(server).ok()?.partitions.first().copied()
        };
        let there = || self.servers.there().filter(|(server, _)| first(*server).is_some());
        let least = there().map(|(_, slots)| slots).min()?;
        if self.under_way + self.lingering.len() >= least as usize {
            return None;
        }
        let in_turn = there().find(|(server, _)| *server >= self.next_server);
        let (server, _) = in_turn.or_else(|| there().next())?;
        Some((server, first(server)?))
    }

    /// Takes the next step of a query, or ends it.
    fn step(&mut self, now: u64, net: &dyn Network, number: u64) {
        let asked = self.queries.get_mut(&number).expect("looked up by the caller");
        let width = usize::from(asked.query.width).clamp(1, NODES_MAX);
        let nodes = asked.list.next(width);
        if nodes.is_empty() {
            let found = Found {
                hits: Hits::pack(asked.list.hits()),
                trace: std::mem::take(&mut asked.trace),
                stats: std::mem::take(&mut asked.spent),
                attempts: asked.begun,
                missing: Vec::new(),
                rounds: asked.rounds,
            };
            return self.end(net, number, Ok(found));
        }
        if asked.hops == 0 {
            let words = "the query took as many steps as it may";
            return self.failed(now, net, number, (FailureCode::Hops, None, words));
        }
        asked.hops -= 1;
        let mut requests = BTreeMap::new();
        for node in nodes {
            let partition = self.starts.partition_point(|start| *start <= node).saturating_sub(1);
            let partition = partition as u32;
            let Some(owner) = self.placement.owner(partition) else {
                let words = "the index has other partitions than the topology";
                return self.failed(
                    now,
                    net,
                    number,
                    (FailureCode::Refused, Some(partition), words),
                );
            };
            let (nodes, sent) = (Vec::new(), false);
            let request = requests.entry(owner).or_insert(Request { partition, nodes, sent });
            request.nodes.push(node);
        }
        self.ask_all(now, net, number, requests);
    }

    fn ask_all(
        &mut self,
        now: u64,
        net: &dyn Network,
        number: u64,
        requests: BTreeMap<u32, Request>,
    ) {
        let asked = self.queries.get_mut(&number).expect("looked up by the caller");
        asked.requests = requests;
        asked.rounds += 1;
        self.send(now, net, number);
    }

    /// Sends what has not been sent of a query's step.
    fn send(&mut self, now: u64, net: &dyn Network, number: u64) {
        let Some(asked) = self.queries.get_mut(&number) else { return };
        let query = QueryId { asker: self.settings.me, number };
        let left_us = asked.deadline.saturating_sub(now);
        let wanted = asked.list.wanted().min(NEIGHBOURS_MAX) as u32;
        let mut refused = None;
        for (&server, request) in asked.requests.iter_mut().filter(|(_, of)| !of.sent) {
            let nodes = Numbers::pack(request.nodes.iter().copied());
            let score = Score {
                query,
                attempt: asked.attempt,
                left_us,
                hops: asked.hops,
                partition: request.partition,
                bound: asked.list.bound(),
                most: wanted,
                starts: request.nodes.is_empty() && (self.starts.is_empty() || self.doubts_starts),
                packed: asked.query.packed,
                nodes: Numbers::of(&nodes).expect("packed just now"),
                parameters: &asked.query.parameters,
                vector: &asked.query.vector,
            };
            let sent = match self.servers.is_other(server) {
                true => Err(Refused::Down),
                false => net.send(PeerId::Server(server), &Message::Score(score)),
            };
            match sent {
                Ok(()) => {
                    request.sent = true;
                    asked.trace.push(server);
                }
                Err(Refused::Full) => {}
                Err(why) => refused = refused.or(Some((server, why))),
            }
        }
        match refused {
            None => {}
            Some((_, Refused::TooLong)) => {
                let words = "the query is longer than a message";
                self.failed(now, net, number, (FailureCode::Refused, None, words));
            }
            Some((server, _)) => {
                let request = asked.requests.remove(&server).expect("refused just now");
                self.gone(now, net, number, (server, &request));
            }
        }
    }

    /// Takes scores; those of a step that is waited for.
    pub(super) fn scored(&mut self, now: u64, net: &dyn Network, server: u32, scored: Scored<'_>) {
        let QueryId { asker, number } = scored.query;
        let Some(asked) = self.queries.get_mut(&number) else { return };
        let now_asked = (self.settings.me, asked.attempt, asked.hops);
        let waits = asked.requests.get(&server).is_some_and(|request| request.sent);
        if (asker, scored.attempt, scored.hops) != now_asked || !waits {
            return;
        }
        let request = asked.requests.remove(&server).expect("just seen");
        add(&mut asked.spent, scored.stats);
        let packed = asked.query.packed;
        let of_it = |read: &Read| packed || request.nodes.contains(&read.node);
        asked.came.extend(scored.reads.iter().filter(of_it));
        asked.met.extend(scored.neighbours.iter());
        let entries = request.nodes.is_empty();
        if !asked.requests.is_empty() {
            return;
        }
        if let (true, true, Some(learns)) = (entries, packed && scored.early_stop, self.learns) {
            asked.list.stop_by(learns());
        }
        asked.take_in();
        if entries && !scored.starts.is_empty() {
            let starts: Vec<u32> = scored.starts.iter().collect();
            if !starts.is_sorted() || starts.len() != self.placement.partitions() as usize {
                let words = "the index has other partitions than the topology";
                return self.failed(now, net, number, (FailureCode::Refused, None, words));
            }
            (self.starts, self.doubts_starts) = (starts, false);
        }
        if self.starts.is_empty() {
            let words = "the server did not tell where partitions begin";
            return self.failed(now, net, number, (FailureCode::Internal, None, words));
        }
        self.step(now, net, number);
    }
}

impl Asked {
    /// Takes in what a step gave: all that were read stand in the list before their neighbours come, in an
    /// order that does not depend on who answers first.
    fn take_in(&mut self) {
        self.came
            .sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.node.cmp(&b.node)));
        self.came.drain(..).for_each(|read| self.list.read(read));
        self.list.look_again();
        self.met.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.met.drain(..).for_each(|(distance, node)| self.list.meet(distance, node));
    }
}

/// Adds statistics, which are numbers of 32 bits each, to others.
fn add(to: &mut Vec<u8>, stats: &[u8]) {
    to.resize(to.len().max(stats.len()), 0);
    for (to, more) in to.chunks_exact_mut(4).zip(stats.chunks_exact(4)) {
        let number = |bytes: &[u8]| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[i]));
        to.copy_from_slice(&number(to).saturating_add(number(more)).to_le_bytes());
    }
}
