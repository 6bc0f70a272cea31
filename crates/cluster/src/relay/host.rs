//! Joins a machine to a network and to other threads: a server to its search, an asker to callers.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Give, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::asker::Asker;
use super::query::{AskerSettings, Ended, Found, NoAnswer, Query};
use super::server::{Server, ServerCounters, ServerSettings};
use super::work::{Walked, Walker};
use crate::placement::Placement;
use crate::transport::tcp::{OpenError, Sender, Settings, Tcp};
use crate::transport::troubles::{LastTroubles, ToldTroubles};
use crate::transport::{Event, Handler, Network};
use crate::wire::PeerId;

/// A server on the network: a [`Server`] that is handed what arrives and what was walked.
pub struct ServerHost<W> {
    tcp: Tcp,
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    server: Mutex<Server<W>>,
    sender: OnceLock<Sender>,
    /// Other servers that are connected.
    others: Mutex<usize>,
    changed: Condvar,
}

impl<W> Shared<W> {
    fn lock(&self) -> MutexGuard<'_, Server<W>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, change: impl FnOnce(&mut usize)) {
        change(&mut self.others.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Takes what became of work, from any thread, as long as there is a server.
pub struct Done<W>(Weak<Shared<W>>);

impl<W: Walker> Done<W> {
    /// Something became of work.
    pub fn walked(&self, walked: Walked) {
        let Some(shared) = self.0.upgrade() else { return };
        // Work comes over the network, so it stands, or is about to be known here.
        let sender = shared.sender.wait();
        // Others wait for the server, so what goes out is written when it is free again.
        let batch = sender.batch();
        let mut server = shared.lock();
        server.walked(sender.now_us(), &batch, walked);
        let due = server.next_due();
        if server.slots_in_use() == 0 {
            batch.alone();
        }
        drop(server);
        if let Some(due) = due {
            sender.due_by(due);
        }
    }
}

struct ServerSide<W> {
    shared: Arc<Shared<W>>,
    told: ToldTroubles,
}

impl<W: Walker + Send> Handler for ServerSide<W> {
    fn event(&mut self, now: u64, net: &dyn Network, event: Event<'_>) {
        let change: Option<fn(&mut usize)> = match &event {
            Event::Up { peer: PeerId::Server(_), .. } => Some(|others| *others += 1),
            Event::Down { peer: PeerId::Server(_), .. } => Some(|others| *others -= 1),
            _ => None,
        };
        if let Some(trouble) = self.told.note(now, &event) {
            tracing::warn!("{trouble}");
        }
        self.shared.lock().event(now, net, event);
        if let Some(change) = change {
            self.shared.count(change);
        }
    }

    fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        Handler::due(&mut *self.shared.lock(), now, net)
    }
}

impl<W: Walker + Send + 'static> ServerHost<W> {
    /// Serves at a listener; `walker` is made of what takes its results.
    ///
    /// # Errors
    /// [`OpenError`], or what `walker` fails with.
    pub fn open<E: From<OpenError>>(
        network: Settings,
        listener: TcpListener,
        settings: ServerSettings,
        walker: impl FnOnce(Arc<OnceLock<Done<W>>>) -> Result<W, E>,
    ) -> Result<Self, E> {
        let done = Arc::new(OnceLock::new());
        let walker = walker(Arc::clone(&done))?;
        let server = Mutex::new(Server::new(settings, walker));
        let (others, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { server, sender: OnceLock::new(), others, changed });
        assert!(done.set(Done(Arc::downgrade(&shared))).is_ok(), "it is set here alone");
        let side = ServerSide { shared: Arc::clone(&shared), told: ToldTroubles::default() };
        let tcp = Tcp::open(network, Some(listener), side)?;
        assert!(shared.sender.set(tcp.sender()).is_ok(), "it is set here alone");
        Ok(Self { tcp, shared })
    }

    /// What it has seen.
    pub fn counters(&self) -> ServerCounters {
        self.shared.lock().counters()
    }

    /// How many queries are here.
    pub fn slots_in_use(&self) -> usize {
        self.shared.lock().slots_in_use()
    }

    /// What its walker tells of itself. Must not wait: messages do meanwhile.
    pub fn of_walker<T>(&self, told: impl FnOnce(&W) -> T) -> T {
        told(self.shared.lock().walker())
    }

    /// Waits until so many other servers are connected. False where that takes longer.
    pub fn wait_up(&self, others: usize, at_most: Duration) -> bool {
        let held = self.shared.others.lock().unwrap_or_else(PoisonError::into_inner);
        let few = |up: &mut usize| *up < others;
        let waited = self.shared.changed.wait_timeout_while(held, at_most, few);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= others
    }

    /// Microseconds since it began.
    pub fn now_us(&self) -> u64 {
        self.tcp.now_us()
    }
}

