//! Requests that are applied once, however often they come.
//!
//! Whoever may send a write again, since its answer was lost, gives it an id. The id stands in the shared
//! log behind the change that it made, with what is needed to answer it, so that whoever leads next
//! knows it too. A request of an id that is known is answered and not applied; one that is being applied
//! is waited for. Ids are remembered for a time after this server got to know them, and within a bound: whose
//! clock goes wrong makes no server forget what it may be sent again.
//!
//! Which request is done on a thread is said with [`within`]; work for other requests, which a thread
//! may do on the way, asks nothing here.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// How long an answer is remembered.
pub const REMEMBERED_MS: u64 = 10 * 60 * 1000;
/// Answers that are remembered at once; the oldest give way.
pub const MOST_REMEMBERED: usize = 1 << 18;

/// The id of a request; made so that no other one has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub [u8; 16]);

/// What a request is answered by, beside what stands in itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestAnswer {
    /// Id of the first row that it wrote.
    pub first_row: u64,
    /// How many rows it wrote.
    pub rows: u64,
    /// How many it replaced or deleted.
    pub removed: u64,
}

/// A request that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedRequest {
    /// Its id.
    pub id: RequestId,
    /// When its change was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it is answered by.
    pub answer: RequestAnswer,
}

impl AppliedRequest {
    /// Bytes of one.
    pub const BYTES: usize = 48;

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let RequestAnswer { first_row, rows, removed } = self.answer;
        let mut bytes = [0; Self::BYTES];
        let (id, numbers) = bytes.split_at_mut(16);
        id.copy_from_slice(&self.id.0);
        for (into, number) in
            numbers.as_chunks_mut::<8>().0.iter_mut().zip([self.at_ms, first_row, rows, removed])
        {
            *into = number.to_le_bytes();
        }
        bytes
    }

    /// From bytes.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (id, numbers) = bytes.split_first_chunk::<16>().expect("48 bytes have 16");
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut number = || numbers.next().expect("32 bytes have four numbers");
        let at_ms = number();
        let answer = RequestAnswer { first_row: number(), rows: number(), removed: number() };
        Self { id: RequestId(*id), at_ms, answer }
    }
}

/// A request that a thread works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentRequest {
    /// Its id.
    pub id: RequestId,
    /// When it came, in milliseconds since 1970.
    pub at_ms: u64,
}

impl CurrentRequest {
    /// As one that is applied, by this answer.
    pub fn applied(self, answer: RequestAnswer) -> AppliedRequest {
        AppliedRequest { id: self.id, at_ms: self.at_ms, answer }
    }
}

thread_local! {
    static CURRENT: Cell<Option<CurrentRequest>> = const { Cell::new(None) };
}

/// Does something on this thread for a request, or for none.
pub fn within<T>(request: Option<CurrentRequest>, work: impl FnOnce() -> T) -> T {
    struct Previous(Option<CurrentRequest>);
    impl Drop for Previous {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _before = Previous(CURRENT.replace(request));
    work()
}

/// The request that this thread works for.
pub fn current() -> Option<CurrentRequest> {
    CURRENT.get()
}

#[derive(Debug)]
struct RememberedRequest {
    request: AppliedRequest,
    /// By the clock of this server.
    since_ms: u64,
}

#[derive(Debug, Default)]
struct RememberedRequests {
    answers: HashMap<RequestId, RequestAnswer>,
    /// In the order in which they came.
    order: VecDeque<RememberedRequest>,
    /// How many came before the first of these.
    gone: u64,
    under_way: HashSet<RequestId>,
}

impl RememberedRequests {
    fn forget_old(&mut self, now_ms: u64) {
        while let Some(oldest) = self.order.front()
            && (self.order.len() > MOST_REMEMBERED
                || now_ms.saturating_sub(oldest.since_ms) > REMEMBERED_MS)
        {
            self.answers.remove(&oldest.request.id);
            self.order.pop_front();
            self.gone += 1;
        }
    }
}

/// See the module's description. Shared between threads by reference.
#[derive(Debug, Default)]
pub struct KnownRequests {
    known: Mutex<RememberedRequests>,
    ended: Condvar,
    clock: LocalClock,
}

/// Milliseconds by the clock of this server, where it has said which that is.
#[derive(Default)]
struct LocalClock(OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>);

impl fmt::Debug for LocalClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalClock")
    }
}

/// What is known of a request that comes.
#[derive(Debug)]
pub enum BegunRequest {
    /// Nothing: it is to be applied. Dropped, it is under way no more.
    New(RequestUnderWay),
    /// It was applied, with this answer.
    Applied(RequestAnswer),
}

/// A request that is being applied.
#[derive(Debug)]
pub struct RequestUnderWay {
    requests: Arc<KnownRequests>,
    id: RequestId,
}

impl RequestUnderWay {
    /// Which one.
    pub fn id(&self) -> RequestId {
        self.id
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.requests.known().under_way.remove(&self.id);
        self.requests.ended.notify_all();
    }
}

impl KnownRequests {
    fn known(&self) -> MutexGuard<'_, RememberedRequests> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has requests forgotten by this clock, in milliseconds. Until this is said none gets old; what was
    /// remembered before is forgotten with the next one.
    pub fn forget_by(&self, now_ms: impl Fn() -> u64 + Send + Sync + 'static) {
        // Whoever opens the database once more has the same clock.
        let _ = self.clock.0.set(Box::new(now_ms));
    }

    /// Looks a request up that has come. One of the same id that is under way is waited for.
    pub fn begin(self: &Arc<Self>, id: RequestId) -> BegunRequest {
        let mut known = self.known();
        loop {
            // Its answer is known as soon as it is in the log that servers share, and it may not be seen here yet.
            if !known.under_way.contains(&id) {
                if let Some(answer) = known.answers.get(&id) {
                    return BegunRequest::Applied(*answer);
                }
                known.under_way.insert(id);
                return BegunRequest::New(RequestUnderWay { requests: Arc::clone(self), id });
            }
            known = self.ended.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Remembers a request whose change is made for certain. One that is known already stays as it is.
    pub fn remember(&self, request: AppliedRequest) {
        let since_ms = self.clock.0.get().map_or(0, |now| now());
        let mut known = self.known();
        if known.answers.contains_key(&request.id) {
            return;
        }
        known.answers.insert(request.id, request.answer);
        known.order.push_back(RememberedRequest { request, since_ms });
        known.forget_old(since_ms);
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.known().order.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those that were remembered after so many, and how many those are with the ones before them.
    pub fn after(&self, count: u64) -> (Vec<AppliedRequest>, u64) {
        let known = self.known();
        let skipped = usize::try_from(count.saturating_sub(known.gone)).unwrap_or(usize::MAX);
        let found = known.order.iter().skip(skipped).map(|known| known.request).collect();
        (found, known.gone + known.order.len() as u64)
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
