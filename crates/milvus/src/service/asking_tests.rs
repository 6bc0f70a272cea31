//! What clients tell of their patience, and what becomes of it.

use pipeann_engine::memory::Accountant;

use super::super::messages::Messages;
use super::*;

#[test]
fn timeouts_are_read_as_grpc_writes_them() {
    assert_eq!(timeout_of("90S"), Some(Duration::from_secs(90)));
    assert_eq!(timeout_of("2H"), Some(Duration::from_secs(7200)));
    assert_eq!(timeout_of("3M"), Some(Duration::from_secs(180)));
    assert_eq!(timeout_of("99999999m"), Some(Duration::from_millis(99_999_999)));
    assert_eq!(timeout_of("5u"), Some(Duration::from_micros(5)));
    assert_eq!(timeout_of("0n"), Some(Duration::ZERO));
    for wrong in ["", "S", "1", "123456789S", "-1S", "1.5S", "1s", "\u{e9}"] {
        assert_eq!(timeout_of(wrong), None, "{wrong}");
    }
}

#[test]
fn timeouts_are_written_as_they_are_read() {
    for (left, read) in [(90_500, 90_500), (0, 0), (99_999_999, 99_999_999)] {
        let text = timeout_text(Duration::from_millis(left));
        assert_eq!(timeout_of(&text), Some(Duration::from_millis(read)));
    }
    let long = Duration::from_secs(1 << 20);
    assert_eq!(timeout_of(&timeout_text(long)), Some(long));
    assert_eq!(timeout_text(Duration::from_micros(1_999)), "1m");
}

#[test]
fn those_who_take_long_take_turns_and_all_get_on() {
    let turns = Turns::of(1);
    turns.begin(0, || false).unwrap();
    let second = {
        let turns = Arc::clone(&turns);
        let waits = move || turns.begin(0, || false).map(|()| turns.end());
        std::thread::Builder::new().spawn(waits).unwrap()
    };
    while !turns.is_wanted() {
        std::thread::yield_now();
    }
    assert_eq!(turns.begin(0, || true), Err(Gone::Left), "it has gone while it waited");
    turns.end();
    assert_eq!(second.join().unwrap(), Ok(()));
    assert!(!turns.is_wanted());
    assert_eq!(turns.state().running, 0);
}

#[test]
fn who_had_fewer_turns_goes_first() {
    let turns = Turns::of(1);
    turns.begin(0, || false).unwrap();
    let (told, heard) = std::sync::mpsc::channel();
    let waits = |had: u64| {
        let (turns, told) = (Arc::clone(&turns), told.clone());
        let waiting = turns.state().waiting.len();
        let thread = std::thread::Builder::new().spawn({
            let turns = Arc::clone(&turns);
            move || {
                turns.begin(had, || false).unwrap();
                told.send(had).unwrap();
                turns.end();
            }
        });
        while turns.state().waiting.len() == waiting {
            std::thread::yield_now();
        }
        thread.unwrap()
    };
    let threads = [7, 9, 0, 3].map(waits);
    turns.end();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(told);
    assert_eq!(heard.iter().collect::<Vec<_>>(), [0, 3, 7, 9]);
}

#[test]
fn few_wait_for_a_turn() {
    let turns = Turns::of(1);
    turns.state().waiting.extend((0..MOST_WAITING as u64).map(|ticket| (0, 1000 + ticket)));
    assert_eq!(turns.begin(0, || false), Err(Gone::Crowded));
}

#[test]
fn a_client_that_leaves_or_whose_time_passes_waits_no_more() {
    let mut metadata = MetadataMap::new();
    let client = WaitingClient::new(&metadata, None, None);
    assert_eq!(client.gone(), None);
    drop(Stays(Arc::clone(&client)));
    assert_eq!(client.gone(), Some(Gone::Left));
    metadata.insert(TIMEOUT, "0n".parse().unwrap());
    assert_eq!(WaitingClient::new(&metadata, None, None).gone(), Some(Gone::Late));
    let client = WaitingClient::new(&MetadataMap::new(), None, None);
    client.grows(MAX_ANSWER_BYTES as u64).unwrap();
    assert!(matches!(client.grows(1), Err(TooMuch::Answer { .. })));
}

#[test]
fn what_an_answer_has_no_more_does_not_count() {
    let accountant = Accountant::new(Some(512 << 20));
    let memory = CallMemory::new(&Messages::new(&accountant));
    let client = WaitingClient::new(&MetadataMap::new(), Some(memory), None);
    for _ in 0..100 {
        client.grows(60 << 20).unwrap();
        client.shrinks(60 << 20);
    }
    let held = accountant.held_bytes();
    assert!((120 << 20..125 << 20).contains(&held), "{held}");
    client.grows(70 << 20).unwrap();
    assert!(accountant.held_bytes() >= 140 << 20);
    assert!(matches!(client.grows(70 << 20), Err(TooMuch::Memory(_))));
    drop(client);
    assert_eq!(accountant.held_bytes(), 0);
}
