//! What clients of Milvus rely on, sent by a client of gRPC to a server in this process.

mod access;
mod collections;
mod connecting;
mod encrypted;
mod indexes;
mod iterators;
mod malformed;
mod rows;
mod served;
