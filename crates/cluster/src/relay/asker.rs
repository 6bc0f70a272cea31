//! An asker's side: queries on their way to an answer, each with a deadline.
//!
//! Servers are asked in turn, or the one that a query names. An attempt that fails where another may not is made again at the next
//! server, one that is not heard of for too long likewise; answers to attempts before the last, and
//! second answers, are dropped. A query is under way only while every server that is up has a slot
//! for it; one of which an attempt was given up without word of its end keeps its slot until its
//! deadline, since a state of it may still be somewhere.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::transport::{Event, Handler, Network};
use crate::wire::{Answer, Begin, Failure, FailureCode, Message, Mode, Numbers, PeerId, QueryId};

/// How queries are asked.
#[derive(Debug, Clone, Copy)]
pub struct AskerSettings {
    /// Who this is.
    pub me: PeerId,
    /// After so long without an answer a query is begun again.
    pub attempt_us: u64,
    /// Attempts at a query.
    pub attempts: u16,
    /// Queries that wait for room at the servers.
    pub waiting: usize,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// How servers work together on it.
    pub mode: Mode,
    /// What the search is asked for.
    pub parameters: Vec<u8>,
    /// The vector.
    pub vector: Vec<u8>,
    /// How long an answer is of use.
    pub left_us: u64,
    /// How often its state may be sent on.
    pub hops: u16,
    /// The only server to ask; `None` for the next in turn.
    pub at: Option<u32>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The rows found, as [`Hits`](crate::wire::Hits) reads them.
    pub hits: Vec<u8>,
    /// The servers that its state was at, in order.
    pub trace: Vec<u32>,
    /// What it cost.
    pub stats: Vec<u8>,
    /// Attempts that it took.
    pub attempts: u16,
    /// Times that its asker waited for servers.
    pub rounds: u32,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// A server said so.
    #[error("{words}")]
    Failed {
        /// In a word.
        code: FailureCode,
        /// The partition that is missing, where one is.
        partition: Option<u32>,
        /// In a sentence.
        words: String,
    },
    /// Its time was over.
    #[error("no answer within the deadline, after {attempts} attempts")]
    Deadline {
        /// Attempts made.
        attempts: u16,
    },
    /// More queries wait than may.
    #[error("too many queries wait for room at the servers")]
    Crowded,
}

/// The end of a query.
pub type Ended = Result<Found, NoAnswer>;

struct Asked {
    query: Query,
    deadline: u64,
    attempt: u16,
    /// Attempts begun.
    begun: u16,
    /// Where the last attempt began, and when it is given up; none while it waits for room.
    under_way: Option<(u32, u64)>,
    /// Whether a state of an earlier attempt may still be somewhere.
    lingers: bool,
}

/// See the module's description.
pub struct Asker {
    settings: AskerSettings,
    /// Servers that are up, with the slots that they grant.
    servers: BTreeMap<u32, u32>,
    next_server: u32,
    next_number: u64,
    queries: HashMap<u64, Asked>,
    waiting: VecDeque<u64>,
    /// Queries under way.
    under_way: usize,
    /// Slots of ended queries that may still be taken, until when.
    lingering: BTreeSet<(u64, u64)>,
    ended: Vec<(u64, Ended)>,
}

impl Handler for Asker {
    fn event(&mut self, now: u64, net: &dyn Network, event: Event<'_>) {
        match event {
            Event::Up { peer, hello } => {
                if let Some(server) = peer.server() {
                    self.server_up(now, net, server, hello.slots);
                }
            }
            Event::Down { peer, .. } => {
                if let Some(server) = peer.server() {
                    self.server_down(now, net, server);
                }
            }
            Event::Message { message, hold: _hold, .. } => self.message(now, net, message),
            Event::Room { .. } => self.room(now, net),
            Event::Refused { .. } => {}
        }
    }

    fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        Self::due(self, now, net)
    }
}

