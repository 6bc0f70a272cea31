//! The line before the proofs of passwords: who waits, in turns between the places where they are.
//!
//! Whoever asks for many waits for his own. Where the line is full, the place of which most wait
//! loses its last one to a place of which fewer do, so that nobody fills it for others.

use std::collections::VecDeque;

/// Who may wait at once.
pub(super) const MOST_WAITING: usize = 64;

/// The place where somebody is who wants a password proved: its number says no more than that it is
/// another one. 0 is the server itself, for those that it has let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProofSource(pub u128);

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct ProofLine {
    /// Those of which somebody waits, the next first.
    places: VecDeque<ProofPlace>,
    waiting: usize,
    next: u64,
    /// What became of those that wait no more, until they have seen it.
    ended: Vec<(u64, ProofTurn)>,
}

#[derive(Debug)]
struct ProofPlace {
    source: ProofSource,
    tickets: VecDeque<u64>,
}

/// What becomes of somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofTurn {
    /// It is his.
    Comes,
    /// It went to another one.
    Lost,
}

impl ProofLine {
    /// Waits behind those of the same place; `None` where there is no room.
    pub(super) fn join(&mut self, source: ProofSource) -> Option<u64> {
        let own = self.places.iter().position(|place| place.source == source);
        if self.waiting >= MOST_WAITING {
            let waiting = own.map_or(0, |own| self.places[own].tickets.len());
            let most = self.places.iter_mut().max_by_key(|place| place.tickets.len())?;
            if most.tickets.len() <= waiting + 1 {
                return None;
            }
            let last = most.tickets.pop_back()?;
            self.ended.push((last, ProofTurn::Lost));
            self.waiting -= 1;
        }
        let ticket = self.next;
        self.next += 1;
        self.waiting += 1;
        match own {
            Some(own) => self.places[own].tickets.push_back(ticket),
            None => self.places.push_back(ProofPlace { source, tickets: [ticket].into() }),
        }
        Some(ticket)
    }

    /// Calls the first of the place whose turn it is; whether somebody waits.
    pub(super) fn call(&mut self) -> bool {
        let Some(mut place) = self.places.pop_front() else { return false };
        let first = place.tickets.pop_front().expect("a place is there while somebody waits");
        self.ended.push((first, ProofTurn::Comes));
        self.waiting -= 1;
        if !place.tickets.is_empty() {
            self.places.push_back(place);
        }
        true
    }

    /// What became of somebody; `None` while he waits.
    pub(super) fn turn(&mut self, ticket: u64) -> Option<ProofTurn> {
        let found = self.ended.iter().position(|(ended, _)| *ended == ticket)?;
        Some(self.ended.swap_remove(found).1)
    }

    /// Those that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROWD: ProofSource = ProofSource(7);
    const OTHER: ProofSource = ProofSource(8);

    /// Whose turn it is next.
    fn called(line: &mut ProofLine, all: &[u64]) -> Option<u64> {
        let is_any = line.call();
        let found = all.iter().copied().find(|one| line.turn(*one) == Some(ProofTurn::Comes));
        assert_eq!(is_any, found.is_some());
        found
    }

    #[test]
    fn places_take_turns_and_each_keeps_its_order() {
        let mut line = ProofLine::default();
        let mut all: Vec<u64> = (0..3).filter_map(|_| line.join(CROWD)).collect();
        all.extend((0..2).filter_map(|_| line.join(OTHER)));
        let order: Vec<_> = std::iter::from_fn(|| called(&mut line, &all)).collect();
        assert_eq!(order, [all[0], all[3], all[1], all[4], all[2]]);
        assert_eq!((line.waiting(), line.ended.len()), (0, 0));
    }

    #[test]
    fn who_fills_the_line_fills_it_for_himself() {
        let mut line = ProofLine::default();
        let crowd: Vec<u64> = (0..MOST_WAITING).filter_map(|_| line.join(CROWD)).collect();
        assert_eq!((crowd.len(), line.join(CROWD)), (MOST_WAITING, None));
        let other = line.join(OTHER).expect("the last of the others gives it up");
        assert_eq!(line.turn(crowd[MOST_WAITING - 1]), Some(ProofTurn::Lost));
        let next = [called(&mut line, &[other, crowd[0]]), called(&mut line, &[other, crowd[0]])];
        assert!(next.contains(&Some(other)), "{next:?}");
        // Of as many places as fit, nobody loses his.
        let mut line = ProofLine::default();
        let places = 0..MOST_WAITING as u128;
        assert!(places.clone().all(|place| line.join(ProofSource(place)).is_some()));
        assert_eq!(line.join(ProofSource(places.end)), None);
        assert_eq!(line.waiting(), MOST_WAITING);
    }
}
