"""Our definition of the wire against the descriptors of the installed pymilvus."""

import re
from pathlib import Path

import pymilvus
import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from pymilvus.grpc_gen import common_pb2, milvus_pb2, schema_pb2

# What is defined is that of 2.6; an earlier client does not know all of it.
OLDER = tuple(map(int, pymilvus.__version__.split(".")[:2])) < (2, 6)
# Fields that are refused without a look inside; only pymilvus 3.0 knows all of them.
REFUSED = {"highlighter", "search_aggregation", "function_chains", "field_ops"}
DEFINITION = Path(__file__).resolve().parents[2] / "crates" / "milvus" / "proto"
THEIRS = [common_pb2.DESCRIPTOR, milvus_pb2.DESCRIPTOR, schema_pb2.DESCRIPTOR]
SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}
# What servers ask each other, which no client knows.
AMONG_SERVERS = "servers.proto"
# Packed floats, read as the bytes that they are.
OURS_ONLY = {"milvus.proto.schema.PackedFloats": "milvus.proto.schema.FloatArray"}
FIELD = re.compile(r"^(?:optional )?(repeated )?(map<\w+, [\w.]+>|[\w.]+) (\w+) = (\d+);$")
VALUE = re.compile(r"^(\w+) = (\d+);$")


def definition() -> tuple[dict[str, dict[str, tuple[int, str]]], dict[str, dict[str, int]], list]:
    """Messages with their fields, enums with their values, and calls, of our files."""
    messages: dict[str, dict[str, tuple[int, str]]] = {}
    enums: dict[str, dict[str, int]] = {}
    calls = []
    for path in sorted(DEFINITION.glob("*.proto")):
        if path.name == AMONG_SERVERS:
            continue
        open_message, open_enum, package = None, None, ""
        for line in path.read_text().splitlines():
            line = line.strip()
            if line.startswith("package "):
                package = line.split()[1].rstrip(";")
            elif opened := re.match(r"message (\w+) \{(\})?$", line):
                messages[f"{package}.{opened[1]}"] = open_message = {}
                open_enum = None
            elif opened := re.match(r"enum (\w+) \{$", line):
                enums[f"{package}.{opened[1]}"] = open_enum = {}
                open_message = None
            elif called := re.match(r"rpc (\w+)\(([\w.]+)\) returns \(([\w.]+)\);$", line):
                calls.append(called.groups())
            elif open_message is not None and (field := FIELD.match(line)):
                label, kind, name, number = field.groups()
                open_message[name] = (int(number), (label or "") + kind)
            elif open_enum is not None and (value := VALUE.match(line)):
                open_enum[value[1]] = int(value[2])
            else:
                known = ("", "}", "//", "syntax", "import", "oneof", "service")
                assert line in known or line.startswith(known[2:]), line
    return messages, enums, calls


def short(full_name: str, package: str) -> str:
    return full_name.removeprefix(f"{package}.").removeprefix("milvus.proto.")


def kind(field: FieldDescriptor, package: str) -> str:
    """The type of their field, as our files write it."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = (kind(part, package) for part in message.fields)
        return f"map<{key}, {value}>"
    named = message or field.enum_type
    name = short(named.full_name, package) if named else SCALARS[field.type]
    return f"repeated {name}" if field.is_repeated else name


def theirs() -> tuple[dict[str, Descriptor], dict[str, EnumDescriptor]]:
    messages = {m.full_name: m for file in THEIRS for m in file.message_types_by_name.values()}
    enums = {e.full_name: e for file in THEIRS for e in file.enum_types_by_name.values()}
    return messages, enums


MESSAGES, ENUMS, CALLS = definition()
THEIR_MESSAGES, THEIR_ENUMS = theirs()


def test_all_files_are_read() -> None:
    assert len(MESSAGES) > 100 and len(ENUMS) > 8 and len(CALLS) > 60


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_fields_have_their_numbers_and_types(name: str) -> None:
    their_name = OURS_ONLY.get(name, name)
    if their_name not in THEIR_MESSAGES and OLDER:
        pytest.skip(f"this pymilvus does not know {name}")
    package = name.rpartition(".")[0]
    known = THEIR_MESSAGES[their_name].fields_by_name
    for field, (number, ours) in MESSAGES[name].items():
        if field not in known and (OLDER or field in REFUSED):
            continue
        assert known[field].number == number, field
        if field in REFUSED:
            assert ours.removeprefix("repeated ") == "bytes"
        elif name in OURS_ONLY:
            assert (ours, kind(known[field], package)) == ("bytes", "repeated float")
        else:
            assert ours.replace("PackedFloats", "FloatArray") == kind(known[field], package), field
    taken = {field.number: field.name for field in known.values()}
    for field, (number, _) in MESSAGES[name].items():
        assert taken.get(number, field) == field, f"{field} has the number of {taken[number]}"


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_values_have_their_numbers(name: str) -> None:
    known = THEIR_ENUMS[name].values_by_name
    for value, number in ENUMS[name].items():
        if value not in known and OLDER:
            continue
        assert known[value].number == number, value


@pytest.mark.parametrize(("name", "request_type", "answer"), CALLS)
def test_calls_take_and_give_what_clients_expect(
    name: str, request_type: str, answer: str
) -> None:
    known = milvus_pb2.DESCRIPTOR.services_by_name["MilvusService"].methods_by_name
    if name not in known and OLDER:
        pytest.skip(f"this pymilvus does not know {name}")
    package = "milvus.proto.milvus"
    assert short(known[name].input_type.full_name, package) == request_type
    assert short(known[name].output_type.full_name, package) == answer
