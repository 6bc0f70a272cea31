//! Calls as bytes, so that what comes back can be compared byte by byte.

use std::time::Duration;

use prost::bytes::{Buf as _, BufMut as _};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::served::Served;

/// Messages are what they are.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; from.remaining()];
        from.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

/// How a call ended.
#[derive(Debug, PartialEq)]
pub(super) struct Ended {
    pub(super) code: Code,
    pub(super) text: String,
    pub(super) message: Vec<u8>,
    /// Without what depends on the time.
    pub(super) metadata: Vec<(String, String)>,
}

fn told(metadata: &MetadataMap) -> Vec<(String, String)> {
    let headers = metadata.as_ref().iter().filter(|(name, _)| *name != "date");
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut told: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
    told.sort();
    told
}

/// Makes a call.
pub(super) async fn ask(channel: Channel, call: &str, request: Request<Vec<u8>>) -> Ended {
    let path = format!("/milvus.proto.milvus.MilvusService/{call}");
    let mut client = tonic::client::Grpc::new(channel)
        .max_encoding_message_size(usize::MAX)
        .max_decoding_message_size(usize::MAX);
    client.ready().await.unwrap();
    match client.unary(request, path.parse().unwrap(), Bytes).await {
        Ok(answer) => {
            let metadata = told(answer.metadata());
            Ended { code: Code::Ok, text: String::new(), message: answer.into_inner(), metadata }
        }
        Err(status) => Ended {
            code: status.code(),
            text: status.message().to_owned(),
            message: status.details().to_vec(),
            metadata: told(status.metadata()),
        },
    }
}

/// Makes a call with a message, metadata and a time.
pub(super) fn call(
    served: &Served,
    call: &str,
    message: &impl prost::Message,
    metadata: &[(&'static str, &str)],
    timeout: Option<Duration>,
) -> Ended {
    let mut request = Request::new(message.encode_to_vec());
    for (name, value) in metadata {
        request.metadata_mut().insert(*name, value.parse().unwrap());
    }
    if let Some(timeout) = timeout {
        request.set_timeout(timeout);
    }
    served.runtime.block_on(async {
        let channel = served.endpoint().connect().await.unwrap();
        ask(channel, call, request).await
    })
}
