//! One cluster from its first query to the end.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use pipeann_cluster::placement::{Placement, Server as Place};
use pipeann_cluster::relay::{
    Asker, AskerSettings, Ended, Found, NoAnswer, Orchestrator, Query, Server, ServerSettings,
    Walked, Walker, Work,
};
use pipeann_cluster::transport::sim::{Chance, SimNet, Weather};
use pipeann_cluster::transport::tcp::{Identity, Limits, Settings};
use pipeann_cluster::transport::{Event, Handler};
use pipeann_cluster::wire::{FailureCode, Mode, PeerId};

use crate::caller::{Asked, Asking, Caller};
use crate::fault::{Fault, Faulty, Sent};
use crate::index::{AHEAD, BEST_FIRST, Desk, Indexes, PARTITIONS, QUERIES, SEARCHES};
use crate::judge::Findings;

const SECOND: u64 = 1_000_000;
/// Queries are asked from the beginning until then.
const ASKING_US: u64 = 40_000;
/// From then on nothing befalls messages, and killed servers are back.
const STORM_US: u64 = SECOND / 2;
/// An answer is of use for so long.
const DEADLINE_US: u64 = 3 * SECOND;
/// By then all is forgotten, and a few more queries are asked.
const LATE_US: u64 = 5 * SECOND;
const END_US: u64 = LATE_US + DEADLINE_US + SECOND;

/// Keeps what a server asks of its search.
#[derive(Clone)]
struct Wanted {
    work: Arc<Mutex<Vec<Work>>>,
    starts: Vec<u32>,
}

impl Walker for Wanted {
    fn submit(&self, work: Work) -> bool {
        self.work.lock().unwrap().push(work);
        true
    }

    fn starts(&self) -> Vec<u32> {
        self.starts.clone()
    }
}

struct Member {
    server: Server<Wanted>,
    work: Wanted,
    net: Faulty,
    desk: Rc<Desk>,
    life: u32,
}

enum Alarm {
    Ask {
        caller: usize,
    },
    Walked {
        server: u32,
        life: u32,
        walked: Walked,
    },
    Kill(u32),
    Start(u32),
    /// A server stops with its connections open, or goes on.
    Freeze(u32, bool),
    Calm,
}

struct World<'a> {
    indexes: &'a Indexes,
    fault: Option<Fault>,
    chance: Chance,
    net: SimNet,
    placement: Placement,
    /// Servers that have the stale index.
    stale: BTreeSet<u32>,
    slots: u32,
    window: u64,
    calm: bool,
    members: BTreeMap<u32, Member>,
    callers: Vec<Caller>,
    lives: u32,
    /// By time, and at one time in the order in which they were set.
    alarms: BTreeMap<(u64, u64), Alarm>,
    alarms_set: u64,
    due: BTreeMap<PeerId, u64>,
    sent: Sent,
    most_slots: u64,
    findings: Findings,
}

/// Runs the cluster of a seed, and says what was found.
pub(crate) fn run(indexes: &Indexes, seed: u64, fault: Option<Fault>) -> Findings {
    let mut world = World::new(indexes, seed, fault);
    world.plan(seed);
    world.pass();
    world.judge()
}

