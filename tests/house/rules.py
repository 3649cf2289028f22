"""The rules of the house, as functions from a source tree to what is wrong with it. house_test.py tries them on trees
that break them; house.py applies them to this one."""
import re
from pathlib import Path

# Rooms outside src/ and what they may include of src/, beside the public headers.
OUTER_ROOMS = {
    "train": set(),
    "bindings": set(),
    "examples": set(),
    # The tool explains schedules, their choice and their rounding. It starts ranks, and examines stores, transports
    # and devices.
    "cli": {"algorithms", "selection", "evaluation", "transport", "rendezvous", "device"},
    # Benchmarks of single kernels and transports.
    "benchmarks": {"kernels", "transport"},
}
# Rooms of train/ and which of each other they may include. "compression" does not use libtorch.
TRAIN_ROOMS = {
    "libtorch": set(),
    "compression": set(),
    "figures": set(),
    "ranks": {"libtorch"},
    "placement": {"libtorch", "ranks"},
    "gradients": {"libtorch", "ranks"},
    "ddp": {"libtorch", "ranks", "placement", "gradients"},
    "data": set(),
    "optim": {"libtorch", "ranks", "placement", "gradients"},
    "nn": {"libtorch", "ranks"},
    "precision": {"libtorch", "ranks", "placement"},
    "checkpoint": {"libtorch", "ranks", "placement", "gradients"},
    "sharded": {"libtorch", "ranks", "placement", "gradients"},
    "local": {"libtorch", "ranks"},
    "pipeline": {"libtorch", "ranks", "placement", "gradients"},
    "tensor": {"libtorch", "ranks", "placement"},
    "hybrid": {"libtorch", "ranks"},
    "elastic": {"libtorch", "ranks", "placement", "checkpoint"},
}
WITH_TORCH = {("train",), ("bindings", "torch"), ("examples", "train"), ("examples", "methods"), ("benchmarks", "train"), ("tests", "train"), ("tests", "torch"), ("tests", "docs"),
              ("examples", "consumer", "train")}
WITHOUT_TORCH = ("train", "compression")
SOURCE_FOLDERS = ["include", "src", "train", "bindings", "cli", "benchmarks", "examples", "tests"]
SOURCE_SUFFIXES = {".cpp", ".hpp"}

MAX_LINES = 500
# path: reason for its length
LONG_FILES = {}
# Files of src/ that define what include/kolo declares, in the namespace `kolo`.
PUBLIC_API = {
    "src/comm/call_batch.cpp",
    "src/comm/communicator.cpp",
    "src/comm/device/device_calls.cpp",
    "src/comm/device/device_calls.hpp",
    "src/comm/divide.cpp",
    "src/comm/estimate.cpp",
    "src/comm/explore.cpp",
    "src/comm/joining.cpp",
    "src/comm/listed_calls.cpp",
    "src/comm/regroup.cpp",
    "src/comm/sparse/all_reduce.cpp",
    "src/comm/state.cpp",
    "src/comm/state.hpp",
    "src/comm/timeline_file.cpp",
    "src/comm/work.cpp",
    "src/observe/timeline.cpp",
    "src/rendezvous/file_store.cpp",
    "src/rendezvous/launch.cpp",
    "src/rendezvous/meeting.cpp",
    "src/rendezvous/memory_store.cpp",
    "src/rendezvous/prefix_store.cpp",
    "src/rendezvous/tcp_client.cpp",
    "src/rendezvous/tcp_server.cpp",
    "src/transport/shm/arena.cpp",
    "src/transport/shm/shared_memory.cpp",
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
ROOM = re.compile(r"^kolo_room\(([^)]*)\)", re.MULTILINE)
CUDA = re.compile(r"^(cuda|cu(blas|dnn|fft|rand|solver|sparse)|nccl)\w*(\.|/)|^(ATen|c10|torch)/.*cuda")
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
LITERAL = re.compile(r'"(KOLO_[A-Z0-9_]+)')
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")


def sources(root, *folders):
    """C++ files under the folders; without folders, under all source folders."""
    for folder in folders or SOURCE_FOLDERS:
        yield from sorted(p for p in (root / folder).rglob("*") if p.suffix in SOURCE_SUFFIXES)


def without_comments(text):
    """The text without comments, but with strings, so that prose about an include or a variable does not count."""
    pattern = r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)


