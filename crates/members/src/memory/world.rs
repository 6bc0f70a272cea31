//! What stands in memory, and what happens to it as time goes by.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use uuid::Uuid;

use crate::counts::Tallies;
use crate::election::{next_term, order};
use crate::lease::Countdown;
use crate::notices::{Noticed, Subscribers};
use crate::{Error, Lead, LeadingServer, PutIf, SHARDS_MAX, ServerInfo, Standing, StoredValue};

/// Who is there and who leads, as it stands or as it was last seen.
#[derive(Clone, Default)]
pub(super) struct Scene {
    /// Each server with the number of its lease.
    servers: BTreeMap<Uuid, (ServerInfo, u64)>,
    leaders: BTreeMap<u64, (LeadingServer, u64)>,
}

impl Scene {
    pub(super) fn servers(&self) -> Vec<ServerInfo> {
        self.servers.values().map(|(info, _)| info.clone()).collect()
    }

    pub(super) fn leader(&self, shard: u64) -> Option<LeadingServer> {
        self.leaders.get(&shard).map(|(leader, _)| leader.clone())
    }

    pub(super) fn leaders(&self) -> Vec<LeadingServer> {
        self.leaders.values().map(|(leader, _)| leader.clone()).collect()
    }

    fn led(&self, server: Uuid) -> usize {
        self.leaders.values().filter(|(leader, _)| leader.server == server).count()
    }
}

struct Outlet {
    subscribers: Weak<Subscribers>,
    /// Since when it is cut off, and what was last seen from there.
    cut: Option<(Duration, Scene)>,
}

/// A membership, from its holder's side.
struct Tenancy {
    info: ServerInfo,
    end: usize,
    lease: u64,
    countdown: Countdown,
    wants: BTreeMap<u64, u64>,
    /// What it has seen itself lead under its lease.
    held: BTreeMap<u64, u64>,
    seen: BTreeMap<u64, u64>,
    /// What keeps it from joining again.
    refused: Option<String>,
}

pub(super) struct World {
    ttl: Duration,
    now: Duration,
    scene: Scene,
    /// When each lease ends.
    leases: BTreeMap<u64, Duration>,
    terms: BTreeMap<u64, u64>,
    pub(super) values: BTreeMap<String, StoredValue>,
    revision: u64,
    /// Until when nobody is elected, since a lease of before the data was lost may run.
    settling: Duration,
    halted: Option<Duration>,
    ends: Vec<Outlet>,
    tenancies: BTreeMap<u64, Tenancy>,
    numbers: u64,
    pub(super) tallies: Tallies,
}

impl World {
    pub(super) fn new(ttl: Duration, now: Duration) -> Self {
        Self {
            ttl,
            now,
            scene: Scene::default(),
            leases: BTreeMap::new(),
            terms: BTreeMap::new(),
            values: BTreeMap::new(),
            revision: 0,
            settling: now + ttl,
            halted: None,
            ends: Vec::new(),
            tenancies: BTreeMap::new(),
            numbers: 0,
            tallies: Tallies::default(),
        }
    }

    /// What happens until `now`: renewals, ends of leases, joining again, elections.
    pub(super) fn settle(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let reached: Vec<bool> = (0..self.ends.len()).map(|end| self.is_reached(end)).collect();
        for it in self.tenancies.values_mut().filter(|it| reached[it.end]) {
            if let Some(end) = self.leases.get_mut(&it.lease) {
                it.countdown.renewed(self.now, self.ttl);
                *end = self.now + self.ttl;
            }
        }
        if self.halted.is_some() {
            return;
        }
        let over: Vec<u64> =
            self.leases.iter().filter(|(_, end)| **end <= self.now).map(|(it, _)| *it).collect();
        over.into_iter().for_each(|lease| self.end_lease(lease));
        let again: Vec<u64> = self
            .tenancies
            .iter()
            .filter(|(_, it)| reached[it.end] && !self.leases.contains_key(&it.lease))
            .map(|(number, _)| *number)
            .collect();
        for number in again {
            self.tallies.lease_losses.add();
            self.sit_down(number);
        }
        self.elect(&reached);
        self.look_around(&reached);
    }

