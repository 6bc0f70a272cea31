//! How messages become bytes and back: by prost, and where they are large, apart from the network.
//!
//! A thread that decodes serves no connection meanwhile, and a message of 64 MiB in many small parts
//! takes it seconds. So for what is large the runtime gives the work of the thread to another one first.
//! Memory is counted where messages come and go, in `service`; nothing is allocated here that prost
//! would not. A message of many small parts takes many times its bytes when it is decoded: the parts are
//! counted before, charged to the call that they are of, and refused where no client sends so many.

use std::fmt;
use std::sync::Arc;

use prost::Message;
use prost::bytes::Buf as _;
use prost::encoding::WireType;
use tokio::runtime::{Handle, RuntimeFlavor};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Messages of more bytes are done apart: below, handing over costs about what it spares others.
const LARGE_BYTES: usize = 256 << 10;

/// Parts of a message itself, so many at least are taken, and more where they are longer than this: each
/// may be a message of some hundred bytes when it is decoded.
const MOST_PARTS: u64 = 4096;
const PART_BYTES: u64 = 64;
/// What a part of a part takes: a text that is empty, and what the allocator adds.
const INNER_PART_BYTES: u64 = 64;
/// So deep messages stand in each other.
const DEPTH: u32 = 6;

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
    U: Message + Default + Send + 'static,
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

impl<U: Message + Default> Decoder for Apart<ProstDecoder<U>> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        apart(from.remaining(), || {
            check_parts(from.chunk())?;
            self.0.decode(from)
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Refuses a message of more parts than a client sends, and charges those that it has.
fn check_parts(message: &[u8]) -> Result<(), Status> {
    let (mut parts, mut inner) = (0, 0);
    walk(message, &mut |part| {
        parts += 1;
        inner += inner_parts(part, DEPTH);
    });
    if parts > MOST_PARTS.max(message.len() as u64 / PART_BYTES) {
        return Err(Status::invalid_argument(format!(
            "the request has {parts} parts in {} bytes; send less at once",
            message.len()
        )));
    }
    let bytes = inner * INNER_PART_BYTES;
    // The network has counted the message itself.
    let more = bytes.saturating_sub(message.len() as u64);
    CHARGED.try_with(|charged| (charged.0)(more)).unwrap_or(Ok(()))
}

/// How many parts of parts there are up to where these bytes are no message; a text hardly begins as one.
/// Deeper than messages go, there may be as many as there is room for.
fn inner_parts(bytes: &[u8], depth: u32) -> u64 {
    let Some(below) = depth.checked_sub(1) else { return bytes.len() as u64 / 2 };
    let mut parts = 0;
    walk(bytes, &mut |part| parts += 1 + inner_parts(part, below));
    parts
}

/// Calls `each` with what is of some length in a message, texts, bytes and messages, as far as it is one.
fn walk(mut bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
    while !bytes.is_empty() {
        let Ok((_, wire_type)) = prost::encoding::decode_key(&mut bytes) else { return };
        let skipped = match wire_type {
            WireType::Varint => prost::encoding::decode_varint(&mut bytes).ok().map(|_| 0),
            WireType::SixtyFourBit => Some(8),
            WireType::ThirtyTwoBit => Some(4),
            WireType::LengthDelimited => {
                let length = prost::encoding::decode_varint(&mut bytes).ok();
                let length = length.and_then(|length| usize::try_from(length).ok());
                if let Some(part) = length.and_then(|length| bytes.get(..length)) {
                    each(part);
                }
                length
            }
            // Of fields that are not known; what stands in them is counted as if it stood here.
            WireType::StartGroup | WireType::EndGroup => Some(0),
        };
        match skipped.and_then(|skipped| bytes.get(skipped..)) {
            Some(rest) => bytes = rest,
            None => return,
        }
    }
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

    #[test]
    fn many_small_parts_are_refused_or_charged() {
        let taken = Arc::new(std::sync::Mutex::new(0));
        let told = Arc::clone(&taken);
        let charged = DecodedBytes::new(move |bytes| {
            *told.lock().unwrap() += bytes;
            if bytes > 1 << 20 { Err(Status::resource_exhausted("no")) } else { Ok(()) }
        });
        let check = |bytes: &[u8]| {
            CHARGED.sync_scope(charged.clone(), || check_parts(bytes)).map_err(|it| it.code())
        };
        // Empty searches, of which each takes some hundred bytes.
        assert_eq!(check(&[0x2a, 0].repeat(4096)), Ok(()));
        assert_eq!(check(&[0x2a, 0].repeat(4097)), Err(tonic::Code::InvalidArgument));
        assert_eq!(*taken.lock().unwrap(), 0);
        // Short texts in one part of a message.
        let nested = |texts: usize| {
            let texts = [0x0a, 1, b'x'].repeat(texts);
            let mut all = vec![0x12];
            prost::encoding::encode_varint(texts.len() as u64, &mut all);
            [all, texts].concat()
        };
        assert_eq!(check(&nested(100)), Ok(()));
        assert_eq!(*taken.lock().unwrap(), 100 * 64 - nested(100).len() as u64);
        assert_eq!(check(&nested(20_000)), Err(tonic::Code::ResourceExhausted));
        // Behind a group that nobody knows, and before what is no message.
        let hidden = [&[0xa3, 6, 0xa4, 6][..], &[0x2a, 0].repeat(5000)].concat();
        assert_eq!(check(&hidden), Err(tonic::Code::InvalidArgument));
        let mut cut = nested(20_000);
        cut.push(0xff);
        assert_eq!(check(&cut), Err(tonic::Code::ResourceExhausted));
        // Bytes that are no message have no parts, and a message that is cut is prost's to refuse.
        assert_eq!(check(&[0x12, 4, 0xff, 0xff, 0xff, 0xff]), Ok(()));
        assert_eq!(check(&[0x12, 200, 1, 1]), Ok(()));
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
