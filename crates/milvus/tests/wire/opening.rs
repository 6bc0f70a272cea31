//! Those who watch a server that has not all data yet.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use pipeann_milvus::{bind, watch_opening};

fn asked(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let question = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(question.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

fn free_port() -> u16 {
    bind("127.0.0.1", 0).unwrap().local_addr().unwrap().port()
}

#[test]
fn a_server_that_opens_lives_and_is_not_ready_and_gives_its_place_to_whoever_comes_next() {
    let port = free_port();
    let watched = watch_opening("127.0.0.1", Some(port)).unwrap().unwrap();
    let address = watched.address();
    assert!(asked(address, "/healthz").starts_with("HTTP/1.1 200 "));
    for path in ["/readyz", "/metrics", "/"] {
        let said = asked(address, path);
        // As `deploy/compose.yaml` looks for it.
        assert!(said.starts_with("HTTP/1.1 503 ") && !said.contains(" 200 "), "{said}");
    }
    // Who stays connected and asks nothing keeps nobody.
    let idle = TcpStream::connect(address).unwrap();
    watched.stop();
    bind("127.0.0.1", port).unwrap();
    drop(idle);
}

#[test]
fn who_wants_no_metrics_has_none_and_a_port_that_is_asked_for_is_to_be_free() {
    assert!(watch_opening("127.0.0.1", Some(0)).unwrap().is_none());
    let taken = bind("127.0.0.1", 0).unwrap();
    let port = taken.local_addr().unwrap().port();
    assert!(watch_opening("127.0.0.1", Some(port)).is_err());
}