    fn elect(&mut self, reached: &[bool]) {
        if self.now < self.settling {
            return;
        }
        // Where it leads without wanting to, it gives up; where its term is too old, it gets another.
        let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let standing = |it: &Tenancy| reached[it.end] && self.leases.contains_key(&it.lease);
        for (number, it) in self.tenancies.iter().filter(|(_, it)| standing(it)) {
            for (&shard, &at_least) in &it.wants {
                let leader = self.scene.leaders.get(&shard);
                let is_low =
                    |leader: &LeadingServer| leader.server == it.info.id && leader.term <= at_least;
                if leader.is_none_or(|(leader, _)| is_low(leader)) {
                    open.entry(shard).or_default().push(*number);
                }
            }
        }
        let unwanted: Vec<u64> = self
            .scene
            .leaders
            .iter()
            .filter(|(shard, (_, lease))| {
                self.tenancies.values().any(|it| {
                    it.lease == *lease && reached[it.end] && !it.wants.contains_key(shard)
                })
            })
            .map(|(shard, _)| *shard)
            .collect();
        for shard in unwanted {
            self.scene.leaders.remove(&shard);
            self.tell(&Noticed::Leader(shard));
        }
        for (shard, numbers) in open {
            let first = numbers.into_iter().min_by_key(|number| {
                let id = self.tenancies[number].info.id;
                order(shard, id, self.scene.led(id))
            });
            self.enthrone(shard, first.expect("a shard is open for somebody who wants it"));
        }
    }

    /// Lets a membership lead; whether there was a term left for it.
    fn enthrone(&mut self, shard: u64, number: u64) -> bool {
        let it = &self.tenancies[&number];
        let at_least = it.wants.get(&shard).copied().unwrap_or(0);
        let seen = it.seen.get(&shard).copied().unwrap_or(0);
        let stored = self.terms.get(&shard).copied().unwrap_or(0);
        let Some(term) = next_term(stored, seen, at_least) else { return false };
        let (server, address) = (it.info.id, it.info.address.clone());
        let leader = LeadingServer { shard, server, address, term };
        self.scene.leaders.insert(shard, (leader, it.lease));
        self.terms.insert(shard, term);
        self.tallies.elections.add();
        self.tell(&Noticed::Leader(shard));
        true
    }

    /// What those that are not cut off see.
    fn look_around(&mut self, reached: &[bool]) {
        for it in self.tenancies.values_mut().filter(|it| reached[it.end]) {
            it.held.clear();
            for (shard, (leader, lease)) in &self.scene.leaders {
                let seen = it.seen.entry(*shard).or_default();
                *seen = leader.term.max(*seen);
                if *lease == it.lease && it.wants.contains_key(shard) {
                    it.held.insert(*shard, leader.term);
                }
            }
        }
    }

    fn end_lease(&mut self, lease: u64) {
        if self.leases.remove(&lease).is_none() {
            return;
        }
        self.scene.servers.retain(|_, (_, of)| *of != lease);
        let leaders = std::mem::take(&mut self.scene.leaders);
        let (ended, left) = leaders.into_iter().partition(|(_, (_, of))| *of == lease);
        self.scene.leaders = left;
        let ended: BTreeMap<u64, (LeadingServer, u64)> = ended;
        ended.keys().for_each(|shard| self.tell(&Noticed::Leader(*shard)));
        self.tell(&Noticed::Servers);
    }

    /// Puts a membership under a new lease, unless a live server has its id or an address.
    fn sit_down(&mut self, number: u64) {
        let info = self.tenancies[&number].info.clone();
        let taken = self.taken(&info);
        self.numbers += 1;
        let (lease, now, ttl) = (self.numbers, self.now, self.ttl);
        let it = self.tenancies.get_mut(&number).expect("the caller has found it");
        it.held.clear();
        it.refused = taken.as_ref().map(Error::to_string);
        if taken.is_none() {
            it.lease = lease;
            it.countdown = Countdown::new(now, ttl);
            self.leases.insert(lease, now + ttl);
            self.scene.servers.insert(info.id, (info, lease));
            self.tell(&Noticed::Servers);
        }
    }

