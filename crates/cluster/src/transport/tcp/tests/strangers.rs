//! Peers that are refused: each by name, and the others go on.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::super::OpenError;
use super::*;
use crate::wire::{Leave, Numbers, read};

/// A server with a good client; whatever a stranger does, the two still talk afterwards.
struct Pair {
    placement: Placement,
    node: Node,
    client: Node,
}

impl Pair {
    fn new(change: impl FnOnce(&mut Settings)) -> Self {
        let (placement, mut listeners) = cluster(2);
        let listener = listeners.swap_remove(0);
        let mut settings = settings(PeerId::Server(0), &placement, None);
        change(&mut settings);
        let node = Node::open(settings, Some(listener));
        let me = PeerId::Client(1);
        let client = Node::open(super::settings(me, &placement, None), None);
        client.up(PeerId::Server(0));
        Self { placement, node, client }
    }

    fn stranger(&self) -> TcpStream {
        let stranger = TcpStream::connect(self.placement.servers()[0].address).unwrap();
        stranger.set_read_timeout(Some(HANGS)).unwrap();
        stranger
    }

    fn hello(&self, change: impl FnOnce(&mut Settings)) -> Vec<u8> {
        let mut settings = settings(PeerId::Server(1), &self.placement, None);
        change(&mut settings);
        let mut frame = Vec::new();
        settings.hello(|hello| Message::Hello(hello).append(&mut frame)).unwrap();
        frame
    }

    fn goes_on(&self) {
        self.client.send(PeerId::Server(0), b"good").expect("the others go on");
        assert_eq!(self.node.body(PeerId::Client(1)), b"good");
    }

    /// Says this as a stranger; gives what the server says to it at last.
    fn says(&self, bytes: &[u8]) -> Option<String> {
        let mut stranger = self.stranger();
        stranger.write_all(bytes).unwrap();
        let mut heard = Vec::new();
        // A reset ends the reading as well as an end does.
        let _ = stranger.read_to_end(&mut heard);
        let (mut rest, mut words) = (&heard[..], None);
        while let Ok((message, len)) = read(rest) {
            if let Message::Goodbye(goodbye) = message {
                words = Some(goodbye.words.to_owned());
            }
            rest = &rest[len..];
        }
        words
    }
}

#[test]
fn garbage_is_refused_and_the_others_go_on() {
    let pair = Pair::new(|_| {});
    let http = pair.says(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    pair.node.refused("protocol version");
    assert!(http.expect("a goodbye").contains("version 47"));
    let mut flipped = pair.hello(|_| {});
    flipped[20] ^= 1;
    assert!(pair.says(&flipped).expect("a goodbye").contains("checksum"));
    pair.node.refused("checksum");
    let mut ping = Vec::new();
    Message::Ping(1).append(&mut ping).unwrap();
    assert!(pair.says(&ping).expect("a goodbye").contains("out of turn"));
    let mut long = pair.hello(|_| {});
    long[..4].copy_from_slice(&(1_u32 << 19).to_le_bytes());
    assert!(pair.says(&long).expect("a goodbye").contains("at most 16384"));
    // And behind a good hello.
    let mut later = pair.hello(|_| {});
    later.extend_from_slice(&[0xff; 64]);
    assert!(pair.says(&later).expect("a goodbye").contains("version 255"));
    assert!(matches!(pair.node.down(PeerId::Server(1)), Why::Frame(_)));
    pair.goes_on();
}

#[test]
fn servers_of_something_else_are_refused_by_name() {
    let pair = Pair::new(|_| {});
    let renamed = |settings: &mut Settings| {
        let servers = settings.placement.servers().to_vec();
        settings.placement = Placement::new("red".to_owned(), 2, servers).unwrap();
    };
    let grabbing = |settings: &mut Settings| {
        let mut servers = settings.placement.servers().to_vec();
        servers[0].partitions.clear();
        servers[1].partitions = vec![0, 1];
        settings.placement = Placement::new("blue".to_owned(), 2, servers).unwrap();
    };
    let cases: [(Vec<u8>, &str); 6] = [
        (pair.hello(renamed), "cluster `red`"),
        (pair.hello(|settings| settings.identity.generation = 2), "generation 2"),
        (pair.hello(|settings| settings.identity.index[0] = 8), "index 08"),
        (pair.hello(|settings| settings.identity.codebook = 9), "codebook 9"),
        (pair.hello(grabbing), "other partitions"),
        (pair.hello(|settings| settings.me = PeerId::Server(0)), "number 0"),
    ];
    for (hello, words) in cases {
        let goodbye = pair.says(&hello).expect("a goodbye");
        assert!(goodbye.contains(words), "{goodbye}");
        pair.node.refused(words);
    }
    pair.goes_on();
}

#[test]
fn whoever_dials_learns_why_it_is_refused() {
    let pair = Pair::new(|_| {});
    let mut settings = settings(PeerId::Server(1), &pair.placement, None);
    settings.identity.generation = 2;
    let stale = Node::open(settings, None);
    stale.refused("generation");
    pair.node.refused("generation 2");
    assert_eq!(stale.send(PeerId::Server(0), b""), Err(Refused::Down));
    pair.goes_on();
}

#[test]
fn an_address_in_use_is_an_error_by_name() {
    let (placement, _listeners) = cluster(1);
    let address = placement.servers()[0].address;
    assert!(matches!(listen(address), Err(OpenError::AddressInUse(at)) if at == address));
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let (placement, _listeners) = cluster(1);
    let open = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings(PeerId::Server(0), &placement, None);
        change(&mut settings);
        Tcp::open(settings, None, Recorder(channel().0)).expect_err("refused").to_string()
    };
    assert!(open(&|settings| settings.me = PeerId::Server(5)).contains("no server 5"));
    assert!(open(&|settings| settings.limits.window_bytes = 100).contains("window"));
    assert!(open(&|settings| settings.limits.queue_bytes = 100).contains("queue"));
    assert!(open(&|settings| settings.limits.connections = 0).contains("connections"));
    assert!(open(&|settings| settings.limits.silent_us = 5).contains("silent"));
}

