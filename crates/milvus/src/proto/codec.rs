//! How messages become bytes and back: by prost, and where they are large, apart from the network.
//!
//! A thread that decodes serves no connection meanwhile, and a message of 64 MiB in many small parts
//! takes it seconds. So for what is large the runtime gives the work of the thread to another one first.
//! Memory is counted where messages come and go, in `service`; nothing is allocated here that prost
//! would not. What a message takes more than its bytes when it is decoded is charged before to the call
//! that it is of, see `decoded`, and so many parts as no client sends are refused.

use std::fmt;
use std::sync::Arc;

use prost::bytes::Buf as _;
use prost::{Message, Name};
use tokio::runtime::{Handle, RuntimeFlavor};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use super::decoded::{MessageLayout, Met, walk};

/// Messages of more bytes are done apart: below, handing over costs about what it spares others.
const LARGE_BYTES: usize = 256 << 10;

/// Parts of a message itself, so many at least are taken, and more where they are longer than this: each
/// may be a message of some hundred bytes when it is decoded.
const MOST_PARTS: u64 = 4096;
const PART_BYTES: u64 = 64;

/// What is told how many bytes more than its own a message takes when it is decoded, and may refuse.
#[derive(Clone)]
pub(crate) struct DecodedBytes(Arc<dyn Fn(u64) -> Result<(), Status> + Send + Sync>);

impl DecodedBytes {
    pub(crate) fn new(take: impl Fn(u64) -> Result<(), Status> + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for DecodedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecodedBytes")
    }
}

tokio::task_local! {
    /// Of the call that a task answers.
    pub(crate) static CHARGED: DecodedBytes;
}

/// See the module's description.
#[derive(Debug)]
pub struct ApartCodec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for ApartCodec<T, U> {
    fn default() -> Self {
        Self(ProstCodec::default())
    }
}

impl<T, U> Codec for ApartCodec<T, U>
where
    T: Message + Send + 'static,
    U: Name + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Apart<ProstEncoder<T>>;
    type Decoder = Apart<ProstDecoder<U>>;

    fn encoder(&mut self) -> Self::Encoder {
        Apart(self.0.encoder())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Apart(self.0.decoder())
    }
}

/// One direction of it.
#[derive(Debug)]
pub struct Apart<C>(C);

impl<T: Message> Encoder for Apart<ProstEncoder<T>> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        apart(message.encoded_len(), || self.0.encode(message, into))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

impl<U: Name + Default> Decoder for Apart<ProstDecoder<U>> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        apart(from.remaining(), || {
            check::<U>(from.chunk())?;
            self.0.decode(from)
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Refuses a message of more parts than a client sends, and charges what it takes when it is decoded.
fn check<U: Name>(message: &[u8]) -> Result<(), Status> {
    let mut parts = 0;
    walk(message, &mut |_, met| parts += u64::from(matches!(met, Met::Part(_))));
    if parts > MOST_PARTS.max(message.len() as u64 / PART_BYTES) {
        return Err(Status::invalid_argument(format!(
            "the request has {parts} parts in {} bytes; send less at once",
            message.len()
        )));
    }
    let charge = |charged: &DecodedBytes| {
        let bytes = MessageLayout::of::<U>().map_or(0, |layout| layout.decoded_bytes(message));
        // The network has counted the message itself.
        (charged.0)(bytes.saturating_sub(message.len() as u64))
    };
    CHARGED.try_with(charge).unwrap_or(Ok(()))
}

/// Does something with so many bytes, where no connection waits for it.
fn apart<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    let handle = Handle::try_current();
    // A runtime of one thread has nobody to give its work to.
    let can = handle.is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > LARGE_BYTES && can { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::proto::milvus::HybridSearchRequest;
    use crate::proto::schema::i_ds::IdField;
    use crate::proto::schema::{IDs, LongArray, StringArray};

    /// Whether another task of a runtime with one worker gets on while so many bytes are worked on.
    fn others_get_on(bytes: usize) -> bool {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let runtime = runtime.unwrap();
        let (told, tells) = mpsc::channel();
        let works = runtime.spawn(async move {
            tokio::spawn(async move { told.send(()) });
            apart(bytes, || tells.recv_timeout(Duration::from_secs(3)).is_ok())
        });
        runtime.block_on(works).unwrap()
    }

    fn checked<U: Name>(charged: &DecodedBytes, bytes: &[u8]) -> Result<(), tonic::Code> {
        CHARGED.sync_scope(charged.clone(), || check::<U>(bytes)).map_err(|it| it.code())
    }

    #[test]
    fn many_small_parts_are_refused_or_charged() {
        let taken = Arc::new(std::sync::Mutex::new(0));
        let told = Arc::clone(&taken);
        let charged = DecodedBytes::new(move |bytes| {
            *told.lock().unwrap() = bytes;
            if bytes > 4 << 20 { Err(Status::resource_exhausted("no")) } else { Ok(()) }
        });
        // Empty searches, of which each takes some hundred bytes.
        let searches = |bytes: &[u8]| checked::<HybridSearchRequest>(&charged, bytes);
        assert_eq!(searches(&[0x2a, 0].repeat(4096)), Ok(()));
        assert!(*taken.lock().unwrap() > 4000 * 200);
        assert_eq!(searches(&[0x2a, 0].repeat(4097)), Err(tonic::Code::InvalidArgument));
        // Behind a group that nobody knows.
        let hidden = [&[0xa3, 6, 0xa4, 6][..], &[0x2a, 0].repeat(5000)].concat();
        assert_eq!(searches(&hidden), Err(tonic::Code::InvalidArgument));
        // Texts and numbers in one part of a message.
        let keys = |bytes: &[u8]| checked::<IDs>(&charged, bytes);
        let texts = |count: usize| {
            let data = vec!["x".to_owned(); count];
            IDs { id_field: Some(IdField::StrId(StringArray { data })) }.encode_to_vec()
        };
        assert_eq!(keys(&texts(20_000)), Ok(()));
        assert_eq!(keys(&texts(200_000)), Err(tonic::Code::ResourceExhausted));
        let numbers = |count: usize| {
            let data = vec![0; count];
            IDs { id_field: Some(IdField::IntId(LongArray { data })) }.encode_to_vec()
        };
        assert_eq!(keys(&numbers(500_000)), Ok(()));
        assert_eq!(keys(&numbers(700_000)), Err(tonic::Code::ResourceExhausted));
    }

    #[test]
    fn the_network_goes_on_beside_a_large_message() {
        assert!(others_get_on(LARGE_BYTES + 1));
        assert!(!others_get_on(1), "a small one is done where it comes");
    }

    #[test]
    fn a_runtime_of_one_thread_does_it_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(async { apart(LARGE_BYTES + 1, || 7) }), 7);
        assert_eq!(apart(LARGE_BYTES + 1, || 8), 8);
    }
}