def includes(path):
    """(line, spelling, header) for each include of the file."""
    text = without_comments(path.read_text())
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2]


def rooms_of(root):
    """{room: the rooms that it may include, itself too}, transitively, from src/CMakeLists.txt."""
    direct = {}
    for match in ROOM.finditer((root / "src/CMakeLists.txt").read_text()):
        name, *parts = match[1].split()
        direct[name] = {p.removeprefix("kolo_") for p in parts if p.startswith("kolo_")}

    def reach(name, seen):
        if name not in seen:
            seen.add(name)
            for part in direct.get(name, ()):
                reach(part, seen)
        return seen

    return {name: reach(name, set()) for name in direct}


def check_includes(root):
    """Includes point one way."""
    rooms = rooms_of(root)
    problems = [f"src/{folder.name} is no room of src/CMakeLists.txt"
                for folder in sorted((root / "src").iterdir()) if folder.is_dir() and folder.name not in rooms]

    def complain(path, line, header, why):
        problems.append(f"{path.relative_to(root)}:{line}: {header}: {why}")

    for path in sources(root, "src", *OUTER_ROOMS):
        parts = path.relative_to(root).parts
        if parts[0] == "src":
            room, allowed = parts[1], rooms.get(parts[1], set())
        else:
            room = parts[0]
            allowed = {"base"} if OUTER_ROOMS[room] else set()
            for name in OUTER_ROOMS[room]:
                allowed |= rooms.get(name, set())
        for line, spelling, header in includes(path):
            first, _, rest = header.partition("/")
            if header.startswith("../") or "/../" in header:
                complain(path, line, header, "name headers from the root of their room's parent, not with ..")
            elif spelling == '"' and first in rooms:
                if first not in allowed:
                    complain(path, line, header, f"{room} may not include {first}")
                elif first == "transport" and "/" in rest:
                    # A backend includes no other backend, and no other room includes any backend.
                    own = parts[:3] == ("src", "transport", rest.partition("/")[0])
                    if not own:
                        complain(path, line, header, "only the backend itself includes its headers")
            if parts[0] == "train" and spelling == '"' and first in TRAIN_ROOMS:
                if first != parts[1] and first not in TRAIN_ROOMS.get(parts[1], set()):
                    complain(path, line, header, f"train/{parts[1]} may not include train/{first}")
    return problems


def check_public_headers(root):
    """The public headers include only each other and the standard library."""
    problems = []
    for path in sources(root, "include"):
        for line, spelling, header in includes(path):
            # The standard library's headers have neither a folder nor a suffix.
            fine = header.startswith("kolo/") if spelling == '"' else re.fullmatch(r"[a-z_0-9]+", header)
            if fine and spelling == '"' and not (root / "include" / header).exists():
                fine = False
            if not fine:
                problems.append(f"{path.relative_to(root)}:{line}: {header}: neither public nor standard")
    return problems


def check_torch(root):
    """libtorch appears only in the training layer (not in all rooms), its examples, benchmarks and tests, and PyTorch's binding."""
    problems = []
    for path in sources(root):
        parts = path.relative_to(root).parts
        if any(parts[:len(prefix)] == prefix for prefix in WITH_TORCH) and parts[:2] != WITHOUT_TORCH:
            continue
        for line, _, header in includes(path):
            if TORCH.match(header):
                problems.append(f"{path.relative_to(root)}:{line}: {header}: libtorch belongs in train/ and bindings/torch, and not in "
                                f"{'/'.join(WITHOUT_TORCH)}")
    return problems


def check_cuda(root):
    """No source includes a header of CUDA or NCCL: src/device loads both libraries by declarations of its own."""
    return [f"{path.relative_to(root)}:{line}: {header}: a header of CUDA"
            for path in sources(root, *SOURCE_FOLDERS[:-1]) for line, _, header in includes(path) if CUDA.match(header)]


