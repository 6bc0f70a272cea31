//! How rows were linked, asked by other servers: who is answered, and what.

use pipeann_milvus::proto::servers as wire;
use pipeann_milvus::proto::servers::graphs_client::GraphsClient;
use pipeann_milvus::{LeaderAt, PeerKey, ServeOptions};
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

#[test]
fn a_server_that_is_alone_is_asked_by_nobody() {
    let served = Served::new();
    let refused = ask(&served, Some(""), about(1, 3)).unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