impl<'a> World<'a> {
    fn new(indexes: &'a Indexes, seed: u64, fault: Option<Fault>) -> Self {
        let mut chance = Chance(seed);
        let rough = Weather { lost: 10_000, twice: 20_000, damaged: 3_000, ..Weather::CALM };
        let weather = match seed % 4 {
            0 => Weather::CALM,
            1 => Weather { lost: 20_000, twice: 50_000, ..Weather::CALM },
            2 => Weather { cut: 3_000, delay_us: (20, 5_000), ..rough },
            _ => Weather { twice: 10_000, ..Weather::CALM },
        };
        let servers = [2, 3, 5][chance.below(3) as usize];
        let of = (0..servers).map(|number| Place {
            number,
            address: ([127, 0, 0, 1], number as u16 + 1).into(),
            tls_name: String::new(),
            partitions: (0..PARTITIONS).filter(|at| at * servers / PARTITIONS == number).collect(),
        });
        let placement = Placement::new("sim".to_owned(), PARTITIONS, of.collect()).unwrap();
        let net = SimNet::new(chance.below(u64::MAX), weather);
        let is_stale = |number: &u32| match fault {
            Some(fault) => fault == Fault::StaleGeneration && *number == 1,
            // Servers are brought to another index one by one, in calm weather and where they are killed.
            None => (seed % 8 == 4 || seed % 16 == 3) && number % 2 == 1,
        };
        let mut world = Self {
            indexes,
            fault,
            net,
            placement,
            stale: (0..servers).filter(is_stale).collect(),
            slots: 2 + chance.below(7) as u32,
            window: 6_000 + chance.below(10_000),
            calm: weather == Weather::CALM,
            members: BTreeMap::new(),
            callers: Vec::new(),
            lives: 0,
            alarms: BTreeMap::new(),
            alarms_set: 0,
            due: BTreeMap::new(),
            sent: Sent::default(),
            most_slots: 0,
            findings: Findings::default(),
            chance,
        };
        match fault {
            Some(Fault::StaleGeneration) => world.net.trust_everyone(),
            Some(Fault::CreditLost) => world.net.keep_credit(),
            _ => {}
        }
        let askers = 3 + world.chance.below(2);
        for server in 0..servers {
            world.start(server, askers);
        }
        for number in 0..askers {
            let me = PeerId::Client(number);
            let attempts = 5;
            let settings = AskerSettings { me, attempt_us: SECOND / 5, attempts, waiting: 1000 };
            let net = world.net.sender(me);
            let placement = Arc::new(world.placement.clone());
            // The last one keeps its lists.
            let asking = match number + 1 == askers {
                true => Asking::Keeping(Orchestrator::new(settings, placement)),
                false => Asking::Sending(Asker::new(settings, placement)),
            };
            world.callers.push(Caller::new(asking, net));
            world.net.join(world.settings(me, Identity::default()));
        }
        world
    }

    fn settings(&self, me: PeerId, identity: Identity) -> Settings {
        let unbounded = self.fault == Some(Fault::NoReservation);
        Settings {
            me,
            placement: self.placement.clone(),
            identity,
            slots: if unbounded { 10_000 } else { self.slots },
            tls: None,
            limits: Limits { window_bytes: self.window, ..Limits::default() },
            seed: 1,
        }
    }

    /// A server begins, or begins again and knows nothing.
    fn start(&mut self, number: u32, askers: u64) {
        let stale = self.stale.contains(&number);
        let me = PeerId::Server(number);
        let settings = self.settings(me, self.indexes.identity(stale));
        let own = &self.placement.server(number).unwrap().partitions;
        let desk = self.indexes.desk(own, stale);
        let work = Wanted { work: Arc::default(), starts: desk.starts() };
        let server = ServerSettings {
            number,
            placement: Arc::new(self.placement.clone()),
            slots: settings.slots,
            longest_us: 10 * SECOND,
        };
        self.lives += 1;
        let member = Member {
            server: Server::new(server, work.clone()),
            work,
            net: Faulty {
                net: self.net.sender(me),
                fault: self.fault,
                askers,
                sent: self.sent.clone(),
            },
            desk,
            life: self.lives,
        };
        self.members.insert(number, member);
        self.net.join(settings);
    }

    fn alarm(&mut self, at: u64, alarm: Alarm) {
        self.alarms.insert((at, self.alarms_set), alarm);
        self.alarms_set += 1;
    }

    fn plan(&mut self, seed: u64) {
        for caller in 0..self.callers.len() {
            for _ in 0..10 + self.chance.below(30) {
                let at = 1000 + self.chance.below(ASKING_US);
                self.alarm(at, Alarm::Ask { caller });
            }
            for _ in 0..3 {
                let at = LATE_US + self.chance.below(1000);
                self.alarm(at, Alarm::Ask { caller });
            }
        }
        self.alarm(STORM_US, Alarm::Calm);
        if seed % 4 == 3 {
            for _ in 0..1 + self.chance.below(2) {
                let server = self.chance.below(self.members.len() as u64) as u32;
                let at = self.chance.below(2 * ASKING_US);
                self.alarm(at, Alarm::Kill(server));
                let back = at + 1000 + self.chance.below(STORM_US - at - 1000);
                self.alarm(back, Alarm::Start(server));
            }
        }
        // One more hangs where messages fare well, and where servers are killed too.
        if seed % 8 == 7 || seed.is_multiple_of(16) {
            self.calm = false;
            let server = self.chance.below(self.members.len() as u64) as u32;
            let at = self.chance.below(2 * ASKING_US);
            self.alarm(at, Alarm::Freeze(server, true));
            self.alarm(STORM_US - 1, Alarm::Freeze(server, false));
        }
    }

