//! Steps of queries whose list stays with their asker: each is in a slot from when it arrives until its
//! scores have left, and nothing of the query stays between two of them.

use super::{ArrivedQuery, Server, Slot, bytes_of};
use crate::relay::work::{Scores, Walker, Work};
use crate::transport::{Network, Refused};
use crate::wire::{FailureCode, Message, Neighbours, Numbers, QueryId, Reads, Score, Scored};

impl<W: Walker> Server<W> {
    /// Takes a step to be scored. A later step of its attempt has fewer hops left, as a state has
    /// that was sent on.
    pub(super) fn score(&mut self, now: u64, net: &dyn Network, score: Score<'_>) {
        let Score { query, attempt, hops, partition, left_us, .. } = score;
        if !self.owns(net, (query, attempt), partition) {
            return;
        }
        if let Some(words) = self.walker.refuses(score.parameters, score.vector) {
            return self.refuse(net, (query, attempt), &words);
        }
        let deadline = now.saturating_add(left_us);
        let bytes = bytes_of(&[score.nodes.bytes(), score.parameters, score.vector]);
        let arrived = ArrivedQuery { query, attempt, hops, deadline, bytes, sent_on: false };
        let Some(ticket) = self.take(now, net, arrived) else { return };
        self.slots.get_mut(&query).expect("just taken").starts = score.starts;
        let work = Work::Score {
            ticket,
            nodes: score.nodes.iter().collect(),
            bound: score.bound,
            most: score.most,
            packed: score.packed,
            left_us,
            parameters: score.parameters.to_vec(),
            vector: score.vector.to_vec(),
        };
        self.give(now, net, query, work);
    }

    /// Sends scores to their asker, or says why they are none that can be sent.
    pub(super) fn send_scores(
        &self,
        net: &dyn Network,
        query: QueryId,
        slot: &Slot,
        scores: &Scores,
    ) -> Result<Result<(), Refused>, (FailureCode, &'static str)> {
        let lists = (Reads::of(&scores.reads), Neighbours::of(&scores.neighbours));
        let (Ok(reads), Ok(neighbours)) = lists else {
            return Err((FailureCode::Internal, "the search gave scores that are none"));
        };
        let starts = if slot.starts { self.walker.starts() } else { Vec::new() };
        let starts = Numbers::pack(starts);
        let starts = Numbers::of(&starts).expect("packed just now");
        let (attempt, hops, stats) = (slot.attempt, slot.hops, scores.stats.as_slice());
        let early_stop = scores.early_stop;
        let scored = Scored { query, attempt, hops, early_stop, reads, neighbours, starts, stats };
        match net.send(query.asker, &Message::Scored(scored)) {
            Err(Refused::TooLong) => {
                Err((FailureCode::Refused, "the scores are longer than a message"))
            }
            sent => Ok(sent),
        }
    }
}
