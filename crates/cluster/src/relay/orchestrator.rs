//! Queries whose list stays here, step by step (DistributedANN): servers read and score, this merges.
//!
//! Each step asks every owner of one of the nearest nodes that were not read yet once, and the next
//! step begins when all have answered. The first one asks a server, in turn, for entries of its head
//! index, and once for the first node of each partition, by which owners are found. As with an
//! [`Asker`](super::Asker), an attempt that fails where another may not, or is not heard of for too
//! long, begins anew from its entries, after waits that grow; answers to other attempts or steps are
//! dropped; and queries are under way only while every server has a slot for each, of which a query takes
//! one at most.
//! Whatever is not waited for any more is cancelled where it may still be scored. Servers of another
//! index, or generation of it, than the first one are not there as long as others are.
//!
//! Deliberately absent: reading, and what distances mean.

mod steps;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::early_stop::EarlyStop;
use super::host::Asks;
use super::nearest::Nearest;
use super::query::{AskerSettings, Ended, NoAnswer};
use super::rest::{is_excused, rest_us};
use super::servers::{SERVES_ANOTHER, Servers};
use crate::placement::Placement;
use crate::transport::{Event, Handler, Network};
use crate::wire::{Failure, FailureCode, Message, PeerId, QueryId, Read};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orchestrated {
    /// Rows wanted.
    pub k: u32,
    /// Length of the candidate list.
    pub list: u32,
    /// Nodes expanded in a step.
    pub width: u16,
    /// Whether every record of a page that was read is used, and the search stops early; otherwise one
    /// record of each page is, and all of the list is read, as in the paper.
    pub packed: bool,
    /// What the search is asked for, as servers read it.
    pub parameters: Vec<u8>,
    /// The vector.
    pub vector: Vec<u8>,
    /// How long an answer is of use.
    pub left_us: u64,
    /// Most steps.
    pub hops: u16,
}

/// A request of the step under way.
struct Request {
    /// A partition of its nodes.
    partition: u32,
    /// None where entries are wanted.
    nodes: Vec<u32>,
    sent: bool,
}

struct Asked {
    query: Orchestrated,
    deadline: u64,
    attempt: u16,
    /// Attempts begun.
    begun: u16,
    /// Attempts that failed.
    failed: u16,
    /// Of these, those that are not counted against the query.
    excused: u16,
    /// When the attempt is given up; none while it waits for room.
    until: Option<u64>,
    /// Steps left of the attempt.
    hops: u16,
    list: Nearest,
    /// What the step waits for, by server.
    requests: BTreeMap<u32, Request>,
    /// Nodes read, and neighbours, that came in this step.
    came: Vec<Read>,
    met: Vec<(f32, u32)>,
    /// What cannot be cancelled for now keeps its slot until the deadline.
    lingers: bool,
    /// Servers asked, one for each request.
    trace: Vec<u32>,
    rounds: u32,
    spent: Vec<u8>,
}

/// Begins to learn, once for each attempt.
type Learns = fn() -> Box<dyn EarlyStop>;

/// See the module's description.
pub struct Orchestrator {
    settings: AskerSettings,
    placement: Arc<Placement>,
    servers: Servers,
    /// The first node of each partition of the index that is searched, once a server told.
    starts: Vec<u32>,
    /// Whether a server says that these are others.
    doubts_starts: bool,
    /// What learns how far nodes are worth a read.
    learns: Option<Learns>,
    next_server: u32,
    next_number: u64,
    queries: HashMap<u64, Asked>,
    waiting: VecDeque<u64>,
    /// Queries that are not begun again before a time.
    resting: BTreeSet<(u64, u64)>,
    /// Queries under way.
    under_way: usize,
    /// Slots of ended queries that may still be taken, until when.
    lingering: BTreeSet<(u64, u64)>,
    ended: Vec<(u64, Ended)>,
}

impl Handler for Orchestrator {
    fn event(&mut self, now: u64, net: &dyn Network, event: Event<'_>) {
        match event {
            Event::Up { peer: PeerId::Server(server), hello } => {
                if self.servers.came(server, &hello) {
                    self.turned(now, net);
                }
                self.go_on(now, net);
            }
            Event::Down { peer: PeerId::Server(server), .. } => self.down(now, net, server),
            Event::Message { peer: PeerId::Server(server), message, hold: _hold } => {
                self.message(now, net, server, message);
            }
            Event::Room { .. } => self.go_on(now, net),
            _ => {}
        }
    }

    fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        Self::due(self, now, net)
    }
}

impl Asks for Orchestrator {
    type Query = Orchestrated;

