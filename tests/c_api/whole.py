"""Whether the C interface is whole: each function of the headers is exported by the library and called by the test
program, the library exports no other, and what the C++ interface has, the C interface has too.

usage: whole.py ROOT NM LIBRARY"""
import re
import subprocess
import sys
from pathlib import Path

# Methods of the C++ classes, by what C has instead: "" where C needs nothing (handles, and what a C++ program gets from
# its language). All others are functions of that name, with the prefix of their class.
CLASSES = {
    "communicator.hpp:Communicator": ("", {
        "valid": "", "timeline": "", "counters": "get_counters", "estimate": "get_estimate", "operator": "is_same"}),
    "work.hpp:Work": ("", {"valid": "", "done": "is_done", "error": "wait_for"}),
    "store.hpp:Store": ("store_", {"host": ""}),
    "store.hpp:TcpStoreServer": ("store_server_", {}),
    "timeline.hpp:Timeline": ("timeline_", {}),
    "sparse.hpp:SparseAllReduce": ("sparse_", {}),
    "call_batch.hpp:CallBatch": ("batch_", {"run": "batch_start", "operator": "", **dict.fromkeys(
        "all_reduce reduce_scatter all_gather broadcast reduce scatter gather all_to_all scan send recv".split(),
        "batch_add")}),
}
# Functions of namespace kolo beside them.
FUNCTIONS = {
    "store.hpp": {"make_memory_store": "memory_store", "make_file_store": "file_store", "make_prefix_store": "prefix_store",
                  "connect_tcp_store": "tcp_store", "store_from_environment": "environment_store"},
    "work.hpp": {}, "timeline.hpp": {}, "memory.hpp": {}, "version.hpp": {},
}
# Members of C++ structures that have another name in C's.
STRUCTURES = {
    "communicator.hpp:Options": ("kolo_options", {"measure_costs": "skip_measuring"}),
    "communicator.hpp:RegroupOptions": ("kolo_regroup_options", {"serve": ""}),  # a function pointer
    "communicator.hpp:CallOptions": ("kolo_call", {}),
    "communicator.hpp:Counters": ("kolo_counters", {}),
    "communicator.hpp:ProbedMessage": ("kolo_message", {}),
    "estimate.hpp:Estimate": ("kolo_estimate", {}),
    "store.hpp:Launch": ("kolo_launch", {"size": "ranks"}),
    "sparse.hpp:SparseOptions": ("kolo_sparse_options", {}),
    "sparse.hpp:SparseVector": ("kolo_sparse_vector", {}),
    "reduction.hpp:CustomReduction": ("kolo_call", {"commutative": "is_commutative", "dtype": ""}),
    "buffer.hpp:Buffer": ("kolo_buffer", {}),
}
ERRORS = {"TimeoutError": "TIMED_OUT", "RendezvousError": "RENDEZVOUS_FAILED", "SystemError": "SYSTEM_ERROR",
          "QuorumError": "NO_QUORUM"}


def without_comments(path):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def body(text, kind, name):
    """What is between the braces of the class or structure."""
    begin = re.search(rf"^(?:{kind}) (?:\[\[nodiscard\]\] )?{name}(?: final)? {{", text, re.MULTILINE)
    if begin is None:
        sys.exit(f"there is no {kind} {name}: whole.py is out of date")
    return text[begin.end():text.index("\n};" if kind != "typedef struct" else "\n}", begin.end())]


def camel(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def main(root, nm, library):
    problems = []
    include = root / "include/kolo"
    header, types = (without_comments(include / name) for name in ("kolo.h", "kolo_types.h"))
    declared = set(re.findall(r"^[\w ]+\*? ?\b(kolo_\w+)\(", header, re.MULTILINE))
    listed = subprocess.run([nm, *(["-D"] if ".so" in library else []), "--defined-only", library], check=True,
                            capture_output=True, text=True).stdout
    exported = set(re.findall(r"^[0-9a-f]+ T (kolo_\w+)(?:@.*)?$", listed, re.MULTILINE))
    program = "".join(without_comments(path) for path in (root / "tests/c_api").glob("*.c"))
    called = set(re.findall(r"\b(kolo_\w+)\(", program))
    problems += [f"{name} is declared, but the library does not export it" for name in declared - exported]
    problems += [f"{name} is exported, but not declared" for name in exported - declared]
    problems += [f"{name} is declared, but tests/c_api does not call it" for name in declared - called]

    def require(name, where):
        if f"kolo_{name}" not in declared:
            problems.append(f"{where}: there is no kolo_{name}()")

    for place, (prefix, others) in CLASSES.items():
        file, _, name = place.partition(":")
        text = re.split(r"^ private:", body(without_comments(include / file), "class", name), flags=re.MULTILINE)[0]
        methods = set(re.findall(r"^  (?:[\w:<>,&*\[\] ]*[&*> ])(\w+)(?:==)?\(", text, re.MULTILINE))
        for method in methods - {name, "async"}:
            method = method.removesuffix("_async")
            if method not in others:
                require(prefix + method, place)
            elif others[method]:
                require(others[method], place)
    for file, others in FUNCTIONS.items():
        for name in re.findall(r"^(?! )(?:[\w:<>,&*\[\] ]*[&*> ])(\w+)\(", without_comments(include / file), re.MULTILINE):
            require(others.get(name, name), file)
    for place, (structure, others) in STRUCTURES.items():
        file, _, name = place.partition(":")
        plain = re.sub(r"\([^()]*\)|\{[^{}]*\}", "", body(without_comments(include / file), "struct", name))
        members = re.findall(r"^  [\w:<>,* ]+\s+(\w+)(?: = (?!delete|default)[^;]*)?;", plain, re.MULTILINE)
        own = set(re.findall(r"\b(\w+?)(?:_ns)?(?:\[\d+\])?;", body(types, "typedef struct", structure)))
        for member in members:
            if others.get(member, member) not in own | {""}:
                problems.append(f"{place}: {structure} has no {others.get(member, member)}")
    for name in re.findall(r"^class (\w+Error) :", without_comments(include / "error.hpp"), re.MULTILINE):
        status = ERRORS.get(name, camel(name.removesuffix("Error")))
        if f"KOLO_{status} =" not in types:
            problems.append(f"error.hpp: there is no KOLO_{status} for {name}")
    rows = re.findall(r'^    {.name = "(\w+)"', (root / "src/schedule/collective.hpp").read_text(), re.MULTILINE)
    if "all_reduce" not in rows:
        sys.exit("src/schedule/collective.hpp has no rows: whole.py is out of date")
    problems += [f"there is no KOLO_{name.upper()} = {number}" for number, name in enumerate(rows)
                 if name != "send_recv" and not re.search(rf"KOLO_{name.upper()} = {number}\b", types)]
    return sorted(problems)


if __name__ == "__main__":
    found = main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
    print("\n".join(found))
    sys.exit(1 if found else 0)
