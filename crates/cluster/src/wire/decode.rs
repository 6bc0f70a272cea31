//! Bytes to messages. Allocates nothing: what a message holds stays where it arrived.

use super::decode_error::DecodeError;
use super::hello::Hello;
use super::ids::{PeerId, QueryId};
use super::kind::Kind;
use super::lists::{Hits, Numbers, TRACE_MAX};
use super::message::{Answer, Begin, Failure, FailureCode, Goodbye, Leave, Message, Mode, State};
use super::score::{NODES_MAX, Neighbours, Reads, Score, Scored, number};

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> Message<'a> {
    /// Reads the body of a message, without the frame whose checksum would have stood for it.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(kind: Kind, body: &'a [u8]) -> Result<Self> {
        let mut from = Reader(body);
        let message = from.message(kind)?;
        if from.0.is_empty() { Ok(message) } else { Err(DecodeError::Long) }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn message(&mut self, kind: Kind) -> Result<Message<'a>> {
        Ok(match kind {
            Kind::Hello => Message::Hello(self.hello()?),
            Kind::Begin => Message::Begin(Begin {
                query: self.query()?,
                attempt: self.u16()?,
                left_us: self.u64()?,
                hops: self.u16()?,
                mode: self.mode()?,
                partial: self.flag("the partial flag")?,
                missing: self.numbers()?,
                parameters: self.bytes(1)?,
                vector: self.bytes(1)?,
            }),
            Kind::State => Message::State(State {
                query: self.query()?,
                attempt: self.u16()?,
                left_us: self.u64()?,
                hops: self.u16()?,
                partition: self.u32()?,
                trace: self.trace()?,
                missing: self.numbers()?,
                state: self.bytes(1)?,
            }),
            Kind::Answer => Message::Answer(Answer {
                query: self.query()?,
                attempt: self.u16()?,
                hits: Hits(self.bytes(Hits::BYTES)?),
                trace: self.trace()?,
                missing: self.numbers()?,
                stats: self.bytes(1)?,
            }),
            Kind::Failure => Message::Failure(self.failure()?),
            Kind::Cancel => Message::Cancel(self.query()?),
            Kind::Score => Message::Score(self.score()?),
            Kind::Scored => Message::Scored(self.scored()?),
            Kind::Credit => Message::Credit(self.u64()?),
            Kind::Ping => Message::Ping(self.u64()?),
            Kind::Pong => Message::Pong(self.u64()?),
            Kind::Goodbye => {
                let why = self.u8()?;
                let why = Leave::ALL.get(usize::from(why)).ok_or(DecodeError::Value("a reason"))?;
                Message::Goodbye(Goodbye { why: *why, words: self.words()? })
            }
        })
    }

    fn hello(&mut self) -> Result<Hello<'a>> {
        let (cluster, who) = (self.words()?, self.peer()?);
        let index = *self.take()?;
        let (generation, codebook, slots) = (self.u64()?, self.u32()?, self.u32()?);
        let (credit, partitions) = (self.u64()?, self.numbers()?);
        Ok(Hello { cluster, who, index, generation, codebook, partitions, slots, credit })
    }

    fn failure(&mut self) -> Result<Failure<'a>> {
        let (query, attempt, code) = (self.query()?, self.u16()?, self.u8()?);
        let code =
            *FailureCode::ALL.get(usize::from(code)).ok_or(DecodeError::Value("a failure"))?;
        let (named, partition) = (self.flag("the partition flag")?, self.u32()?);
        if !named && partition != 0 {
            return Err(DecodeError::Reserved);
        }
        let partition = named.then_some(partition);
        Ok(Failure { query, attempt, code, partition, words: self.words()? })
    }

    fn score(&mut self) -> Result<Score<'a>> {
        let score = Score {
            query: self.query()?,
            attempt: self.u16()?,
            left_us: self.u64()?,
            hops: self.u16()?,
            partition: self.u32()?,
            bound: self.distance()?,
            most: self.u32()?,
            starts: self.flag("the flag of first nodes")?,
            packed: self.flag("the flag of whole pages")?,
            nodes: self.numbers()?,
            parameters: self.bytes(1)?,
            vector: self.bytes(1)?,
        };
        match score.nodes.len() > NODES_MAX {
            true => Err(DecodeError::TooMany("the nodes")),
            false => Ok(score),
        }
    }

    fn scored(&mut self) -> Result<Scored<'a>> {
        Ok(Scored {
            query: self.query()?,
            attempt: self.u16()?,
            hops: self.u16()?,
            early_stop: self.flag("the flag of the early stop")?,
            reads: Reads::of(self.bytes(Reads::BYTES)?)?,
            neighbours: Neighbours::of(self.bytes(Neighbours::BYTES)?)?,
            starts: self.numbers()?,
            stats: self.bytes(1)?,
        })
    }

    fn distance(&mut self) -> Result<f32> {
        let bytes: &[u8; 4] = self.take()?;
        number(bytes)?;
        Ok(f32::from_le_bytes(*bytes))
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8> {
        self.take().map(|&[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16> {
        self.take().map(|bytes| u16::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn flag(&mut self, name: &'static str) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Value(name)),
        }
    }

    fn mode(&mut self) -> Result<Mode> {
        let mode = usize::from(self.u8()?);
        Mode::ALL.get(mode).copied().ok_or(DecodeError::Value("the mode"))
    }

    fn words(&mut self) -> Result<&'a str> {
        let len = usize::from(self.u16()?);
        std::str::from_utf8(self.slice(len)?).map_err(|_| DecodeError::Text)
    }

    fn bytes(&mut self, item: usize) -> Result<&'a [u8]> {
        let items = self.u32()? as usize;
        self.slice(items.checked_mul(item).ok_or(DecodeError::Short)?)
    }

    fn numbers(&mut self) -> Result<Numbers<'a>> {
        self.bytes(4).map(Numbers)
    }

    fn trace(&mut self) -> Result<Numbers<'a>> {
        let trace = self.numbers()?;
        if trace.len() > TRACE_MAX { Err(DecodeError::TooMany("the trace")) } else { Ok(trace) }
    }

    fn peer(&mut self) -> Result<PeerId> {
        let (kind, id) = (self.u8()?, self.u64()?);
        match kind {
            0 => u32::try_from(id).map(PeerId::Server).map_err(|_| DecodeError::Value("a server")),
            1 => Ok(PeerId::Client(id)),
            _ => Err(DecodeError::Value("a peer")),
        }
    }

    fn query(&mut self) -> Result<QueryId> {
        Ok(QueryId { asker: self.peer()?, number: self.u64()? })
    }
}
