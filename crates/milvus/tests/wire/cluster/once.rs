//! Changes that come more than once, and what is answered when all servers know of it.

use std::sync::Arc;
use std::time::Duration;

use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::{LeaderAt, ServeOptions, SharedLogEnd};
use prost::Message as _;
use tonic::Code;

use super::peers::Server;
use super::raw::{Ended, call};
use crate::served::{assert_ok, create, declared, insert};

fn count(server: &Server) -> u64 {
    server.served.database.collection("default", "a").unwrap().count(None).unwrap()
}

fn insert_as(server: &Server, rows: std::ops::Range<i64>, id: &str) -> Ended {
    let ended =
        call(&server.served, "Insert", &insert("a", rows), &[("client-request-id", id)], None);
    assert_eq!(ended.code, Code::Ok, "{}", ended.text);
    ended
}

fn written(ended: &Ended) -> wire::MutationResult {
    let mut written = wire::MutationResult::decode(&ended.message[..]).unwrap();
    assert_ok(&written.status.clone().unwrap());
    written.timestamp = 0;
    written
}

#[test]
fn a_call_that_its_client_repeats_by_its_own_id_is_applied_once_whoever_is_asked() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    assert_ok(&leader.served.create("a"));
    let first = insert_as(&leader, 0..5, "one");
    assert_eq!(written(&first).insert_cnt, 5);
    for server in [&leader, &follower] {
        assert_eq!(written(&insert_as(server, 0..5, "one")), written(&first));
    }
    assert_eq!(count(&leader), 5);
    // Another request under the same id is another one, and so is the same one without an id.
    insert_as(&follower, 5..7, "one");
    insert_as(&leader, 0..5, "");
    insert_as(&follower, 0..5, "");
    assert_eq!(count(&leader), 17);
}

#[test]
fn deletes_upserts_and_changes_of_the_catalogue_are_answered_as_before() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    leader.served.filled("a", 10);
    let named = [("client-request-id", "x")];
    let twice = |name: &str, request: &dyn Fn() -> Vec<u8>| {
        [&follower, &leader]
            .map(|server| call(&server.served, name, &super::walked::Sent(request()), &named, None))
    };
    let delete = wire::DeleteRequest {
        collection_name: "a".into(),
        expr: "id in [1, 2]".into(),
        ..Default::default()
    };
    let [first, second] = twice("Delete", &|| delete.encode_to_vec());
    assert_eq!((written(&first).delete_cnt, written(&second)), (2, written(&first)));
    let rows = insert("a", 3..8);
    let upsert = wire::UpsertRequest {
        collection_name: "a".into(),
        fields_data: rows.fields_data,
        num_rows: rows.num_rows,
        ..Default::default()
    };
    let [first, second] = twice("Upsert", &|| upsert.encode_to_vec());
    assert_eq!((written(&first).upsert_cnt, written(&second)), (5, written(&first)));
    let user =
        wire::CreateCredentialRequest { username: "ada".into(), password: "c2VjcmV0LTE=".into() };
    let [first, second] = twice("CreateCredential", &|| user.encode_to_vec());
    assert_eq!((first.code, &first), (Code::Ok, &second));
    let again = call(&leader.served, "CreateCredential", &user, &[], None);
    assert_ne!(again.message, first.message, "without an id it is there already");
}

#[test]
fn that_there_is_nothing_to_do_is_said_only_by_who_leads_for_certain() {
    let leader = Server::new(1, LeaderAt::Here);
    // It led before these rows were written, and has not heard that it does no more.
    let led = Server::new(3, LeaderAt::Here);
    let edge = Server::new(2, LeaderAt::There(led.at()));
    for server in [&leader, &led] {
        assert_ok(&server.served.create("a"));
    }
    assert_eq!(written(&insert_as(&leader, 0..5, "rows")).insert_cnt, 5);
    for (key, asked) in [(1, &led), (2, &edge)] {
        led.others.lead(LeaderAt::Here);
        led.others.is_unsure(LeaderAt::There(leader.at()));
        edge.learns(200, LeaderAt::There(leader.at()));
        let delete = wire::DeleteRequest {
            collection_name: "a".into(),
            expr: format!("id == {key}"),
            ..Default::default()
        };
        let ended = call(&asked.served, "Delete", &delete, &[], None);
        assert_eq!(ended.code, Code::Ok, "{}", ended.text);
        assert_eq!(written(&ended).delete_cnt, 1);
    }
    // Nobody else leads, and it cannot be found out: nothing is begun.
    led.others.lead(LeaderAt::Here);
    led.others.is_unsure(LeaderAt::Here);
    let flush = wire::FlushAllRequest::default();
    let ended = call(&led.served, "FlushAll", &flush, &[], None);
    assert_eq!(ended.code, Code::Unavailable);
    assert!(ended.text.contains("not certain that this server leads"), "{}", ended.text);
}