#[test]
fn whoever_does_not_introduce_itself_is_let_go() {
    let pair = Pair::new(|settings| settings.limits.handshake_us = 100_000);
    let mut idle = pair.stranger();
    let mut half = pair.stranger();
    let hello = pair.hello(|_| {});
    half.write_all(&hello[..hello.len() - 1]).unwrap();
    for _ in 0..2 {
        pair.node.refused("in time");
    }
    let mut heard = Vec::new();
    let _ = idle.read_to_end(&mut heard);
    assert!(heard.is_empty(), "whoever dials speaks first");
    pair.goes_on();
}

#[test]
fn strangers_are_bounded_in_number_and_keep_nobody_out() {
    // Nobody is let go for having said nothing, as long as this test takes.
    let pair = Pair::new(|settings| {
        settings.limits.handshakes = 3;
        settings.limits.handshake_us = 10 * HANGS.as_micros() as u64;
    });
    let mut strangers: Vec<_> = (0..5).map(|_| pair.stranger()).collect();
    for _ in 0..2 {
        pair.node.refused("as many connections");
    }
    // Those that came first went, and were told.
    for stranger in &mut strangers[..2] {
        let mut heard = Vec::new();
        let _ = stranger.read_to_end(&mut heard);
        let (goodbye, _) = read(&heard).expect("a whole frame");
        assert!(matches!(goodbye, Message::Goodbye(of) if of.why == Leave::Full));
    }
    pair.goes_on();
    let me = PeerId::Server(1);
    let server = Node::open(settings(me, &pair.placement, None), None);
    server.up(PeerId::Server(0));
    pair.node.up(me);
    drop(strangers);
}

#[test]
fn clients_leave_room_for_servers_and_for_each_other_when_they_go() {
    let Pair { placement, node, client } = Pair::new(|settings| settings.limits.connections = 2);
    let of = |me| Node::open(settings(me, &placement, None), None);
    let second = of(PeerId::Client(2));
    let why = second.find(|seen| match seen {
        Seen::Refused(Why::Goodbye { why, words }) => Some((*why, words.clone())),
        _ => None,
    });
    assert_eq!(why, (Leave::Full, Why::TooMany.to_string()));
    node.refused("as many connections");
    // The same client may come anew, and a server at any time.
    let again = of(PeerId::Client(1));
    again.up(PeerId::Server(0));
    assert_eq!(node.down(PeerId::Client(1)), Why::Replaced);
    drop(client);
    let server = of(PeerId::Server(1));
    server.up(PeerId::Server(0));
    node.up(PeerId::Server(1));
    drop(again);
    second.up(PeerId::Server(0));
}

#[test]
fn a_grant_of_less_than_was_refused_wakes_nobody() {
    let pair = Pair::new(|_| {});
    let mut stranger = pair.stranger();
    let me = PeerId::Client(8);
    let none = pair.hello(|settings| {
        settings.me = me;
        settings.limits.window_bytes = 0;
    });
    stranger.write_all(&none).unwrap();
    pair.node.up(me);
    for body in [3000, 1000] {
        assert_eq!(pair.node.send(me, &vec![0; body]), Err(Refused::Full));
    }
    let mut frames = Vec::new();
    for total in 1..=1000 {
        Message::Credit(total).append(&mut frames).unwrap();
    }
    carrying(me, b"heard").append(&mut frames).unwrap();
    Message::Credit(2000).append(&mut frames).unwrap();
    stranger.write_all(&frames).unwrap();
    let next = || pair.node.seen.recv_timeout(HANGS).expect("something happens");
    let first = next();
    assert!(matches!(first, Seen::Body(..)), "{first:?}");
    assert!(matches!(next(), Seen::Room));
    pair.node.send(me, &[0; 1000]).expect("there is credit for the shorter one");
    pair.goes_on();
}

