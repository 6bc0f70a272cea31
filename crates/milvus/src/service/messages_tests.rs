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
