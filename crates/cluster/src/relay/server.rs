//! A server's side: queries that begin here or come by, each in a slot until it has left.

mod scoring;
mod sent;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::sent::{SentState, SentStates};
use super::work::{Scores, Ticket, Walked, Walker, Work};
use crate::placement::Placement;
use crate::transport::{Event, Handler, Network, Refused, Why};
use crate::wire::{
    Answer, Begin, Failure, FailureCode, Hits, Message, Numbers, PeerId, QueryId, State, TRACE_MAX,
};

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
}

/// What goes to a peer.
enum Leaving {
    State { partition: u32, state: Vec<u8> },
    Answer { hits: Vec<u8>, stats: Vec<u8> },
    Scored(Scores),
    Failure { code: FailureCode, partition: Option<u32>, words: String },
}

/// The machine of a server.
pub struct Server<W> {
    settings: ServerSettings,
    walker: W,
    slots: HashMap<QueryId, Slot>,
    tickets: HashMap<Ticket, QueryId>,
    deadlines: BTreeSet<(u64, QueryId)>,
    used: HashMap<PeerId, u32>,
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
                if let Some(slot) = self.free(query) {
                    self.walker.submit(Work::Cancel { ticket: slot.ticket });
                }
            }
            _ => self.counters.out_of_place += 1,
        }
    }

    /// Takes what became of work.
    pub fn walked(&mut self, now: u64, net: &dyn Network, walked: Walked) {
        // Work that was given up meanwhile has no query.
        let Some(query) = self.tickets.remove(&walked.ticket()) else { return };
        let leaving = match walked {
            Walked::Leaves { partition, state, .. } => Leaving::State { partition, state },
            Walked::Done { hits, stats, .. } => Leaving::Answer { hits, stats },
            Walked::Scored { scores, .. } => Leaving::Scored(scores),
            Walked::Failed { code, words, .. } => Leaving::Failure { code, partition: None, words },
        };
        self.leave(now, net, query, leaving);
    }

    /// A peer has room again.
    pub fn room(&mut self, now: u64, net: &dyn Network, peer: PeerId) {
        for query in self.waiting_for(peer) {
            let waits = self.slots.get_mut(&query).and_then(|slot| slot.waits.take());
            if let Some((_, leaving)) = waits {
                self.leave(now, net, query, leaving);
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
            if let Some(slot) = self.free(query) {
                self.walker.submit(Work::Cancel { ticket: slot.ticket });
            }
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
            let Some(slot) = self.free(query) else { continue };
            self.walker.submit(Work::Cancel { ticket: slot.ticket });
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

    /// The queries of which something waits for room, in an order that no hash decides.
    fn waiting_for(&self, peer: PeerId) -> Vec<QueryId> {
        let waits = |slot: &Slot| slot.waits.as_ref().is_some_and(|(to, _)| *to == peer);
        let mut waiting: Vec<_> =
            self.slots.iter().filter(|(_, slot)| waits(slot)).map(|(query, _)| *query).collect();
        waiting.sort_unstable();
        waiting
    }

    fn begin(&mut self, now: u64, net: &dyn Network, begin: Begin<'_>) {
        if !begin.partial && !begin.missing.is_empty() {
            let words = "partitions are left out of a query that takes no partial answer";
            let Begin { query, attempt, .. } = begin;
            let code = FailureCode::Refused;
            self.tell(net, Failure { query, attempt, code, partition: None, words });
            return;
        }
        let Begin { query, attempt, hops, left_us, .. } = begin;
        let deadline = now.saturating_add(left_us);
        let arrived = ArrivedQuery { query, attempt, hops, deadline };
        let Some(ticket) = self.take(now, net, arrived) else { return };
        self.counters.begun += 1;
        let slot = self.slots.get_mut(&begin.query).expect("just taken");
        slot.trace = self.settings.number.to_le_bytes().to_vec();
        slot.missing = begin.missing.bytes().to_vec();
        self.walker.submit(Work::Begin {
            ticket,
            mode: begin.mode,
            left_us: begin.left_us,
            missing: begin.missing.iter().collect(),
            parameters: begin.parameters.to_vec(),
            vector: begin.vector.to_vec(),
        });
    }

    fn state(&mut self, now: u64, net: &dyn Network, state: State<'_>) {
        self.counters.arrived += 1;
        let State { query, attempt, partition, hops, left_us, .. } = state;
        if !self.owns(net, (query, attempt), partition) {
            return;
        }
        let deadline = now.saturating_add(left_us);
        let arrived = ArrivedQuery { query, attempt, hops, deadline };
        let Some(ticket) = self.take(now, net, arrived) else { return };
        let slot = self.slots.get_mut(&query).expect("just taken");
        slot.trace = state.trace.bytes().to_vec();
        if state.trace.len() < TRACE_MAX {
            slot.trace.extend_from_slice(&self.settings.number.to_le_bytes());
        }
        slot.missing = state.missing.bytes().to_vec();
        let state = state.state.to_vec();
        self.walker.submit(Work::Wake { ticket, partition, left_us, state });
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
        let ArrivedQuery { query, attempt, hops, deadline } = arrived;
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
            let old = self.free(query).expect("just seen");
            self.walker.submit(Work::Cancel { ticket: old.ticket });
        }
        let used = self.used.entry(query.asker).or_default();
        if *used >= self.settings.slots {
            self.counters.beyond_grant += 1;
            let words = "more queries of one asker than it was granted";
            let code = FailureCode::NoRoom;
            self.tell(net, Failure { query, attempt, code, partition: None, words });
            return None;
        }
        *used += 1;
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let deadline = deadline.min(now.saturating_add(self.settings.longest_us));
        let (trace, missing) = (Vec::new(), Vec::new());
        let (starts, waits) = (false, None);
        let slot = Slot { ticket, attempt, hops, deadline, trace, missing, starts, waits };
        self.slots.insert(query, slot);
        self.tickets.insert(ticket, query);
        self.deadlines.insert((deadline, query));
        self.counters.most_slots = self.counters.most_slots.max(self.slots.len() as u64);
        Some(ticket)
    }

    /// Frees a slot, and with it everything that is kept of a query.
    fn free(&mut self, query: QueryId) -> Option<Slot> {
        let slot = self.slots.remove(&query)?;
        self.tickets.remove(&slot.ticket);
        self.deadlines.remove(&(slot.deadline, query));
        let used = self.used.get_mut(&query.asker).expect("counted when it was taken");
        *used -= 1;
        if *used == 0 {
            self.used.remove(&query.asker);
        }
        Some(slot)
    }

    /// Sends on what has left the search. The slot is free once it is sent, or nobody wants it.
    fn leave(&mut self, now: u64, net: &dyn Network, query: QueryId, leaving: Leaving) {
        let Some(slot) = self.slots.get(&query) else { return };
        let (attempt, deadline) = (slot.attempt, slot.deadline);
        match self.send(now, net, (query, slot), &leaving) {
            // A failure in place of it; that is never replaced in turn.
            Err(failure) => self.leave(now, net, query, failure),
            Ok((to, Err(Refused::Full))) => {
                self.slots.get_mut(&query).expect("just seen").waits = Some((to, leaving));
            }
            Ok((to, sent)) => {
                if sent.is_ok() {
                    if let (Leaving::State { partition, .. }, Some(server)) =
                        (&leaving, to.server())
                    {
                        let partition = *partition;
                        let state = SentState { query, attempt, partition, deadline };
                        self.sent.note(now, server, state);
                    }
                    *match &leaving {
                        Leaving::State { .. } => &mut self.counters.left,
                        Leaving::Answer { .. } => &mut self.counters.answered,
                        Leaving::Scored(_) => &mut self.counters.scored,
                        Leaving::Failure { .. } => &mut self.counters.failed,
                    } += 1;
                }
                self.free(query);
            }
        }
    }

    /// To whom it goes, and whether it was sent.
    ///
    /// # Errors
    /// The failure that is to be told in its place.
    fn send(
        &self,
        now: u64,
        net: &dyn Network,
        (query, slot): (QueryId, &Slot),
        leaving: &Leaving,
    ) -> Result<(PeerId, Result<(), Refused>), Leaving> {
        let fail = |code, partition, words: &str| {
            let words = words.to_owned();
            Err(Leaving::Failure { code, partition, words })
        };
        let trace = Numbers::of(&slot.trace).expect("whole numbers from the wire and our own");
        let missing = Numbers::of(&slot.missing).expect("whole numbers from the wire");
        let attempt = slot.attempt;
        match leaving {
            Leaving::State { partition, .. } if slot.hops == 0 => {
                let words = "the state was sent on as often as it may";
                fail(FailureCode::Hops, Some(*partition), words)
            }
            Leaving::State { partition, state } => {
                let (partition, hops) = (*partition, slot.hops - 1);
                let left_us = slot.deadline.saturating_sub(now);
                let message =
                    State { query, attempt, left_us, hops, partition, trace, missing, state };
                self.send_on(net, message)
            }
            Leaving::Answer { hits, stats } => match Hits::of(hits) {
                Some(hits) => {
                    let answer = Answer { query, attempt, hits, trace, missing, stats };
                    let to = query.asker;
                    match net.send(to, &Message::Answer(answer)) {
                        Err(Refused::TooLong) => {
                            fail(FailureCode::Refused, None, "the answer is longer than a message")
                        }
                        sent => Ok((to, sent)),
                    }
                }
                None => fail(FailureCode::Internal, None, "the search gave half a row"),
            },
            Leaving::Scored(scores) => match self.send_scores(net, query, slot, scores) {
                Ok(sent) => Ok((query.asker, sent)),
                Err((code, words)) => fail(code, None, words),
            },
            Leaving::Failure { code, partition, words } => {
                let words = &words[..words.floor_char_boundary(4096)];
                let failure = Failure { query, attempt, code: *code, partition: *partition, words };
                Ok((query.asker, net.send(query.asker, &Message::Failure(failure))))
            }
        }
    }

    /// Sends a state to the server that has its partition; as [`send`](Self::send).
    fn send_on(
        &self,
        net: &dyn Network,
        message: State<'_>,
    ) -> Result<(PeerId, Result<(), Refused>), Leaving> {
        let partition = message.partition;
        let fail = |code, partition, words| Err(Leaving::Failure { code, partition, words });
        let owner = self.settings.placement.owner(partition);
        let Some(owner) = owner.filter(|owner| *owner != self.settings.number) else {
            let words = "the search sent a state to this server, or to no partition";
            return fail(FailureCode::Internal, Some(partition), words.to_owned());
        };
        let to = PeerId::Server(owner);
        match net.send(to, &Message::State(message)) {
            Err(Refused::Down | Refused::Unknown) => {
                let why = self.absent.get(&owner).map(|why| format!(": {why}"));
                let why = why.unwrap_or_default();
                let words = format!("server {owner}, of partition {partition}, is gone{why}");
                fail(FailureCode::PartitionGone, Some(partition), words)
            }
            Err(Refused::TooLong) => {
                let words = "the state is longer than a message";
                fail(FailureCode::Refused, None, words.to_owned())
            }
            sent => Ok((to, sent)),
        }
    }

    /// Tells an asker of a query that has no slot. Where it has no room, it learns by its own clock.
    fn tell(&mut self, net: &dyn Network, failure: Failure<'_>) {
        if net.send(failure.query.asker, &Message::Failure(failure)).is_ok() {
            self.counters.failed += 1;
        }
    }

    /// Tells an asker that the time of a query is over.
    fn tell_late(&mut self, net: &dyn Network, query: QueryId, attempt: u16) {
        let (code, words) = (FailureCode::Deadline, "no time is left");
        self.tell(net, Failure { query, attempt, code, partition: None, words });
    }
}
