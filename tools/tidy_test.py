#!/usr/bin/env python3
"""Each check of tidy.py must fail on a planted fault, and pass on a small clean tree."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import check_headers
import junit_sum
import tidy
import tidy_cpp

LAYERS = {
    "layers": {
        "base": {"deps": [], "foreign": ["fmt/"]},
        "io": {"deps": ["base"], "foreign": []},
        "store": {"deps": ["io", "base"], "foreign": ["sqlite3.h"]},
    },
    "shared_foreign": {"about": "text", "CLI/": ["apps"]},
}

FORMAT = pathlib.Path(__file__).resolve().parent.parent / ".clang-format"
CLEAN = {
    ".clang-format": FORMAT.read_text(),
    "layers.json": json.dumps(LAYERS) + "\n",
    "CMakeLists.txt": "project(x VERSION 1.2.3 LANGUAGES CXX)\n",
    "CHANGELOG.md": "# Changes\n\n## 1.2.3\n",
    "src/base/a.h": "#pragma once\n\n#include <fmt/core.h>\n\n#include <vector>\n\n"
    "inline constexpr int kAnswer = 6 * 7;\n",
    "src/io/file.h": '#pragma once\n#include "base/a.h"\n\nclass File {\n public:\n'
    "  virtual int Read() = 0;\n};\n",
    "src/store/s.cc": '#include <sqlite3.h>\n\n#include "base/a.h"\n#include "io/file.h"\n',
    "src/store/s_test.cc": "#include <gtest/gtest.h>\n\n"
    "TEST(S, Adds) {\n  EXPECT_EQ(1 + 1, 2);\n}\n",
    "docs/page.md": "# Page\n\n## Two words\n\nSee [here](#two-words), `kAnswer` = 42.\n",
}


def planted(check, files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **files}.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return list(tidy.CHECKS[check](tidy.Tree(folder)))


class TidyTest(unittest.TestCase):
    def expect_fault(self, check, name, text, message):
        found = planted(check, {name: text})
        self.assertTrue(
            any(message in line and line.startswith(name) for line in found),
            f"{check} did not say {message!r} about {name}: {found}",
        )

    def test_clean_tree_is_clean(self):
        for check in tidy.CHECKS:
            self.assertEqual(planted(check, {}), [], check)

    def test_layers(self):
        fault = self.expect_fault
        fault("layers", "src/base/b.cc", '#include "io/file.h"\n', "base may not include io")
        fault("layers", "src/io/b.cc", '#include "base/gone.h"\n', "not a file below src/")
        fault("layers", "src/other/b.cc", "\n", "not in layers.json")
        fault("layers", "src/io/b.cc", "#include HEADER\n", "includes a macro")
        both = (
            json.dumps(
                {
                    **LAYERS,
                    "layers": {
                        "a": {"deps": ["b"], "foreign": []},
                        "b": {"deps": ["a"], "foreign": []},
                    },
                }
            )
            + "\n"
        )
        self.assertIn("each other", " ".join(planted("layers", {"layers.json": both})))

    def test_foreign(self):
        fault = self.expect_fault
        fault("foreign", "src/io/b.cc", "#include <sqlite3.h>\n", "belongs to store only")
        fault("foreign", "src/io/b.cc", "#include <curl/curl.h>\n", "has no home")
        fault("foreign", "src/io/b.cc", "#include <CLI/CLI.hpp>\n", "belongs to apps only")
        fault("foreign", "src/io/b.cc", "#include <gtest/gtest.h>\n", "has no home")
        users = {
            "src/io/b.h": "#include <gtest/gtest.h>\n",
            "src/io/b_test.cc": '#include "io/b.h"\n',
        }
        self.assertEqual(planted("foreign", users), [])
        users["src/io/c.cc"] = '#include "io/b.h"\n'
        self.assertIn("has no home", " ".join(planted("foreign", users)))
        self.assertEqual(planted("foreign", {"apps/x/m.cc": "#include <CLI/CLI.hpp>\n"}), [])

    def test_seams(self):
        text = "class X {\n  virtual int Do() const = 0;\n};\n"
        self.expect_fault("seams", "src/store/x.h", text, "virtual interface")

    def test_forbidden(self):
        for text, says in {
            "void F() { llama_memory_seq_add(m, 0, 1, 2, -1); }\n": "approximate",
            "void F() { llama_memory_seq_div(m, 0, 1, 2, 2); }\n": "approximate",
            "constexpr auto kFlags = LLAMA_STATE_SEQ_FLAGS_ON_DEVICE;\n": "outlive no process",
            "void F() { params.kv_unified = false; }\n": "across streams",
        }.items():
            self.expect_fault("forbidden", "src/store/x.cc", text, says)

    def test_sizes(self):
        self.expect_fault("sizes", "src/io/b.cc", "\n" * 501, "501 lines, at most 500")
        self.expect_fault("sizes", "src/io/b.h", "\n" * 251, "251 lines, at most 250")
        self.expect_fault("sizes", "src/io/b.h", "// " + "x" * 98 + "\n", "101 columns")

    def test_functions(self):
        def body(lines):
            return "namespace n {\nint F(int a) {\n" + "  a += 1;\n" * lines + "}\n}\n"

        self.expect_fault("functions", "src/io/b.cc", body(69), "a function of 71 lines")
        self.assertEqual(planted("functions", {"src/io/b.cc": body(68)}), [])
        six = (
            "class C {\n  C(int a, std::map<int, int> b, int c,\n    int d, int e, int f) {}\n};\n"
        )
        self.expect_fault("functions", "src/io/b.h", six, "6 parameters")
        five = (
            "C::C(std::map<int, int> a, F<void(int, int)> b, int c, int d, int e) : x_{a, b} {\n}\n"
        )
        self.assertEqual(planted("functions", {"src/io/b.cc": five}), [])

    def test_functions_are_found(self):
        text = (
            '// { in a comment\nconst char* k = "{";\nint table[] = {1, 2};\n'
            "struct S {\n  S() : a_{1}, b_(2) {\n    Go();\n  }\n"
            "  int Get() const { return a_; }\n};\n"
            "auto F() -> int {\n  auto g = [] { return 1; };\n  return g();\n}\n"
        )
        heads = [head for _, head, body in tidy_cpp.functions(text) if ";" in body]
        self.assertEqual(len(heads), 3, heads)
        self.assertIn("F()", heads[-1])

    def test_ascii(self):
        self.expect_fault("ascii", "src/io/b.h", "// caf\u00e9\n", "not ASCII")
        self.expect_fault("ascii", "src/io/b.h", "int a; \n", "space at the end")
        self.expect_fault("ascii", "src/io/b.h", "int a;", "no newline at the end")

    def test_disabled(self):
        fault = self.expect_fault
        fault("disabled", "src/io/b_test.cc", "TEST(A, DISABLED_B) {}\n", "a test that is off")
        fault("disabled", "src/io/b_test.cc", "void F() { GTEST_SKIP(); }\n", "a test that is off")
        fault("disabled", "src/io/b_test.cc", "// TEST(A, B) {\n", "a test that is off")
        fault("disabled", "src/io/b_test.cc", "#if 0\n", "a test that is off")
        fault("disabled", "tests/e2e/x_test.py", "@pytest.mark.skip\n", "a test that is off")
        fault("disabled", "tests/CMakeLists.txt", "# add_test(NAME x)\n", "a test that is off")

    def test_assertions(self):
        fault = self.expect_fault
        fault(
            "assertions", "src/io/b_test.cc", "TEST(A, B) {\n  Go();\n}\n", "without an assertion"
        )
        fault("assertions", "src/io/b_test.cc", "int a;\n", "no test in a test file")
        fault(
            "assertions",
            "tests/e2e/x_test.py",
            "def test_a():\n    go()\n\n\nb = 1\n",
            "asserts nothing",
        )

    def test_unfinished_work(self):
        self.expect_fault("todo", "src/io/b.h", "// TO" + "DO later\n", "without an issue number")
        self.assertEqual(planted("todo", {"src/io/b.h": "// TO" + "DO(#12): later\n"}), [])

    def test_format(self):
        self.expect_fault("format", "src/io/b.h", "int   a;\n", "run clang-format")

    def test_links(self):
        fault = self.expect_fault
        fault("links", "docs/x.md", "[a](gone.md)\n", "leads nowhere")
        fault("links", "docs/x.md", "[a](page.md#three)\n", "has no heading")
        fault("links", "src/io/b.h", "// docs/formats/" + "gone.md\n", "does not exist")

    def test_places(self):
        self.expect_fault("places", "docs/x.md", "in /ho" + "me/someone\n", "names a place")
        self.expect_fault("places", "scripts/x", "curl pypi" + ".org\n", "names a place")

    def test_numbers(self):
        self.expect_fault("numbers", "docs/x.md", "`kAnswer` = 43\n", "kAnswer is 42 in the code")
        self.expect_fault("numbers", "docs/x.md", "`kGone` (1)\n", "no number kGone")
        page = "# A format\n\nCode: `src/io/x.h`. Version 2.\n"
        self.expect_fault("numbers", "docs/formats/x.md", page, "says 'version N'")
        code = "inline constexpr int kThingVersion = 3;\n"
        found = planted("numbers", {"docs/formats/x.md": page, "src/io/x.h": code})
        self.assertIn("version 2 here, not that of kThingVersion", " ".join(found))
        self.expect_fault("numbers", "CHANGELOG.md", "## 1.2.2\n", "not version 1.2.3")


class JunitSumTest(unittest.TestCase):
    def test_counts_what_did_not_run_as_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.xml"
            path.write_text(
                '<testsuite><testcase name="a" status="run"/>'
                '<testcase name="b" status="fail"><failure/></testcase>'
                '<testcase name="c" status="notrun"><skipped/></testcase>'
                '<testcase name="d" status="disabled"/></testsuite>'
            )
            self.assertEqual(junit_sum.read(path), (["a"], ["b", "c", "d"]))

    def test_no_test_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.xml"
            path.write_text("<testsuite></testsuite>")
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(junit_sum.main([str(path)]), 1)
                self.assertEqual(junit_sum.main([str(path) + ".gone"]), 1)
            self.assertIn("no test in it", said.getvalue())


class HeadersTest(unittest.TestCase):
    def test_a_header_that_needs_another_first(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/base").mkdir(parents=True)
            (root / "src/base/good.h").write_text(
                "#pragma once\n#include <string>\nstd::string F();\n"
            )
            (root / "src/base/bad.h").write_text("#pragma once\nstd::string G();\n")
            with contextlib.redirect_stdout(io.StringIO()) as said:
                status = check_headers.main(["--root", folder, "--work", folder + "/work", "c++"])
            self.assertEqual(status, 1)
            self.assertIn("base/bad.h", said.getvalue())
            self.assertNotIn("base/good.h", said.getvalue())


if __name__ == "__main__":
    unittest.main()
