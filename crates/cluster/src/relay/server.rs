//! A server's side: queries that begin here or come by, each in a slot until it has left.
//!
//! An asker has no more than its slots of them, and as much work again that was given up and has not
//! ended, so the search never has more of it than twice that. What all askers' queries hold is bounded
//! in bytes: beyond that none is begun. A state that arrives always finds room.

mod given_up;
mod held;
mod leaving;
mod scoring;
mod sent;
mod waiting;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::given_up::GivenUp;
use self::held::HeldBytes;
use self::sent::{SentState, SentStates};
use self::waiting::WaitingQueries;
use super::work::{Scores, Ticket, Walked, Walker, Work};
use crate::placement::Placement;
use crate::transport::{Event, Handler, Network, Why};
use crate::wire::{Begin, Failure, FailureCode, Message, PeerId, QueryId, State, TRACE_MAX};

/// What a server is told when it begins.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Its number.
    pub number: u32,
    /// Who owns what.
    pub placement: Arc<Placement>,
    /// How many queries of one asker may have a state here at once: what its hello grants.
    pub slots: u32,
    /// The longest time a query may stay, whatever its asker says.
    pub longest_us: u64,
}

/// What a server has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounters {
    /// Queries that began here.
    pub begun: u64,
    /// States that arrived.
    pub arrived: u64,
    /// States sent on.
    pub left: u64,
    /// Answers given.
    pub answered: u64,
    /// Steps scored for askers that keep their lists.
    pub scored: u64,
    /// Failures told.
    pub failed: u64,
    /// States that arrived again, or behind a later one of the same query.
    pub repeated: u64,
    /// Queries and states beyond what was granted.
    pub beyond_grant: u64,
    /// Messages that make no sense from whoever sent them.
    pub out_of_place: u64,
    /// The most slots that were in use at once.
    pub most_slots: u64,
}

/// A query that is here.
struct Slot {
    ticket: Ticket,
    attempt: u16,
    hops: u16,
    deadline: u64,
    /// What it holds: what came with it while the search has it, then what waits.
    bytes: u64,
    trace: Vec<u8>,
    missing: Vec<u8>,
    /// Whether its asker wants to know where partitions begin.
    starts: bool,
    /// What waits for room at a peer.
    waits: Option<(PeerId, Leaving)>,
}

/// A query that wants a slot: which attempt at it, how often that may still be sent on, and until when.
struct ArrivedQuery {
    query: QueryId,
    attempt: u16,
    hops: u16,
    deadline: u64,
    /// What is kept of it.
    bytes: u64,
    /// Whether it comes from another server, which was granted room for it.
    sent_on: bool,
}

/// What goes to a peer.
enum Leaving {
    State { partition: u32, state: Vec<u8> },
    Answer { hits: Vec<u8>, stats: Vec<u8> },
    Scored(Scores),
    Failure { code: FailureCode, partition: Option<u32>, words: String },
}

impl Leaving {
    /// What of it waits where there is no room for it.
    fn bytes(&self) -> u64 {
        match self {
            Self::State { state, .. } => bytes_of(&[state]),
            Self::Answer { hits, stats } => bytes_of(&[hits, stats]),
            Self::Scored(Scores { reads, neighbours, stats, .. }) => {
                bytes_of(&[reads, neighbours, stats])
            }
            Self::Failure { words, .. } => bytes_of(&[words.as_bytes()]),
        }
    }
}

/// The machine of a server.
pub struct Server<W> {
    settings: ServerSettings,
    walker: W,
    slots: HashMap<QueryId, Slot>,
    tickets: HashMap<Ticket, QueryId>,
    deadlines: BTreeSet<(u64, QueryId)>,
    used: HashMap<PeerId, u32>,
    waiting: WaitingQueries,
    given_up: GivenUp,
    held: HeldBytes,
    /// Why servers of the topology are not connected, for whoever asks for what they have.
    absent: HashMap<u32, String>,
    sent: SentStates,
    next_ticket: u64,
    counters: ServerCounters,
}

