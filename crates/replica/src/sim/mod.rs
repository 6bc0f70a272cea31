//! Whole servers of one cluster in a simulation: network, clock, store and etcd from a seed.
//!
//! Servers are what runs elsewhere: their databases, the log in a store that misbehaves, generations,
//! memberships, elections. [`world`] lets one of their threads run at a time and says when it is
//! whose turn, so that a seed tells which one comes next; [`servers`] starts, stops and kills them;
//! [`of_server`] is what each sees of it; [`clients`] send changes and reads to any of them and note when each began and ended;
//! [`history`] says whether one register a key could have answered so.
//!
//! `cargo test` runs 30 seeds; `PIPEANN_SIM_SEEDS=1000 cargo test -p pipeann-replica sim` runs as many as one
//! likes. ServerFault faults have to be noticed within 1,000 seeds; those that take many are ignored unless they are
//! asked for.

mod clients;
mod history;
mod of_server;
mod runs;
mod servers;
mod world;
