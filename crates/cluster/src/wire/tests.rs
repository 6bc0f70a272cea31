//! Every message there and back; every byte of every message flipped, cut and repeated.

use super::*;

/// One message of each kind, with every list filled.
pub(crate) fn one_of_each() -> Vec<Vec<u8>> {
    let query = QueryId { asker: PeerId::Client(77), number: 5 };
    let numbers = Numbers::pack([3, 9]);
    let numbers = Numbers::of(&numbers).expect("whole numbers");
    let hits = Hits::pack([Hit { distance: 1.5, row: 8 }, Hit { distance: f32::MAX, row: 9 }]);
    let state: Vec<u8> = (0..=255).collect();
    let score = Score {
        query,
        attempt: 1,
        left_us: 800,
        hops: 38,
        partition: 2,
        bound: 17.5,
        most: 90,
        starts: true,
        packed: true,
        nodes: numbers,
        parameters: &[1, 2],
        vector: &[4; 32],
    };
    let one = Read { node: 3, distance: 2.5, row: Some(1 << 40) };
    let reads = Reads::pack([one, Read { node: 4, row: None, ..one }]);
    let neighbours = Neighbours::pack([(-1.0, 9), (0.5, 8)]);
    let scored = Scored {
        query,
        attempt: 1,
        hops: 38,
        early_stop: true,
        reads: Reads::of(&reads).expect("whole ones"),
        neighbours: Neighbours::of(&neighbours).expect("whole ones"),
        starts: numbers,
        stats: &[7, 8],
    };
    let messages = [
        Message::Hello(Hello {
            cluster: "blue",
            who: PeerId::Server(3),
            index: [7; 16],
            generation: 4,
            codebook: 2,
            partitions: numbers,
            slots: 64,
            credit: 1 << 20,
        }),
        Message::Begin(Begin {
            query,
            attempt: 0,
            left_us: 1_000_000,
            hops: 40,
            mode: Mode::Baton,
            partial: true,
            missing: numbers,
            parameters: &[1, 2, 3],
            vector: &[4; 32],
        }),
        Message::State(State {
            query,
            attempt: 2,
            left_us: 900,
            hops: 39,
            partition: 6,
            trace: numbers,
            missing: numbers,
            state: &state,
        }),
        Message::Answer(Answer {
            query,
            attempt: 2,
            hits: Hits::of(&hits).expect("whole hits"),
            trace: numbers,
            missing: numbers,
            stats: &[5, 6],
        }),
        Message::Failure(Failure {
            query,
            attempt: 9,
            code: FailureCode::PartitionGone,
            partition: Some(4),
            words: "nobody there",
        }),
        Message::Cancel(query),
        Message::Score(score),
        Message::Scored(scored),
        Message::Credit(99),
        Message::Ping(1),
        Message::Pong(1),
        Message::Goodbye(Goodbye { why: Leave::Garbage, words: "what was that" }),
    ];
    assert_eq!(messages.len(), Kind::ALL.len(), "a message of each kind");
    messages
        .iter()
        .map(|message| {
            let mut frame = Vec::new();
            let len = message.append(&mut frame).expect("short enough");
            assert_eq!((len, len), (frame.len(), message.frame_len()));
            let (back, read_len) = read(&frame).expect("our own bytes");
            assert_eq!((&back, read_len), (message, len));
            frame
        })
        .collect()
}

#[test]
fn every_message_comes_back() {
    one_of_each();
}

#[test]
fn every_byte_flipped_cut_or_repeated_is_refused() {
    for frame in one_of_each() {
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut flipped = frame.clone();
                flipped[at] ^= 1 << bit;
                assert!(read(&flipped).is_err(), "bit {bit} of byte {at} of {frame:?}");
            }
            assert_eq!(frame_len_or_cut(&frame[..at]), Err(FrameError::Cut), "cut at {at}");
            let mut without = frame.clone();
            without.remove(at);
            assert!(read(&without).is_err() || without[..] == frame[..frame.len() - 1]);
            let mut twice = frame.clone();
            twice.insert(at, frame[at]);
            // Repeating the last byte of equal ones leaves a whole frame and a byte behind it.
            match read(&twice) {
                Ok((_, len)) => assert_eq!(twice[..len], frame[..]),
                Err(_) => continue,
            }
        }
    }
}

fn frame_len_or_cut(bytes: &[u8]) -> Result<usize, FrameError> {
    read(bytes).map(|(_, len)| len)
}

/// The checksum made right again behind every change: the decoder alone has to hold.
#[test]
fn bodies_with_right_checksums_decode_to_what_encodes_the_same_or_are_refused() {
    let mut accepted = 0;
    for frame in one_of_each() {
        let kind = read(&frame).expect("our own bytes").0.kind();
        let mut changed = Vec::new();
        for at in FRAME_HEADER..frame.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, frame[at].wrapping_add(1)] {
                let mut other = frame.clone();
                other[at] = value;
                changed.push(other);
            }
            changed.push(frame[..at].to_vec());
            let mut twice = frame.clone();
            twice.insert(at, frame[at]);
            changed.push(twice);
        }
        for mut bytes in changed {
            super::frame::seal(&mut bytes, 0, kind);
            if let Ok((message, len)) = read(&bytes) {
                let mut again = Vec::new();
                message.append(&mut again).expect("no longer than it came");
                assert_eq!((again.as_slice(), len), (&bytes[..], bytes.len()));
                accepted += 1;
            }
        }
    }
    assert!(accepted > 1000, "{accepted}");
}

