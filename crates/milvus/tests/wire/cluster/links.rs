//! How rows were linked, asked by other servers: who is answered, and what.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pipeann_milvus::proto::servers as wire;
use pipeann_milvus::proto::servers::graphs_client::GraphsClient;
use pipeann_milvus::{LeaderAt, NetworkLimits, PeerKey, ServeOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

use super::peers::{Others, Server};
use crate::served::Served;

fn ask(
    served: &Served,
    key: Option<&str>,
    message: wire::LinksRequest,
) -> Result<wire::LinksResponse, Status> {
    let mut request = Request::new(message);
    if let Some(key) = key {
        request.metadata_mut().insert("pipeann-server-key", key.parse().unwrap());
    }
    served.runtime.block_on(async {
        let mut client = GraphsClient::new(served.endpoint().connect().await.unwrap());
        client.links(request).await.map(tonic::Response::into_inner)
    })
}

fn about(collection: u64, rows: u64) -> wire::LinksRequest {
    wire::LinksRequest { collection, field: 101, rows: (0..rows).collect() }
}

#[test]
fn only_servers_that_know_its_key_are_told_of_the_graph() {
    let others = Others::new(1, LeaderAt::Here);
    others.set_key(Some(PeerKey::new("of this server")));
    let server = Server::with(others, ServeOptions::default());
    server.served.filled("a", 10);
    let id = server.served.database.collection("default", "a").unwrap().entry().unwrap().id.0;
    for shown in [None, Some(""), Some("of this serve"), Some("of this server "), Some("x")] {
        let refused = ask(&server.served, shown, about(id, 3)).unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{shown:?}");
    }
    let shown = Some("of this server");
    for asked in [about(id, 3), about(id + 7, 3)] {
        let told = ask(&server.served, shown, asked).unwrap().links;
        let unknown = wire::RowLink::default();
        assert_eq!(told, vec![unknown; 3], "there is no graph");
    }
    assert!(ask(&server.served, shown, about(id, 512)).is_ok());
    let refused = ask(&server.served, shown, about(id, 513)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let refused = ask(&server.served, shown, about(id, 100_000)).unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "it is not decoded");
    server.others.set_key(None);
    assert_eq!(
        ask(&server.served, shown, about(id, 3)).unwrap_err().code(),
        Code::PermissionDenied
    );
    assert_eq!(
        ask(&server.served, Some(""), about(id, 3)).unwrap_err().code(),
        Code::PermissionDenied
    );
}

/// Hands connections on to a server, and counts them.
async fn counting(server: SocketAddr) -> (Endpoint, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut there = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut there).await;
            });
        }
    });
    (Endpoint::from_shared(endpoint).unwrap(), made)
}

#[test]
fn a_server_that_asks_for_nothing_but_links_stays_connected() {
    let others = Others::new(1, LeaderAt::Here);
    others.set_key(Some(PeerKey::new("of this server")));
    let limits = NetworkLimits { first_call: Duration::from_secs(1), ..NetworkLimits::default() };
    let server = Server::with(others, ServeOptions { limits, ..ServeOptions::default() });
    let address = server.served.listening.address();
    server.served.runtime.block_on(async {
        let (endpoint, made) = counting(address).await;
        let mut client = GraphsClient::new(endpoint.connect().await.unwrap());
        let mut ask = async || {
            let mut request = Request::new(about(1, 3));
            let key = "of this server".parse().unwrap();
            request.metadata_mut().insert("pipeann-server-key", key);
            client.links(request).await.map(drop)
        };
        ask().await.unwrap();
        // One that came later, and makes no call, is closed.
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let closed = tokio::spawn(async move {
            let mut said = [0; 256];
            while idle.read(&mut said).await.is_ok_and(|bytes| bytes > 0) {}
        });
        while !closed.is_finished() {
            ask().await.unwrap();
        }
        // It would be noticed a little later that this one is closed as well.
        for _ in 0..20 {
            ask().await.unwrap();
        }
        assert_eq!(made.load(Ordering::Relaxed), 1, "it is the same connection");
    });
}

#[test]
fn a_server_that_is_alone_is_asked_by_nobody() {
    let served = Served::new();
    let refused = ask(&served, Some(""), about(1, 3)).unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