    fn ask(&mut self, now: u64, net: &dyn Network, query: Orchestrated) -> Result<u64, NoAnswer> {
        if self.waiting.len() >= self.settings.waiting {
            return Err(NoAnswer::Crowded);
        }
        let number = self.next_number;
        self.next_number += 1;
        let asked = Asked {
            deadline: now.saturating_add(query.left_us),
            attempt: 0,
            begun: 0,
            failed: 0,
            excused: 0,
            until: None,
            hops: 0,
            list: Nearest::new(0, 0),
            requests: BTreeMap::new(),
            came: Vec::new(),
            met: Vec::new(),
            lingers: false,
            trace: Vec::new(),
            rounds: 0,
            spent: Vec::new(),
            query,
        };
        self.queries.insert(number, asked);
        self.waiting.push_back(number);
        self.begin_waiting(now, net);
        Ok(number)
    }

    fn take_ended(&mut self) -> Vec<(u64, Ended)> {
        std::mem::take(&mut self.ended)
    }

    fn up(&self) -> usize {
        self.servers.len()
    }

    fn is_up(&self, server: u32) -> bool {
        self.servers.is_up(server)
    }

    fn open(&self) -> usize {
        self.queries.len()
    }

    fn due_us(&self, query: &Orchestrated) -> u64 {
        self.settings.attempt_us.min(query.left_us)
    }

    fn left_us(query: &Orchestrated) -> u64 {
        query.left_us
    }

    fn takes_partial(_: &Orchestrated) -> bool {
        false
    }
}

impl Orchestrator {
    /// One that has asked nothing yet, of servers that own what the placement says.
    pub fn new(settings: AskerSettings, placement: Arc<Placement>) -> Self {
        Self {
            settings,
            placement,
            servers: Servers::default(),
            starts: Vec::new(),
            doubts_starts: false,
            learns: None,
            next_server: 0,
            next_number: 0,
            queries: HashMap::new(),
            waiting: VecDeque::new(),
            resting: BTreeSet::new(),
            under_way: 0,
            lingering: BTreeSet::new(),
            ended: Vec::new(),
        }
    }

    /// The same, where queries that are packed stop early by what is learnt so.
    pub fn stopping(self, learns: fn() -> Box<dyn EarlyStop>) -> Self {
        Self { learns: Some(learns), ..self }
    }

    /// Takes a message of a server.
    pub fn message(&mut self, now: u64, net: &dyn Network, server: u32, message: Message<'_>) {
        match message {
            Message::Scored(scored) => self.scored(now, net, server, scored),
            Message::Failure(failure) => self.failure(now, net, server, failure),
            // Servers have nothing else to say to an orchestrator.
            _ => {}
        }
        self.begin_waiting(now, net);
    }

