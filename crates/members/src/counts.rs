//! What is counted of the traffic with etcd.

use std::sync::atomic::{AtomicU64, Ordering};

/// What has been sent so far, and what happened. Renewals of a lease are told apart from writes:
/// etcd answers them from its leader's memory, and writes nothing to its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Transactions that may write, grants and revocations of leases.
    pub writes: u64,
    /// Ranges that were read, a page each.
    pub reads: u64,
    /// Renewals of leases that were sent.
    pub renewals: u64,
    /// Leases that ended before their holder ended them.
    pub lease_losses: u64,
    /// Elections that were won here, hand-overs to this server included.
    pub elections: u64,
    /// Lists that were read anew, since a watch had ended or nothing was known.
    pub lists: u64,
    /// Keys whose content was refused.
    pub refused_records: u64,
}

/// One of the numbers.
#[derive(Debug, Default)]
pub(crate) struct AtomicTally(AtomicU64);

impl AtomicTally {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers while they are counted.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) writes: AtomicTally,
    pub(crate) reads: AtomicTally,
    pub(crate) renewals: AtomicTally,
    pub(crate) lease_losses: AtomicTally,
    pub(crate) elections: AtomicTally,
    pub(crate) lists: AtomicTally,
    pub(crate) refused_records: AtomicTally,
}

impl Tallies {
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            writes: self.writes.get(),
            reads: self.reads.get(),
            renewals: self.renewals.get(),
            lease_losses: self.lease_losses.get(),
            elections: self.elections.get(),
            lists: self.lists.get(),
            refused_records: self.refused_records.get(),
        }
    }
}