#[test]
fn more_than_was_granted_ends_the_connection() {
    let pair = Pair::new(|_| {});
    let mut stranger = pair.stranger();
    stranger.write_all(&pair.hello(|settings| settings.me = PeerId::Client(8))).unwrap();
    let mut frame = Vec::new();
    carrying(PeerId::Client(8), &[0; 500_000]).append(&mut frame).unwrap();
    // The node keeps what comes, so that nothing is granted anew.
    let mut kept = Vec::new();
    while stranger.write_all(&frame).is_ok() {
        while let Ok(seen) = pair.node.seen.try_recv() {
            if let Seen::Down(PeerId::Client(8), why) = seen {
                assert_eq!(why, Why::Overrun);
                assert_eq!(kept.len() as u64, Limits::default().window_bytes / frame.len() as u64);
                return;
            }
            if matches!(seen, Seen::Body(..)) {
                kept.push(seen);
            }
        }
    }
    let why = pair.node.find(|seen| match seen {
        Seen::Down(PeerId::Client(8), why) => Some(why.clone()),
        _ => None,
    });
    assert_eq!(why, Why::Overrun);
}

/// A server over TLS, and what it says of whoever comes.
fn server_over_tls(authority: &Authority) -> (Placement, Node) {
    let (placement, mut listeners) = cluster(2);
    let tls = authority.sign("server-0");
    let settings = settings(PeerId::Server(0), &placement, Some(tls));
    let node = Node::open(settings, Some(listeners.swap_remove(0)));
    (placement, node)
}

#[test]
fn certificates_of_another_authority_are_refused_on_both_sides() {
    let (placement, node) = server_over_tls(&Authority::new());
    let other = Authority::new().sign("client");
    let client = Node::open(settings(PeerId::Client(1), &placement, Some(other)), None);
    client.refused("the peer's certificate is not of this side's authority");
    node.refused("the peer does not accept this side's certificate");
    assert_eq!(client.send(PeerId::Server(0), b""), Err(Refused::Down));
}

#[test]
fn who_speaks_without_tls_is_refused() {
    let (placement, node) = server_over_tls(&Authority::new());
    let client = Node::open(settings(PeerId::Client(1), &placement, None), None);
    node.refused("the peer does without certificates");
    client.refused("the peer asks for certificates");
}

#[test]
fn who_speaks_tls_to_a_server_without_is_refused() {
    let pair = Pair::new(|_| {});
    let tls = Some(Authority::new().sign("client"));
    let client = Node::open(settings(PeerId::Client(2), &pair.placement, tls), None);
    pair.node.refused("the peer asks for certificates");
    client.refused("the peer does without certificates");
    pair.goes_on();
}

#[test]
fn a_certificate_tells_whose_it_is() {
    let tls = Authority::new().sign("server-7");
    tls.check_name("server-7").unwrap();
    let refused = tls.check_name("server-1").unwrap_err().to_string();
    assert!(refused.contains("server-1") && refused.contains("server-7"), "{refused}");
}

#[test]
fn a_certificate_without_the_name_of_its_server_is_refused() {
    let authority = Authority::new();
    let (placement, node) = server_over_tls(&authority);
    let tls = Some(authority.sign("server-7"));
    let claims = Node::open(settings(PeerId::Server(1), &placement, tls), None);
    node.refused("does not carry its name");
    claims.refused("Refused");
    // And whoever is dialled has to be who it should be.
    let mut servers = placement.servers().to_vec();
    servers[0].tls_name = "elsewhere".to_owned();
    let moved = Placement::new("blue".to_owned(), 2, servers).unwrap();
    let client = settings(PeerId::Client(1), &moved, Some(authority.sign("client")));
    Node::open(client, None).refused("TLS");
}

#[test]
fn a_client_cannot_end_the_connection_of_another() {
    let authority = Authority::new();
    let (placement, node) = server_over_tls(&authority);
    let client = |name| {
        let tls = Some(authority.sign(name));
        Node::open(settings(PeerId::Client(1), &placement, tls), None)
    };
    let first = client("first");
    first.up(PeerId::Server(0));
    client("second").refused("already");
    node.refused("already");
    first.send(PeerId::Server(0), b"mine").expect("still up");
    assert_eq!(node.body(PeerId::Client(1)), b"mine");
}

#[test]
fn partitions_are_compared_as_lists() {
    let numbers = Numbers::pack([1]);
    assert!(Numbers::of(&numbers[..3]).is_none());
}
