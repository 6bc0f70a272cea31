//! The messages and the service of the wire, compiled from `proto/*.proto`. Nothing else is here.

/// What the other two share.
#[expect(missing_docs, clippy::all, reason = "compiled from the definition")]
pub mod common {
    tonic::include_proto!("milvus.proto.common");
}

/// Schemas and values.
#[expect(missing_docs, clippy::all, reason = "compiled from the definition")]
pub mod schema {
    tonic::include_proto!("milvus.proto.schema");
}

/// Requests, responses and the service.
#[expect(missing_docs, clippy::all, reason = "compiled from the definition")]
pub mod milvus {
    tonic::include_proto!("milvus.proto.milvus");
}
