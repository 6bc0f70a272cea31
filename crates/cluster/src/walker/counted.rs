//! Servers of one process that send each other what servers on a network would, every frame counted.
//!
//! Messages, bytes, rounds, reads and distances are exact here: they do not depend on how messages
//! travel. Servers and askers are the machines of [`relay`](crate::relay), and each server searches by
//! a thread of its own. Times of it say nothing about a cluster, and no time passes for its machines.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pipeann_engine::index::{Index, QueryError};
use pipeann_engine::pool::{End, Sink};
use pipeann_engine::search::SearchStats;

use super::{IndexWalker, WalkerOptions, walked};
use crate::placement::Placement;
use crate::relay::{Asks, Ended, NoAnswer, Server, ServerSettings, Ticket, Walked};
use crate::transport::{Event, Hold, Network, Refused};
use crate::wire::{Hello, Message, Numbers, PeerId, QueryId, read};

/// Who asks.
const ASKER: PeerId = PeerId::Client(1);
/// Queries of an asker that are under way at once.
pub(super) const SLOTS: u32 = 64;

/// How a query ended, and what was sent for it.
#[derive(Debug)]
pub struct Answered {
    /// Its end.
    pub ended: Ended,
    /// Messages, those from and to the asker among them.
    pub messages: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// See the module's description.
pub struct Counted {
    servers: Vec<(u32, Server<IndexWalker>)>,
    wires: Wires,
    walked: Receiver<(u32, Walked, VisitedPages)>,
    placement: Arc<Placement>,
    /// Pages read at each server. Those of a search that is on its way are taken off where it goes, so
    /// one may be below zero meanwhile.
    pages: Vec<i64>,
    partitions: Vec<u8>,
}

/// Pages that a piece of work has come to, with those that its search came with, and the partition
/// where that goes on.
#[derive(Clone, Copy, Default)]
struct VisitedPages {
    all: u64,
    goes_to: Option<u32>,
}

impl VisitedPages {
    fn of(end: &End) -> Self {
        let all = |stats: &SearchStats| stats.reads + stats.resident_pages;
        match end {
            End::Found(_, stats) | End::Expanded(_, stats) => {
                Self { all: all(stats), goes_to: None }
            }
            End::Elsewhere { partition, stats, .. } => {
                Self { all: all(stats), goes_to: Some(*partition) }
            }
            End::Failed(_) => Self::default(),
        }
    }
}

/// Frames on their way, and what was sent for each query.
#[derive(Default)]
struct Wires {
    frames: RefCell<VecDeque<(PeerId, PeerId, Vec<u8>)>>,
    sent: RefCell<HashMap<u64, (u64, u64)>>,
}

/// The network as one of its peers has it.
struct Wire<'w>(PeerId, &'w Wires);

impl Network for Wire<'_> {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        let Self(from, wires) = self;
        let mut frame = Vec::new();
        let len = message.append(&mut frame).map_err(|_| Refused::TooLong)?;
        if let Some(query) = query_of(message) {
            let mut sent = wires.sent.borrow_mut();
            let (messages, bytes) = sent.entry(query.number).or_default();
            *messages += 1;
            *bytes += len as u64;
        }
        wires.frames.borrow_mut().push_back((*from, to, frame));
        Ok(())
    }
}

fn query_of(message: &Message<'_>) -> Option<QueryId> {
    match message {
        Message::Begin(begin) => Some(begin.query),
        Message::State(state) => Some(state.query),
        Message::Answer(answer) => Some(answer.query),
        Message::Failure(failure) => Some(failure.query),
        Message::Cancel(query) => Some(*query),
        Message::Score(score) => Some(score.query),
        Message::Scored(scored) => Some(scored.query),
        _ => None,
    }
}

/// Tells a server's ends to the loop that all servers share.
struct Ends(u32, Sender<(u32, Walked, VisitedPages)>);

impl Sink for Ends {
    fn ended(&self, ticket: u64, end: End) {
        let pages = VisitedPages::of(&end);
        // Nobody may be waiting any more.
        let _ = self.1.send((self.0, walked(Ticket(ticket), end), pages));
    }
}