    /// Lets time pass until the end.
    fn pass(&mut self) {
        loop {
            let net = self.net.next_at().unwrap_or(u64::MAX);
            let alarm = self.alarms.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let due = self.due.iter().map(|(peer, at)| (*at, *peer)).min();
            let due_at = due.map_or(u64::MAX, |(at, _)| at);
            let next = net.min(alarm).min(due_at);
            if next > END_US {
                return;
            }
            self.net.pass(next);
            if net == next {
                self.hear();
            } else if alarm == next {
                let (_, alarm) = self.alarms.pop_first().expect("just seen");
                self.ring(alarm);
            } else {
                self.settle(due.expect("just seen").1);
            }
        }
    }

    fn hear(&mut self) {
        let net = self.net.clone();
        let mut who = None;
        net.step(|peer, event: Event<'_>| {
            who = Some(peer);
            let now = net.now_us();
            match peer {
                PeerId::Server(number) => {
                    if let Some(Member { server, net, .. }) = self.members.get_mut(&number) {
                        server.event(now, net, event);
                    }
                }
                PeerId::Client(number) => {
                    let caller = &mut self.callers[number as usize];
                    caller.note(&event, &self.stale);
                    caller.asking.machine().event(now, &caller.net, event);
                }
            }
        });
        if let Some(peer) = who {
            self.settle(peer);
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        let now = self.net.now_us();
        match alarm {
            Alarm::Ask { caller } => {
                let query = self.chance.below(QUERIES as u64) as usize;
                let Caller { asking, net, asked, .. } = &mut self.callers[caller];
                let keeps = matches!(asking, Asking::Keeping(_));
                let any = self.chance.below(SEARCHES.len() as u64) as usize;
                let search = if keeps { BEST_FIRST } else { any };
                let partial = self.chance.below(2) == 0 && !keeps;
                let of = Query {
                    mode: Mode::Relay,
                    parameters: SEARCHES[search].encode(),
                    vector: self.indexes.query(query).to_vec(),
                    left_us: DEADLINE_US,
                    hops: 200,
                    at: None,
                    partial,
                };
                let number = asking.ask(now, net, of, &SEARCHES[search]);
                assert_eq!(number as usize, asked.len());
                asked.push(Asked { query, search, at: now, partial, ended: false });
                self.findings.queries += 1;
                self.settle(PeerId::Client(caller as u64));
            }
            Alarm::Walked { server, life, walked } => {
                let member = self.members.get_mut(&server).filter(|member| member.life == life);
                if let Some(Member { server: of, net, .. }) = member {
                    of.walked(now, net, walked);
                    self.settle(PeerId::Server(server));
                }
            }
            Alarm::Kill(server) => {
                if let Some(member) = self.members.remove(&server) {
                    self.count(&member);
                    self.due.remove(&PeerId::Server(server));
                    self.net.kill(PeerId::Server(server));
                }
            }
            Alarm::Start(server) => {
                if !self.members.contains_key(&server) {
                    self.start(server, self.callers.len() as u64);
                }
            }
            Alarm::Freeze(server, frozen) => self.net.freeze(PeerId::Server(server), frozen),
            Alarm::Calm => self.net.set_weather(Weather::CALM),
        }
    }

