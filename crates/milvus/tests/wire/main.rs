//! What clients of Milvus rely on, sent by a client of gRPC to a server in this process.
//!
//! What has gone wrong with other servers is a trap with a number; the names of its tests begin with it.

mod access;
mod auto_load;
mod bounded;
mod cluster;
mod collections;
mod connecting;
mod encrypted;
mod granted;
mod guesses;
mod hidden;
mod indexes;
mod iterators;
mod malformed;
mod misbehaving;
mod opening;
mod refused;
mod rows;
mod selected;
mod served;
mod traps;
mod unread;
mod watched;
