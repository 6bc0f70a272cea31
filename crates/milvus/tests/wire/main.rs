//! What clients of Milvus rely on, sent by a client of gRPC to a server in this process.

mod collections;
mod connecting;
mod indexes;
mod malformed;
mod rows;
mod served;
mod watched;
