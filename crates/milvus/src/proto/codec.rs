//! How messages become bytes and back: by prost, and where they are large, apart from the network.
//!
//! A thread that decodes serves no connection meanwhile, and a message of 64 MiB in many small parts
//! takes it seconds. So for what is large the runtime gives the work of the thread to another one first.
//! Memory is counted where messages come and go, in `service`; nothing is allocated here that prost
//! would not.

use prost::Message;
use prost::bytes::Buf as _;
use tokio::runtime::{Handle, RuntimeFlavor};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Messages of more bytes are done apart: below, handing over costs about what it spares others.
const LARGE_BYTES: usize = 256 << 10;

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
        apart(from.remaining(), || self.0.decode(from))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
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