/// A machine that asks.
pub trait Asks: Handler + 'static {
    /// What is asked.
    type Query;

    /// Asks; the number is told with the end.
    ///
    /// # Errors
    /// [`NoAnswer::Crowded`].
    fn ask(&mut self, now: u64, net: &dyn Network, query: Self::Query) -> Result<u64, NoAnswer>;

    /// What has ended since this was called last.
    fn take_ended(&mut self) -> Vec<(u64, Ended)>;

    /// Servers that are connected, those of another index than what is searched among them.
    fn up(&self) -> usize;

    /// Whether a server can be asked: it is connected, and serves what is searched.
    fn is_up(&self, server: u32) -> bool;

    /// Queries that have no answer yet.
    fn open(&self) -> usize;

    /// How long after it was asked something of a query is due at the soonest.
    fn due_us(&self, query: &Self::Query) -> u64;

    /// How long an answer is of use.
    fn left_us(query: &Self::Query) -> u64;

    /// Whether an answer may lack partitions whose servers are missing.
    fn takes_partial(query: &Self::Query) -> bool;
}

impl Asks for Asker {
    type Query = Query;

    fn ask(&mut self, now: u64, net: &dyn Network, query: Query) -> Result<u64, NoAnswer> {
        Self::ask(self, now, net, query)
    }

    fn take_ended(&mut self) -> Vec<(u64, Ended)> {
        Self::take_ended(self)
    }

    fn up(&self) -> usize {
        Self::up(self)
    }

    fn is_up(&self, server: u32) -> bool {
        Self::is_up(self, server)
    }

    fn open(&self) -> usize {
        Self::open(self)
    }

    fn due_us(&self, query: &Query) -> u64 {
        Self::due_us(self, query)
    }

    fn left_us(query: &Query) -> u64 {
        query.left_us
    }

    fn takes_partial(query: &Query) -> bool {
        query.partial
    }
}

/// A client on the network: callers on any thread wait for their answers.
pub struct Client<M = Asker> {
    tcp: Tcp,
    shared: Arc<Asking<M>>,
    placement: Arc<Placement>,
}

struct Asking<M> {
    asker: Mutex<M>,
    /// A server came, or did not.
    changed: Condvar,
    troubles: Mutex<LastTroubles>,
    callers: Mutex<HashMap<u64, Give<Ended>>>,
}

impl<M> Asking<M> {
    fn asker(&self) -> MutexGuard<'_, M> {
        self.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn troubles(&self) -> MutexGuard<'_, LastTroubles> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands ends to those who wait for them.
    fn tell(&self, ended: Vec<(u64, Ended)>) {
        if ended.is_empty() {
            return;
        }
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, ended) in ended {
            if let Some(caller) = callers.remove(&number) {
                // It may have gone.
                let _ = caller.send(ended);
            }
        }
    }
}

struct ClientSide<M>(Arc<Asking<M>>);

impl<M: Asks> Handler for ClientSide<M> {
    fn event(&mut self, now: u64, net: &dyn Network, event: Event<'_>) {
        let changes =
            matches!(event, Event::Up { .. } | Event::Down { .. } | Event::Refused { .. });
        if changes {
            self.0.troubles().note(&event);
        }
        let mut asker = self.0.asker();
        asker.event(now, net, event);
        if changes {
            self.0.changed.notify_all();
        }
        let ended = asker.take_ended();
        drop(asker);
        self.0.tell(ended);
    }

    fn due(&mut self, now: u64, net: &dyn Network) -> Option<u64> {
        let mut asker = self.0.asker();
        let due = asker.due(now, net);
        let ended = asker.take_ended();
        drop(asker);
        self.0.tell(ended);
        due
    }
}

impl Client {
    /// Dials the servers of the placement.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(network: Settings, settings: AskerSettings) -> Result<Self, OpenError> {
        let placement = Arc::new(network.placement.clone());
        Self::over(network, Asker::new(settings, placement))
    }
}