def check_environment_reads(root):
    """The environment is read in one place for settings, in one for launchers, and by the tool, which sets it."""
    problems = []
    for path in sources(root, "include", "src", "train", "bindings", "benchmarks", "examples"):
        relative = path.relative_to(root)
        if relative == Path("src/base/config.cpp") or relative.parts[:2] == ("src", "rendezvous"):
            continue
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            if ENVIRONMENT.search(line):
                problems.append(f"{relative}:{number}: reads the environment; add the setting to src/base/config")
    return problems


def check_environment_page(root):
    """docs/running.md lists exactly the variables that src/base/config.cpp reads; no other file names others."""
    page_path = root / "docs/running.md"
    page = page_path.read_text() if page_path.exists() else ""
    documented = set(re.findall(r"^\| *`(KOLO_[A-Z0-9_]+)`", page, re.MULTILINE))
    read = set(LITERAL.findall(without_comments((root / "src/base/config.cpp").read_text())))
    problems = [f"docs/running.md lacks {name}, which src/base/config.cpp reads" for name in sorted(read - documented)]
    problems += [f"docs/running.md lists {name}, which src/base/config.cpp does not read"
                 for name in sorted(documented - read)]
    for path in sources(root, "include", "src", "train", "bindings", "cli", "benchmarks", "examples"):
        for name in sorted(set(LITERAL.findall(without_comments(path.read_text()))) - read):
            problems.append(f"{path.relative_to(root)}: {name} is no setting of src/base/config.cpp")
    return problems


def check_file_lengths(root):
    """No file over MAX_LINES without a reason in LONG_FILES."""
    paths = [*sources(root)]
    for folder in [*SOURCE_FOLDERS, "cmake", "scripts"]:
        paths += [p for p in (root / folder).rglob("*")
                  if p.name == "CMakeLists.txt" or p.suffix in {".cmake", ".py", ".sh"}]
    paths += [p for p in (root / "check", root / "quickstart") if p.exists()]
    problems = []
    for path in paths:
        name, lines = str(path.relative_to(root)), len(path.read_text().splitlines())
        if lines > MAX_LINES and name not in LONG_FILES:
            problems.append(f"{name}: {lines} lines; one idea a file, at most {MAX_LINES} lines")
    return problems


# What opens or closes a scope or ends a declaration, and the words that tell what a brace belongs to.
TOKEN = re.compile(r"""[{};()<>=]|\w+(?:::\w+)*|:|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""")
ALIGNMENT = re.compile(r"alignas \( [^)]*\) ")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]")
TYPE = re.compile(r"^(?:template < .* > )?(?:enum )?(?:struct|class|union|enum) ([A-Za-z_][\w:]*)(?! <)[^()]*$")
NAMESPACE = re.compile(r"^(?:inline )?namespace(?: ([A-Za-z_][\w:]*))?$")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def types_of(path):
    """(line, qualified name) of each type with external scope: not in functions or unnamed namespaces."""
    text = DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), without_comments(path.read_text()))
    text = ATTRIBUTE.sub("", text)
    scopes, words = [], []  # a scope is None if other files cannot name its types
    for match in TOKEN.finditer(text):
        token = match[0]
        if token == "{":
            head = ALIGNMENT.sub("", " ".join(words))
            namespace, kind = NAMESPACE.match(head), TYPE.match(head)
            scopes.append(namespace[1] if namespace else kind[1] if kind else None)
            if kind and None not in scopes:
                yield text.count("\n", 0, match.start()) + 1, "::".join(scopes)
        elif token == "}" and scopes:
            scopes.pop()
        if token in "{};" or token == ":" and words in (["public"], ["private"], ["protected"]):
            words = []
        else:
            words.append(token)


def check_type_names(root):
    """No two types have one qualified name: compilers do not report it (one-definition rule)."""
    places = {}
    for path in sources(root):
        for line, name in types_of(path):
            places.setdefault(name, {}).setdefault(path.relative_to(root), line)
    return [f"{name}: " + ", ".join(f"{path}:{line}" for path, line in found.items())
            for name, found in sorted(places.items()) if len(found) > 1]


