//! What goes from a server to a peer: states to who goes on, answers and failures to who asked.

use super::{Leaving, SentState, Server, Slot};
use crate::relay::work::Walker;
use crate::transport::{Network, Refused};
use crate::wire::{Answer, Failure, FailureCode, Hits, Message, Numbers, PeerId, QueryId, State};

impl<W: Walker> Server<W> {
    /// Sends on what has left the search. The slot is free once it is sent, or nobody wants it.
    pub(super) fn leave(&mut self, now: u64, net: &dyn Network, query: QueryId, leaving: Leaving) {
        let Some(slot) = self.slots.get(&query) else { return };
        let (attempt, deadline) = (slot.attempt, slot.deadline);
        match self.send(now, net, (query, slot), &leaving) {
            // A failure in place of it; that is never replaced in turn.
            Err(failure) => self.leave(now, net, query, failure),
            Ok((to, Err(Refused::Full))) => self.wait(now, net, (query, to), leaving),
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

    /// Has something wait in its slot for room at a peer. Where that would hold more than there is memory
    /// for, its asker is told to begin again.
    fn wait(
        &mut self,
        now: u64,
        net: &dyn Network,
        (query, to): (QueryId, PeerId),
        leaving: Leaving,
    ) {
        let Some(slot) = self.slots.get_mut(&query) else { return };
        let bytes = leaving.bytes();
        let more = bytes.saturating_sub(slot.bytes);
        let is_failure = matches!(leaving, Leaving::Failure { .. });
        if more > 0 && !is_failure && !self.held.has_room(more) {
            let words = "what waits at this server holds as much memory as it may".to_owned();
            let code = FailureCode::NoRoom;
            return self.leave(now, net, query, Leaving::Failure { code, partition: None, words });
        }
        slot.waits = Some((to, leaving));
        self.recount(query, bytes);
        self.waiting.note(to, query);
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
    pub(super) fn tell(&mut self, net: &dyn Network, failure: Failure<'_>) {
        if net.send(failure.query.asker, &Message::Failure(failure)).is_ok() {
            self.counters.failed += 1;
        }
    }

    /// Tells an asker that a query is refused.
    pub(super) fn refuse(
        &mut self,
        net: &dyn Network,
        (query, attempt): (QueryId, u16),
        words: &str,
    ) {
        let code = FailureCode::Refused;
        self.tell(net, Failure { query, attempt, code, partition: None, words });
    }

    /// Tells an asker that the time of a query is over.
    pub(super) fn tell_late(&mut self, net: &dyn Network, query: QueryId, attempt: u16) {
        let (code, words) = (FailureCode::Deadline, "no time is left");
        self.tell(net, Failure { query, attempt, code, partition: None, words });
    }
}
