//! Who may call, and what.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pipeann_milvus::ServeOptions;
use pipeann_milvus::proto::common::Status;
use pipeann_milvus::proto::milvus as wire;
use pipeann_milvus::proto::milvus::milvus_service_client::MilvusServiceClient;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::served::{Served, assert_ok, create, declared, describe, insert, pair, query};

/// Sends a token with each call.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, tonic::Status> {
        let encoded = BASE64_STANDARD.encode(&self.0);
        request.metadata_mut().insert("authorization", encoded.parse().unwrap());
        Ok(request)
    }
}

pub(crate) type Client = MilvusServiceClient<InterceptedService<Channel, Token>>;

pub(crate) fn asking_who() -> Served {
    Served::with(ServeOptions { authorization: true, ..ServeOptions::default() })
}

pub(crate) fn client(served: &Served, token: &str) -> Client {
    let channel = served.runtime.block_on(served.endpoint().connect()).unwrap();
    MilvusServiceClient::with_interceptor(channel, Token(token.to_owned()))
}

/// What `root` does: a user `ada` with the role `reader`, and a collection `a` that is loaded.
pub(crate) fn prepare(served: &Served, root: &mut Client) {
    let (username, password) = ("ada".to_owned(), BASE64_STANDARD.encode("secret-1"));
    let user = wire::CreateCredentialRequest { username, password };
    assert_ok(&served.call(root.create_credential(user)));
    let role = Some(wire::RoleEntity { name: "reader".to_owned(), ..Default::default() });
    assert_ok(&served.call(root.create_role(wire::CreateRoleRequest { entity: role })));
    assert_ok(&served.call(root.operate_user_role(has_role("ada", "reader"))));
    assert_ok(&served.call(root.create_collection(create("a", &declared()))));
    let index = wire::CreateIndexRequest {
        collection_name: "a".into(),
        field_name: "v".into(),
        extra_params: vec![pair("metric_type", "L2")],
        ..Default::default()
    };
    assert_ok(&served.call(root.create_index(index)));
    let load = wire::LoadCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(root.load_collection(load)));
}

fn has_role(user: &str, role: &str) -> wire::OperateUserRoleRequest {
    let (username, role_name) = (user.to_owned(), role.to_owned());
    wire::OperateUserRoleRequest { username, role_name, ..Default::default() }
}

fn grantor(privilege: &str) -> Option<wire::GrantorEntity> {
    let privilege = Some(wire::PrivilegeEntity { name: privilege.to_owned() });
    Some(wire::GrantorEntity { privilege, ..Default::default() })
}

pub(crate) fn grant(collection: &str, privilege: &str) -> wire::OperatePrivilegeV2Request {
    wire::OperatePrivilegeV2Request {
        role: Some(wire::RoleEntity { name: "reader".to_owned(), ..Default::default() }),
        grantor: grantor(privilege),
        collection_name: collection.to_owned(),
        db_name: "default".to_owned(),
        ..Default::default()
    }
}

#[test]
fn only_users_with_their_password_are_answered() {
    let served = asking_who();
    let refused = |token: Option<&str>| {
        let answer = match token {
            Some(token) => {
                let mut client = client(&served, token);
                served.runtime.block_on(client.get_version(wire::GetVersionRequest {}))
            }
            None => {
                served.runtime.block_on(served.client().get_version(wire::GetVersionRequest {}))
            }
        };
        answer.err().map(|status| (status.code(), status.message().to_owned()))
    };
    assert_eq!(refused(Some("root:Milvus")), None);
    let (code, message) = refused(None).unwrap();
    assert_eq!(
        (code, message.as_str()),
        (Code::Unauthenticated, "missing authorization in header")
    );
    for token in ["root:milvus", "root", "ada:Milvus", ":", ""] {
        let (code, message) = refused(Some(token)).unwrap();
        assert_eq!(code, Code::Unauthenticated, "{token}");
        assert!(message.contains("auth check failure, please check username"), "{message}");
    }
}

