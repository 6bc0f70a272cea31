//! A message of each kind between servers, alone and one behind the other.

use pipeann_cluster::wire::{
    Answer, Begin, FRAME_HEADER, Failure, FailureCode, Goodbye, Hello, Hit, Hits, Leave, Message,
    Mode, Neighbours, Numbers, PeerId, QueryId, Read, Reads, Score, Scored, State,
};

use super::seed::Seeds;

pub(super) fn add(seeds: &mut Seeds) {
    let query = QueryId { asker: PeerId::Client(77), number: 5 };
    let numbers = Numbers::pack([3, 9]);
    let numbers = Numbers::of(&numbers).expect("whole numbers");
    let hits = Hits::pack([Hit { distance: 1.5, row: 8 }, Hit { distance: 2.5, row: 9 }]);
    let hits = Hits::of(&hits).expect("whole hits");
    let who = PeerId::Server(3);
    let read = Read { node: 3, distance: 2.5, row: Some(1 << 40) };
    let reads = Reads::pack([read, Read { node: 4, row: None, ..read }]);
    let reads = Reads::of(&reads).expect("whole ones");
    let neighbours = Neighbours::pack([(-1.0, 9), (0.5, 8)]);
    let neighbours = Neighbours::of(&neighbours).expect("whole ones");
    let (index, generation, codebook) = ([7; 16], 4, 2);
    let (partitions, missing, trace) = (numbers, numbers, numbers);
    let cluster = "blue";
    let (attempt, left_us, hops) = (2, 1_000_000, 40);
    let (mode, partial, slots, credit) = (Mode::Relay, true, 64, 1 << 20);
    let (code, partition) = (FailureCode::PartitionGone, Some(4));
    let messages = [
        Message::Hello(Hello {
            cluster,
            who,
            index,
            generation,
            codebook,
            partitions,
            slots,
            credit,
        }),
        Message::Begin(Begin {
            query,
            attempt,
            left_us,
            hops,
            mode,
            partial,
            missing,
            parameters: b"asked",
            vector: b"a vector",
        }),
        Message::State(State {
            query,
            attempt,
            left_us,
            hops,
            partition: 6,
            trace,
            missing,
            state: b"a state",
        }),
        Message::Answer(Answer { query, attempt, hits, trace, missing, stats: b"spent" }),
        Message::Failure(Failure { query, attempt, code, partition, words: "nobody there" }),
        Message::Cancel(query),
        Message::Score(Score {
            query,
            attempt,
            left_us,
            hops,
            partition: 6,
            bound: 17.5,
            most: 90,
            starts: true,
            packed: true,
            nodes: numbers,
            parameters: b"asked",
            vector: b"a vector",
        }),
        Message::Scored(Scored {
            query,
            attempt,
            hops,
            early_stop: true,
            reads,
            neighbours,
            starts: numbers,
            stats: b"spent",
        }),
        Message::Credit(99),
        Message::Ping(1),
        Message::Pong(1),
        Message::Goodbye(Goodbye { why: Leave::Garbage, words: "what was that" }),
    ];
    let mut stream = vec![0];
    for message in &messages {
        let kind = message.kind();
        let start = stream.len();
        message.append(&mut stream).expect("they are short");
        let alone = [&[kind as u8], &stream[start + FRAME_HEADER..]].concat();
        seeds.add("frame", format!("{kind:?}").to_lowercase(), alone);
    }
    seeds.add("frame", "stream", stream);
}
