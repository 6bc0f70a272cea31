//! The protocol: how a query gets from its asker over servers to its answer.
//!
//! [`Server`] and [`Asker`] are machines. They are handed the time, what arrived, and a network that
//! never waits; they keep no clock, socket or thread. The search is a [`Walker`], which takes work
//! and gives back what became of it. [`ServerHost`] and [`Client`] join them to sockets and threads.
//!
//! Why nothing can stand still for ever: an asker keeps no more queries under way than the least
//! number of slots that any server granted it, and a server has a slot for each of those. So a state
//! that arrives is always taken in at once, without anything being given out first; its sender's
//! credit comes back, and its sender's slot gets free. Whatever is lost on the way ends at a deadline.
//!
//! Deliberately absent: what a state holds, and any memory of a query at a server that it has left.

mod asker;
mod early_stop;
mod gone;
mod host;
mod nearest;
mod orchestrator;
mod query;
mod rest;
mod server;
mod servers;
#[cfg(test)]
mod tests;
mod work;

pub use asker::Asker;
pub use early_stop::EarlyStop;
pub use host::{Asks, Client, Done, ServerHost};
pub use orchestrator::{Orchestrated, Orchestrator};
pub use query::{AskerSettings, Ended, Found, NoAnswer, Query};
pub use server::{Server, ServerCounters, ServerSettings};
pub use work::{Scores, Ticket, Walked, Walker, Work};
