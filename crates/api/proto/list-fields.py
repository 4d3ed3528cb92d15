"""Lists every field, enum value and call of the protocol as the installed client knows them.

    pip install tritonclient protobuf
    python list-fields.py > fields.txt

The Rust tests compare the .proto files here with that list, so a number that drifts from what
clients speak fails them.
"""

import importlib.util
import sys
import types

from google.protobuf import descriptor_pb2

FIELD = descriptor_pb2.FieldDescriptorProto


def hollow(package, folder):
    """Stands in for a package whose own code would import all of grpc."""
    module = types.ModuleType(package)
    module.__path__ = [folder]
    sys.modules[package] = module


def load(name):
    module = importlib.import_module(f"tritonclient.grpc.{name}")
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def kind(field):
    if field.type in (FIELD.TYPE_MESSAGE, FIELD.TYPE_ENUM):
        return field.type_name
    return FIELD.Type.Name(field.type)[len("TYPE_"):].lower()


def message(path, entry):
    for field in entry.field:
        label = "repeated " if field.label == FIELD.LABEL_REPEATED else ""
        oneof = ""
        if field.HasField("oneof_index"):
            oneof = " in " + entry.oneof_decl[field.oneof_index].name
        yield f"{path}.{field.name} = {field.number} {label}{kind(field)}{oneof}"
    for nested in entry.nested_type:
        yield from message(f"{path}.{nested.name}", nested)
    for nested in entry.enum_type:
        yield from enum(f"{path}.{nested.name}", nested)


def enum(path, entry):
    for value in entry.value:
        yield f"{path}.{value.name} = {value.number} value"


def lines(file):
    root = "." + file.package
    for entry in file.message_type:
        yield from message(f"{root}.{entry.name}", entry)
    for entry in file.enum_type:
        yield from enum(f"{root}.{entry.name}", entry)
    for service in file.service:
        for call in service.method:
            streams = [" stream" if on else "" for on in (call.client_streaming, call.server_streaming)]
            yield (
                f"{root}.{service.name}/{call.name}"
                f"{streams[0]} {call.input_type} ->{streams[1]} {call.output_type}"
            )


ROOT = list(importlib.util.find_spec("tritonclient").submodule_search_locations)[0]
hollow("tritonclient", ROOT)
hollow("tritonclient.grpc", ROOT + "/grpc")
for line in sorted([*lines(load("model_config_pb2")), *lines(load("service_pb2"))]):
    print(line)
