#!/usr/bin/env python3
"""tools/tidy.py finds what it should, and lets sound files pass. Usage: tidy_test.py ROOT"""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop()).resolve()
sys.path.insert(0, str(ROOT / "tools"))
import tidy  # noqa: E402

HEAD = "// A header of the test.\n#pragma once\n"


class Tidy(unittest.TestCase):
    """Each test writes a small tree and looks at what is found in it."""

    def found(self, files: dict[str, str]) -> list[str]:
        """The findings in a tree of these files, as `path:line what`."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return [f"{f.path}:{f.line} {f.what}" for f in tidy.findings(Path(folder))]

    def test_a_sound_tree_passes(self) -> None:
        self.assertEqual(
            self.found(
                {
                    "src/pool/a.h": HEAD + '#include "pm/pm.h"\n#include "core/result.h"\n',
                    "src/index/a/a.cpp": '#include "index/a/a.h"\n#include "index/common/r.h"\n'
                    "PERDURE_REGISTER_INDEX(a, IndexInfo{});\n",
                    "src/index/a/a_test.cpp": "",
                    "src/index/a/design.md": "# A\n",
                }
            ),
            [],
        )

    def test_an_include_against_the_layers(self) -> None:
        self.assertEqual(
            self.found({"src/pm/a.h": HEAD + '#include "pool/pool.h"\n'}),
            ["src/pm/a.h:3 pm includes pool/pool.h"],
        )
        self.assertEqual(len(self.found({"src/workload/a.cpp": '#include "driver/d.h"\n'})), 1)

    def test_an_index_that_includes_another(self) -> None:
        found = self.found(
            {"src/index/a/a.cpp": '#include "index/b/b.h"\n', "src/index/a/a_test.cpp": ""}
        )
        self.assertEqual(found, ["src/index/a/a.cpp:1 a includes the index b"])

    def test_an_import_against_the_layers_of_python(self) -> None:
        root = "python/perdure/"
        self.assertEqual(
            self.found(
                {
                    root + "results/a.py": "from perdure.programs import native\n"
                    "import perdure.format\n",
                    root + "__main__.py": "from perdure.cli import main\n",
                }
            ),
            [],
        )
        self.assertEqual(
            self.found({root + "results/a.py": "import json\nfrom perdure.study import claims\n"}),
            ["python/perdure/results/a.py:2 results imports study"],
        )
        late = "def f():\n    from perdure import cli\n"
        self.assertEqual(len(self.found({root + "report/a.py": late})), 1)
        whole = "import perdure.study.reader\n"
        self.assertEqual(len(self.found({root + "memory/a.py": whole})), 1)
        self.assertEqual(len(self.found({root + "a.py": "import perdure.programs\n"})), 1)
        self.assertEqual(len(self.found({root + "new/a.py": ""})), 1)

    def test_a_long_file_and_a_long_function(self) -> None:
        body = "int f() {\n" + "  g();\n" * 80 + "}\n"
        self.assertEqual(
            self.found({"src/core/a.cpp": "\n\n" + body}),
            ["src/core/a.cpp:3 a function of 82 lines"],
        )
        method = "namespace n {\nclass C\n    : B {\n int f(\n   int a) {\n" + "  g();\n" * 80
        self.assertEqual(len(self.found({"src/core/a.cpp": method + " }\n};\n}\n"})), 1)
        self.assertEqual(len(self.found({"src/core/a.cpp": "int a;\n" * 601})), 1)
        script = "def f():\n" + "    g()\n" * 80 + "\nx = 1\n"
        self.assertEqual(len(self.found({"a.py": script})), 1)
        short = "  int f() { return 1; }\n"
        many = "namespace n {\nclass C {\n" + short * 100 + "};\n}\n"
        self.assertEqual(self.found({"src/core/a.cpp": many}), [])

    def test_an_index_without_design_or_test(self) -> None:
        found = self.found({"src/index/a/a.cpp": "PERDURE_REGISTER_INDEX(a, IndexInfo{});\n"})
        self.assertEqual(found, ["src/index/a:1 no design.md", "src/index/a:1 no test"])

    def test_words_banned_in_index_code(self) -> None:
        for line in (
            "thread_local int a;",
            "std::mutex lock;",
            "auto x = _mm_setzero_si128();",
            'asm volatile("sfence");',
            '__asm("");',
            "__builtin_ia32_pause();",
        ):
            found = self.found({"src/index/a/a.cpp": line + "\n", "src/index/a/a_test.cpp": line})
            self.assertEqual(len(found), 1, line)
            self.assertEqual(self.found({"src/driver/a.cpp": line + "\n"}), [], line)
            commented = {"src/index/a/a.cpp": "int a;  // no " + line, "src/index/a/a_test.cpp": ""}
            self.assertEqual(self.found(commented), [], line)

    def test_unfinished_work_skipped_tests_and_machine_paths(self) -> None:
        self.assertEqual(len(self.found({"src/core/a.cpp": "// TODO: more\n"})), 1)
        self.assertEqual(self.found({"src/core/a.cpp": "// TODO(#12): more\n"}), [])
        self.assertEqual(len(self.found({"tests/a.cpp": "TEST(A, DISABLED_b) {}\n"})), 1)
        self.assertEqual(len(self.found({"docs/a.md": "# A\nsee /home/someone/a\n"})), 1)
        self.assertEqual(self.found({"docs/a.md": "# A\nsee /dev/shm/a and a/home/b\n"}), [])

    def test_a_temporary_name_that_two_processes_share(self) -> None:
        for line, count in (
            ('const auto path = testing::TempDir() + "pool";', 1),
            ('path_ = fs::temp_directory_path() /\n    "pool";\nauto n = getpid();', 1),
            ('path_ = fs::temp_directory_path() /\n    ("pool" + std::to_string(getpid()));', 0),
            ('std::string name = (fs::temp_directory_path() / "out.XXXXXX").string();', 0),
        ):
            self.assertEqual(len(self.found({"src/core/a_test.cpp": line + "\n"})), count, line)
            self.assertEqual(self.found({"src/core/a.cpp": line + "\n"}), [], line)

    def test_a_header_without_head_or_guard(self) -> None:
        self.assertEqual(len(self.found({"src/core/a.h": "#pragma once\n"})), 1)
        self.assertEqual(len(self.found({"src/core/a.h": "// What it is.\nint a;\n"})), 1)

    def test_a_text_without_heading(self) -> None:
        self.assertEqual(
            self.found({"docs/a.md": "#a : what a formatter of code leaves\n"}),
            ["docs/a.md:1 no heading"],
        )
        self.assertEqual(self.found({"docs/a.md": ""}), ["docs/a.md:1 no heading"])

    def test_a_map_that_is_not_the_tree(self) -> None:
        folders = ["src", *(f"src/{layer}" for layer in tidy.LAYERS), "src/index/a", "tools"]
        head = "# Map\n\n| folder | what |\n|---|---|\n"

        def found(rows: list[str]) -> list[str]:
            text = head + "".join(f"| `{row}/` | something |\n" for row in rows)
            files = {f"{folder}/README": "" for folder in folders}
            return self.found({**files, "docs/architecture.md": text})

        whole = [*folders, "docs"]
        self.assertEqual(found(whole), [])
        self.assertEqual(
            found([row for row in whole if row != "src/index/a"]),
            ["docs/architecture.md:1 src/index/a/ is not on the map"],
        )
        renamed = [row.replace("src/index/a", "src/index/b") for row in whole]
        self.assertEqual(
            [line.split(" ", 1)[1] for line in found(renamed)],
            ["src/index/a/ is not on the map", "src/index/b/ is on the map and not in the tree"],
        )
        first = ["src/pm", "src/core"]
        swapped = [*first, *(row for row in whole if row not in first)]
        self.assertEqual(
            found(swapped),
            [
                "docs/architecture.md:5 src/pm/ stands in the place of src/core/",
                "docs/architecture.md:6 src/core/ stands in the place of src/pm/",
            ],
        )
        folders.remove("src/probe")
        self.assertEqual(len(found([row for row in whole if row != "src/probe"])), 1)


if __name__ == "__main__":
    unittest.main()
