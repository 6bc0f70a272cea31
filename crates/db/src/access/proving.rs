//! Proofs of passwords: few at a time, in memory that is kept, before a line that has an end.
//!
//! A proof takes tens of milliseconds and 19 MiB, on purpose. Whoever reaches the port may ask for
//! one, so that neither may grow with how many ask. The memory is allocated once for each proof that
//! may run at once: blocks so large and so aligned, allocated for each proof, are not all reused by
//! every allocator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use argon2::Block;
use pipeann_engine::memory::{Accountant, Pool, Reservation};

use super::line::{ProofLine, ProofSource, ProofTurn};

/// Proofs that may run at once, however many processors there are.
const MOST_SEATS: usize = 4;

/// Blocks of 1 KiB of the largest proof that is made, whatever a file asks for.
const MOST_BLOCKS: usize = 256 << 10;

/// A proof was not made: too many wait, or it would take more memory than any that this version
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProofBusy;

/// Where proofs are made.
pub(super) struct Provers {
    accountant: Arc<Accountant>,
    most: usize,
    state: Mutex<Seats>,
    freed: Condvar,
    refused: AtomicU64,
}

#[derive(Default)]
struct Seats {
    idle: Vec<ProofMemory>,
    /// Those that are taken, or were given to somebody who was called.
    busy: usize,
    line: ProofLine,
}

/// What a proof is made in. Counted where the limit has room for it; where it has none, people are
/// let in all the same.
#[derive(Default)]
struct ProofMemory {
    blocks: Vec<Block>,
    held: Option<Reservation>,
}

impl Provers {
    pub(super) fn new(accountant: Arc<Accountant>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let most = (processors / 2).clamp(1, MOST_SEATS);
        let (state, freed, refused) = <(Mutex<Seats>, Condvar, AtomicU64)>::default();
        Self { accountant, most, state, freed, refused }
    }

    /// Runs a proof for somebody that needs so many blocks, when it is its turn.
    pub(super) fn run<T>(
        &self,
        source: ProofSource,
        blocks: usize,
        prove: impl FnOnce(&mut [Block]) -> T,
    ) -> Result<T, ProofBusy> {
        let mut seat = match blocks <= MOST_BLOCKS {
            true => self.sit_down(source)?,
            false => return Err(self.refuse()),
        };
        if seat.memory.blocks.len() < blocks {
            let bytes = (blocks * size_of::<Block>()) as u64;
            seat.memory = ProofMemory::default();
            seat.memory.held = self.accountant.reserve(Pool::Pending, bytes).ok();
            seat.memory.blocks = vec![Block::default(); blocks];
        }
        Ok(prove(&mut seat.memory.blocks[..blocks]))
    }

