//! Every call, asked of the server that leads and, of another cluster, of one that does not: the answers
//! are the same bytes, and the table says who gave them.

use pipeann_milvus::ServeOptions;
use pipeann_milvus::proto::milvus as wire;
use prost::Message as _;
use tonic::Code;

use super::peers::Server;
use super::raw::{Ended, call};
use super::requests::walk;

const DEFINITION: &str = include_str!("../../../proto/milvus.proto");
const PAGE: &str = include_str!("../../../../../docs/milvus-coverage.md");

/// Bytes that are a message.
#[derive(Debug, Default)]
pub(super) struct Sent(pub(super) Vec<u8>);

impl prost::Message for Sent {
    fn encode_raw(&self, into: &mut impl prost::bytes::BufMut) {
        into.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: prost::encoding::WireType,
        _: &mut impl prost::bytes::Buf,
        _: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        unreachable!("it is only sent")
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// What the page says of each call in its column `cluster`.
fn table() -> Vec<(&'static str, &'static str)> {
    let rows = PAGE.split("| call | served | cluster | but |").nth(1).unwrap().lines().skip(2);
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    cells.map(|cells| (cells[0], cells[2])).collect()
}

/// Who answers a call at a server that does not lead: what its log and that of the leader have.
fn answered(route: &str, call: &str) -> [Vec<(String, bool)>; 2] {
    let call = |here| vec![(call.to_owned(), here)];
    match route {
        "local" | "process" => [call(true), Vec::new()],
        "forwarded" => [call(false), call(true)],
        other => panic!("{other}"),
    }
}

#[test]
fn every_call_has_a_row_and_is_walked() {
    let calls = DEFINITION.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
    let calls: Vec<&str> = calls.filter_map(|call| call.split('(').next()).collect();
    let rows = table();
    assert_eq!(rows.iter().map(|(call, _)| *call).collect::<Vec<_>>(), calls);
    let walk = walk();
    for call in calls {
        assert!(walk.iter().any(|(walked, _)| *walked == call), "{call} is not walked");
    }
}

/// An answer without the number that its process made up.
fn without_number(name: &str, mut ended: Ended) -> Ended {
    if name == "ManualCompaction" {
        let mut answer = wire::ManualCompactionResponse::decode(&ended.message[..]).unwrap();
        answer.compaction_id = 0;
        ended.message = answer.encode_to_vec();
    }
    ended
}

#[test]
fn every_call_is_answered_by_any_server_as_the_leader_answers_it() {
    let (asked_directly, idle) = Server::pair(&ServeOptions::default());
    let (leader, follower) = Server::pair(&ServeOptions::default());
    // The time stands, or whoever asks for progress meanwhile would move that of one pair.
    for server in [&asked_directly, &idle, &leader, &follower] {
        server.others.has_applied(Some(1_700_000_000_000 << 18));
    }
    let table = table();
    let mut differ = Vec::new();
    for (name, request) in walk() {
        let request = Sent(request);
        let [direct, edge] = [&asked_directly, &follower]
            .map(|server| without_number(name, call(&server.served, name, &request, &[], None)));
        let route = table.iter().find(|(call, _)| *call == name).unwrap().1;
        let logs = [follower.answered.take(), leader.answered.take()];
        assert_eq!(logs, answered(route, name), "{name} is {route}");
        assert_eq!(direct.code, Code::Ok, "{name}: {}", direct.text);
        if edge != direct {
            differ.push((name, direct, edge));
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn what_is_not_served_is_refused_alike() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    let ask = |server: &Server| -> Ended {
        call(&server.served, "ImportV2", &Sent(Vec::new()), &[], None)
    };
    let direct = ask(&leader);
    assert_eq!((direct.code, &direct), (Code::Unimplemented, &ask(&follower)));
}
