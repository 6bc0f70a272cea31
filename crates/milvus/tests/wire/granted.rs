//! What roles are granted: by either form of request, one by one and in groups, and how it is taken.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pipeann_db::access::Grant;
use pipeann_milvus::proto::common::Status;
use pipeann_milvus::proto::milvus as wire;
use tonic::Code;

use crate::access::{Client, asking_who, client, grant, prepare};
use crate::served::{Served, assert_ok, create, declared, query};

/// A request by the kind of object.
fn by_kind(kind: &str, object: &str, privilege: &str) -> wire::OperatePrivilegeRequest {
    let privilege = Some(wire::PrivilegeEntity { name: privilege.to_owned() });
    let entity = wire::GrantEntity {
        role: Some(wire::RoleEntity { name: "reader".to_owned(), ..Default::default() }),
        object: Some(wire::ObjectEntity { name: kind.to_owned() }),
        object_name: object.to_owned(),
        grantor: Some(wire::GrantorEntity { privilege, ..Default::default() }),
        ..Default::default()
    };
    wire::OperatePrivilegeRequest { entity: Some(entity), ..Default::default() }
}

/// A request by collection that names no database.
fn unnamed(collection: &str, privilege: &str) -> wire::OperatePrivilegeV2Request {
    wire::OperatePrivilegeV2Request { db_name: String::new(), ..grant(collection, privilege) }
}

fn revoked(mut request: wire::OperatePrivilegeV2Request) -> wire::OperatePrivilegeV2Request {
    request.set_type(wire::OperatePrivilegeType::Revoke);
    request
}

/// What `reader` has: kind, object, privilege and database of each.
fn granted(served: &Served) -> Vec<[String; 4]> {
    let grants = served.database.access().grants("reader").unwrap().into_iter();
    grants
        .map(|(Grant { kind, object, privilege, database }, _)| [kind, object, privilege, database])
        .collect()
}

fn grant_as_before(served: &Served, kind: &str, object: &str, privilege: &str) {
    let [kind, object, privilege] = [kind, object, privilege].map(str::to_owned);
    let grant = Grant { kind, object, privilege, database: "default".to_owned() };
    served.database.access().set_grant("reader", grant, "root", true).unwrap();
}

fn ended(answer: Result<tonic::Response<Status>, tonic::Status>) -> Code {
    match answer {
        Ok(answer) => {
            assert_ok(&answer.into_inner());
            Code::Ok
        }
        Err(status) => status.code(),
    }
}

#[test]
fn by_the_kind_of_object_single_privileges_on_this_kind_are_granted() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    let group = wire::CreatePrivilegeGroupRequest { group_name: "mine".into() };
    assert_ok(&served.call(root.create_privilege_group(group)));
    for (kind, privilege) in [
        ("Global", "Search"),
        ("Collection", "CreateCollection"),
        ("User", "Search"),
        ("Collection", "UpdateUser"),
        ("Collection", "CollectionReadOnly"),
        ("Global", "ClusterAdmin"),
        ("Global", "mine"),
    ] {
        let refused = served.call(root.operate_privilege(by_kind(kind, "*", privilege)));
        assert_eq!(refused.code, 1100, "{privilege} on {kind}: {}", refused.reason);
    }
    assert!(granted(&served).is_empty());
    for (kind, object, privilege, stands) in [
        ("Collection", "a", "Import", "a"),
        ("Collection", "a", "GetLoadState", "a"),
        ("Global", "a", "GetLoadState", "*"),
        ("Global", "a", "CreateCollection", "*"),
        ("Global", "a", "ReadOnly", "a"),
        ("User", "ada", "UpdateUser", "ada"),
        ("Collection", "a", "*", "a"),
    ] {
        assert_ok(&served.call(root.operate_privilege(by_kind(kind, object, privilege))));
        let found = granted(&served);
        let [of_kind, of, named, _] = found.iter().find(|[.., it, _]| it == privilege).unwrap();
        assert_eq!([of_kind, of, named].map(String::as_str), [kind, stands, privilege]);
        served.database.access().take_grants("reader", |_| true).unwrap();
    }
}

#[test]
fn what_is_revoked_is_gone_whichever_form_granted_it() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    let mut ada = client(&served, "ada:secret-1");
    let mut reads = || {
        let read = served.runtime.block_on(ada.query(query("a", "id >= 0", &[])));
        read.is_ok()
    };
    // Earlier versions took any kind.
    for (kind, privilege) in [("Global", "Query"), ("User", "CollectionReadOnly")] {
        grant_as_before(&served, kind, "*", privilege);
        assert!(reads());
        let taken = revoked(grant("*", privilege));
        assert_ok(&served.call(root.operate_privilege_v2(taken)));
        assert!(!reads(), "{privilege}");
    }
    grant_as_before(&served, "Global", "*", "Query");
    let mut taken = by_kind("Collection", "*", "Query");
    taken.set_type(wire::OperatePrivilegeType::Revoke);
    assert_ok(&served.call(root.operate_privilege(taken)));
    assert!(!reads());
    let mut ada = client(&served, "ada:secret-1");
    let mut creates = |name: &str| {
        ended(served.runtime.block_on(ada.create_collection(create(name, &declared()))))
    };
    let by_name = || by_kind("Global", "other", "CreateCollection");
    assert_ok(&served.call(root.operate_privilege(by_name())));
    assert_eq!(creates("b"), Code::Ok, "what is global is on all");
    let taken = revoked(unnamed("*", "CreateCollection"));
    assert_ok(&served.call(root.operate_privilege_v2(taken)));
    assert_eq!(creates("c"), Code::PermissionDenied);
    assert_ok(&served.call(root.operate_privilege(by_name())));
    grant_as_before(&served, "Global", "other", "CreateCollection");
    let mut taken = by_name();
    taken.set_type(wire::OperatePrivilegeType::Revoke);
    assert_ok(&served.call(root.operate_privilege(taken)));
    assert!(granted(&served).is_empty(), "{:?}", granted(&served));
}

