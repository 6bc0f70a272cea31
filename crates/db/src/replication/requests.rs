//! Requests that are applied once, however often they come.
//!
//! Whoever may send a write again, since its answer was lost, gives it an id. The id stands in the shared
//! log behind the change that it made, with what is needed to answer it, so that whoever leads next
//! knows it too. A request of an id that is known is answered and not applied; one that is being applied
//! is waited for. Ids are remembered for a time, counted by when they were given to the log, and
//! within a bound.
//!
//! Which request is done on a thread is said with [`within`]; work for other requests, which a thread
//! may do on the way, asks nothing here.

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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

#[derive(Debug, Default)]
struct RememberedRequests {
    answers: HashMap<RequestId, RequestAnswer>,
    /// In the order in which they came.
    order: VecDeque<AppliedRequest>,
    /// How many came before the first of these.
    gone: u64,
    under_way: HashSet<RequestId>,
}

impl RememberedRequests {
    fn forget_old(&mut self, now_ms: u64) {
        while let Some(oldest) = self.order.front()
            && (self.order.len() > MOST_REMEMBERED
                || now_ms.saturating_sub(oldest.at_ms) > REMEMBERED_MS)
        {
            self.answers.remove(&oldest.id);
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

    /// Looks a request up that has come. One of the same id that is under way is waited for.
    pub fn begin(self: &Arc<Self>, id: RequestId) -> BegunRequest {
        let mut known = self.known();
        loop {
            if let Some(answer) = known.answers.get(&id) {
                return BegunRequest::Applied(*answer);
            }
            if known.under_way.insert(id) {
                return BegunRequest::New(RequestUnderWay { requests: Arc::clone(self), id });
            }
            known = self.ended.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Remembers a request whose change is made for certain. One that is known already stays as it is.
    pub fn remember(&self, request: AppliedRequest) {
        let mut known = self.known();
        if known.answers.contains_key(&request.id) {
            return;
        }
        known.answers.insert(request.id, request.answer);
        known.order.push_back(request);
        known.forget_old(request.at_ms);
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
        let found = known.order.iter().skip(skipped).copied().collect();
        (found, known.gone + known.order.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(n: u64, at_ms: u64) -> AppliedRequest {
        let id = RequestId(u128::from(n).to_le_bytes());
        AppliedRequest { id, at_ms, answer: RequestAnswer { first_row: n, rows: 2, removed: 1 } }
    }

    #[test]
    fn bytes_come_back() {
        let request = AppliedRequest {
            id: RequestId(std::array::from_fn(|byte| byte as u8)),
            at_ms: 1,
            answer: RequestAnswer { first_row: u64::MAX, rows: 3, removed: 4 },
        };
        assert_eq!(AppliedRequest::from_bytes(&request.to_bytes()), request);
    }

    #[test]
    fn what_was_applied_is_answered_for_a_time_and_within_a_bound() {
        let requests = Arc::new(KnownRequests::default());
        requests.remember(request(1, 1_000));
        let known = |n| matches!(requests.begin(request(n, 0).id), BegunRequest::Applied(answer) if answer.first_row == n);
        assert!(known(1) && !known(2));
        requests.remember(request(1, 5_000));
        assert_eq!(requests.after(0).0.len(), 1, "it is remembered once");
        requests.remember(request(2, 1_000 + REMEMBERED_MS));
        assert!(known(1));
        requests.remember(request(3, 1_001 + REMEMBERED_MS));
        assert!(!known(1) && known(2) && known(3));
        for n in 0..MOST_REMEMBERED as u64 {
            requests.remember(request(10 + n, 1_001 + REMEMBERED_MS));
        }
        assert!(!known(3) && known(10));
    }

    #[test]
    fn what_came_since_is_told_once() {
        let requests = Arc::new(KnownRequests::default());
        requests.remember(request(1, 1));
        let (first, count) = requests.after(0);
        assert_eq!((first, count), (vec![request(1, 1)], 1));
        requests.remember(request(2, 2 + REMEMBERED_MS));
        assert_eq!(requests.after(count), (vec![request(2, 2 + REMEMBERED_MS)], 2));
        assert_eq!(requests.after(2), (Vec::new(), 2));
    }

    #[test]
    fn one_that_is_under_way_is_waited_for() {
        let requests = Arc::new(KnownRequests::default());
        let id = request(7, 0).id;
        let BegunRequest::New(first) = requests.begin(id) else { panic!("it is known") };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| requests.begin(id));
            (0..200).for_each(|_| std::thread::yield_now());
            assert!(!second.is_finished());
            requests.remember(request(7, 1));
            drop(first);
            let second = second.join().unwrap();
            assert!(matches!(second, BegunRequest::Applied(answer) if answer.first_row == 7));
        });
        // One that failed is applied by whoever waited.
        let id = request(8, 0).id;
        let BegunRequest::New(first) = requests.begin(id) else { panic!("it is known") };
        drop(first);
        assert!(matches!(requests.begin(id), BegunRequest::New(_)));
    }

    #[test]
    fn a_thread_works_for_one_request_at_a_time() {
        let one = CurrentRequest { id: request(1, 0).id, at_ms: 3 };
        assert_eq!(current(), None);
        within(Some(one), || {
            assert_eq!(current(), Some(one));
            within(None, || assert_eq!(current(), None));
            assert_eq!(current(), Some(one));
        });
        assert_eq!(current(), None);
    }
}
