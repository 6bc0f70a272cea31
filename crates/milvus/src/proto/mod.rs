//! The messages and the service of the wire, compiled from `proto/*.proto`, and how they become bytes.

pub mod codec;
pub(crate) mod decoded;

macro_rules! compiled {
    ($(#[doc = $about:literal] $name:ident = $package:literal;)*) => {
        $(
            #[doc = $about]
            #[allow(
                missing_docs,
                clippy::all,
                clippy::allow_attributes_without_reason,
                reason = "compiled from the definition; what is needed differs between files"
            )]
            pub mod $name {
                tonic::include_proto!($package);
            }
        )*
    };
}

compiled! {
    #[doc = "What the other two share."]
    common = "milvus.proto.common";
    #[doc = "Schemas and values."]
    schema = "milvus.proto.schema";
    #[doc = "Requests, responses and the service."]
    milvus = "milvus.proto.milvus";
    #[doc = "What servers of one database ask each other."]
    servers = "pipeann.servers";
}