impl Asker {
    /// One that has asked nothing yet.
    pub fn new(settings: AskerSettings) -> Self {
        Self {
            settings,
            servers: BTreeMap::new(),
            next_server: 0,
            next_number: 0,
            queries: HashMap::new(),
            waiting: VecDeque::new(),
            under_way: 0,
            lingering: BTreeSet::new(),
            ended: Vec::new(),
        }
    }

    /// Asks; the number is told with the end.
    ///
    /// # Errors
    /// [`NoAnswer::Crowded`].
    pub fn ask(&mut self, now: u64, net: &dyn Network, query: Query) -> Result<u64, NoAnswer> {
        if self.waiting.len() >= self.settings.waiting {
            return Err(NoAnswer::Crowded);
        }
        let number = self.next_number;
        self.next_number += 1;
        let deadline = now.saturating_add(query.left_us);
        let asked =
            Asked { query, deadline, attempt: 0, begun: 0, under_way: None, lingers: false };
        self.queries.insert(number, asked);
        self.waiting.push_back(number);
        self.dispatch(now, net);
        Ok(number)
    }

    /// What has ended since this was called last.
    pub fn take_ended(&mut self) -> Vec<(u64, Ended)> {
        std::mem::take(&mut self.ended)
    }

    /// Queries that have no answer yet.
    pub fn open(&self) -> usize {
        self.queries.len()
    }

    /// Servers that can be asked.
    pub fn up(&self) -> usize {
        self.servers.len()
    }

    /// Whether a server can be asked.
    pub fn is_up(&self, server: u32) -> bool {
        self.servers.contains_key(&server)
    }

    /// A server can be reached and grants so many slots.
    pub fn server_up(&mut self, now: u64, net: &dyn Network, server: u32, slots: u32) {
        self.servers.insert(server, slots);
        self.dispatch(now, net);
    }

    /// A server cannot be reached any more: what began there begins again elsewhere.
    pub fn server_down(&mut self, now: u64, net: &dyn Network, server: u32) {
        self.servers.remove(&server);
        let there = |asked: &Asked| asked.under_way.is_some_and(|(at, _)| at == server);
        let mut lost: Vec<u64> =
            self.queries.iter().filter(|(_, asked)| there(asked)).map(|(n, _)| *n).collect();
        lost.sort_unstable();
        for number in lost {
            self.again(number, true);
        }
        self.dispatch(now, net);
    }

    /// A server has room for messages again.
    pub fn room(&mut self, now: u64, net: &dyn Network) {
        self.dispatch(now, net);
    }

    /// Takes a message of a server.
    pub fn message(&mut self, now: u64, net: &dyn Network, message: Message<'_>) {
        match message {
            Message::Answer(answer) => self.answer(answer),
            Message::Failure(failure) => self.failure(failure),
            // Servers have nothing else to say to an asker.
            _ => {}
        }
        self.dispatch(now, net);
    }

