//! The messages. Times are microseconds left, never moments: servers share no clock.

use super::hello::Hello;
use super::ids::QueryId;
use super::kind::Kind;
use super::lists::{Hits, Numbers};
use super::score::{Score, Scored};

/// How the servers of a query work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The state travels once nothing at hand is left to read.
    Relay = 0,
    /// The state travels as in BatANN's Algorithm 2.
    Baton = 1,
    /// Every server searches a graph of its own.
    Scatter = 2,
    /// Whoever asks keeps the list, and servers score.
    Orchestrate = 3,
    /// Every server has everything.
    Replicas = 4,
    /// Every server has everything, and a query begins where its entry is at home.
    Region = 5,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Relay, Self::Baton, Self::Scatter, Self::Orchestrate, Self::Replicas, Self::Region];
}

/// A new query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin<'a> {
    /// Which query.
    pub query: QueryId,
    /// The how-many-th attempt at it, from zero.
    pub attempt: u16,
    /// How long an answer is still of use.
    pub left_us: u64,
    /// How often its state may be sent on.
    pub hops: u16,
    /// How servers work together on it.
    pub mode: Mode,
    /// Whether an answer may lack partitions.
    pub partial: bool,
    /// Partitions whose owners an earlier attempt found gone: they are not to be asked.
    pub missing: Numbers<'a>,
    /// What the search was asked for.
    pub parameters: &'a [u8],
    /// The query's vector.
    pub vector: &'a [u8],
}

/// A query under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<'a> {
    /// Which query.
    pub query: QueryId,
    /// The how-many-th attempt at it.
    pub attempt: u16,
    /// How long an answer is still of use.
    pub left_us: u64,
    /// How often it may be sent on from here.
    pub hops: u16,
    /// The partition for whose sake it is sent.
    pub partition: u32,
    /// The servers it has been at, in order.
    pub trace: Numbers<'a>,
    /// Partitions that this answer will lack.
    pub missing: Numbers<'a>,
    /// The search itself.
    pub state: &'a [u8],
}

/// The answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Which query.
    pub query: QueryId,
    /// The attempt that gave it.
    pub attempt: u16,
    /// The rows found.
    pub hits: Hits<'a>,
    /// The servers its state was at, in order.
    pub trace: Numbers<'a>,
    /// Partitions that it lacks.
    pub missing: Numbers<'a>,
    /// What it cost.
    pub stats: &'a [u8],
}

/// What kept an attempt from its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FailureCode {
    /// The deadline has passed.
    Deadline = 0,
    /// The state was sent on as often as it may.
    Hops = 1,
    /// The owner of the partition cannot be reached.
    PartitionGone = 2,
    /// A state arrived for a partition of another server.
    NotOwner = 3,
    /// More states than were granted.
    NoRoom = 4,
    /// The search refused the query or the state: asking again changes nothing.
    Refused = 5,
    /// The search failed here and might not elsewhere.
    Internal = 6,
    /// The server is going away.
    Leaving = 7,
    /// The connection ended over which the state was sent on: it may be lost, or not.
    Lost = 8,
}

impl FailureCode {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Deadline,
        Self::Hops,
        Self::PartitionGone,
        Self::NotOwner,
        Self::NoRoom,
        Self::Refused,
        Self::Internal,
        Self::Leaving,
        Self::Lost,
    ];
}

/// Why an attempt ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure<'a> {
    /// Which query.
    pub query: QueryId,
    /// Which attempt.
    pub attempt: u16,
    /// What happened.
    pub code: FailureCode,
    /// The partition concerned, where one is.
    pub partition: Option<u32>,
    /// For a person.
    pub words: &'a str,
}

/// Why a peer ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Leave {
    /// It stops.
    Stopping = 0,
    /// It refuses the other's hello.
    Refused = 1,
    /// It got what it could not read.
    Garbage = 2,
    /// It has as many connections as it takes.
    Full = 3,
}

impl Leave {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stopping, Self::Refused, Self::Garbage, Self::Full];
}

/// The last message of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goodbye<'a> {
    /// Why.
    pub why: Leave,
    /// For a person.
    pub words: &'a str,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Message<'a> {
    /// Who speaks, and of what.
    Hello(Hello<'a>),
    /// A new query.
    Begin(Begin<'a>),
    /// A query under way.
    State(State<'a>),
    /// The answer to a query.
    Answer(Answer<'a>),
    /// Why an attempt ended without an answer.
    Failure(Failure<'a>),
    /// The asker wants no answer any more.
    Cancel(QueryId),
    /// Nodes to be read and scored.
    Score(Score<'a>),
    /// What was read and scored.
    Scored(Scored<'a>),
    /// How many bytes the other side may have sent in all since the connection began.
    Credit(u64),
    /// Whether somebody is there.
    Ping(u64),
    /// Somebody is there; says the ping's number.
    Pong(u64),
    /// The last message of a connection.
    Goodbye(Goodbye<'a>),
}

impl Message<'_> {
    /// Which one it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Begin(_) => Kind::Begin,
            Self::State(_) => Kind::State,
            Self::Answer(_) => Kind::Answer,
            Self::Failure(_) => Kind::Failure,
            Self::Cancel(_) => Kind::Cancel,
            Self::Score(_) => Kind::Score,
            Self::Scored(_) => Kind::Scored,
            Self::Credit(_) => Kind::Credit,
            Self::Ping(_) => Kind::Ping,
            Self::Pong(_) => Kind::Pong,
            Self::Goodbye(_) => Kind::Goodbye,
        }
    }
}