#[test]
fn a_server_that_is_alone_knows_them_too() {
    let served = crate::served::Served::new();
    assert_ok(&served.create("a"));
    for _ in 0..3 {
        let named = [("client-request-id", "one")];
        assert_eq!(call(&served, "Insert", &insert("a", 0..4), &named, None).code, Code::Ok);
    }
    assert_eq!(served.database.collection("default", "a").unwrap().count(None).unwrap(), 4);
}

#[test]
fn a_change_that_was_sent_on_is_named_to_who_sent_it_and_not_to_the_client() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    assert_ok(&leader.served.create("a"));
    for (at, asked) in [&leader, &follower].into_iter().enumerate() {
        let ended = insert_as(asked, 0..3, &format!("of {at}"));
        assert!(ended.metadata.iter().all(|(name, _)| !name.contains("written")), "{ended:?}");
        assert_eq!((leader.others.written(), follower.others.written() > 0), (0, at == 1));
    }
    let before = follower.others.written();
    let request = wire::DeleteRequest {
        collection_name: "a".into(),
        expr: "id == 1".into(),
        ..Default::default()
    };
    assert_eq!(call(&follower.served, "Delete", &request, &[], None).code, Code::Ok);
    assert!(follower.others.written() > before, "timestamps grow");
}

fn drop_a(server: &Server, timeout: Option<Duration>) -> Ended {
    let request = wire::DropCollectionRequest { collection_name: "a".into(), ..Default::default() };
    call(&server.served, "DropCollection", &request, &[], timeout)
}

#[test]
fn what_is_taken_away_is_answered_when_it_is_gone_everywhere_or_its_server_is() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    assert_ok(&leader.served.create("a"));
    let truncate =
        wire::TruncateCollectionRequest { collection_name: "a".into(), ..Default::default() };
    let truncated = || call(&leader.served, "TruncateCollection", &truncate, &[], None);
    for taken_away in [&truncated as &dyn Fn() -> Ended, &|| drop_a(&leader, None)] {
        follower.others.has_applied(Some(2));
        let (others, before) = (Arc::clone(&follower.others), follower.others.looked());
        follower.served.runtime.spawn(async move {
            while others.looked() < before + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            others.has_applied(None);
        });
        assert_eq!(taken_away().code, Code::Ok);
        assert!(follower.others.looked() >= before + 2, "it was waited for");
    }
    // One whose lease ends.
    assert_ok(&leader.served.create("a"));
    follower.others.has_applied(Some(2));
    let (others, looked) = (Arc::clone(&leader.others), follower.others.looked());
    let waits = Arc::clone(&follower.others);
    follower.served.runtime.spawn(async move {
        while waits.looked() == looked {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        others.set_server(2, None);
    });
    assert_eq!(drop_a(&follower, None).code, Code::Ok);
    // What adds a name waits for nobody: whoever does not know it looks again.
    leader.others.set_server(2, Some(follower.at()));
    let looked = follower.others.looked();
    assert_eq!(
        call(&leader.served, "CreateCollection", &create("a", &declared()), &[], None).code,
        Code::Ok
    );
    assert_eq!(follower.others.looked(), looked);
    // No longer than the client waits.
    assert_eq!(drop_a(&leader, Some(Duration::from_secs(12))).code, Code::Ok);
}

#[test]
fn a_leader_says_how_far_the_log_goes() {
    let (leader, follower) = Server::pair(&ServeOptions::default());
    follower.pass(1_500);
    assert_eq!(follower.others.heard(), [], "it does not lead for certain");
    let end = SharedLogEnd { term: 3, number: 77 };
    leader.others.leads_up_to(end);
    for _ in 0..200 {
        follower.pass(50);
        if !follower.others.heard().is_empty() {
            break;
        }
    }
    assert_eq!(follower.others.heard().first(), Some(&end));
    assert_eq!(leader.others.heard(), []);
    follower.others.lead(LeaderAt::Unknown("nobody".into()));
}
