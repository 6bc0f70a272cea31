//! Changes that clients named are known again, for as long as is promised.

use std::sync::atomic::{AtomicU64, Ordering};

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
    let clock = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&clock);
    requests.forget_by(move || now.load(Ordering::Relaxed));
    let remember = |n, at_ms, now_ms| {
        clock.store(now_ms, Ordering::Relaxed);
        requests.remember(request(n, at_ms));
    };
    remember(1, 1_000, 5);
    let known = |n| matches!(requests.begin(request(n, 0).id), BegunRequest::Applied(answer) if answer.first_row == n);
    assert!(known(1) && !known(2));
    remember(1, 5_000, 5);
    assert_eq!(requests.after(0).0.len(), 1, "it is remembered once");
    // Whatever the clock of who made the change says.
    remember(2, u64::MAX, 5 + REMEMBERED_MS);
    assert!(known(1));
    remember(3, 0, 6 + REMEMBERED_MS);
    assert!(!known(1) && known(2) && known(3));
    for n in 0..MOST_REMEMBERED as u64 {
        remember(10 + n, 0, 6 + REMEMBERED_MS);
    }
    assert!(!known(3) && known(10));
}

#[test]
fn what_came_since_is_told_once() {
    let requests = Arc::new(KnownRequests::default());
    requests.remember(request(1, 1));
    let (first, count) = requests.after(0);
    assert_eq!((first, count), (vec![request(1, 1)], 1));
    requests.remember(request(2, 2));
    assert_eq!(requests.after(count), (vec![request(2, 2)], 2));
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
        // Its change may not be seen here yet.
        requests.remember(request(7, 1));
        (0..200).for_each(|_| std::thread::yield_now());
        assert!(!second.is_finished());
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