    fn taken(&self, info: &ServerInfo) -> Option<Error> {
        for (other, _) in self.scene.servers.values() {
            let holder = other.id.to_string();
            if other.id == info.id {
                let value = holder.clone();
                return Some(Error::Duplicate { what: "id", value, holder });
            }
            let theirs = other.addresses();
            if let Some(both) = info.addresses().into_iter().find(|it| theirs.contains(it)) {
                return Some(Error::Duplicate { what: "address", value: both.into(), holder });
            }
        }
        None
    }

    pub(super) fn join(
        &mut self,
        end: usize,
        info: ServerInfo,
        now: Duration,
    ) -> Result<u64, Error> {
        if let Some(taken) = self.taken(&info) {
            return Err(taken);
        }
        self.numbers += 1;
        let number = self.numbers;
        let countdown = Countdown::new(now, self.ttl);
        let (wants, held, seen) = Default::default();
        let it = Tenancy { info, end, lease: 0, countdown, wants, held, seen, refused: None };
        self.tenancies.insert(number, it);
        self.sit_down(number);
        Ok(number)
    }

    pub(super) fn leave(&mut self, number: u64) {
        let Some(it) = self.tenancies.remove(&number) else { return };
        // One that is cut off cannot say that it leaves.
        if self.is_reached(it.end) {
            self.end_lease(it.lease);
        }
    }

    pub(super) fn want(&mut self, number: u64, shard: u64, at_least: u64) -> Result<(), Error> {
        let left = || Error::NotJoined("it has left".into());
        let it = self.tenancies.get_mut(&number).ok_or_else(left)?;
        if it.wants.len() >= SHARDS_MAX && !it.wants.contains_key(&shard) {
            let why = format!("{SHARDS_MAX} are the most");
            return Err(Error::Invalid { what: "shards to campaign for", why });
        }
        let wanted = it.wants.entry(shard).or_default();
        *wanted = at_least.max(*wanted);
        Ok(())
    }

    pub(super) fn renounce(&mut self, number: u64, shard: u64) {
        if let Some(it) = self.tenancies.get_mut(&number) {
            it.wants.remove(&shard);
            it.held.remove(&shard);
        }
    }

    pub(super) fn transfer(
        &mut self,
        number: u64,
        shard: u64,
        to: Uuid,
        now: Duration,
    ) -> Result<LeadingServer, Error> {
        self.leads(number, shard, now).ok_or(Error::NotLeader(shard))?;
        let current = self.scene.leader(shard).ok_or(Error::NotLeader(shard))?;
        if current.server == to {
            return Ok(current);
        }
        let (_, lease) = self.scene.servers.get(&to).ok_or(Error::NoServer(to))?;
        let heir = self.tenancies.iter().find(|(_, it)| it.lease == *lease).map(|(it, _)| *it);
        let heir = heir.ok_or(Error::NoServer(to))?;
        if !self.enthrone(shard, heir) {
            return Err(Error::TermsEnd(shard));
        }
        self.renounce(number, shard);
        self.scene.leader(shard).ok_or(Error::NotLeader(shard))
    }

    pub(super) fn lease_left(&self, number: u64, now: Duration) -> Duration {
        self.tenancies.get(&number).map_or(Duration::ZERO, |it| {
            // One that is not cut off has been told that its lease is gone.
            let told = self.is_reached(it.end) && !self.leases.contains_key(&it.lease);
            if told { Duration::ZERO } else { it.countdown.left(now) }
        })
    }

