//! Faults that are planted, to see that they are found.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use pipeann_cluster::transport::sim::SimSender;
use pipeann_cluster::transport::{Network, Refused};
use pipeann_cluster::wire::{Answer, Message, PeerId, QueryId, State};

/// What is wrong with the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A server forgets to give credit back.
    CreditLost,
    /// A server sends a state on and keeps it as well, to send it again.
    StateTwice,
    /// A server has another generation of the index, and nobody looks.
    StaleGeneration,
    /// The end of a state is cut off before the checksum is taken.
    FrameCut,
    /// Nobody counts slots.
    NoReservation,
    /// Answers go to another asker.
    WrongAsker,
}

impl Fault {
    pub(crate) const ALL: [Self; 6] = [
        Self::CreditLost,
        Self::StateTwice,
        Self::StaleGeneration,
        Self::FrameCut,
        Self::NoReservation,
        Self::WrongAsker,
    ];
}

/// States that were sent on: each query of an attempt, with so many hops left, by one server once.
#[derive(Clone, Default)]
pub(crate) struct Sent(Rc<RefCell<Seen>>);

#[derive(Default)]
struct Seen {
    states: HashSet<(QueryId, u16, u16)>,
    again: u64,
}

impl Sent {
    fn note(&self, state: &State<'_>) {
        let mut seen = self.0.borrow_mut();
        if !seen.states.insert((state.query, state.attempt, state.hops)) {
            seen.again += 1;
        }
    }

    /// How many were sent again.
    pub(crate) fn again(&self) -> u64 {
        self.0.borrow().again
    }
}

/// The network as a server uses it, perhaps with a fault.
pub(crate) struct Faulty {
    pub(crate) net: SimSender,
    pub(crate) fault: Option<Fault>,
    pub(crate) askers: u64,
    pub(crate) sent: Sent,
}

impl Faulty {
    fn state(&self, to: PeerId, state: State<'_>) -> Result<(), Refused> {
        self.net.send(to, &Message::State(state))?;
        self.sent.note(&state);
        Ok(())
    }
}

impl Network for Faulty {
    fn send(&self, to: PeerId, message: &Message<'_>) -> Result<(), Refused> {
        match (self.fault, *message) {
            (Some(Fault::StateTwice), Message::State(state)) => {
                self.state(to, state)?;
                self.state(to, state)
            }
            (Some(Fault::FrameCut), Message::State(state)) => {
                let cut = &state.state[..state.state.len() - 1];
                self.state(to, State { state: cut, ..state })
            }
            (_, Message::State(state)) => self.state(to, state),
            (Some(Fault::WrongAsker), Message::Answer(answer)) => {
                let PeerId::Client(asker) = answer.query.asker else { panic!("clients ask") };
                let asker = PeerId::Client((asker + 1) % self.askers);
                let query = QueryId { asker, ..answer.query };
                self.net.send(asker, &Message::Answer(Answer { query, ..answer }))
            }
            _ => self.net.send(to, message),
        }
    }
}
