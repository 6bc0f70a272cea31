//! Messages are counted while they grow.

use super::*;

#[test]
fn messages_count_while_they_grow_and_are_refused_beyond_the_limit() {
    let accountant = Accountant::new(Some(256 << 20));
    let messages = Messages::new(&accountant);
    let mut shares = Vec::new();
    let refused = loop {
        let mut share = Share::new(&messages);
        let grown = (0..40).try_for_each(|_| share.grow(1 << 20));
        shares.push(share);
        assert!(shares.len() < 10, "nothing is refused");
        if let Err(refused) = grown {
            break refused;
        }
    };
    assert_eq!(shares.len(), 4, "128 MiB are three of 40 MiB and a part: {refused}");
    assert!(messages.held_bytes() <= 128 << 20);
    assert_eq!(accountant.pool_bytes(Pool::QueryScratch), messages.held_bytes());
    drop(shares);
    assert_eq!((messages.held_bytes(), accountant.held_bytes()), (0, 0));
    assert!(messages.take_left_much() && !messages.take_left_much());
    let mut small = Share::new(&messages);
    small.grow(100).unwrap();
    assert_eq!(messages.held_bytes(), 100);
}

#[test]
fn what_others_hold_leaves_less() {
    let accountant = Accountant::new(Some(256 << 20));
    let _others = accountant.reserve(Pool::Codes, 250 << 20).unwrap();
    let messages = Messages::new(&accountant);
    let mut share = Share::new(&messages);
    share.grow(1 << 20).unwrap();
    assert!(share.grow(10 << 20).is_err());
}

#[test]
fn an_answer_leaves_in_pieces_and_is_held_until_the_last_is_taken() {
    let bytes: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let held = Arc::new(());
    let body = Body::new(axum::body::Body::from(bytes.clone()));
    let mut answer = LeavingAnswer::new(body, Arc::clone(&held));
    let mut context = Context::from_waker(std::task::Waker::noop());
    let mut taken = Vec::new();
    assert_eq!(answer.size_hint().exact(), Some(200_000));
    while taken.len() < bytes.len() {
        assert!(!answer.is_end_stream(), "{} bytes are taken", taken.len());
        let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut answer).poll_frame(&mut context) else {
            panic!("it ends behind {} bytes", taken.len())
        };
        let piece = frame.into_data().unwrap();
        assert!((1..=PIECE_BYTES).contains(&piece.len()), "{} bytes at once", piece.len());
        taken.extend_from_slice(&piece);
    }
    assert_eq!((taken == bytes, answer.size_hint().exact()), (true, Some(0)));
    assert!(matches!(Pin::new(&mut answer).poll_frame(&mut context), Poll::Ready(None)));
    assert_eq!(Arc::strong_count(&held), 2);
    drop(answer);
    assert_eq!(Arc::strong_count(&held), 1);
}
