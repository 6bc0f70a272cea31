//! Messages to bytes, appended to whatever buffer goes to the peer next.

use super::frame::{FRAME_HEADER, FRAME_MAX, FrameError, seal};
use super::ids::{PeerId, QueryId};
use super::message::Message;
use super::score::{Neighbours, Reads};

impl Message<'_> {
    /// Appends the frame of this message and gives its length. A message that is too long for a
    /// frame leaves the buffer as it was.
    pub fn append(&self, out: &mut Vec<u8>) -> Result<usize, FrameError> {
        let start = out.len();
        let body = self.body_len();
        let len = body as u64 + FRAME_HEADER as u64;
        if len > FRAME_MAX as u64 || self.words_too_long() {
            return Err(FrameError::Length { len, most: FRAME_MAX });
        }
        out.reserve(FRAME_HEADER + body);
        out.extend_from_slice(&[0; FRAME_HEADER]);
        self.write_body(&mut Writer(out));
        debug_assert_eq!(out.len() - start, FRAME_HEADER + body, "{:?}", self.kind());
        seal(out, start, self.kind());
        Ok(FRAME_HEADER + body)
    }

    /// The length of the whole frame.
    pub fn frame_len(&self) -> usize {
        FRAME_HEADER + self.body_len()
    }

    /// Words carry a 16-bit length.
    fn words_too_long(&self) -> bool {
        let words = match self {
            Self::Hello(hello) => hello.cluster,
            Self::Failure(failure) => failure.words,
            Self::Goodbye(goodbye) => goodbye.words,
            _ => "",
        };
        words.len() > usize::from(u16::MAX)
    }

    fn body_len(&self) -> usize {
        /// Of a query id, and with the attempt behind it.
        const QUERY: usize = 17;
        const ATTEMPT: usize = QUERY + 2;
        match self {
            Self::Hello(hello) => {
                2 + hello.cluster.len() + 9 + 16 + 8 + 4 + 4 + 8 + 4 + hello.partitions.0.len()
            }
            Self::Begin(begin) => {
                ATTEMPT
                    + 8
                    + 2
                    + 1
                    + 1
                    + 4
                    + begin.missing.0.len()
                    + 4
                    + begin.parameters.len()
                    + 4
                    + begin.vector.len()
            }
            Self::State(state) => {
                ATTEMPT
                    + 8
                    + 2
                    + 4
                    + 4
                    + state.trace.0.len()
                    + 4
                    + state.missing.0.len()
                    + 4
                    + state.state.len()
            }
            Self::Answer(answer) => {
                ATTEMPT
                    + 4
                    + answer.hits.0.len()
                    + 4
                    + answer.trace.0.len()
                    + 4
                    + answer.missing.0.len()
                    + 4
                    + answer.stats.len()
            }
            Self::Failure(failure) => ATTEMPT + 1 + 5 + 2 + failure.words.len(),
            Self::Cancel(_) => QUERY,
            Self::Score(score) => {
                ATTEMPT
                    + 8
                    + 2
                    + 4
                    + 4
                    + 4
                    + 1
                    + 1
                    + 4
                    + score.nodes.0.len()
                    + 4
                    + score.parameters.len()
                    + 4
                    + score.vector.len()
            }
            Self::Scored(scored) => {
                ATTEMPT
                    + 2
                    + 1
                    + 4
                    + scored.reads.0.len()
                    + 4
                    + scored.neighbours.0.len()
                    + 4
                    + scored.starts.0.len()
                    + 4
                    + scored.stats.len()
            }
            Self::Credit(_) | Self::Ping(_) | Self::Pong(_) => 8,
            Self::Goodbye(goodbye) => 1 + 2 + goodbye.words.len(),
        }
    }

    fn write_body(&self, to: &mut Writer<'_>) {
        match self {
            Self::Hello(hello) => {
                to.words(hello.cluster);
                to.peer(hello.who);
                to.0.extend_from_slice(&hello.index);
                to.u64(hello.generation);
                to.u32(hello.codebook);
                to.u32(hello.slots);
                to.u64(hello.credit);
                to.bytes(hello.partitions.0, 4);
            }
            Self::Begin(begin) => {
                to.query(begin.query);
                to.u16(begin.attempt);
                to.u64(begin.left_us);
                to.u16(begin.hops);
                to.u8(begin.mode as u8);
                to.u8(u8::from(begin.partial));
                to.bytes(begin.missing.0, 4);
                to.bytes(begin.parameters, 1);
                to.bytes(begin.vector, 1);
            }
            Self::State(state) => {
                to.query(state.query);
                to.u16(state.attempt);
                to.u64(state.left_us);
                to.u16(state.hops);
                to.u32(state.partition);
                to.bytes(state.trace.0, 4);
                to.bytes(state.missing.0, 4);
                to.bytes(state.state, 1);
            }
            Self::Answer(answer) => {
                to.query(answer.query);
                to.u16(answer.attempt);
                to.bytes(answer.hits.0, super::lists::Hits::BYTES);
                to.bytes(answer.trace.0, 4);
                to.bytes(answer.missing.0, 4);
                to.bytes(answer.stats, 1);
            }
            Self::Failure(failure) => {
                to.query(failure.query);
                to.u16(failure.attempt);
                to.u8(failure.code as u8);
                to.u8(u8::from(failure.partition.is_some()));
                to.u32(failure.partition.unwrap_or(0));
                to.words(failure.words);
            }
            Self::Cancel(query) => to.query(*query),
            Self::Score(score) => {
                to.query(score.query);
                to.u16(score.attempt);
                to.u64(score.left_us);
                to.u16(score.hops);
                to.u32(score.partition);
                to.u32(score.bound.to_bits());
                to.u32(score.most);
                to.u8(u8::from(score.starts));
                to.u8(u8::from(score.packed));
                to.bytes(score.nodes.0, 4);
                to.bytes(score.parameters, 1);
                to.bytes(score.vector, 1);
            }
            Self::Scored(scored) => {
                to.query(scored.query);
                to.u16(scored.attempt);
                to.u16(scored.hops);
                to.u8(u8::from(scored.early_stop));
                to.bytes(scored.reads.0, Reads::BYTES);
                to.bytes(scored.neighbours.0, Neighbours::BYTES);
                to.bytes(scored.starts.0, 4);
                to.bytes(scored.stats, 1);
            }
            Self::Credit(number) | Self::Ping(number) | Self::Pong(number) => to.u64(*number),
            Self::Goodbye(goodbye) => {
                to.u8(goodbye.why as u8);
                to.words(goodbye.words);
            }
        }
    }
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn words(&mut self, words: &str) {
        self.u16(u16::try_from(words.len()).expect("`append` refuses longer ones"));
        self.0.extend_from_slice(words.as_bytes());
    }

    /// Bytes behind the number of items in them.
    fn bytes(&mut self, bytes: &[u8], item: usize) {
        self.u32(u32::try_from(bytes.len() / item).expect("shorter than a frame"));
        self.0.extend_from_slice(bytes);
    }

    fn peer(&mut self, peer: PeerId) {
        let (kind, id) = match peer {
            PeerId::Server(number) => (0, u64::from(number)),
            PeerId::Client(id) => (1, id),
        };
        self.u8(kind);
        self.u64(id);
    }

    fn query(&mut self, query: QueryId) {
        self.peer(query.asker);
        self.u64(query.number);
    }
}