    pub(super) fn leads(&self, number: u64, shard: u64, now: Duration) -> Option<Lead> {
        let it = self.tenancies.get(&number)?;
        let term = *it.held.get(&shard)?;
        let left = self.lease_left(number, now);
        (term > *it.wants.get(&shard)? && !left.is_zero()).then_some(Lead { term, left })
    }

    pub(super) fn led(&self, number: u64, now: Duration) -> Vec<LeadingServer> {
        let Some(it) = self.tenancies.get(&number) else { return Vec::new() };
        let leads = |shard: &u64| {
            let term = self.leads(number, *shard, now)?.term;
            let (server, address) = (it.info.id, it.info.address.clone());
            Some(LeadingServer { shard: *shard, server, address, term })
        };
        it.held.keys().filter_map(leads).collect()
    }

    pub(super) fn standing(&self, number: u64, now: Duration) -> Standing {
        let Some(it) = self.tenancies.get(&number) else { return Standing::Left };
        if !self.lease_left(number, now).is_zero() {
            return Standing::Joined;
        }
        let why = it.refused.clone().unwrap_or_else(|| "no renewal was answered".into());
        Standing::Lost { since: it.countdown.end().min(now), why }
    }

    pub(super) fn add_end(&mut self, subscribers: Weak<Subscribers>) -> usize {
        self.ends.push(Outlet { subscribers, cut: None });
        self.ends.len() - 1
    }

    pub(super) fn is_reached(&self, end: usize) -> bool {
        self.halted.is_none() && self.ends[end].cut.is_none()
    }

    pub(super) fn seen_from(&self, end: usize) -> &Scene {
        self.ends[end].cut.as_ref().map_or(&self.scene, |(_, scene)| scene)
    }

    pub(super) fn stale_since(&self, end: usize) -> Option<Duration> {
        self.ends[end].cut.as_ref().map(|(since, _)| *since).or(self.halted)
    }

    pub(super) fn tell(&self, what: &Noticed) {
        let reached = self.ends.iter().filter(|it| it.cut.is_none());
        reached.filter_map(|it| it.subscribers.upgrade()).for_each(|it| it.tell(what));
    }

    pub(super) fn next_revision(&mut self) -> u64 {
        self.tallies.writes.add();
        self.revision += 1;
        self.revision
    }

    pub(super) fn expect(&self, name: &str, when: PutIf) -> Result<(), Error> {
        let revision = self.values.get(name).map_or(0, |it| it.revision);
        let sound = match when {
            PutIf::Any => true,
            PutIf::Absent => revision == 0,
            PutIf::At(expected) => revision == expected && revision != 0,
        };
        if sound { Ok(()) } else { Err(Error::Conflict { name: name.into(), revision }) }
    }

    pub(super) fn lose_lease(&mut self, server: Uuid) {
        if let Some((_, lease)) = self.scene.servers.get(&server) {
            self.end_lease(*lease);
        }
    }

    pub(super) fn cut_off(&mut self, server: Uuid, is_cut: bool) {
        let ends: Vec<usize> =
            self.tenancies.values().filter(|it| it.info.id == server).map(|it| it.end).collect();
        for end in ends {
            let is_news = is_cut != self.ends[end].cut.is_some();
            if is_news {
                self.ends[end].cut = is_cut.then(|| (self.now, self.scene.clone()));
            }
            if is_news
                && !is_cut
                && let Some(it) = self.ends[end].subscribers.upgrade()
            {
                it.tell(&Noticed::Everything);
            }
        }
    }

    pub(super) fn halt(&mut self, is_halted: bool) {
        match (is_halted, self.halted) {
            (true, None) => self.halted = Some(self.now),
            (false, Some(_)) => {
                self.halted = None;
                self.tell(&Noticed::Everything);
            }
            _ => {}
        }
    }

    pub(super) fn empty(&mut self, now: Duration) {
        self.scene = Scene::default();
        self.leases.clear();
        self.terms.clear();
        self.values.clear();
        self.revision = 0;
        self.settling = now + self.ttl;
        self.tell(&Noticed::Everything);
    }
}