#[test]
fn passwords_change() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    let mut ada = client(&served, "ada:secret-1");
    let change = |user: &str, old: &str, new: &str| wire::UpdateCredentialRequest {
        username: user.to_owned(),
        old_password: BASE64_STANDARD.encode(old),
        new_password: BASE64_STANDARD.encode(new),
    };
    let status = served.call(ada.update_credential(change("ada", "secret-9", "secret-2")));
    assert_eq!(status.code, 1400, "{}", status.reason);
    assert_ok(&served.call(ada.update_credential(change("ada", "secret-1", "secret-2"))));
    let version = || wire::GetVersionRequest {};
    let old = served.runtime.block_on(ada.get_version(version())).unwrap_err();
    assert_eq!(old.code(), Code::Unauthenticated);
    let mut ada = client(&served, "ada:secret-2");
    assert_ok(&served.call(ada.get_version(version())).status.unwrap());
    let other = ada.update_credential(change("root", "Milvus", "secret-3"));
    assert_eq!(served.runtime.block_on(other).unwrap_err().code(), Code::PermissionDenied);
    // An administrator need not know it, and says nothing wrong.
    let status = served.call(root.update_credential(change("ada", "secret-9", "secret-3")));
    assert_eq!((status.code, status.reason.contains("old password not correct")), (1400, true));
    assert_ok(&served.call(ada.get_version(version())).status.unwrap());
    assert_ok(&served.call(root.update_credential(change("ada", "", "secret-3"))));
    assert_eq!(served.call(root.update_credential(change("ada", "", "short"))).code, 1100);
    let unknown = wire::UpdateCredentialRequest { username: "eve".into(), ..Default::default() };
    assert_ne!(served.call(root.update_credential(unknown)).code, 0);
}

#[test]
fn users_may_do_what_their_roles_may() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    let mut ada = client(&served, "ada:secret-1");
    // What there is, everybody may know who is known.
    assert_ok(&served.call(ada.describe_collection(describe("a"))).status.unwrap());
    let mut read = || {
        let answer = served.runtime.block_on(ada.query(query("a", "id >= 0", &[])));
        answer.map(|answer| answer.into_inner().status.unwrap())
    };
    let denied = read().unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    let message = "PrivilegeQuery: permission deny to ada in the `default` database";
    assert_eq!(denied.message(), message);
    assert_ok(&served.call(root.operate_privilege_v2(grant("b", "CollectionReadOnly"))));
    assert!(read().is_err(), "another collection");
    assert_ok(&served.call(root.operate_privilege_v2(grant("a", "CollectionReadOnly"))));
    assert_ok(&read().unwrap());
    let mut ada = client(&served, "ada:secret-1");
    let mut write = || served.runtime.block_on(ada.insert(insert("a", 0..1)));
    assert_eq!(write().unwrap_err().code(), Code::PermissionDenied);
    // By the kind of object, as earlier clients grant.
    let by_kind = wire::OperatePrivilegeRequest {
        entity: Some(wire::GrantEntity {
            role: Some(wire::RoleEntity { name: "reader".to_owned(), ..Default::default() }),
            object: Some(wire::ObjectEntity { name: "Collection".to_owned() }),
            object_name: "a".to_owned(),
            grantor: grantor("Insert"),
            ..Default::default()
        }),
        ..Default::default()
    };
    assert_ok(&served.call(root.operate_privilege(by_kind.clone())));
    assert_ok(&write().unwrap().into_inner().status.unwrap());
    let entity = by_kind.entity.map(|entity| wire::GrantEntity { object: None, ..entity });
    let shown = served.call(root.select_grant(wire::SelectGrantRequest { entity }));
    let shown: Vec<String> = shown
        .entities
        .into_iter()
        .map(|entity| entity.grantor.unwrap().privilege.unwrap().name)
        .collect();
    assert_eq!(shown, ["CollectionReadOnly", "Insert"]);
    let mut ada = client(&served, "ada:secret-1");
    let mine = ada.operate_user_role(has_role("ada", "admin"));
    assert_eq!(served.runtime.block_on(mine).unwrap_err().code(), Code::PermissionDenied);
    assert_ok(&served.call(root.operate_user_role(has_role("ada", "admin"))));
    let drop = wire::DropCollectionRequest { collection_name: "a".into(), ..Default::default() };
    assert_ok(&served.call(ada.drop_collection(drop)));
}

