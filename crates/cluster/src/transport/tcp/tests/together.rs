//! Peers that get on: messages, credit, loss of one, and coming back.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::super::{Event, Handler, Network};
use super::*;
use crate::wire::{Leave, read};

fn everybody_meets(authority: Option<&Authority>) {
    let (placement, nodes) = servers(3, authority);
    let tls = authority.map(|authority| authority.sign("somebody"));
    let client = Node::open(settings(PeerId::Client(9), &placement, tls), None);
    for (at, node) in nodes.iter().enumerate() {
        client.reach(PeerId::Server(at as u32), b"ask");
        assert_eq!(node.body(PeerId::Client(9)), b"ask");
        node.send(PeerId::Client(9), &[at as u8; 100_000]).expect("it is up");
        assert_eq!(client.body(PeerId::Server(at as u32)), [at as u8; 100_000]);
    }
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
        nodes[from].reach(PeerId::Server(to as u32), &[from as u8]);
        assert_eq!(nodes[to].body(PeerId::Server(from as u32)), [from as u8]);
    }
    assert_eq!(nodes[0].send(PeerId::Server(7), b""), Err(Refused::Unknown));
    assert_eq!(nodes[0].send(PeerId::Server(0), b""), Err(Refused::Unknown), "ourselves");
    assert_eq!(nodes[0].send(PeerId::Client(7), b""), Err(Refused::Down));
    assert_eq!(nodes[0].send(PeerId::Server(1), &vec![0; 1 << 20]), Err(Refused::TooLong));
}

#[test]
fn servers_and_clients_meet() {
    everybody_meets(None);
}

#[test]
fn servers_and_clients_meet_over_tls() {
    everybody_meets(Some(&Authority::new()));
}

#[test]
fn one_that_is_killed_is_missed_and_comes_back() {
    let authority = Authority::new();
    let (placement, mut nodes) = servers(3, Some(&authority));
    for (at, peer) in [(0, 1), (1, 0), (1, 2)] {
        nodes[at].reach(PeerId::Server(peer), b"there?");
    }
    let gone = nodes.remove(2);
    drop(gone);
    assert!(matches!(nodes[1].down(PeerId::Server(2)), Why::Goodbye { .. }));
    assert_eq!(nodes[1].send(PeerId::Server(2), b"x"), Err(Refused::Down));
    nodes[1].send(PeerId::Server(0), b"still here").expect("the others go on");
    assert_eq!(nodes[0].body(PeerId::Server(1)), b"there?");
    assert_eq!(nodes[0].body(PeerId::Server(1)), b"still here");

    let listener = listen(placement.server(2).unwrap().address).expect("nobody is there");
    let settings = settings(PeerId::Server(2), &placement, Some(authority.sign("server-2")));
    let back = Node::open(settings, Some(listener));
    nodes[1].up(PeerId::Server(2));
    nodes[1].send(PeerId::Server(2), b"again").expect("it is up");
    assert_eq!(back.body(PeerId::Server(1)), b"again");
}

#[test]
fn one_that_leaves_has_left_its_clients_when_it_leaves_servers() {
    let (placement, mut nodes) = servers(2, None);
    nodes[1].reach(PeerId::Server(0), b"first");
    let client = Node::open(settings(PeerId::Client(9), &placement, None), None);
    client.reach(PeerId::Server(1), b"there?");
    assert_eq!(nodes[1].body(PeerId::Client(9)), b"there?");
    let Node { tcp, seen } = nodes.pop().unwrap();
    drop(tcp);
    let left: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Down(peer, Why::Stopping) => Some(peer),
            _ => None,
        })
        .collect();
    assert_eq!(left, [PeerId::Client(9), PeerId::Server(0)]);
}

#[test]
fn one_that_leaves_before_it_was_answered_says_goodbye_too() {
    let (placement, mut listeners) = cluster(2);
    let settings = settings(PeerId::Server(1), &placement, None);
    let leaves = Node::open(settings, Some(listeners.pop().expect("its own")));
    // Server 0 hears a hello, which makes server 1 a peer, and goes to answer.
    let (mut server, _) = listeners[0].accept().expect("server 1 dials");
    server.set_read_timeout(Some(HANGS)).unwrap();
    let mut heard = vec![0; 4];
    server.read_exact(&mut heard).expect("a hello begins");
    drop(leaves);
    server.read_to_end(&mut heard).expect("the end comes in order");
    let (hello, len) = read(&heard).expect("a whole frame");
    assert!(matches!(hello, Message::Hello(_)));
    let (goodbye, _) = read(&heard[len..]).expect("another");
    assert!(matches!(goodbye, Message::Goodbye(of) if of.why == Leave::Stopping));
}