impl<M: Asks> Client<M> {
    /// As [`open`](Client::open), for a machine that asks in another way.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn over(network: Settings, machine: M) -> Result<Self, OpenError> {
        let placement = Arc::new(network.placement.clone());
        let asker = Mutex::new(machine);
        let (changed, troubles, callers) = Default::default();
        let shared = Arc::new(Asking { asker, changed, troubles, callers });
        let tcp = Tcp::open(network, None, ClientSide(Arc::clone(&shared)))?;
        Ok(Self { tcp, shared, placement })
    }

    /// Asks; the answer comes through what is returned.
    ///
    /// # Errors
    /// [`NoAnswer::Crowded`].
    pub fn ask(&self, query: M::Query) -> Result<Receiver<Ended>, NoAnswer> {
        let (give, answer) = channel();
        let sender = self.tcp.sender();
        let batch = sender.batch();
        let mut asker = self.shared.asker();
        let due = sender.now_us().saturating_add(asker.due_us(&query));
        let mut callers = self.shared.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = asker.ask(sender.now_us(), &batch, query)?;
        callers.insert(number, give);
        if asker.open() == 1 {
            batch.alone();
        }
        // What could not be asked has ended already, and nothing else may happen for long.
        let ended = asker.take_ended();
        drop((callers, asker));
        self.shared.tell(ended);
        sender.due_by(due);
        Ok(answer)
    }

    /// Asks and waits; the deadline ends the wait, whatever the servers do.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub fn search(&self, query: M::Query) -> Ended {
        let (left_us, answer) = (M::left_us(&query), self.ask(query)?);
        waited(&answer, left_us)
    }

    /// Asks each server its own query and waits for all.
    ///
    /// # Errors
    /// The first [`NoAnswer`] in the order of servers: what is missing cannot be told apart from what
    /// was not found. Of queries that take partial answers, only where no server answers, or one
    /// refuses.
    pub fn search_all(&self, query: impl Fn(u32) -> M::Query) -> Result<Vec<Found>, NoAnswer> {
        let servers = self.placement.servers().iter().map(|server| server.number);
        self.search_at(&servers.collect::<Vec<_>>(), query)
    }

    /// As [`search_all`](Self::search_all), of these servers alone.
    ///
    /// # Errors
    /// As [`search_all`](Self::search_all).
    pub fn search_at(
        &self,
        servers: &[u32],
        query: impl Fn(u32) -> M::Query,
    ) -> Result<Vec<Found>, NoAnswer> {
        let asked: Result<Vec<_>, _> = servers
            .iter()
            .map(|&server| {
                let query = query(server);
                let (left_us, partial) = (M::left_us(&query), M::takes_partial(&query));
                self.ask(query).map(|answer| (answer, left_us, partial.then_some(server)))
            })
            .collect();
        let mut why = None;
        let ended = asked?.into_iter().map(|(answer, left_us, partial)| {
            match (waited(&answer, left_us), partial) {
                (Err(no), Some(server)) if no.is_missing() => {
                    why = Some(no);
                    let of = self.placement.server(server);
                    let missing = of.map(|of| of.partitions.clone()).unwrap_or_default();
                    Ok(Found { missing, ..Found::default() })
                }
                (ended, _) => ended,
            }
        });
        let found = ended.collect::<Result<Vec<_>, _>>()?;
        let is_missing = found.iter().all(|found| found.trace.is_empty());
        why.filter(|_| is_missing).map_or(Ok(found), Err)
    }

    /// The servers and partitions of the cluster.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Servers of the placement that cannot be asked now: they are not connected, or serve another index,
    /// or generation of it, than what is searched.
    pub fn missing(&self) -> Vec<u32> {
        self.missing_at(&self.shared.asker())
    }

    fn missing_at(&self, asker: &M) -> Vec<u32> {
        let servers = self.placement.servers().iter().map(|server| server.number);
        servers.filter(|server| !asker.is_up(*server)).collect()
    }

    /// [`missing`](Self::missing) servers for people: each with its address, and the last trouble with it.
    pub fn missing_in_words(&self) -> String {
        let missing = self.missing();
        let troubles = self.shared.troubles();
        let servers = self.placement.servers().iter();
        let missing = servers.filter(|server| missing.contains(&server.number)).map(|server| {
            let words = troubles.words(server.number);
            format!("server {} at {} ({words})", server.number, server.address)
        });
        missing.collect::<Vec<_>>().join(", ")
    }

    /// Whether no [`missing`](Self::missing) server comes by waiting: certificates, topologies or indexes of
    /// the two sides do not go together.
    pub fn waits_in_vain(&self) -> bool {
        self.in_vain(&self.shared.asker())
    }

    fn in_vain(&self, asker: &M) -> bool {
        let (missing, troubles) = (self.missing_at(asker), self.shared.troubles());
        !missing.is_empty() && missing.iter().all(|server| troubles.is_lasting(*server))
    }

    /// As [`wait_up`](Self::wait_up), and no longer than it is of use.
    pub fn meet(&self, servers: usize, at_most: Duration) -> bool {
        let few = |asker: &mut M| asker.up() < servers && !self.in_vain(asker);
        let asker = self.shared.asker();
        let waited = self.shared.changed.wait_timeout_while(asker, at_most, few);
        let (asker, _) = waited.unwrap_or_else(PoisonError::into_inner);
        asker.up() >= servers
    }

    /// Waits until so many servers are connected, whatever they serve. False where that takes longer.
    pub fn wait_up(&self, servers: usize, at_most: Duration) -> bool {
        let few = |asker: &mut M| asker.up() < servers;
        let asker = self.shared.asker();
        let waited = self.shared.changed.wait_timeout_while(asker, at_most, few);
        let (asker, _) = waited.unwrap_or_else(PoisonError::into_inner);
        asker.up() >= servers
    }
}

/// Waits for the end of a query that had so long.
fn waited(answer: &Receiver<Ended>, left_us: u64) -> Ended {
    // The asker ends it; beyond that somebody has stopped it.
    match answer.recv_timeout(Duration::from_micros(left_us.saturating_add(1_000_000))) {
        Ok(ended) => ended,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(NoAnswer::Deadline { attempts: 0, silent: String::new() })
        }
    }
}

#[cfg(test)]
mod tests;