#[test]
fn users_roles_and_groups_are_listed_and_dropped() {
    let served = Served::new();
    let mut client = served.client();
    let user = |name: &str| wire::CreateCredentialRequest {
        username: name.to_owned(),
        password: BASE64_STANDARD.encode("secret-1"),
    };
    assert_ok(&served.call(client.create_credential(user("ada"))));
    let reason = |status: Status| (status.code, status.reason);
    let (code, why) = reason(served.call(client.create_credential(user("ada"))));
    assert!(code != 0 && why.contains("user already exists: ada"), "{why}");
    assert_eq!(served.call(client.create_credential(user("a b"))).code, 1100);
    let listed = served.call(client.list_cred_users(wire::ListCredUsersRequest {}));
    assert_eq!(listed.usernames, ["ada", "root"]);
    let missing = wire::OperateUserRoleRequest {
        username: "ada".into(),
        role_name: "none".into(),
        ..Default::default()
    };
    assert!(
        reason(served.call(client.operate_user_role(missing))).1.contains("not found the role")
    );
    assert_ok(&served.call(client.operate_user_role(has_role("ada", "public"))));
    let one = wire::SelectUserRequest {
        user: Some(wire::UserEntity { name: "ada".into() }),
        include_role_info: true,
    };
    let found = served.call(client.select_user(one)).results;
    assert_eq!(found[0].roles[0].name, "public");
    let all = wire::SelectRoleRequest { include_user_info: true, ..Default::default() };
    let roles = served.call(client.select_role(all)).results;
    let names: Vec<_> =
        roles.iter().map(|role| role.role.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(names, ["admin", "public"]);
    assert_eq!(roles[0].users[0].name, "root");
    let group = wire::CreatePrivilegeGroupRequest { group_name: "mine".into() };
    assert_ok(&served.call(client.create_privilege_group(group)));
    let add = |name: &str| wire::OperatePrivilegeGroupRequest {
        group_name: "mine".into(),
        privileges: vec![wire::PrivilegeEntity { name: name.to_owned() }],
        ..Default::default()
    };
    assert_ok(&served.call(client.operate_privilege_group(add("Search"))));
    assert_eq!(served.call(client.operate_privilege_group(add("Fly"))).code, 1100);
    let groups = served.call(client.list_privilege_groups(wire::ListPrivilegeGroupsRequest {}));
    let mine = groups.privilege_groups.iter().find(|group| group.group_name == "mine").unwrap();
    assert_eq!(mine.privileges[0].name, "Search");
    let drop = wire::DropPrivilegeGroupRequest { group_name: "mine".into() };
    assert_ok(&served.call(client.drop_privilege_group(drop)));
    let root = wire::DeleteCredentialRequest { username: "root".into() };
    assert_ne!(served.call(client.delete_credential(root)).code, 0);
    let ada = wire::DeleteCredentialRequest { username: "ada".into() };
    assert_ok(&served.call(client.delete_credential(ada)));
    let role = wire::DropRoleRequest { role_name: "admin".into(), force_drop: true };
    assert_ne!(served.call(client.drop_role(role)).code, 0);
}

/// A grant in a database.
fn grant_in(database: &str, collection: &str, privilege: &str) -> wire::OperatePrivilegeV2Request {
    let mut asked = grant(collection, privilege);
    asked.db_name = database.to_owned();
    asked
}

/// What makes a call one of `ada` that names a database in its head.
fn ada_in(database: &'static str) -> impl FnMut(Request<()>) -> Request<()> {
    move |mut request| {
        let token = BASE64_STANDARD.encode("ada:secret-1");
        request.metadata_mut().insert("authorization", token.parse().unwrap());
        request.metadata_mut().insert("dbname", database.parse().unwrap());
        request
    }
}

fn create_in(database: &str, collection: &str) -> wire::CreateCollectionRequest {
    let mut asked = create(collection, &declared());
    asked.db_name = database.to_owned();
    asked
}

fn with_head<T>(head: &mut impl FnMut(Request<()>) -> Request<()>, message: T) -> Request<T> {
    let (metadata, extensions, ()) = head(Request::new(())).into_parts();
    Request::from_parts(metadata, extensions, message)
}

#[test]
fn who_may_do_everything_in_one_database_is_no_administrator() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    let tenant = wire::CreateDatabaseRequest { db_name: "t1".into(), ..Default::default() };
    assert_ok(&served.call(root.create_database(tenant)));
    // What is on the whole server is refused of one database.
    for privilege in ["ClusterAdmin", "ClusterReadOnly", "ManageOwnership", "CreateOwnership"] {
        let refused = served.call(root.operate_privilege_v2(grant_in("t1", "*", privilege)));
        assert_eq!(refused.code, 1100, "{privilege}");
        assert!(refused.reason.contains("for the cluster level privilege"), "{}", refused.reason);
    }
    // These hold it among others, of which they give what there is in a database.
    for privilege in ["Admin", "*"] {
        assert_ok(&served.call(root.operate_privilege_v2(grant_in("t1", "*", privilege))));
    }
    let mut ada = served.client();
    let mut head = ada_in("t1");
    let denied = |answer: Result<(), tonic::Status>| {
        assert_eq!(answer.unwrap_err().code(), Code::PermissionDenied);
    };
    let asked = with_head(&mut head, has_role("ada", "admin"));
    denied(served.runtime.block_on(ada.operate_user_role(asked)).map(drop));
    let asked = with_head(&mut head, wire::DeleteCredentialRequest { username: "root".into() });
    denied(served.runtime.block_on(ada.delete_credential(asked)).map(drop));
    let asked = with_head(&mut head, grant_in("*", "*", "ClusterAdmin"));
    denied(served.runtime.block_on(ada.operate_privilege_v2(asked)).map(drop));
    let asked = with_head(&mut head, wire::ListCredUsersRequest {});
    denied(served.runtime.block_on(ada.list_cred_users(asked)).map(drop));
    let asked = wire::DropDatabaseRequest { db_name: "t1".into() };
    let asked = with_head(&mut head, asked);
    denied(served.runtime.block_on(ada.drop_database(asked)).map(drop));
    let own = create_in("t1", "own");
    assert_ok(&served.call(ada.create_collection(with_head(&mut head, own))));
    // On the whole server it is another matter.
    assert_ok(&served.call(root.operate_privilege_v2(grant_in("*", "*", "ClusterAdmin"))));
    let asked = with_head(&mut head, wire::ListCredUsersRequest {});
    served.call(ada.list_cred_users(asked));
}

