//! A server without data: others answer what it is asked, until a server with data takes its socket.

use std::sync::Arc;

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::milvus_service_client::MilvusServiceClient;
use pipeann_milvus::{LeaderAt, Peers, ServeOptions, bind, relay};
use tonic::Code;
use tonic::transport::Endpoint;

use super::peers::{Answered, Others, Server};
use crate::served::assert_ok;

#[test]
fn a_server_without_data_has_all_calls_answered_and_gives_its_socket_to_one_with_data() {
    let leader = Server::new(1, LeaderAt::Here);
    leader.served.filled("a", 20);
    let answered = Arc::new(Answered::default());
    let socket = bind("127.0.0.1", 0).unwrap();
    let options = ServeOptions {
        socket: Some(Arc::clone(&socket)),
        access_log: Some(Arc::clone(&answered) as _),
        ..ServeOptions::default()
    };
    let others = Others::new(2, LeaderAt::There(leader.at()));
    let relaying = relay(Arc::clone(&others) as Arc<dyn Peers>, &options).unwrap();
    let address = socket.local_addr().unwrap();
    assert_eq!(relaying.address(), address);
    let runtime = &leader.served.runtime;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let connected = || MilvusServiceClient::new(runtime.block_on(endpoint.connect()).unwrap());
    let mut client = connected();
    // Of the process, of the catalogue, and of rows.
    let version = wire::GetVersionRequest::default();
    assert_ok(&leader.served.call(client.get_version(version)).status.unwrap());
    let has = wire::HasCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert!(leader.served.call(client.has_collection(has)).value);
    let query = wire::QueryRequest {
        collection_name: "a".into(),
        expr: "id < 5".into(),
        output_fields: vec!["id".into()],
        ..Default::default()
    };
    let found = leader.served.call(client.query(query.clone()));
    assert_ok(&found.status.unwrap());
    assert_eq!(found.fields_data.len(), 1);
    let calls: Vec<_> = answered.take();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|(_, here)| !here), "{calls:?}");
    assert!(others.asked().is_empty(), "there is nothing here that could become newer");
    // Nobody leads: it says so, and answers nothing.
    others.lead(LeaderAt::Unknown("an election is under way".into()));
    let mut soon = tonic::Request::new(query.clone());
    soon.set_timeout(std::time::Duration::from_millis(500));
    let refused = runtime.block_on(client.query(soon)).unwrap_err();
    assert!(matches!(refused.code(), Code::Unavailable | Code::Cancelled), "{refused}");
    // One that has data listens on the same socket before the other one ends.
    let own = ServeOptions { socket: Some(socket), ..ServeOptions::default() };
    let second = Server::with(Others::new(2, LeaderAt::Here), own);
    assert_eq!(second.served.listening.address(), address);
    relaying.stop();
    let mut client = connected();
    let has = wire::HasCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert!(!leader.served.call(client.has_collection(has)).value, "its own data is another");
    assert_ok(&leader.served.call(client.get_version(version)).status.unwrap());
}