    /// Ends and begins again what is due; says when something will be next.
    pub fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        while self.lingering.first().is_some_and(|(until, _)| *until <= now) {
            self.lingering.pop_first();
        }
        while self.resting.first().is_some_and(|(until, _)| *until <= now) {
            let (_, number) = self.resting.pop_first().expect("just seen");
            self.waiting.push_front(number);
        }
        let past =
            |asked: &Asked| asked.deadline <= now || asked.until.is_some_and(|until| until <= now);
        for number in self.chosen(past) {
            let asked = &self.queries[&number];
            let attempts = asked.begun;
            if asked.deadline <= now || attempts - asked.excused >= self.settings.attempts {
                self.end(net, number, Err(NoAnswer::Deadline { attempts, silent: String::new() }));
            } else {
                self.again(net, number);
                self.waiting.push_front(number);
            }
        }
        self.begin_waiting(now, net);
        let times = self.queries.values();
        let times =
            times.map(|asked| asked.until.map_or(asked.deadline, |u| u.min(asked.deadline)));
        let waits = [self.lingering.first(), self.resting.first()].into_iter().flatten();
        times.chain(waits.map(|(until, _)| *until)).min()
    }

    /// Queries that something is the case of, in an order that no hash decides.
    fn chosen(&self, which: impl Fn(&Asked) -> bool) -> Vec<u64> {
        let chosen = self.queries.iter().filter(|(_, asked)| which(asked));
        let mut chosen: Vec<u64> = chosen.map(|(number, _)| *number).collect();
        chosen.sort_unstable();
        chosen
    }

    /// A server cannot be reached any more: what it was asked is lost.
    fn down(&mut self, now: u64, net: &dyn Network, server: u32) {
        let turned = self.servers.went(server);
        let there = |asked: &Asked| asked.requests.get(&server).is_some_and(|of| of.sent);
        for number in self.chosen(there) {
            let asked = self.queries.get_mut(&number).expect("just seen");
            let request = asked.requests.remove(&server).expect("just seen");
            // The connection took what was asked with it: another attempt may find it dialled anew.
            let failed = asked.failed.saturating_add(1);
            asked.excused += u16::from(is_excused(FailureCode::Lost, failed));
            self.gone(now, net, number, (server, &request));
        }
        if turned {
            self.turned(now, net);
        }
        self.go_on(now, net);
    }

    /// Another index is searched from now on: its nodes are others, and so is what is known of them.
    fn turned(&mut self, now: u64, net: &dyn Network) {
        self.starts.clear();
        for number in self.chosen(|asked| asked.until.is_some()) {
            let words = "no server is left of the index that was searched";
            self.failed(now, net, number, (FailureCode::PartitionGone, None, words));
        }
    }

    /// What was asked of a server that is gone has no answer.
    fn gone(
        &mut self,
        now: u64,
        net: &dyn Network,
        number: u64,
        (server, request): (u32, &Request),
    ) {
        let partition = request.partition;
        let what = match self.servers.is_other(server) {
            true => SERVES_ANOTHER,
            false => "is gone",
        };
        let words = format!("server {server}, of partition {partition}, {what}");
        self.failed(now, net, number, (FailureCode::PartitionGone, Some(partition), &words));
    }

    fn failure(&mut self, now: u64, net: &dyn Network, server: u32, failure: Failure<'_>) {
        let Failure { query, attempt, code, partition, words } = failure;
        let Some(asked) = self.queries.get_mut(&query.number) else { return };
        let waits = asked.requests.get(&server).is_some_and(|request| request.sent);
        if query.asker != self.settings.me || asked.attempt != attempt || !waits {
            return;
        }
        // Who failed has nothing of it any more.
        asked.requests.remove(&server);
        self.failed(now, net, query.number, (code, partition, words));
    }

    /// An attempt failed. Another one is made where it may do better, in a while once that did not.
    fn failed(
        &mut self,
        now: u64,
        net: &dyn Network,
        number: u64,
        (code, partition, words): (FailureCode, Option<u32>, &str),
    ) {
        let may_succeed = match code {
            FailureCode::PartitionGone
            | FailureCode::NotOwner
            | FailureCode::NoRoom
            | FailureCode::Internal
            | FailureCode::Leaving
            | FailureCode::Lost => true,
            FailureCode::Deadline | FailureCode::Hops | FailureCode::Refused => false,
        };
        if code == FailureCode::NotOwner {
            // The first nodes of partitions may be others than was told. Until a server tells them anew,
            // other queries go on by these.
            self.doubts_starts = true;
        }
        let asked = self.queries.get_mut(&number).expect("looked up by the caller");
        asked.failed = asked.failed.saturating_add(1);
        let failed = asked.failed;
        asked.excused += u16::from(is_excused(code, failed));
        if may_succeed && asked.begun - asked.excused < self.settings.attempts {
            self.again(net, number);
            match rest_us(failed) {
                0 => self.waiting.push_front(number),
                rest => {
                    self.resting.insert((now.saturating_add(rest), number));
                }
            }
            return;
        }
        let words = words.to_owned();
        self.end(net, number, Err(NoAnswer::Failed { code, partition, words }));
    }

    /// Has a query ready for another attempt.
    fn again(&mut self, net: &dyn Network, number: u64) {
        self.cancel(net, number);
        let asked = self.queries.get_mut(&number).expect("looked up by the caller");
        asked.attempt = asked.attempt.wrapping_add(1);
        if asked.until.take().is_some() {
            self.under_way -= 1;
        }
    }

    fn end(&mut self, net: &dyn Network, number: u64, ended: Ended) {
        self.cancel(net, number);
        let Some(asked) = self.queries.remove(&number) else { return };
        if asked.until.is_some() {
            self.under_way -= 1;
        } else {
            self.waiting.retain(|waiting| *waiting != number);
            self.resting.retain(|(_, resting)| *resting != number);
        }
        if asked.lingers {
            self.lingering.insert((asked.deadline, number));
        }
        self.ended.push((number, ended));
    }

    /// Gives up what is being scored for a query.
    fn cancel(&mut self, net: &dyn Network, number: u64) {
        let Some(asked) = self.queries.get_mut(&number) else { return };
        let query = QueryId { asker: self.settings.me, number };
        for (server, request) in std::mem::take(&mut asked.requests) {
            let told = || net.send(PeerId::Server(server), &Message::Cancel(query));
            asked.lingers |= request.sent && told().is_err();
        }
    }
}

#[cfg(test)]
mod tests;