def registered_names(root):
    """The names of all algorithms and transports."""
    entries = [*sources(root, "src/algorithms"), root / "src/transport/registry.cpp"]
    return {name for entry in entries for name in re.findall(r'\.name = "(\w+)"', entry.read_text())}


def check_selection_names(root):
    """Selection names no algorithm and no transport: what it asks for is in their entries."""
    names = registered_names(root)
    problems = []
    for path in sources(root, "src/selection"):
        for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
            literals = [] if INCLUDE.match(line) else re.findall(r'"((?:\\.|[^"\\])*)"', line)
            named = sorted(names & {word for literal in literals for word in re.findall(r"\w+", literal)})
            if named:
                problems.append(f"{path.relative_to(root)}:{number}: names {', '.join(named)}")
    return problems


OPENED = re.compile(r"^namespace (kolo(?:::\w+)*) \{$(?=((?:\n(?:class|struct) \w+;)+\n\})?)", re.MULTILINE)


def check_namespaces(root):
    """A file of src/ROOM opens kolo::ROOM, one of src/ROOM/PART also kolo::ROOM::PART. `base`, whose names all rooms use, is
    `kolo` itself; so are the files of PUBLIC_API. Any file may declare another room's class."""
    problems = []
    for path in sources(root, "src"):
        name = path.relative_to(root)
        room, *parts = name.parts[1:-1]
        allowed = {"kolo"} if room == "base" or str(name) in PUBLIC_API else set()
        if room != "base":
            allowed |= {"::".join(["kolo", room, *parts[:n]]) for n in range(len(parts) + 1)}
        for match in OPENED.finditer(without_comments(path.read_text())):
            is_inside = any(match[1].startswith(namespace + "::") for namespace in allowed - {"kolo"})
            if match[1] not in allowed and not is_inside and not match[2]:
                problems.append(f"{name} opens {match[1]}, and its room is {' or '.join(sorted(allowed))}")
                break
    return problems


COLLECTIVES = "all_reduce|reduce_scatter|all_gather|broadcast|reduce|scatter|gather|all_to_all|scan|send|recv|recv_any|sendrecv"
TENSOR_POINTER = re.compile(rf"(?:[.>](?:{COLLECTIVES})(?:_async)?|\bBuffer)\([^;]*?\b(?:buffer_of|data_ptr)\b")


def check_tensor_pointers(root):
    """In train/ only the room that knows devices, and hooks, which see the host's memory, give collectives a tensor's pointer."""
    problems = []
    for path in sources(root, "train"):
        if path.relative_to(root).parts[1] in ("libtorch", "compression"):
            continue
        text = without_comments(path.read_text())
        for match in TENSOR_POINTER.finditer(text):
            problems.append(f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: a collective gets the pointer of a "
                            "tensor: call those of kolo/train/tensor.hpp")
    return problems


EXAMPLES = ("*.cpp", "train/*.cpp", "methods/*.hpp", "pytorch/*.py", "*/README.md")


def check_examples_page(root):
    """examples/README.md links every example, and nothing that is not there."""
    folder = root / "examples"
    page = folder / "README.md"
    links = set(re.findall(r"\]\(([^)#]+)", page.read_text())) if page.exists() else set()
    links -= {link for link in links if link.startswith("../")}
    there = {str(path.relative_to(folder)) for pattern in EXAMPLES for path in folder.glob(pattern)}
    return [f"examples/README.md lacks examples/{name}" for name in sorted(there - links)] + \
           [f"examples/README.md links examples/{name}, which is not there" for name in sorted(links - there)]


RULES = {
    "namespaces": check_namespaces,
    "type_names": check_type_names,
    "includes": check_includes,
    "public_headers": check_public_headers,
    "torch": check_torch,
    "cuda": check_cuda,
    "environment_reads": check_environment_reads,
    "environment_page": check_environment_page,
    "file_lengths": check_file_lengths,
    "selection_names": check_selection_names,
    "tensor_pointers": check_tensor_pointers,
    "examples_page": check_examples_page,
}
