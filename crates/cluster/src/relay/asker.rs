//! An asker's side: queries on their way to an answer, each with a deadline.
//!
//! Servers are asked in turn, or the one that a query names. An attempt that fails where another may not is made again at the next
//! server, at once the first time and then after waits that grow; one that is not heard of for too long likewise; answers to attempts before the last, and
//! second answers, are dropped. A query is under way only while every server that is up has a slot
//! for it; one of which an attempt was given up without word of its end keeps its slot while it is open,
//! since a state of it may still be somewhere. When it ends, servers are told that nobody wants that any
//! more, and the slot is free a quarter of an attempt's time later.
//!
//! A query that takes a partial answer is begun again without the servers that are missing: those
//! that are not connected, that another server found gone, or that were not heard of in an attempt
//! that was given up. Where the last attempt left would be like one that got lost, it asks one server
//! for what that has alone. Only such a query ever gets an answer that lacks partitions, and only
//! those that its last attempt left out.
//!
//! Servers of another index, or generation of it, than the first one are not there as long as others
//! are: they are asked nothing, and left out of partial answers.

mod dispatch;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::gone::{Heard, partitions_of, said};
use super::query::{AskerSettings, Ended, Found, NoAnswer, Query};
use super::rest::{is_excused, rest_us};
use super::servers::Servers;
use crate::placement::Placement;
use crate::transport::{Event, Handler, Network};
use crate::wire::{Answer, Failure, FailureCode, Hello, Message, QueryId};

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
    /// When the last attempt began.
    since: u64,
    /// When servers are asked whether they are there; none once they were, in this attempt.
    doubts_at: Option<u64>,
    pinged: bool,
    /// Whether the attempt waits no longer than a while, since a connection ended that may have cost it its
    /// state.
    hurried: bool,
    /// Servers that were found missing.
    gone: BTreeSet<u32>,
    /// Attempts that ended because a server was found missing, a connection took the state with it, or no
    /// slot was free: not counted against the query.
    excused: u16,
    /// Attempts that somebody said had failed.
    failed: u16,
    /// Whether the next attempt asks one server for what it has alone.
    alone: bool,
    /// Partitions that the last attempt leaves out.
    left_out: Vec<u32>,
}

impl Asked {
    /// Whether it may leave servers out; one that names its server may not.
    fn takes_partial(&self) -> bool {
        self.query.partial && self.query.at.is_none()
    }
}

/// See the module's description.
pub struct Asker {
    settings: AskerSettings,
    placement: Arc<Placement>,
    heard: Heard,
    servers: Servers,
    next_server: u32,
    next_number: u64,
    queries: HashMap<u64, Asked>,
    waiting: VecDeque<u64>,
    /// Queries that are not begun again before a time.
    resting: BTreeSet<(u64, u64)>,
    /// Queries under way.
    under_way: usize,
    /// Queries that wait or rest while a state of theirs may still be somewhere.
    astray: usize,
    /// Queries that ended so, with their deadlines, of which servers have not been told yet.
    strays: Vec<(u64, u64)>,
    /// Slots of ended queries that may still be taken, until when.
    lingering: BTreeSet<(u64, u64)>,
    ended: Vec<(u64, Ended)>,
}

impl Handler for Asker {
    fn event(&mut self, now: u64, net: &dyn Network, event: Event<'_>) {
        if let Event::Up { peer, .. } | Event::Message { peer, .. } | Event::Alive { peer } = &event
        {
            self.heard.note(*peer, now);
        }
        match event {
            Event::Up { peer, hello } => {
                if let Some(server) = peer.server() {
                    self.server_up(now, net, server, &hello);
                }
            }
            Event::Down { peer, .. } => {
                if let Some(server) = peer.server() {
                    self.server_down(now, net, server);
                }
            }
            Event::Message { message, hold: _hold, .. } => self.message(now, net, message),
            Event::Room { .. } => self.room(now, net),
            Event::Alive { .. } | Event::Refused { .. } => {}
        }
    }

    fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        Self::due(self, now, net)
    }
}

