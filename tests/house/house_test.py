#!/usr/bin/env python3
"""Each rule is tried on a small tree that keeps it and on trees that break it."""
import tempfile
import unittest
from pathlib import Path

import rules

GOOD = {
    "src/CMakeLists.txt": "kolo_room(base fmt::fmt)\nkolo_room(schedule kolo_base)\n"
                          "kolo_room(algorithms kolo_schedule)\nkolo_room(transport kolo_base)\n"
                          "kolo_room(selection kolo_algorithms)\n",
    "src/base/config.cpp": 'auto x = std::getenv("KOLO_LOG");\n',
    "src/base/status.hpp": '#include <string>\n#include "kolo/error.hpp"\n',
    "src/schedule/schedule.hpp": '#include "base/status.hpp"\nnamespace kolo::schedule {\nstruct Schedule {};\nclass Other;\n'
                                 "template <> struct Traits<int> {};\nvoid f() { struct Local {}; }\n}\n",
    "src/algorithms/ring.cpp": '#include "schedule/schedule.hpp"\n#include "base/status.hpp"\n'
                               "namespace kolo::algorithms {\nnamespace { struct Schedule {}; }\nclass Other { class Schedule {}; };\n"
                               "template <> struct Traits<char> {};\nvoid g() { struct Local {}; }\n}\n"
                               'const Algorithm ring = {\n    .name = "ring",\n};\n',
    "src/selection/candidates.cpp": '#include "schedule/ring.hpp"\nauto x = "a string" + "bring";  // not "ring"\n',
    "src/transport/registry.cpp": '      {.name = "shm",\n       .make = make_shm_transport},\n',
    "src/transport/transport.hpp": '#include "base/status.hpp"\n',
    "src/transport/tcp/tcp.cpp": '#include "transport/tcp/tcp.hpp"\n#include "transport/transport.hpp"\n'
                             "namespace kolo::schedule {\nstruct Schedule;\n}\nnamespace kolo::transport::tcp {\n}\n"
                             "namespace kolo::transport {\n}\nnamespace kolo::transport::tcp::wire {\n}\n",
    "src/transport/tcp/tcp.hpp": "// not an include: #include <torch/torch.h>, nor is this getenv(\"X\")\n",
    "src/transport/shm/shm.cpp": "#include <sys/socket.h>\n",
    "include/kolo/error.hpp": "#include <string>\n",
    "train/ddp/ddp.cpp": '#include <torch/torch.h>\n#include "kolo/error.hpp"\n#include "libtorch/tensor.hpp"\n',
    "cli/plan.cpp": '#include "algorithms/algorithm.hpp"\nauto x = std::getenv("RANK");\n',
    "docs/running.md": "| `KOLO_LOG` | how much is said |\n",
    "examples/sum.cpp": "\n",
    "examples/README.md": "[a sum](sum.cpp) for [readers](../README.md)\n",
}