#[test]
fn an_alias_gives_no_right_and_takes_none() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    assert_ok(&served.call(root.create_collection(create("mine", &declared()))));
    let alias = |alias: &str, collection: &str| wire::CreateAliasRequest {
        alias: alias.to_owned(),
        collection_name: collection.to_owned(),
        ..Default::default()
    };
    assert_ok(&served.call(root.create_alias(alias("prod", "a"))));
    for collection in ["mine", "pub"] {
        let granted = grant(collection, "CollectionAdmin");
        assert_ok(&served.call(root.operate_privilege_v2(granted)));
    }
    let mut ada = client(&served, "ada:secret-1");
    let alter = wire::AlterAliasRequest {
        alias: "prod".into(),
        collection_name: "mine".into(),
        ..Default::default()
    };
    let denied = |answer: Result<(), tonic::Status>| {
        assert_eq!(answer.unwrap_err().code(), Code::PermissionDenied);
    };
    denied(served.runtime.block_on(ada.alter_alias(alter)).map(drop));
    let dropped = wire::DropAliasRequest { alias: "prod".into(), ..Default::default() };
    denied(served.runtime.block_on(ada.drop_alias(dropped)).map(drop));
    denied(served.runtime.block_on(ada.create_alias(alias("pub", "a"))).map(drop));
    // Whoever made it: the name `pub` is not what the right is on.
    assert_ok(&served.call(root.create_alias(alias("pub", "a"))));
    denied(served.runtime.block_on(ada.query(query("pub", "id >= 0", &[]))).map(drop));
    assert_ok(&served.call(ada.create_alias(alias("own", "mine"))));
    let dropped = wire::DropAliasRequest { alias: "own".into(), ..Default::default() };
    assert_ok(&served.call(ada.drop_alias(dropped)));
    // By its alias like by its name.
    assert_ok(&served.call(root.operate_privilege_v2(grant("a", "Query"))));
    let read = served.runtime.block_on(ada.query(query("prod", "id >= 0", &[])));
    assert_ok(&read.unwrap().into_inner().status.unwrap());
}

#[test]
fn what_is_compacted_or_renamed_elsewhere_needs_the_right_there() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    for database in ["t1", "t2"] {
        let made = wire::CreateDatabaseRequest { db_name: database.into(), ..Default::default() };
        assert_ok(&served.call(root.create_database(made)));
    }
    let own = create_in("t1", "own");
    assert_ok(&served.call(root.create_collection(own)));
    for privilege in ["Compaction", "RenameCollection"] {
        assert_ok(&served.call(root.operate_privilege_v2(grant_in("t1", "*", privilege))));
    }
    let id = served.call(root.describe_collection(describe("a"))).collection_id;
    let mut ada = served.client();
    let mut head = ada_in("t1");
    let mut compact = |request: wire::ManualCompactionRequest| {
        let asked = with_head(&mut head, request);
        served.runtime.block_on(ada.manual_compaction(asked)).map(drop).map_err(|e| e.code())
    };
    let by_name = |db_name: &str, name: &str| wire::ManualCompactionRequest {
        db_name: db_name.into(),
        collection_name: name.into(),
        ..Default::default()
    };
    assert_eq!(compact(by_name("t1", "own")), Ok(()));
    assert_eq!(compact(by_name("default", "a")), Err(Code::PermissionDenied));
    let numbered = wire::ManualCompactionRequest { collection_id: id, ..Default::default() };
    assert_eq!(compact(numbered), Err(Code::PermissionDenied));
    let rename = wire::RenameCollectionRequest {
        db_name: "t1".into(),
        old_name: "own".into(),
        new_name: "taken".into(),
        new_db_name: "t2".into(),
    };
    let mut head = ada_in("t1");
    let asked = with_head(&mut head, rename.clone());
    let denied = served.runtime.block_on(ada.rename_collection(asked)).unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert_ok(&served.call(root.operate_privilege_v2(grant_in("t2", "*", "RenameCollection"))));
    let asked = with_head(&mut head, rename);
    assert_ok(&served.call(ada.rename_collection(asked)));
}