impl Asker {
    /// One that has asked nothing yet.
    pub fn new(settings: AskerSettings, placement: Arc<Placement>) -> Self {
        Self {
            settings,
            placement,
            heard: Heard::default(),
            servers: Servers::default(),
            next_server: 0,
            next_number: 0,
            queries: HashMap::new(),
            waiting: VecDeque::new(),
            resting: BTreeSet::new(),
            under_way: 0,
            astray: 0,
            strays: Vec::new(),
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
        let asked = Asked {
            query,
            deadline,
            attempt: 0,
            begun: 0,
            under_way: None,
            lingers: false,
            since: now,
            doubts_at: None,
            pinged: false,
            hurried: false,
            gone: BTreeSet::new(),
            excused: 0,
            failed: 0,
            alone: false,
            left_out: Vec::new(),
        };
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

    /// How long after it was asked something of a query is due at the soonest: servers are asked whether
    /// they are there.
    pub fn due_us(&self, query: &Query) -> u64 {
        self.settings.attempt_us_of(query).min(query.left_us) / 2
    }

    /// Servers that are connected, those of another index than what is searched among them.
    pub fn up(&self) -> usize {
        self.servers.len()
    }

    /// Whether a server can be asked: it is connected, and serves what is searched.
    pub fn is_up(&self, server: u32) -> bool {
        self.servers.is_up(server)
    }

    /// A server can be reached, and said what it serves and grants.
    pub fn server_up(&mut self, now: u64, net: &dyn Network, server: u32, hello: &Hello<'_>) {
        if self.servers.came(server, hello) {
            self.turned();
        }
        self.dispatch(now, net);
    }

    /// A server cannot be reached any more: what began there begins again elsewhere.
    pub fn server_down(&mut self, now: u64, net: &dyn Network, server: u32) {
        if self.servers.is_other(server) {
            // Nothing was asked of it, and none of those that are asked has sent it anything.
            self.servers.went(server);
            return;
        }
        let turned = self.servers.went(server);
        for number in self.begun_where(|at| at == server) {
            let asked = self.queries.get_mut(&number).expect("just seen");
            let lingers = !asked.takes_partial();
            if !lingers {
                asked.gone.insert(server);
            }
            self.again(number, lingers);
        }
        // Others may have had their state there, which nobody says: that server gives it up, as it has lost
        // its asker. They hear soon, or begin again, without the server where they can do without.
        let soon = now.saturating_add(self.while_us());
        for asked in self.queries.values_mut() {
            let partial = asked.takes_partial();
            if let Some((_, until)) = &mut asked.under_way
                && (!partial || asked.gone.insert(server))
                && soon < *until
            {
                *until = soon;
                asked.hurried = true;
                let half = now + (soon - now) / 2;
                asked.doubts_at = asked.doubts_at.map(|at| at.min(half));
            }
        }
        if turned {
            self.turned();
        }
        self.dispatch(now, net);
    }

    /// Another index is searched from now on: whatever is under way begins anew over it, and who was found
    /// missing of the one before may be there.
    fn turned(&mut self) {
        for number in self.begun_where(|_| true) {
            self.again(number, false);
        }
        self.queries.values_mut().for_each(|asked| asked.gone.clear());
    }

    /// Queries under way that began at such servers, in an order that no hash decides.
    fn begun_where(&self, which: impl Fn(u32) -> bool) -> Vec<u64> {
        let begun = |asked: &Asked| asked.under_way.is_some_and(|(at, _)| which(at));
        let begun = self.queries.iter().filter(|(_, asked)| begun(asked));
        let mut begun: Vec<u64> = begun.map(|(number, _)| *number).collect();
        begun.sort_unstable();
        begun
    }

    /// How long a state may still be on its way somewhere.
    fn while_us(&self) -> u64 {
        self.settings.attempt_us / 4
    }

    /// A server has room for messages again.
    pub fn room(&mut self, now: u64, net: &dyn Network) {
        self.dispatch(now, net);
    }

    /// Takes a message of a server.
    pub fn message(&mut self, now: u64, net: &dyn Network, message: Message<'_>) {
        match message {
            Message::Answer(answer) => self.answer(answer),
            Message::Failure(failure) => self.failure(now, failure),
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
        while self.resting.first().is_some_and(|(until, _)| *until <= now) {
            let (_, number) = self.resting.pop_first().expect("just seen");
            self.waiting.push_front(number);
        }
        let mut due: Vec<u64> = Vec::new();
        let mut doubted = None;
        for (number, asked) in &mut self.queries {
            if let Some(at) = asked.doubts_at.filter(|at| *at <= now && asked.deadline > now) {
                asked.doubts_at = None;
                asked.pinged = true;
                doubted = doubted.max(Some(asked.since));
                // Whoever is asked late has as long to answer.
                let late = now - at;
                asked.under_way =
                    asked.under_way.map(|(to, until)| (to, until.saturating_add(late)));
            }
            let given_up = asked.under_way.is_some_and(|(_, until)| until <= now);
            if asked.deadline <= now || given_up {
                due.push(*number);
            }
        }
        if let Some(since) = doubted {
            self.heard.ask(self.servers.connected(), since, net);
        }
        due.sort_unstable();
        for number in due {
            let asked = &self.queries[&number];
            if asked.deadline <= now {
                self.end(number, Err(self.late(asked)));
            } else {
                self.given_up(number);
            }
        }
        self.dispatch(now, net);
        let times = self.queries.values().map(|asked| {
            let until = asked.under_way.map_or(asked.deadline, |(_, until)| until);
            until.min(asked.deadline).min(asked.doubts_at.unwrap_or(u64::MAX))
        });
        let again = self.heard.ask_again(now, self.settings.attempt_us / 2, net);
        let rested = self.resting.first().map(|(until, _)| *until);
        let free = self.lingering.first().map(|(until, _)| *until);
        times.chain(free).chain(rested).chain(again).min()
    }

    /// The query of a message of its last attempt.
    fn current(&self, query: QueryId, attempt: u16) -> Option<u64> {
        let asked = self.queries.get(&query.number)?;
        let mine = query.asker == self.settings.me;
        (mine && asked.attempt == attempt && asked.under_way.is_some()).then_some(query.number)
    }

    fn answer(&mut self, answer: Answer<'_>) {
        let Some(number) = self.current(answer.query, answer.attempt) else { return };
        let missing: Vec<u32> = answer.missing.iter().collect();
        if missing != self.queries[&number].left_out {
            let words = "an answer lacks other partitions than it was to".to_owned();
            let code = FailureCode::Internal;
            return self.end(number, Err(NoAnswer::Failed { code, partition: None, words }));
        }
        let found = Found {
            hits: answer.hits.bytes().to_vec(),
            trace: answer.trace.iter().collect(),
            stats: answer.stats.to_vec(),
            attempts: self.queries[&number].begun,
            missing,
            rounds: 1,
        };
        self.end(number, Ok(found));
    }

    fn failure(&mut self, now: u64, failure: Failure<'_>) {
        let Failure { query, attempt, code, partition, words } = failure;
        let Some(number) = self.current(query, attempt) else { return };
        let may_succeed = match code {
            FailureCode::PartitionGone
            | FailureCode::NoRoom
            | FailureCode::Internal
            | FailureCode::Leaving
            | FailureCode::Lost => true,
            FailureCode::Deadline
            | FailureCode::Hops
            | FailureCode::NotOwner
            | FailureCode::Refused => false,
        };
        let owner = partition.and_then(|partition| self.placement.owner(partition));
        let asked = self.queries.get_mut(&number).expect("just looked up");
        if let (FailureCode::PartitionGone, Some(server), true) =
            (code, owner, asked.takes_partial())
            && asked.gone.insert(server)
        {
            asked.excused += 1;
            return self.again(number, false);
        }
        asked.failed += 1;
        // A state that may be lost may be somewhere, too; who failed has nothing of the query any more.
        let lost = code == FailureCode::Lost;
        asked.excused += u16::from(is_excused(code, asked.failed));
        if may_succeed && asked.begun - asked.excused < self.settings.attempts {
            let rest = rest_us(asked.failed);
            self.again(number, lost);
            if rest > 0 && self.waiting.front() == Some(&number) {
                self.waiting.pop_front();
                self.resting.insert((now.saturating_add(rest), number));
            }
            return;
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
            self.astray += usize::from(asked.lingers);
        }
        asked.doubts_at = None;
        if asked.begun - asked.excused >= self.settings.attempts {
            let late = self.late(&self.queries[&number]);
            return self.end(number, Err(late));
        }
        self.waiting.push_front(number);
    }

    /// Nothing was heard of an attempt: whoever was silent in it is missing.
    fn given_up(&mut self, number: u64) {
        let attempts = self.settings.attempts;
        let asked = self.queries.get_mut(&number).expect("looked up by the caller");
        if asked.takes_partial() {
            let servers = self.placement.servers().iter().map(|server| server.number);
            let known = asked.left_out.len();
            if asked.pinged {
                let silent = self.heard.silent(servers, asked.since);
                self.heard.doubt(&silent);
                asked.gone.extend(silent);
            }
            let missing = partitions_of(&self.placement, |server| asked.gone.contains(&server));
            let is_last = asked.begun - asked.excused + 1 >= attempts;
            let unexplained = missing.len() <= known;
            asked.alone = is_last && unexplained;
            // A state that hung with who is missing takes no slot of those that are there. Should it
            // come back after all, whoever finds no room for it begins again.
            return self.again(number, unexplained);
        }
        // The connection may have taken its state, as when a server says so.
        let excused = asked.hurried && is_excused(FailureCode::Lost, asked.excused + 1);
        asked.excused += u16::from(excused);
        self.again(number, true);
    }

    /// That there was no time for an answer, and who was silent.
    fn late(&self, asked: &Asked) -> NoAnswer {
        let servers = self.placement.servers().iter().map(|server| server.number);
        let silent: Vec<u32> = if asked.begun == 0 {
            let connected: BTreeSet<u32> = self.servers.connected().collect();
            servers.filter(|server| !connected.contains(server)).collect()
        } else if asked.pinged {
            self.heard.silent(servers, asked.since).into_iter().collect()
        } else {
            Vec::new()
        };
        NoAnswer::Deadline { attempts: asked.begun, silent: said(&silent, &self.placement) }
    }

    fn end(&mut self, number: u64, ended: Ended) {
        let Some(asked) = self.queries.remove(&number) else { return };
        if asked.under_way.is_some() {
            self.under_way -= 1;
        } else {
            self.waiting.retain(|waiting| *waiting != number);
            self.resting.retain(|(_, resting)| *resting != number);
            self.astray -= usize::from(asked.lingers);
        }
        if asked.lingers {
            self.strays.push((asked.deadline, number));
        }
        self.ended.push((number, ended));
    }
}