/// Puts privileges into a group, which is made for it.
fn grouped(served: &Served, root: &mut Client, group: &str, names: &[&str]) -> Status {
    let made = wire::CreatePrivilegeGroupRequest { group_name: group.to_owned() };
    // It may be there.
    served.call(root.create_privilege_group(made));
    let privilege = |name: &&str| wire::PrivilegeEntity { name: (*name).to_owned() };
    served.call(root.operate_privilege_group(wire::OperatePrivilegeGroupRequest {
        group_name: group.to_owned(),
        privileges: names.iter().map(privilege).collect(),
        ..Default::default()
    }))
}

#[test]
fn a_group_is_granted_where_its_privileges_count_whatever_its_name() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    assert_ok(&grouped(&served, &mut root, "ops", &["CreateDatabase", "RenameCollection"]));
    assert_ok(&grouped(&served, &mut root, "ops", &["SelectOwnership"]));
    for mixed in [&["Search"][..], &["DropDatabase", "Query"]] {
        assert_eq!(grouped(&served, &mut root, "ops", mixed).code, 1100, "{mixed:?}");
    }
    assert_eq!(grouped(&served, &mut root, "both", &["Search", "CreateDatabase"]).code, 1100);
    assert_ok(&served.call(root.operate_privilege_v2(unnamed("*", "ops"))));
    let mut ada = client(&served, "ada:secret-1");
    let made = wire::CreateDatabaseRequest { db_name: "t1".into(), ..Default::default() };
    assert_eq!(ended(served.runtime.block_on(ada.create_database(made))), Code::Ok);
    let mut in_one = grant("*", "ops");
    in_one.db_name = "t1".to_owned();
    assert_eq!(served.call(root.operate_privilege_v2(in_one)).code, 1100);
    // Earlier versions granted it in one database, where it did not count.
    grant_as_before(&served, "Global", "*", "ops");
    assert_ok(&served.call(root.operate_privilege_v2(revoked(unnamed("*", "ops")))));
    assert!(granted(&served).is_empty(), "{:?}", granted(&served));

    assert_ok(&grouped(&served, &mut root, "ClusterSearchers", &["Query", "Search"]));
    assert_ok(&served.call(root.operate_privilege_v2(unnamed("a", "ClusterSearchers"))));
    let mut in_one = grant("a", "ClusterSearchers");
    in_one.db_name = "t1".to_owned();
    assert_ok(&served.call(root.operate_privilege_v2(in_one)));
    let databases: Vec<String> = granted(&served).into_iter().map(|[.., of]| of).collect();
    assert_eq!(databases, ["default", "t1"], "and not every one");
}

#[test]
fn what_is_on_the_whole_server_joins_no_group_that_a_role_has_in_one_database() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    assert_ok(&grouped(&served, &mut root, "later", &[]));
    assert_ok(&served.call(root.operate_privilege_v2(grant("*", "later"))));
    let refused = grouped(&served, &mut root, "later", &["CreateDatabase"]);
    assert_eq!(refused.code, 1100);
    assert!(refused.reason.contains("role [reader]"), "{}", refused.reason);
    assert_ok(&grouped(&served, &mut root, "later", &["Search"]));
}

#[test]
fn no_group_is_called_as_every_privilege_is() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    for name in ["All", "*", "Search", "ReadOnly"] {
        let made = wire::CreatePrivilegeGroupRequest { group_name: name.to_owned() };
        assert_eq!(served.call(root.create_privilege_group(made)).code, 1100, "{name}");
    }
    // Earlier versions let one be made: who grants it does not mean everything.
    served.database.access().create_group("All").unwrap();
    for refused in [
        served.call(root.operate_privilege_v2(grant("*", "All"))),
        served.call(root.operate_privilege(by_kind("Collection", "*", "All"))),
    ] {
        assert_eq!(refused.code, 1100, "{}", refused.reason);
    }
    assert!(granted(&served).is_empty());
    assert_ok(&served.call(root.operate_privilege_v2(revoked(grant("*", "All")))));
    let group = wire::DropPrivilegeGroupRequest { group_name: "All".into() };
    assert_ok(&served.call(root.drop_privilege_group(group)));
    assert_ok(&served.call(root.operate_privilege_v2(grant("*", "All"))));
}

#[test]
fn who_is_not_there_is_no_error_and_nobody() {
    let served = Served::new();
    let mut client = served.client();
    let role = Some(wire::RoleEntity { name: "nobody".into(), ..Default::default() });
    let asked = wire::SelectRoleRequest { role, include_user_info: true };
    let found = served.call(client.select_role(asked));
    assert_ok(&found.status.unwrap());
    assert!(found.results.is_empty());
    let user = Some(wire::UserEntity { name: "nobody".into() });
    let asked = wire::SelectUserRequest { user, include_role_info: true };
    let found = served.call(client.select_user(asked));
    assert_ok(&found.status.unwrap());
    assert!(found.results.is_empty());
}

#[test]
fn a_user_may_be_called_as_in_a_directory_of_users() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    for name in ["svc-nosql", "f.foo"] {
        let password = BASE64_STANDARD.encode("secret-1");
        let user = wire::CreateCredentialRequest { username: name.to_owned(), password };
        assert_ok(&served.call(root.create_credential(user)));
        let mut client = client(&served, &format!("{name}:secret-1"));
        served.call(client.get_version(wire::GetVersionRequest {}));
    }
}