    /// Does what a peer has due, has its searches walk, and takes the ends of its queries.
    fn settle(&mut self, peer: PeerId) {
        let now = self.net.now_us();
        let due = match peer {
            PeerId::Server(number) => {
                let Some(member) = self.members.get_mut(&number) else { return };
                let due = member.server.due(now, &member.net);
                let work = std::mem::take(&mut *member.work.work.lock().unwrap());
                let (desk, life) = (Rc::clone(&member.desk), member.life);
                for (_, walked) in work.into_iter().filter_map(|work| desk.walk(work)) {
                    let at = now + 50 + self.chance.below(450);
                    self.alarm(at, Alarm::Walked { server: number, life, walked });
                }
                due
            }
            PeerId::Client(number) => {
                let Caller { asking, net, .. } = &mut self.callers[number as usize];
                let due = asking.machine().due(now, net);
                for (query, ended) in asking.take_ended() {
                    self.ended(now, number as usize, query as usize, ended);
                }
                due
            }
        };
        match due {
            Some(at) => self.due.insert(peer, at.max(now + 1)),
            None => self.due.remove(&peer),
        };
    }

    /// Partitions whose servers have another index than the one that a caller searches.
    fn elsewhere(&self, stale: bool) -> Vec<u32> {
        let servers = self.placement.servers().iter();
        let others = servers.filter(|server| self.stale.contains(&server.number) != stale);
        let mut elsewhere: Vec<u32> =
            others.flat_map(|server| server.partitions.iter().copied()).collect();
        elsewhere.sort_unstable();
        elsewhere
    }

    fn ended(&mut self, now: u64, caller: usize, number: usize, ended: Ended) {
        let stale = self.callers[caller].stale;
        let elsewhere = self.elsewhere(stale);
        let Asked { query, search, at, partial, ended: twice } =
            &mut self.callers[caller].asked[number];
        let findings = &mut self.findings;
        if std::mem::replace(twice, true) || now > *at + DEADLINE_US {
            findings.hangs += 1;
        }
        let nothing_befell = self.calm || *at >= LATE_US;
        // A query that takes all is begun again in vain while some of it is nowhere.
        let in_vain = !*partial && !elsewhere.is_empty();
        match ended {
            Ok(Found { hits, attempts, missing, .. }) => {
                findings.answered += 1;
                findings.attempts += u64::from(attempts);
                findings.partial += u64::from(!missing.is_empty());
                let asked = (*query, *search);
                let unasked = !missing.is_empty() && !*partial;
                let fair = !unasked && self.indexes.is_right(stale, asked, &missing, &hits);
                findings.wrong += u64::from(!fair);
                if *search == AHEAD {
                    let (near, by_one) = self.indexes.nearest(stale, asked, &missing, &hits);
                    findings.near += near;
                    findings.near_by_one += by_one;
                }
                let lacks = if *partial { &elsewhere[..] } else { &[] };
                let whole = missing == lacks && (attempts <= 1 || in_vain);
                findings.lost += u64::from(nothing_befell && !whole);
            }
            Err(why) => {
                findings.failed += 1;
                findings.attempts += 1;
                let explained = match &why {
                    NoAnswer::Deadline { .. } => true,
                    NoAnswer::Failed { code, .. } => matches!(
                        code,
                        FailureCode::PartitionGone | FailureCode::NoRoom | FailureCode::Deadline
                    ),
                    NoAnswer::Crowded => false,
                };
                findings.lost += u64::from(nothing_befell && !in_vain || !explained);
            }
        }
    }

    fn count(&mut self, member: &Member) {
        let counters = member.server.counters();
        self.findings.repeated += counters.repeated;
        self.most_slots = self.most_slots.max(counters.most_slots);
    }

    /// What stayed behind.
    fn judge(mut self) -> Findings {
        for member in std::mem::take(&mut self.members).into_values() {
            self.count(&member);
            self.findings.stuck += member.server.slots_in_use() as u64;
        }
        let open = self.callers.iter().flat_map(|caller| &caller.asked);
        self.findings.hangs += open.filter(|asked| !asked.ended).count() as u64;
        let stuck = self.net.stuck();
        let beyond =
            self.most_slots.saturating_sub(u64::from(self.slots) * self.callers.len() as u64);
        self.findings.stuck += stuck.held + stuck.untold + beyond;
        if self.calm {
            self.findings.stuck += self.sent.again();
        }
        self.findings
    }
}
