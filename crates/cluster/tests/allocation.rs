//! What arrives is read where it lies: messages of every kind that servers send each other in a search
//! are decoded without an allocation, counted by an allocator of this test binary.

use pipeann_cluster::wire::{
    Answer, Begin, FRAME_MAX, Failure, FailureCode, Hit, Hits, Message, Mode, Numbers, PeerId,
    QueryId, State, frame_len, read,
};

#[path = "../../engine/tests/engine/counting.rs"]
mod counting;

/// The frames of a query: asked, passed on, answered, failed, given up.
fn frames() -> Vec<Vec<u8>> {
    let query = QueryId { asker: PeerId::Client(7), number: 3 };
    let numbers = Numbers::pack([3, 9]);
    let numbers = Numbers::of(&numbers).expect("whole numbers");
    let hits = Hits::pack((0..100).map(|row| Hit { distance: 1.5, row }));
    let (left_us, attempt, vector, state) = (900, 1, vec![4; 128], vec![5; 4096]);
    let begin = Begin {
        query,
        attempt,
        left_us,
        hops: 40,
        mode: Mode::Relay,
        partial: true,
        missing: numbers,
        parameters: &[1; 24],
        vector: &vector,
    };
    let passed_on = State {
        query,
        attempt,
        left_us,
        hops: 39,
        partition: 6,
        trace: numbers,
        missing: numbers,
        state: &state,
    };
    let answer = Answer {
        query,
        attempt,
        hits: Hits::of(&hits).expect("whole hits"),
        trace: numbers,
        missing: numbers,
        stats: &[5; 20],
    };
    let (code, partition) = (FailureCode::PartitionGone, Some(4));
    let failure = Failure { query, attempt, code, partition, words: "nobody there" };
    let messages = [
        Message::Begin(begin),
        Message::State(passed_on),
        Message::Answer(answer),
        Message::Failure(failure),
        Message::Cancel(query),
        Message::Credit(1 << 40),
    ];
    let framed = |message: &Message<'_>| {
        let mut frame = Vec::new();
        message.append(&mut frame).expect("short enough");
        frame
    };
    messages.iter().map(framed).collect()
}

#[test]
fn what_arrives_is_read_without_an_allocation() {
    for frame in frames() {
        let before = counting::allocations();
        let length = frame_len(&frame, FRAME_MAX);
        let message = read(&frame);
        let allocations = counting::allocations() - before;
        assert_eq!(length.expect("a frame"), Some(frame.len()));
        let (message, _) = message.expect("a message");
        assert_eq!(allocations, 0, "{:?}", message.kind());
        // Nor is there one where it was damaged on its way.
        for at in 0..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            let before = counting::allocations();
            let ended = read(&damaged).is_err();
            assert_eq!(counting::allocations() - before, 0, "byte {at}: {ended}");
        }
    }
}