#[test]
fn a_slow_reader_pushes_back_and_loses_nothing() {
    let (placement, nodes) = servers(1, None);
    let client = Node::open(settings(PeerId::Client(1), &placement, None), None);
    client.up(PeerId::Server(0));
    // The messages lie in the channel with their holds: nothing is given back.
    let body = vec![1; 50_000];
    let mut sent = 0_u32;
    let until_full = |sent: &mut u32| {
        loop {
            match client.send(PeerId::Server(0), &body) {
                Ok(()) => *sent += 1,
                Err(refused) => return assert_eq!(refused, Refused::Full),
            }
        }
    };
    // First its own queue may be full, later the window of the other side is.
    let window = Limits::default().window_bytes / 50_000;
    while u64::from(sent) < window - 1 {
        until_full(&mut sent);
        if u64::from(sent) < window - 1 {
            client.find(|seen| matches!(seen, Seen::Room).then_some(()));
        }
    }
    until_full(&mut sent);
    assert!(u64::from(sent) <= window, "{sent} messages within {window}");
    for at in 0..sent {
        assert_eq!(nodes[0].body(PeerId::Client(1)).len(), 50_000, "message {at}");
    }
    client.find(|seen| matches!(seen, Seen::Room).then_some(()));
    client.send(PeerId::Server(0), b"last").expect("there is room");
    assert_eq!(nodes[0].body(PeerId::Client(1)), b"last");
}

/// Counts what comes and keeps nothing of it.
struct Count(std::sync::Arc<AtomicU64>, Give<()>);

impl Handler for Count {
    fn event(&mut self, _now_us: u64, _network: &dyn Network, event: Event<'_>) {
        if let Event::Message { message: Message::State(state), .. } = event {
            let at = self.0.fetch_add(1, Ordering::SeqCst);
            assert_eq!(state.state, at.to_le_bytes(), "in order");
            if at + 1 == 1_000_000 {
                self.1.send(()).expect("the test waits");
            }
        }
    }

    fn due(&mut self, _now_us: u64, _network: &dyn Network) -> Option<u64> {
        None
    }
}

#[test]
fn a_million_small_messages_pass_in_bounded_memory() {
    let authority = Authority::new();
    let (placement, mut listeners) = cluster(1);
    let (done, all) = channel();
    let count = std::sync::Arc::new(AtomicU64::new(0));
    let _server = Tcp::open(
        settings(PeerId::Server(0), &placement, Some(authority.sign("server-0"))),
        listeners.pop(),
        Count(std::sync::Arc::clone(&count), done),
    )
    .expect("loopback");
    let client =
        Node::open(settings(PeerId::Client(1), &placement, Some(authority.sign("c"))), None);
    client.up(PeerId::Server(0));
    for number in 0_u64..1_000_000 {
        // Frames of 51 bytes; those under way never exceed the window.
        while let Err(refused) = client.send(PeerId::Server(0), &number.to_le_bytes()) {
            assert_eq!(refused, Refused::Full);
            client.find(|seen| matches!(seen, Seen::Room).then_some(()));
        }
        if number % 1024 == 0 {
            let under_way = number + 1 - count.load(Ordering::SeqCst);
            let most = Limits::default().window_bytes / 51;
            assert!(under_way <= most, "{under_way} under way");
        }
    }
    all.recv_timeout(HANGS).expect("all arrive");
}

#[test]
fn a_peer_that_is_silent_is_given_up() {
    let (placement, mut listeners) = cluster(1);
    let mut settings = settings(PeerId::Server(0), &placement, None);
    settings.limits.ping_us = 20_000;
    settings.limits.silent_us = 200_000;
    let hello = Settings { me: PeerId::Client(4), ..settings.clone() };
    let node = Node::open(settings, listeners.pop());
    let mut socket = std::net::TcpStream::connect(placement.servers()[0].address).unwrap();
    let mut frame = Vec::new();
    hello.hello(|hello| Message::Hello(hello).append(&mut frame)).unwrap();
    std::io::Write::write_all(&mut socket, &frame).unwrap();
    assert_eq!(node.down(PeerId::Client(4)), Why::Silent);
}

#[test]
fn an_idle_peer_is_asked_as_often_as_that_takes_and_stays() {
    let (placement, mut listeners) = cluster(1);
    let mut settings = settings(PeerId::Server(0), &placement, None);
    settings.limits.ping_us = 20_000;
    // As the defaults have it: what is due of a connection that says nothing is due then.
    settings.limits.handshake_us = settings.limits.silent_us;
    let hello = Settings { me: PeerId::Client(4), ..settings.clone() };
    let node = Node::open(settings, listeners.pop());
    let mut socket = std::net::TcpStream::connect(placement.servers()[0].address).unwrap();
    socket.set_read_timeout(Some(HANGS)).unwrap();
    let mut frame = Vec::new();
    hello.hello(|hello| Message::Hello(hello).append(&mut frame)).unwrap();
    std::io::Write::write_all(&mut socket, &frame).unwrap();
    let (mut heard, mut part, mut asked) = (Vec::new(), [0; 1024], 0);
    while asked < 3 {
        let len = socket.read(&mut part).expect("it is asked");
        assert!(len > 0, "given up after having been asked {asked} times");
        heard.extend_from_slice(&part[..len]);
        while let Ok((message, len)) = read(&heard) {
            frame.clear();
            if let Message::Ping(number) = message {
                asked += 1;
                Message::Pong(number).append(&mut frame).unwrap();
            }
            heard.drain(..len);
            std::io::Write::write_all(&mut socket, &frame).unwrap();
        }
    }
    assert!(node.seen.try_iter().all(|seen| matches!(seen, Seen::Up(PeerId::Client(4)))));
}