#[test]
fn other_versions_and_lengths_are_refused_by_name() {
    let frame = one_of_each().remove(0);
    let mut other = frame.clone();
    other[4] = 9;
    assert_eq!(frame_len(&other[..5], FRAME_MAX), Err(FrameError::Version(9)));
    assert!(read(&other).unwrap_err().to_string().contains("version 9"));
    let mut long = frame;
    long[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(read(&long), Err(FrameError::Length { len, .. }) if len > 1 << 31));
    assert!(matches!(frame_len(&one_of_each()[2], 64), Err(FrameError::Length { most: 64, .. })));
}

#[test]
fn what_no_frame_holds_is_not_sent() {
    let vector = vec![0; FRAME_MAX];
    let query = QueryId { asker: PeerId::Server(1), number: 0 };
    let long = State {
        query,
        attempt: 0,
        left_us: 1,
        hops: 0,
        partition: 0,
        trace: Numbers::default(),
        missing: Numbers::default(),
        state: &vector,
    };
    let mut out = vec![1, 2, 3];
    assert!(matches!(Message::State(long).append(&mut out), Err(FrameError::Length { .. })));
    assert_eq!(out, [1, 2, 3]);
    let words = "w".repeat(1 << 16);
    let goodbye = Goodbye { why: Leave::Stopping, words: &words };
    assert!(Message::Goodbye(goodbye).append(&mut out).is_err());
}

#[test]
fn peers_of_another_index_are_refused_by_name() {
    let hello = Hello {
        cluster: "blue",
        who: PeerId::Server(1),
        index: [1; 16],
        generation: 4,
        codebook: 2,
        partitions: Numbers::default(),
        slots: 1,
        credit: 1,
    };
    let said = |other: Hello<'_>| hello.admits(&other).map_err(|why| why.to_string());
    assert_eq!(said(Hello { who: PeerId::Server(2), ..hello }), Ok(()));
    let words = said(Hello { cluster: "red", ..hello }).unwrap_err();
    assert!(words.contains("`red`") && words.contains("`blue`"), "{words}");
    assert!(said(Hello { index: [2; 16], ..hello }).unwrap_err().contains("index 0202"));
    assert!(said(Hello { generation: 3, ..hello }).unwrap_err().contains("generation 3"));
    assert!(said(Hello { codebook: 3, ..hello }).unwrap_err().contains("codebook 3"));
    let open =
        Hello { who: PeerId::Client(1), index: [0; 16], generation: 0, codebook: 0, ..hello };
    assert_eq!((said(open), open.admits(&hello)), (Ok(()), Ok(())));
    // A server leaves nothing open.
    assert!(said(Hello { who: PeerId::Server(2), ..open }).is_err());
    // Nor does a client that has seen an index.
    assert!(said(Hello { who: PeerId::Client(1), generation: 3, ..hello }).is_err());
}

#[test]
fn scores_come_back_in_order_and_what_cannot_be_compared_is_refused() {
    let reads = [
        Read { node: 7, distance: 0.25, row: Some(u64::MAX) },
        Read { node: u32::MAX, distance: f32::INFINITY, row: None },
    ];
    let bytes = Reads::pack(reads);
    assert!(Reads::of(&bytes).unwrap().iter().eq(reads));
    let neighbours = [(-3.5, 1), (f32::MAX, 2)];
    let scored = Neighbours::pack(neighbours);
    assert!(Neighbours::of(&scored).unwrap().iter().eq(neighbours));
    let nan = Read { distance: f32::NAN, ..reads[0] };
    assert_eq!(Reads::of(&Reads::pack([nan])), Err(DecodeError::Value("a distance")));
    let nan = Neighbours::pack([(f32::NAN, 1)]);
    assert_eq!(Neighbours::of(&nan), Err(DecodeError::Value("a distance")));
    let many = Reads::pack(std::iter::repeat_n(reads[0], READS_MAX + 1));
    assert_eq!(Reads::of(&many), Err(DecodeError::TooMany("the nodes read")));
    // As many of both as there may be are no longer than a message.
    let neighbours = Neighbours::pack(std::iter::repeat_n(neighbours[0], NEIGHBOURS_MAX));
    let scored = Scored {
        query: QueryId { asker: PeerId::Client(77), number: 5 },
        attempt: 1,
        hops: 38,
        early_stop: false,
        reads: Reads::of(&many[Reads::BYTES..]).unwrap(),
        neighbours: Neighbours::of(&neighbours).unwrap(),
        starts: Numbers::default(),
        stats: &[],
    };
    assert!(Message::Scored(scored).append(&mut Vec::new()).is_ok());
    // A row that may not be answered is not told.
    let mut told = Reads::pack([reads[1]]);
    told[16] = 1;
    assert_eq!(Reads::of(&told), Err(DecodeError::Reserved));
}