impl<W: Walker + Send> Handler for Server<W> {
    fn event(&mut self, now: u64, net: &dyn Network, event: Event<'_>) {
        match event {
            // What is kept was copied: the peer has its credit back when the hold goes.
            Event::Message { peer, message, hold: _hold } => self.message(now, net, peer, message),
            Event::Room { peer } => self.room(now, net, peer),
            Event::Down { peer, why } => {
                self.note_absent(peer, why);
                self.down(now, net, peer);
            }
            Event::Refused { who: Some(peer), why, .. } => self.note_absent(peer, why),
            Event::Up { peer, .. } => {
                peer.server().and_then(|server| self.absent.remove(&server));
            }
            Event::Alive { .. } | Event::Refused { who: None, .. } => {}
        }
    }

    fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        Self::due(self, now, net)
    }
}

impl<W: Walker> Server<W> {
    /// A server that has nothing to do yet.
    pub fn new(settings: ServerSettings, walker: W) -> Self {
        Self {
            settings,
            walker,
            slots: HashMap::new(),
            tickets: HashMap::new(),
            deadlines: BTreeSet::new(),
            used: HashMap::new(),
            waiting: WaitingQueries::default(),
            given_up: GivenUp::default(),
            held: HeldBytes::default(),
            absent: HashMap::new(),
            sent: SentStates::default(),
            next_ticket: 0,
            counters: ServerCounters::default(),
        }
    }

    /// What it has seen.
    pub fn counters(&self) -> ServerCounters {
        self.counters
    }

    /// What does the work.
    pub fn walker(&self) -> &W {
        &self.walker
    }

    /// How many queries are here.
    pub fn slots_in_use(&self) -> usize {
        self.slots.len()
    }

    /// Takes a message.
    pub fn message(&mut self, now: u64, net: &dyn Network, from: PeerId, message: Message<'_>) {
        match message {
            // Whoever asks, asks for itself.
            Message::Begin(begin) if begin.query.asker == from => self.begin(now, net, begin),
            Message::State(state) if from.server().is_some() => self.state(now, net, state),
            Message::Score(score) if score.query.asker == from => self.score(now, net, score),
            Message::Cancel(query) if query.asker == from => {
                self.give_up(query);
            }
            _ => self.counters.out_of_place += 1,
        }
    }

    /// Takes what became of work.
    pub fn walked(&mut self, now: u64, net: &dyn Network, walked: Walked) {
        let Some(query) = self.tickets.remove(&walked.ticket()) else {
            // Work that was given up meanwhile has no query.
            return self.held.remove(self.given_up.ended(walked.ticket()));
        };
        let leaving = match walked {
            Walked::Leaves { partition, state, .. } => Leaving::State { partition, state },
            Walked::Done { hits, stats, .. } => Leaving::Answer { hits, stats },
            Walked::Scored { scores, .. } => Leaving::Scored(scores),
            Walked::Failed { code, words, .. } => {
                // Servers may have been started with different columns, and that is told by one of them.
                let words = format!("server {}: {words}", self.settings.number);
                Leaving::Failure { code, partition: None, words }
            }
        };
        self.leave(now, net, query, leaving);
    }

    /// A peer has room again. What finds none after all keeps its place, and nothing behind it is tried:
    /// a peer that grants little is asked no more often than it takes something.
    pub fn room(&mut self, now: u64, net: &dyn Network, peer: PeerId) {
        while let Some(query) = self.waiting.first(peer) {
            self.waiting.forget(peer, query);
            let waits = self.slots.get_mut(&query).and_then(|slot| slot.waits.take());
            if let Some((_, leaving)) = waits {
                self.leave(now, net, query, leaving);
            }
            let waits = self.slots.get(&query).and_then(|slot| slot.waits.as_ref());
            if waits.is_some_and(|(to, _)| *to == peer) {
                return;
            }
        }
    }

    /// A peer is gone: what waits for it fails, what it asked is given up, and who waits for a state that
    /// was sent to it is told that it may be lost.
    pub fn down(&mut self, now: u64, net: &dyn Network, peer: PeerId) {
        self.room(now, net, peer);
        if let Some(server) = peer.server() {
            self.tell_lost(now, net, server);
        }
        let asked: Vec<_> = self.slots.keys().copied().filter(|of| of.asker == peer).collect();
        for query in asked {
            self.give_up(query);
        }
    }

