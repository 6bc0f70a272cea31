//! Who is known where: users and rights that are newer than what a server has.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::{LeaderAt, ReadTime, ServeOptions};
use tonic::Code;

use super::peers::{Others, Server};
use super::raw::{Ended, call};
use crate::served::{create, declared};

fn asking_who() -> ServeOptions {
    ServeOptions { authorization: true, ..ServeOptions::default() }
}

fn make(server: &Server, token: Option<&str>) -> Ended {
    let token = token.map(|token| BASE64_STANDARD.encode(token));
    let metadata: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
    let timeout = Some(Duration::from_secs(60));
    call(&server.served, "CreateCollection", &create("a", &declared()), &metadata, timeout)
}

#[test]
fn who_is_not_known_has_nothing_sent_on() {
    let (leader, follower) = Server::pair(&asking_who());
    for token in [None, Some("root:wrong"), Some("ada:secret-1"), Some("none")] {
        let [direct, edge] = [&leader, &follower].map(|server| make(server, token));
        assert_eq!((direct.code, &direct), (Code::Unauthenticated, &edge), "{token:?}");
    }
    assert_eq!(leader.answered.take().len(), 4, "those that it was asked itself");
    assert_eq!(make(&follower, Some("root:Milvus")).code, Code::Ok);
    assert_eq!(leader.answered.take(), [("CreateCollection".to_owned(), true)]);
}

#[test]
fn a_token_is_asked_for_by_every_server() {
    let options = ServeOptions { token: Some("root:secret".to_owned()), ..ServeOptions::default() };
    let (leader, follower) = Server::pair(&options);
    assert_eq!(make(&follower, Some("root:wrong")).code, Code::Unauthenticated);
    assert_eq!(leader.answered.take(), []);
    assert_eq!(make(&follower, Some("root:secret")).code, Code::Ok);
}

#[test]
fn a_new_user_and_his_rights_are_looked_up_before_he_is_refused() {
    let leader = Server::with(Others::new(1, LeaderAt::Here), asking_who());
    let edge = Server::with(Others::new(2, LeaderAt::There(leader.at())), asking_who());
    let user = |server: &Server| {
        let database = Arc::clone(&server.served.database);
        move || {
            database.access().create_user("ada", "secret-1").unwrap();
            database.access().set_role("ada", "admin", true).unwrap();
        }
    };
    user(&leader)();
    edge.others.arrives(user(&edge));
    assert_eq!(make(&edge, Some("ada:secret-1")).code, Code::Ok);
    assert_eq!(edge.others.asked(), [(None, ReadTime::Any), (None, ReadTime::Latest)]);
    assert_eq!(make(&edge, Some("ada:secret-1")).code, Code::Ok);
    assert_eq!(edge.others.asked(), [(None, ReadTime::Any)], "he is known");
}

#[test]
fn a_password_that_was_changed_is_known_at_a_server_that_was_not_waited_for() {
    let leader = Server::with(Others::new(1, LeaderAt::Here), asking_who());
    let user = leader.served.database.access();
    user.create_user("ada", "secret-1").unwrap();
    user.set_role("ada", "admin", true).unwrap();
    assert_eq!(make(&leader, Some("ada:secret-1")).code, Code::Ok);
    let database = Arc::clone(&leader.served.database);
    leader.others.arrives(move || database.access().set_password("ada", None, "secret-2").unwrap());
    assert_eq!(make(&leader, Some("ada:secret-1")).code, Code::Unauthenticated);
}

#[test]
fn a_new_right_is_looked_up_before_a_read_is_refused() {
    let (leader, follower) = Server::pair(&asking_who());
    let access = leader.served.database.access();
    access.create_user("ada", "secret-1").unwrap();
    let token = BASE64_STANDARD.encode("ada:secret-1");
    let list = || {
        let request = wire::ListCredUsersRequest {};
        let metadata = [("authorization", token.as_str())];
        call(&follower.served, "ListCredUsers", &request, &metadata, None)
    };
    assert_eq!(list().code, Code::PermissionDenied);
    let database = Arc::clone(&leader.served.database);
    follower.others.arrives(move || database.access().set_role("ada", "admin", true).unwrap());
    assert_eq!(list().code, Code::Ok);
}
