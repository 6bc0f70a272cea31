"""Every call of the protocol as each of six roles, on collections of one's own and of others, by name and by alias.

Who may what is written here by the tables of Milvus, and compared with whom a server lets pass. A
call that is let pass may fail for any other reason: what it carries is as little as names what it
is about. Once more with what the role `public` has at first taken from it: then names that a role may
not see are answered as ones that are not there.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import grpc
from pymilvus import MilvusClient
from pymilvus.grpc_gen import milvus_pb2 as wire
from pymilvus.grpc_gen import milvus_pb2_grpc as service

PASSWORD = "Secret-1"
# What a call is about: database and collection.
OWN, BESIDE, FOREIGN = ("t1", "own"), ("t1", "other"), ("t2", "own")
TARGETS = (OWN, BESIDE, FOREIGN)

READ = {"Query", "Search", "GetFlushState", "HasPartition", "ShowPartitions", "GetStatistics"}
WRITE = READ | {
    *("Load", "Release", "Insert", "Delete", "Upsert", "Flush", "Compaction"),
    *("CreateIndex", "DropIndex", "CreatePartition", "DropPartition", "AddCollectionField"),
}
OWNER = WRITE | {"CreateAlias", "DropAlias"}
DATABASE = OWNER | {
    *("DescribeDatabase", "AlterDatabase", "CreateCollection", "DropCollection"),
    "RenameCollection",
}

# The privilege of each call that needs one.
PRIVILEGES = {
    **{call: "Search" for call in ("Search", "HybridSearch")},
    **{call: call for call in ("Query", "Insert", "Upsert", "Delete", "Flush", "GetFlushState")},
    **{call: "Load" for call in ("LoadCollection", "LoadPartitions")},
    **{call: "Release" for call in ("ReleaseCollection", "ReleasePartitions")},
    **{f"Get{of}Statistics": "GetStatistics" for of in ("Collection", "Partition")},
    **{call: "CreateIndex" for call in ("CreateIndex", "AlterIndex")},
    **{call: call for call in ("DropIndex", "CreatePartition", "DropPartition")},
    **{call: call for call in ("ShowPartitions", "HasPartition", "AddCollectionField")},
    "ManualCompaction": "Compaction",
    **{f"{verb}Collection": "CreateCollection" for verb in ("Create", "Alter")},
    "AlterCollectionField": "CreateCollection",
    **{f"{verb}Collection": "DropCollection" for verb in ("Drop", "Truncate")},
    "RenameCollection": "RenameCollection",
    **{f"{verb}Alias": "CreateAlias" for verb in ("Create", "Alter")},
    "DropAlias": "DropAlias",
    **{f"{verb}Database": f"{verb}Database" for verb in ("Alter", "Describe")},
}
# What is on the whole server, whatever database a call names.
SERVER = {
    *("FlushAll", "CreateDatabase", "DropDatabase", "CreateCredential", "DeleteCredential"),
    *("UpdateCredential", "ListCredUsers", "SelectUser", "OperateUserRole", "SelectRole"),
    *("CreateRole", "DropRole", "OperatePrivilege", "OperatePrivilegeV2", "SelectGrant"),
    *(f"{verb}PrivilegeGroup" for verb in ("Create", "Drop", "Operate")),
    *("ListPrivilegeGroups", "ListResourceGroups"),
}
# What tells what there is, by privilege: everybody has these until they are taken from `public`.
TOLD = {
    **{call: "DescribeCollection" for call in ("HasCollection", "DescribeCollection")},
    **{call: "DescribeCollection" for call in ("BatchDescribeCollection", "GetReplicas")},
    **{f"Get{of}SegmentInfo": "DescribeCollection" for of in ("Persistent", "Query")},
    **{call: call for call in ("GetLoadState", "GetLoadingProgress", "DescribeAlias")},
    "ListAliases": "ListAliases",
    "ShowCollections": "ShowCollections",
    **{f"{verb}Index{of}": "IndexDetail" for verb, of in (("Describe", ""), ("Get", "State"))},
    **{f"GetIndex{of}": "IndexDetail" for of in ("Statistics", "BuildProgress")},
}
OF_PUBLIC = {*TOLD.values(), "ListDatabases"}
# No collection, alias or database is named so.
ABSENT = "absent_name"
# These are about a database, and about no collection of it.
OF_DATABASE = {"AlterDatabase", "DescribeDatabase"}


@dataclass(frozen=True)
class Role:
    """A user, what he was granted, and what that gives him."""

    name: str
    grants: tuple[tuple[str, str, str], ...] = ()
    may: frozenset[str] = frozenset()
    within: tuple[tuple[str, str], ...] = ()

    def allows(self, call: str, target: tuple[str, str]) -> bool:
        """Whether he may make a call about something."""
        if self.name == "root" or (call not in PRIVILEGES and call not in SERVER):
            return True
        if call in SERVER:
            return False
        if call in OF_DATABASE:
            return PRIVILEGES[call] in self.may and self.grants[0][1:] == ("*", target[0])
        return PRIVILEGES[call] in self.may and target in self.within


ROLES = (
    Role("nobody"),
    Role("reader", (("CollectionReadOnly", "own", "t1"),), frozenset(READ), (OWN,)),
    Role("writer", (("CollectionReadWrite", "own", "t1"),), frozenset(WRITE), (OWN,)),
    Role("owner", (("CollectionAdmin", "own", "t1"),), frozenset(OWNER), (OWN,)),
    Role("tenant", (("*", "*", "t1"),), frozenset(DATABASE), (OWN, BESIDE)),
    Role("root"),
)


@dataclass
class Found:
    """What was let pass and refused, against what should be."""

    calls: int = 0
    served: int = 0
    tried: int = 0
    reached: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    # Without what `public` has at first.
    asked_unseen: int = 0
    shown: list[str] = field(default_factory=list)
    kept_back: list[str] = field(default_factory=list)


def prepare(uri: str) -> None:
    """Databases, collections with aliases, users and grants; what is there already is left."""
    root = MilvusClient(uri=uri, token="root:Milvus")
    for database in {database for database, _ in TARGETS}:
        if database not in root.list_databases():
            root.create_database(database)
    for role in ROLES[:-1]:
        if role.name not in root.list_users():
            root.create_user(role.name, PASSWORD)
            root.create_role(role.name)
            root.grant_role(role.name, role.name)
            for privilege, collection, database in role.grants:
                root.grant_privilege_v2(role.name, privilege, collection, database)
    for user in ("victim",):
        if user not in root.list_users():
            root.create_user(user, PASSWORD)
    root.close()
    restore(uri)


def restore(uri: str) -> None:
    """What a call that was let pass has dropped, renamed or moved is made again."""
    for database in {database for database, _ in TARGETS}:
        client = MilvusClient(uri=uri, token="root:Milvus", db_name=database)
        wanted = [collection for home, collection in TARGETS if home == database]
        for collection in client.list_collections():
            right = {f"{collection}_alias"} if collection in wanted else set()
            for alias in set(client.list_aliases(collection)["aliases"]) - right:
                client.drop_alias(alias)
            if collection not in wanted:
                client.drop_collection(collection)
        for collection in wanted:
            if not client.has_collection(collection):
                client.create_collection(collection, dimension=4)
            client.create_alias(collection, f"{collection}_alias")
        client.close()


def filled(message: Any, database: str, name: str, target: tuple[str, str]) -> Any:
    """A request that names what it is about, by whatever its fields are called."""
    values = {
        "dbname": database,
        "collectionname": name,
        "oldname": name,
        "newname": "renamed",
        "newdbname": database,
        "alias": f"{target[1]}_alias",
        "username": "victim",
    }
    for known in message.DESCRIPTOR.fields:
        flat = known.name.lower().replace("_", "")
        if flat in values and known.type == known.TYPE_STRING and not known.is_repeated:
            setattr(message, known.name, values[flat])
        elif flat == "collectionnames":
            getattr(message, known.name).append(name)
    if message.DESCRIPTOR.name == "SelectUserRequest":
        message.user.name = "victim"
    return message


# Calls that would end the connection's own user, or change who may what while it is measured.
HARMFUL = {"OperatePrivilege", "OperatePrivilegeV2", "OperateUserRole"}


def asked(call: str) -> Iterator[tuple[tuple[str, str], str]]:
    """What a call is asked about: each target by its name, and by its alias where that is the same."""
    for target in TARGETS:
        yield target, target[1]
        # A collection of an alias's name cannot be made, nor can one be dropped or renamed by it.
        if call in PRIVILEGES and not call.endswith(("Alias", "Database")):
            yield target, f"{target[1]}_alias"


def measure(uri: str) -> Found:
    """Makes all calls on a server that asks who calls, where `root` has its first password."""
    prepare(uri)
    found = Found()
    methods = list(wire.DESCRIPTOR.services_by_name["MilvusService"].methods)
    found.calls = len(methods)
    # Streams of messages between servers, none of which is served.
    methods = [method for method in methods if not method.name.endswith("Stream")]
    unserved: set[str] = set()
    address = uri.removeprefix("http://")
    with grpc.insecure_channel(address) as channel:
        stub = service.MilvusServiceStub(channel)
        for role in ROLES:
            password = "Milvus" if role.name == "root" else PASSWORD
            token = base64.b64encode(f"{role.name}:{password}".encode()).decode()
            for method in methods:
                if role.name == "root" and method.name in HARMFUL:
                    continue
                for target, name in asked(method.name):
                    message = method.input_type._concrete_class()
                    request = filled(message, target[0], name, target)
                    metadata = (("authorization", token), ("dbname", target[0]))
                    said = f"{method.name} as {role.name} on {target[0]}.{name}"
                    try:
                        getattr(stub, method.name)(request, metadata=metadata, timeout=30)
                        passed = True
                    except grpc.RpcError as error:
                        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                            unserved.add(method.name)
                            continue
                        passed = error.code() != grpc.StatusCode.PERMISSION_DENIED
                    found.tried += 1
                    allowed = role.allows(method.name, target)
                    if passed and not allowed:
                        found.reached.append(said)
                    if allowed and not passed:
                        found.refused.append(said)
                    if passed and method.name.startswith(("Drop", "Rename", "Alter", "Delete")):
                        restore(uri)
    found.served = len(methods) - len(unserved)
    return found


def set_public(uri: str, has: bool) -> None:
    """Takes from everybody what tells what there is, or gives it back."""
    root = MilvusClient(uri=uri, token="root:Milvus")
    change = root.grant_privilege_v2 if has else root.revoke_privilege_v2
    for privilege in sorted(OF_PUBLIC):
        change("public", privilege, "*", "*")
    root.close()


def said_of(method: Any, message: Any, metadata: Any, stub: Any) -> str:
    """The whole answer, as text."""
    try:
        return str(getattr(stub, method.name)(message, metadata=metadata, timeout=30))
    except grpc.RpcError as error:
        return f"{error.code()}: {error.details()}"


def naming(message: Any, target: tuple[str, str], name: str) -> Any:
    """A request that names something, in lists and as an alias too."""
    filled(message, target[0], name, target)
    for known in message.DESCRIPTOR.fields:
        if known.name == "collection_name" and known.is_repeated:
            message.collection_name.append(name)
        elif known.name == "alias":
            message.alias = name
        elif known.name in ("timestamp", "guarantee_timestamp"):
            message.ClearField(known.name)
    return message


def measure_unseen(uri: str, found: Found) -> None:
    """What each role is told of each target, against what it is told of a name that is not there."""
    methods = wire.DESCRIPTOR.services_by_name["MilvusService"].methods_by_name
    told = [methods[name] for name in sorted(TOLD)]
    with grpc.insecure_channel(uri.removeprefix("http://")) as channel:
        stub = service.MilvusServiceStub(channel)
        for role in ROLES:
            password = "Milvus" if role.name == "root" else PASSWORD
            token = base64.b64encode(f"{role.name}:{password}".encode()).decode()
            for method in told:
                for target in TARGETS:
                    sees = role.name == "root" or target in role.within
                    listing = method.name == "ShowCollections"
                    for name in (target[1], f"{target[1]}_alias"):
                        metadata = (("authorization", token), ("dbname", target[0]))
                        make = method.input_type._concrete_class
                        said = said_of(method, naming(make(), target, name), metadata, stub)
                        absent = said_of(method, naming(make(), target, ABSENT), metadata, stub)
                        found.asked_unseen += 1
                        what = f"{method.name} as {role.name} on {target[0]}.{name}"
                        same = said == absent.replace(ABSENT, name)
                        if listing:
                            same = f'"{target[1]}"' not in said
                        if sees and same and "PERMISSION_DENIED" in said:
                            found.kept_back.append(what)
                        # A listing names collections, whatever their aliases are.
                        elif listing and sees and same and name == target[1]:
                            found.kept_back.append(what)
                        elif not sees and not same:
                            found.shown.append(what)
            client = MilvusClient(uri=uri, token=f"{role.name}:{password}")
            databases = set(client.list_databases()) - {"default"}
            client.close()
            own = {database for database, _ in role.within}
            if role.name == "root":
                own = {database for database, _ in TARGETS}
            found.shown += [f"{database} to {role.name}" for database in databases - own]
            found.kept_back += [f"{database} from {role.name}" for database in own - databases]


def measure_all(uri: str) -> Found:
    """First as it is, and then with nothing left to `public`."""
    found = measure(uri)
    set_public(uri, False)
    try:
        measure_unseen(uri, found)
    finally:
        set_public(uri, True)
    return found


if __name__ == "__main__":
    print(json.dumps(asdict(measure_all(sys.argv[1]))))