    /// Waits for memory that nobody uses, unless too many do.
    fn sit_down(&self, source: ProofSource) -> Result<Seat<'_>, ProofBusy> {
        let mut seats = self.seats();
        if seats.busy < self.most {
            // Nobody waits: what gets free is given to who does.
            seats.busy += 1;
        } else {
            let ticket = seats.line.join(source).ok_or_else(|| self.refuse())?;
            // Somebody else may have lost his place to this one.
            self.freed.notify_all();
            let turn = loop {
                seats = self.freed.wait(seats).unwrap_or_else(PoisonError::into_inner);
                if let Some(turn) = seats.line.turn(ticket) {
                    break turn;
                }
            };
            if turn == ProofTurn::Lost {
                return Err(self.refuse());
            }
        }
        let memory = seats.idle.pop().unwrap_or_default();
        Ok(Seat { provers: self, memory })
    }

    fn refuse(&self) -> ProofBusy {
        self.refused.fetch_add(1, Ordering::Relaxed);
        ProofBusy
    }

    /// Proofs that may run at once.
    #[cfg(test)]
    pub(super) fn seats_in_all(&self) -> usize {
        self.most
    }

    /// Proofs that wait for their turn.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.seats().line.waiting()
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Proofs that were refused since too many waited.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A turn, given back when it is dropped.
struct Seat<'a> {
    provers: &'a Provers,
    memory: ProofMemory,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut seats = self.provers.seats();
        seats.idle.push(std::mem::take(&mut self.memory));
        if !seats.line.call() {
            seats.busy -= 1;
        }
        drop(seats);
        self.provers.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::super::line::MOST_WAITING;
    use super::*;

    const SOMEWHERE: ProofSource = ProofSource(7);

    fn waiting(provers: &Provers, count: usize) {
        while provers.waiting() < count {
            std::thread::yield_now();
        }
    }

    #[test]
    fn memory_is_allocated_once_for_each_proof_at_once() {
        let accountant = Accountant::new(None);
        let provers = Provers::new(Arc::clone(&accountant));
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100 {
            places.insert(provers.run(SOMEWHERE, 64, |blocks| blocks.as_ptr().addr()).unwrap());
        }
        assert_eq!(places.len(), 1);
        assert_eq!(accountant.held_bytes(), 64 << 10);
        assert_eq!(
            provers.run(SOMEWHERE, MOST_BLOCKS + 1, |_| ()),
            Err(ProofBusy),
            "whatever a file asks for"
        );
        assert_eq!(accountant.held_bytes(), 64 << 10);
    }

    #[test]
    fn where_there_is_no_room_people_are_let_in_all_the_same() {
        let accountant = Accountant::new(Some(1 << 10));
        let provers = Provers::new(Arc::clone(&accountant));
        assert_eq!(provers.run(SOMEWHERE, 64, |blocks| blocks.len()), Ok(64));
        assert_eq!(accountant.held_bytes(), 0);
    }

    #[test]
    fn the_line_has_an_end_and_moves_on() {
        let provers = Provers::new(Accountant::new(None));
        let (begun, end) = (Barrier::new(provers.most + 1), Barrier::new(provers.most + 1));
        std::thread::scope(|s| {
            for _ in 0..provers.most {
                s.spawn(|| {
                    provers.run(SOMEWHERE, 1, |_| {
                        begun.wait();
                        end.wait();
                    })
                });
            }
            begun.wait();
            let lined_up: Vec<_> =
                (0..MOST_WAITING).map(|_| s.spawn(|| provers.run(SOMEWHERE, 1, |_| ()))).collect();
            waiting(&provers, MOST_WAITING);
            assert_eq!(provers.run(SOMEWHERE, 1, |_| ()), Err(ProofBusy));
            assert_eq!(provers.refused(), 1);
            end.wait();
            for one in lined_up {
                assert_eq!(one.join().unwrap(), Ok(()));
            }
        });
        assert_eq!(provers.run(SOMEWHERE, 1, |_| ()), Ok(()));
    }

    #[test]
    fn who_fills_the_line_is_turned_away_for_others_and_not_they_for_him() {
        let provers = Provers::new(Accountant::new(None));
        let (begun, end) = (Barrier::new(provers.most + 1), Barrier::new(provers.most + 1));
        let elsewhere = ProofSource(8);
        std::thread::scope(|s| {
            for _ in 0..provers.most {
                s.spawn(|| {
                    provers.run(SOMEWHERE, 1, |_| {
                        begun.wait();
                        end.wait();
                    })
                });
            }
            begun.wait();
            let crowd: Vec<_> =
                (0..MOST_WAITING).map(|_| s.spawn(|| provers.run(SOMEWHERE, 1, |_| ()))).collect();
            waiting(&provers, MOST_WAITING);
            let other = s.spawn(|| provers.run(elsewhere, 1, |_| ()));
            while provers.refused() == 0 {
                std::thread::yield_now();
            }
            end.wait();
            assert_eq!(other.join().unwrap(), Ok(()));
            let refused = crowd.into_iter().filter_map(|one| one.join().unwrap().err()).count();
            assert_eq!(refused, 1);
        });
        assert_eq!(provers.seats().busy, 0);
    }
}