impl Counted {
    /// The servers of a placement, each with an index as `opens` gives it and what it has beside.
    ///
    /// # Errors
    /// What `opens` fails with, and as [`IndexWalker::start`].
    pub fn open<E: From<QueryError>>(
        placement: &Arc<Placement>,
        mut opens: impl FnMut(u32) -> Result<(Arc<Index>, WalkerOptions), E>,
    ) -> Result<Self, E> {
        let (give, walked) = channel();
        let mut servers = Vec::new();
        for server in placement.servers() {
            let number = server.number;
            let (index, options) = opens(number)?;
            let ends = Arc::new(Ends(number, give.clone()));
            let longest_us = u64::MAX;
            let (slots, placement) = (SLOTS, Arc::clone(placement));
            let settings = ServerSettings { number, placement, slots, longest_us };
            let walker = IndexWalker::telling(index, options, ends)?;
            servers.push((number, Server::new(settings, walker)));
        }
        let partitions = Numbers::pack(0..placement.partitions());
        let (pages, placement) = (vec![0; servers.len()], Arc::clone(placement));
        Ok(Self { servers, wires: Wires::default(), walked, placement, pages, partitions })
    }

    /// Who asks here.
    pub fn asker() -> PeerId {
        ASKER
    }

    /// Has an asker ask queries, and gives what became of them, in their order.
    ///
    /// # Errors
    /// [`NoAnswer::Crowded`] where the asker lets fewer queries wait.
    ///
    /// # Panics
    /// Where a server and an asker stand still, which they never do.
    pub fn ask<M: Asks>(
        &mut self,
        asker: &mut M,
        queries: impl IntoIterator<Item = M::Query>,
    ) -> Result<Vec<Answered>, NoAnswer> {
        let partitions = Numbers::of(&self.partitions).expect("packed by us");
        for (number, _) in &self.servers {
            let hello = Hello {
                cluster: "counted",
                who: PeerId::Server(*number),
                index: [0; 16],
                generation: 0,
                codebook: 0,
                partitions,
                slots: SLOTS,
                credit: u64::MAX,
            };
            let event = Event::Up { peer: PeerId::Server(*number), hello };
            asker.event(0, &Wire(ASKER, &self.wires), event);
        }
        self.wires.sent.borrow_mut().clear();
        let mut asked = Vec::new();
        for query in queries {
            asked.push(asker.ask(0, &Wire(ASKER, &self.wires), query)?);
        }
        let mut ended: HashMap<u64, Ended> = HashMap::new();
        while ended.len() < asked.len() {
            self.turn(asker);
            ended.extend(asker.take_ended());
            if ended.len() < asked.len() && self.wires.frames.borrow().is_empty() {
                let (number, walked, pages) =
                    self.walked.recv().expect("servers hold the other end");
                let server = self.server(number);
                self.count(server, pages);
                let (_, machine) = &mut self.servers[server];
                machine.walked(0, &Wire(PeerId::Server(number), &self.wires), walked);
            }
        }
        let sent = self.wires.sent.borrow();
        let answers = asked.into_iter().map(|number| {
            let (messages, bytes) = sent.get(&number).copied().unwrap_or_default();
            let ended = ended.remove(&number).expect("all have ended");
            Answered { ended, messages, bytes }
        });
        Ok(answers.collect())
    }

    /// Pages that each server has read, or found in memory, for what was asked so far.
    pub fn pages(&self) -> Vec<u64> {
        self.pages.iter().map(|pages| u64::try_from(*pages).unwrap_or_default()).collect()
    }

    /// Counts the pages of a piece of work where it was done.
    fn count(&mut self, server: usize, VisitedPages { all, goes_to }: VisitedPages) {
        let all = i64::try_from(all).unwrap_or(i64::MAX);
        self.pages[server] += all;
        if let Some(owner) = goes_to.and_then(|partition| self.placement.owner(partition)) {
            let next = self.server(owner);
            self.pages[next] -= all;
        }
    }

    fn server(&self, number: u32) -> usize {
        let at = self.servers.iter().position(|(of, _)| *of == number);
        at.expect("all servers of the placement stand")
    }

    /// Hands over what is on its way.
    fn turn<M: Asks>(&mut self, asker: &mut M) {
        loop {
            let Some((from, to, frame)) = self.wires.frames.borrow_mut().pop_front() else {
                return;
            };
            let (message, _) = read(&frame).expect("it was just written");
            match to {
                PeerId::Server(number) => {
                    let at = self.server(number);
                    self.servers[at].1.message(0, &Wire(to, &self.wires), from, message);
                }
                PeerId::Client(_) => {
                    let hold = Hold::default();
                    let event = Event::Message { peer: from, message, hold };
                    asker.event(0, &Wire(to, &self.wires), event);
                }
            }
        }
    }
}