# rule, file, contents of the file
BREACHES = [
    ("includes", "src/schedule/up.cpp", '#include "algorithms/algorithm.hpp"\n'),
    ("includes", "src/base/up.hpp", '  #  include "schedule/schedule.hpp"\n'),
    ("includes", "src/transport/shm/next_door.cpp", '#include "transport/tcp/tcp.hpp"\n'),
    ("includes", "src/algorithms/inside.cpp", '#include "transport/transport.hpp"\n'),
    ("includes", "src/algorithms/dots.cpp", '#include "../transport/transport.hpp"\n'),
    ("includes", "src/cellar/wine.cpp", "\n"),
    ("includes", "train/compression/sideways.cpp", '#include "ddp/bucket.hpp"\n'),
    ("includes", "train/data/inside.cpp", '#include "base/status.hpp"\n'),
    ("includes", "examples/inside.cpp", '#include "schedule/schedule.hpp"\n'),
    ("includes", "cli/backend.cpp", '#include "transport/tcp/tcp.hpp"\n'),
    ("public_headers", "include/kolo/leak.hpp", '#include "base/status.hpp"\n'),
    ("public_headers", "include/kolo/leak.hpp", "#include <fmt/core.h>\n"),
    ("public_headers", "include/kolo/leak.hpp", "#include <unistd.h>\n"),
    ("public_headers", "include/kolo/leak.hpp", '#include "kolo/absent.hpp"\n'),
    ("torch", "src/base/tensor.cpp", "#include <ATen/ATen.h>\n"),
    ("torch", "train/compression/tensor.cpp", "#include <torch/torch.h>\n"),
    ("torch", "examples/tensor.cpp", "#include <torch/torch.h>\n"),
    ("torch", "tests/unit/base/tensor.cpp", "#include <c10/core/Device.h>\n"),
    ("cuda", "src/base/device.cpp", "#include <cuda_runtime_api.h>\n"),
    ("cuda", "train/ddp/stream.cpp", "#include <c10/cuda/CUDAStream.h>\n"),
    ("cuda", "include/kolo/device.hpp", "#include <nccl.h>\n"),
    ("environment_reads", "src/engine/fast.cpp", 'bool fast = std::getenv("FAST");\n'),
    ("environment_reads", "train/ddp/fast.cpp", 'bool fast = secure_getenv("FAST");\n'),
    ("environment_reads", "src/base/all.cpp", "extern char** environ;\n"),
    ("environment_page", "src/base/config.cpp", 'getenv("KOLO_LOG"); getenv("KOLO_NEW");\n'),
    ("environment_page", "docs/running.md", "| `KOLO_LOG` | x |\n| `KOLO_GONE` | x |\n"),
    ("environment_page", "cli/set.cpp", 'setenv("KOLO_TYPO", "1", 1);\n'),
    ("type_names", "src/base/twin.hpp", "namespace kolo::schedule { struct alignas(64) Schedule final : public Base { int x; }; }\n"),
    ("type_names", "tests/twin.cpp", "namespace kolo::schedule {\n#if X\nnamespace { class Fine { struct Schedule {}; }; }\n#endif\n"
                                     "template <class T>\nclass Schedule {};\n}\n"),
    ("type_names", "src/base/marked.hpp", "namespace kolo::schedule { class [[nodiscard]] Schedule { int x; }; }\n"),
    ("type_names", "src/base/nested.hpp", "namespace kolo::algorithms { class Other::Schedule : B<int> {}; }\n"),
    ("selection_names", "src/selection/tried.cpp", 'auto tried = {"ring:order=0-1"};\n'),
    ("selection_names", "src/selection/links.hpp", 'bool is_fast = links == "shm";\n'),
    ("namespaces", "src/schedule/flat.cpp", "namespace kolo {\nint x;\n}\n"),
    ("namespaces", "src/schedule/away.cpp", "namespace kolo::transport {\nint x;\n}\n"),
    ("namespaces", "src/transport/up.cpp", "namespace kolo::transport {\n}\nnamespace kolo::schedules {\nstruct X;\nint x;\n}\n"),
    ("namespaces", "src/base/room.cpp", "namespace kolo::schedule {\nint x;\n}\n"),
    ("tensor_pointers", "train/ddp/sum.cpp", "communicator.all_reduce_async(\n    buffer_of(x));\n"),
    ("tensor_pointers", "train/nn/sum.cpp", "const auto part = Buffer(x.data_ptr(), 4, type);\n"),
    ("examples_page", "examples/train/new.cpp", "\n"),
    ("examples_page", "examples/README.md", "[a sum](sum.cpp), and [what is gone](gone.cpp)\n"),
    ("file_lengths", "src/base/long.cpp", "\n" * (rules.MAX_LINES + 1)),
    ("file_lengths", "tests/house/long.py", "\n" * (rules.MAX_LINES + 1)),
]


def tree(folder, files):
    for name, text in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Path(folder)


class Rules(unittest.TestCase):
    def test_a_good_tree_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = tree(folder, GOOD)
            for name, rule in rules.RULES.items():
                self.assertEqual(rule(root), [], name)

    def test_every_breach_is_found_and_its_file_named(self):
        for rule, name, text in BREACHES:
            with self.subTest(rule=rule, file=name, text=text[:60]), tempfile.TemporaryDirectory() as folder:
                problems = rules.RULES[rule](tree(folder, {**GOOD, name: text}))
                self.assertEqual(len(problems), 1, problems)
                subject = "src/cellar" if "cellar" in name else "docs/running.md" if "KOLO_NEW" in text else name
                self.assertIn(subject, problems[0])

    def test_every_rule_has_a_breach(self):
        self.assertEqual({rule for rule, _, _ in BREACHES}, set(rules.RULES))

    def test_the_rules_name_folders_and_files_that_exist(self):
        root = Path(__file__).parents[2]
        named = [*rules.SOURCE_FOLDERS, *rules.OUTER_ROOMS, *rules.PUBLIC_API, *rules.LONG_FILES,
                 *(f"train/{room}" for room in rules.TRAIN_ROOMS), *("/".join(parts) for parts in rules.WITH_TORCH)]
        self.assertEqual([name for name in named if not (root / name).exists()], [])
        rooms = set().union(*rules.OUTER_ROOMS.values(), *rules.rooms_of(root).values())
        self.assertEqual([room for room in sorted(rooms) if not (root / "src" / room).is_dir()], [])

    def test_the_names_of_algorithms_and_transports_are_found_in_the_sources(self):
        self.assertLessEqual({"ring", "k_nomial", "shm", "tcp"}, rules.registered_names(Path(__file__).parents[2]))


if __name__ == "__main__":
    unittest.main()