    /// Ends and begins again what is due; says when something will be next.
    pub fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        while self.lingering.first().is_some_and(|(until, _)| *until <= now) {
            self.lingering.pop_first();
        }
        let mut due: Vec<u64> = Vec::new();
        for (number, asked) in &self.queries {
            let given_up = asked.under_way.is_some_and(|(_, until)| until <= now);
            if asked.deadline <= now || given_up {
                due.push(*number);
            }
        }
        due.sort_unstable();
        for number in due {
            let asked = &self.queries[&number];
            if asked.deadline <= now {
                let attempts = asked.begun;
                self.end(number, Err(NoAnswer::Deadline { attempts }));
            } else {
                self.again(number, true);
            }
        }
        self.dispatch(now, net);
        let times = self.queries.values().map(|asked| {
            asked.under_way.map_or(asked.deadline, |(_, until)| until.min(asked.deadline))
        });
        times.chain(self.lingering.first().map(|(until, _)| *until)).min()
    }

    /// The query of a message of its last attempt.
    fn current(&self, query: QueryId, attempt: u16) -> Option<u64> {
        let asked = self.queries.get(&query.number)?;
        let mine = query.asker == self.settings.me;
        (mine && asked.attempt == attempt && asked.under_way.is_some()).then_some(query.number)
    }

    fn answer(&mut self, answer: Answer<'_>) {
        let Some(number) = self.current(answer.query, answer.attempt) else { return };
        let found = Found {
            hits: answer.hits.bytes().to_vec(),
            trace: answer.trace.iter().collect(),
            stats: answer.stats.to_vec(),
            attempts: self.queries[&number].begun,
            rounds: 1,
        };
        self.end(number, Ok(found));
    }

    fn failure(&mut self, failure: Failure<'_>) {
        let Failure { query, attempt, code, partition, words } = failure;
        let Some(number) = self.current(query, attempt) else { return };
        let may_succeed = match code {
            FailureCode::PartitionGone
            | FailureCode::NoRoom
            | FailureCode::Internal
            | FailureCode::Leaving => true,
            FailureCode::Deadline
            | FailureCode::Hops
            | FailureCode::NotOwner
            | FailureCode::Refused => false,
        };
        if may_succeed && self.queries[&number].begun < self.settings.attempts {
            // Who failed has nothing of it any more.
            return self.again(number, false);
        }
        self.end(number, Err(NoAnswer::Failed { code, partition, words: words.to_owned() }));
    }

    /// Puts a query in line for another attempt.
    fn again(&mut self, number: u64, lingers: bool) {
        let asked = self.queries.get_mut(&number).expect("looked up by the caller");
        asked.lingers |= lingers;
        asked.attempt = asked.attempt.wrapping_add(1);
        if asked.under_way.take().is_some() {
            self.under_way -= 1;
        }
        if asked.begun >= self.settings.attempts {
            let attempts = asked.begun;
            return self.end(number, Err(NoAnswer::Deadline { attempts }));
        }
        self.waiting.push_front(number);
    }

    fn end(&mut self, number: u64, ended: Ended) {
        let Some(asked) = self.queries.remove(&number) else { return };
        if asked.under_way.is_some() {
            self.under_way -= 1;
        } else {
            self.waiting.retain(|waiting| *waiting != number);
        }
        if asked.lingers {
            self.lingering.insert((asked.deadline, number));
        }
        self.ended.push((number, ended));
    }

    /// Begins what waits, as far as every server has a slot for it.
    fn dispatch(&mut self, now: u64, net: &dyn Network) {
        let Some(least) = self.servers.values().min() else { return };
        let room = *least as usize;
        let mut refused = 0;
        while self.under_way + self.lingering.len() < room
            && refused < self.servers.len()
            && let Some(&number) = self.waiting.front()
        {
            let server = match self.queries[&number].query.at {
                Some(server) if self.servers.contains_key(&server) => server,
                Some(server) => {
                    let (code, words) =
                        (FailureCode::PartitionGone, format!("server {server} is gone"));
                    self.end(number, Err(NoAnswer::Failed { code, partition: None, words }));
                    continue;
                }
                None => {
                    let from = self.next_server;
                    let next = self.servers.range(from..).next().or(self.servers.first_key_value());
                    let server = *next.expect("one is up").0;
                    self.next_server = server + 1;
                    server
                }
            };
            let asked = self.queries.get_mut(&number).expect("what waits is open");
            let begin = Begin {
                query: QueryId { asker: self.settings.me, number },
                attempt: asked.attempt,
                left_us: asked.deadline.saturating_sub(now),
                hops: asked.query.hops,
                mode: asked.query.mode,
                partial: false,
                missing: Numbers::default(),
                parameters: &asked.query.parameters,
                vector: &asked.query.vector,
            };
            if net.send(PeerId::Server(server), &Message::Begin(begin)).is_err() {
                refused += 1;
                continue;
            }
            asked.begun += 1;
            asked.under_way = Some((server, now.saturating_add(self.settings.attempt_us)));
            self.under_way += 1;
            self.waiting.pop_front();
        }
    }
}