    fn tell_lost(&mut self, now: u64, net: &dyn Network, server: u32) {
        for sent in self.sent.take(now, server) {
            let SentState { query, attempt, partition, .. } = sent;
            // One that has come back was not lost.
            if self.slots.contains_key(&query) {
                continue;
            }
            let words =
                format!("the connection to server {server}, of partition {partition}, ended");
            let (code, partition) = (FailureCode::Lost, Some(partition));
            self.tell(net, Failure { query, attempt, code, partition, words: &words });
        }
    }

    /// Ends what is past its deadline; says when the next one is.
    pub fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        while let Some(&(deadline, query)) = self.deadlines.first() {
            if deadline > now {
                return Some(deadline);
            }
            let Some(slot) = self.give_up(query) else { continue };
            self.tell_late(net, query, slot.attempt);
        }
        None
    }

    /// Keeps why a server of the topology is not connected.
    fn note_absent(&mut self, peer: PeerId, why: &Why) {
        if let Some(server) = peer.server()
            && self.settings.placement.server(server).is_ok()
        {
            self.absent.insert(server, why.to_string());
        }
    }

    /// When something is due next, as far as nothing is before that.
    pub fn next_due(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn begin(&mut self, now: u64, net: &dyn Network, begin: Begin<'_>) {
        let refused = if !begin.partial && !begin.missing.is_empty() {
            let words = "partitions are left out of a query that takes no partial answer";
            Some(words.to_owned())
        } else {
            self.walker.refuses(begin.parameters, begin.vector)
        };
        if let Some(words) = refused {
            return self.refuse(net, (begin.query, begin.attempt), &words);
        }
        let Begin { query, attempt, hops, left_us, parameters, vector, .. } = begin;
        let deadline = now.saturating_add(left_us);
        let bytes = bytes_of(&[parameters, vector, begin.missing.bytes()]);
        let arrived = ArrivedQuery { query, attempt, hops, deadline, bytes, sent_on: false };
        let Some(ticket) = self.take(now, net, arrived) else { return };
        self.counters.begun += 1;
        let slot = self.slots.get_mut(&begin.query).expect("just taken");
        slot.trace = self.settings.number.to_le_bytes().to_vec();
        slot.missing = begin.missing.bytes().to_vec();
        let work = Work::Begin {
            ticket,
            mode: begin.mode,
            left_us: begin.left_us,
            missing: begin.missing.iter().collect(),
            parameters: parameters.to_vec(),
            vector: vector.to_vec(),
        };
        self.give(now, net, query, work);
    }

    fn state(&mut self, now: u64, net: &dyn Network, state: State<'_>) {
        self.counters.arrived += 1;
        let State { query, attempt, partition, hops, left_us, .. } = state;
        if !self.owns(net, (query, attempt), partition) {
            return;
        }
        let deadline = now.saturating_add(left_us);
        let bytes = bytes_of(&[state.state, state.trace.bytes(), state.missing.bytes()]);
        let arrived = ArrivedQuery { query, attempt, hops, deadline, bytes, sent_on: true };
        let Some(ticket) = self.take(now, net, arrived) else { return };
        let slot = self.slots.get_mut(&query).expect("just taken");
        slot.trace = state.trace.bytes().to_vec();
        if state.trace.len() < TRACE_MAX {
            slot.trace.extend_from_slice(&self.settings.number.to_le_bytes());
        }
        slot.missing = state.missing.bytes().to_vec();
        let state = state.state.to_vec();
        self.give(now, net, query, Work::Wake { ticket, partition, left_us, state });
    }

    /// Whether a partition is owned here; its asker is told where it is not.
    fn owns(
        &mut self,
        net: &dyn Network,
        (query, attempt): (QueryId, u16),
        partition: u32,
    ) -> bool {
        let number = self.settings.number;
        let owns = self.settings.placement.owner(partition) == Some(number);
        if !owns {
            let words = format!("server {number} does not own partition {partition}");
            let (code, partition) = (FailureCode::NotOwner, Some(partition));
            self.tell(net, Failure { query, attempt, code, partition, words: &words });
        }
        owns
    }

    /// Takes a slot for what arrived, unless what is here already is as far or further.
    fn take(&mut self, now: u64, net: &dyn Network, arrived: ArrivedQuery) -> Option<Ticket> {
        let ArrivedQuery { query, attempt, hops, deadline, bytes, .. } = arrived;
        if deadline <= now {
            self.tell_late(net, query, attempt);
            return None;
        }
        if let Some(here) = self.slots.get(&query) {
            // A later attempt is further, and of one attempt whoever has fewer hops left.
            if (here.attempt, u16::MAX - here.hops) >= (attempt, u16::MAX - hops) {
                self.counters.repeated += 1;
                return None;
            }
            self.give_up(query);
        }
        if let Some(words) = self.is_full(&arrived) {
            let code = FailureCode::NoRoom;
            self.tell(net, Failure { query, attempt, code, partition: None, words });
            return None;
        }
        *self.used.entry(query.asker).or_default() += 1;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let deadline = deadline.min(now.saturating_add(self.settings.longest_us));
        let (trace, missing) = (Vec::new(), Vec::new());
        let (starts, waits) = (false, None);
        let slot = Slot { ticket, attempt, hops, deadline, bytes, trace, missing, starts, waits };
        self.held.add(bytes);
        self.slots.insert(query, slot);
        self.tickets.insert(ticket, query);
        self.deadlines.insert((deadline, query));
        self.counters.most_slots = self.counters.most_slots.max(self.slots.len() as u64);
        Some(ticket)
    }

    /// Why an asker gets no slot for another query, if it gets none.
    fn is_full(&mut self, arrived: &ArrivedQuery) -> Option<&'static str> {
        let (asker, slots) = (arrived.query.asker, self.settings.slots);
        if self.used.get(&asker).is_some_and(|used| *used >= slots) {
            self.counters.beyond_grant += 1;
            return Some("more queries of one asker than it was granted");
        }
        if self.given_up.of(asker) >= slots {
            return Some("the search still has as many queries that were given up");
        }
        let full = !arrived.sent_on && !self.held.has_room(arrived.bytes);
        full.then_some("the queries at this server hold as much memory as they may")
    }

    /// Gives the search work for a query in its slot. Where it has no room, which it is to have, whoever
    /// asked hears of it at once.
    fn give(&mut self, now: u64, net: &dyn Network, query: QueryId, work: Work) {
        if !self.walker.submit(work) {
            if let Some(slot) = self.slots.get(&query) {
                // Nothing of it is in the search, so nothing will be given up.
                self.tickets.remove(&slot.ticket);
            }
            let (code, words) = (FailureCode::NoRoom, "the search has no room".to_owned());
            self.leave(now, net, query, Leaving::Failure { code, partition: None, words });
        }
    }

    /// Gives up what is done for a query, and frees its slot.
    fn give_up(&mut self, query: QueryId) -> Option<Slot> {
        let walks = self.slots.get(&query).is_some_and(|of| self.tickets.contains_key(&of.ticket));
        let slot = self.free(query)?;
        if walks {
            let (ticket, bytes) = (slot.ticket, slot.bytes);
            self.given_up.note(ticket, query.asker, bytes);
            self.held.add(bytes);
            self.walker.submit(Work::Cancel { ticket });
        }
        Some(slot)
    }

    /// Other bytes wait for a query from now on.
    fn recount(&mut self, query: QueryId, bytes: u64) {
        let Some(slot) = self.slots.get_mut(&query) else { return };
        self.held.remove(std::mem::replace(&mut slot.bytes, bytes));
        self.held.add(bytes);
    }

    /// Frees a slot, and with it everything that is kept of a query.
    fn free(&mut self, query: QueryId) -> Option<Slot> {
        let slot = self.slots.remove(&query)?;
        self.tickets.remove(&slot.ticket);
        self.deadlines.remove(&(slot.deadline, query));
        self.held.remove(slot.bytes);
        if let Some((peer, _)) = &slot.waits {
            self.waiting.forget(*peer, query);
        }
        let used = self.used.get_mut(&query.asker).expect("counted when it was taken");
        *used -= 1;
        if *used == 0 {
            self.used.remove(&query.asker);
        }
        Some(slot)
    }
}

/// How many bytes these are together.
fn bytes_of(parts: &[&[u8]]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

#[cfg(test)]
impl<W> Server<W> {
    /// No more than so many bytes from now on; nothing is held yet.
    pub(super) fn hold_at_most(&mut self, most: u64) {
        self.held = HeldBytes::at_most(most);
    }

    /// Bytes that are held.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held.bytes()
    }
}