#[test]
fn wrong_passwords_make_one_wait_and_nobody_who_is_known() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    let mut ada = client(&served, "ada:secret-1");
    let version = || wire::GetVersionRequest {};
    assert_ok(&served.call(ada.get_version(version())).status.unwrap());
    let mut wrong = client(&served, "ada:wrong");
    let refusals: Vec<String> = (0..8)
        .map(|_| {
            let status = served.runtime.block_on(wrong.get_version(version())).unwrap_err();
            assert_eq!(status.code(), Code::Unauthenticated);
            status.message().to_owned()
        })
        .collect();
    assert!(refusals[0].contains("please check username"), "{}", refusals[0]);
    assert!(refusals[7].contains("too many wrong passwords"), "{}", refusals[7]);
    assert_ok(&served.call(ada.get_version(version())).status.unwrap());
}

/// User, call, database, code and status of a call.
type Note = (Option<String>, String, String, Option<i32>, i32);

/// Keeps what is noted of calls.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<Note>>);

impl pipeann_milvus::AccessLog for Notes {
    fn ended(&self, call: &pipeann_milvus::CallEnded<'_>) {
        assert!(call.from.is_some_and(|from| from.ip().is_loopback()));
        let (user, name) = (call.user.map(str::to_owned), call.call.to_owned());
        let database = call.database.to_owned();
        self.0.lock().unwrap().push((user, name, database, call.code, call.grpc_status));
    }
}

#[test]
fn each_call_is_noted_with_who_made_it_and_how_it_ended() {
    let notes = std::sync::Arc::new(Notes::default());
    let log = std::sync::Arc::clone(&notes) as std::sync::Arc<dyn pipeann_milvus::AccessLog>;
    let access_log = Some(log);
    let options = ServeOptions { authorization: true, access_log, ..ServeOptions::default() };
    let served = Served::with(options);
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    notes.0.lock().unwrap().clear();
    let mut ada = client(&served, "ada:secret-1");
    let denied = served.runtime.block_on(ada.insert(insert("a", 0..2)));
    assert_eq!(denied.unwrap_err().code(), Code::PermissionDenied);
    let wrong = served.runtime.block_on(client(&served, "eve:guess").insert(insert("a", 0..2)));
    assert_eq!(wrong.unwrap_err().code(), Code::Unauthenticated);
    let mut named = Request::new(describe("missing"));
    named.metadata_mut().insert("dbname", "default".parse().unwrap());
    assert_eq!(served.call(root.describe_collection(named)).status.unwrap().code, 100);
    assert_ok(&served.call(root.insert(insert("a", 0..2))).status.unwrap());
    let (root, default) = (Some("root".to_owned()), "default".to_owned());
    let ended = |user: &Option<String>, call: &str, code, status: Code| {
        (user.clone(), call.to_owned(), default.clone(), code, i32::from(status))
    };
    let expected = [
        ended(&Some("ada".into()), "Insert", None, Code::PermissionDenied),
        ended(&None, "Insert", None, Code::Unauthenticated),
        ended(&root, "DescribeCollection", Some(100), Code::Ok),
        ended(&root, "Insert", Some(0), Code::Ok),
    ];
    assert_eq!(*notes.0.lock().unwrap(), expected);
}

#[test]
fn what_fails_names_no_place_of_the_server() {
    let served = Served::new();
    served.filled("a", 2);
    let dir = served.database.path().to_str().unwrap().to_owned();
    std::fs::remove_file(served.database.path().join("LOCK")).unwrap();
    let status = served.call(served.client().insert(insert("a", 5..7))).status.unwrap();
    assert_ne!(status.code, 0);
    assert!(status.reason.contains("the data directory/LOCK was removed"), "{}", status.reason);
    assert!(!status.reason.contains(&dir) && !status.detail.contains(&dir));
}
