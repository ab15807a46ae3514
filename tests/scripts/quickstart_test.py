#!/usr/bin/env python3
"""scripts/quickstart where something is not as it was: moved, broken, taken, or not ours."""

import os
import shutil
import socket
import subprocess
import unittest

from checkout import Checkout, write


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        self.checkout = Checkout()
        self.addCleanup(self.checkout.close)

    def run_ok(self, *flags):
        status, out, err = self.checkout.quickstart(*flags)
        self.assertEqual(status, 0, out + err)
        return out

    def refused(self, *flags, **options):
        status, out, err = self.checkout.quickstart(*flags, **options)
        self.assertEqual(status, 1, out + err)
        self.assertIn("Cannot go on: ", err)
        return out, err

    def hand_over(self):
        """Root gives the checkout to the user that as_nobody runs as."""
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "65534:65534", self.checkout.base], check=True)

    def test_runs_and_runs_again_in_a_checkout_that_was_moved(self):
        self.assertNotIn("made anew", self.run_ok("--no-start"))
        self.checkout.move("two")
        self.assertIn("build/release was made in ", self.run_ok("--no-start", "--port", "9000"))
        cache = (self.checkout.root / "build/release/CMakeCache.txt").read_text()
        self.assertIn(f"CMAKE_HOME_DIRECTORY:INTERNAL={self.checkout.root}\n", cache)
        self.assertTrue((self.checkout.root / "build/release/tenuto").exists())
        self.assertNotIn("made anew", self.run_ok("--no-start"))

    def test_a_checkout_reached_by_a_link_was_not_moved(self):
        self.run_ok("--no-start")
        (self.checkout.base / "link").symlink_to(self.checkout.root)
        self.checkout.root = self.checkout.base / "link"
        self.assertNotIn("made anew", self.run_ok("--no-start"))

    def test_moved_without_build_and_model_keeps_libllama(self):
        self.checkout.move("two")
        self.checkout.model.unlink()
        self.run_ok("--no-start")
        self.assertTrue((self.checkout.site / "lib/cmake/llama/llama-config.cmake").exists())
        self.assertIn("download", self.checkout.pip_calls())
        self.assertNotIn("install", self.checkout.pip_calls())

    def test_the_model_is_not_fetched_at_the_cost_of_libllama(self):
        self.checkout.model.unlink()
        self.checkout.make_venv(self.checkout.root / ".deps/dl/venv")
        write(self.checkout.site / "pip/__main__.py", "raise SystemExit(1)\n")
        self.run_ok("--no-start")
        self.assertTrue(self.checkout.model.exists())
        self.assertTrue((self.checkout.site / "lib/cmake/llama/llama-config.cmake").exists())

    def test_libllama_comes_from_pips_cache_without_a_network(self):
        shutil.rmtree(self.checkout.site / "llama_cpp_python-1.dist-info")
        wheel = "/cache/llama_cpp_python-1-py3-none-any.whl"
        old = "/cache/llama_cpp_python-0.9-py3-none-any.whl"
        write(self.checkout.site / "pip-cache", f"{old}\n{wheel}\n{wheel}\n")
        self.run_ok("--no-start")
        self.assertIn(f"-v install --no-deps --no-index {wheel}\n", self.checkout.pip_calls())

    def test_a_failed_configure_names_its_own_log(self):
        write(self.checkout.root / "CMakeLists.txt", "no cmake\n")
        _, err = self.refused("--no-start")
        self.assertIn(f"See {self.checkout.root}/.deps/log/configure-release.log", err)
        self.assertNotIn("build-release.log", err)

    def test_a_failed_build_names_its_own_log(self):
        write(self.checkout.root / "CMakeLists.txt", "project(x NONE)\nadd_custom_target(y)\n")
        _, err = self.refused("--no-start")
        self.assertIn(f"See {self.checkout.root}/.deps/log/build-release.log", err)

    def test_without_root_and_sudo_one_line_says_what_root_must_run(self):
        self.checkout.packages = "not-installed"
        self.hand_over()
        _, err = self.refused("--no-start", as_nobody=True)
        self.assertIn("only root can install them", err)
        self.assertIn("\n  apt-get update && apt-get install -y build-essential ", err)
        self.assertNotIn("network", err)

    def test_a_checkout_of_somebody_else(self):
        self.hand_over()
        self.checkout.root.joinpath("build").mkdir(mode=0o555)
        _, err = self.refused("--no-start", as_nobody=True)
        self.assertIn(f"{self.checkout.root}/build cannot be written to by ", err)
        self.assertIn("chown -R ", err)
        self.assertNotIn("Permission denied", err)

    def test_a_checkout_where_nothing_can_be_made(self):
        shutil.rmtree(self.checkout.root / ".deps")
        self.hand_over()
        self.checkout.root.chmod(0o555)
        _, err = self.refused("--no-start", as_nobody=True)
        self.assertIn(f"{self.checkout.root}/.deps/log cannot be made by ", err)
        self.assertNotIn("Permission denied", err)

    def test_a_port_that_is_taken_is_said_instead_of_the_text(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            out, err = self.refused("--port", port)
        self.assertIn(f"port {port} on 127.0.0.1 cannot be had: Address already in use", err)
        self.assertNotIn("talk to it", out)
        out = self.run_ok("--port", port)
        self.assertIn(f"curl -s http://127.0.0.1:{port}/v1/", out)
        self.assertIn(f"  {self.checkout.root}/build/release/tenuto chat first", out)
        self.assertTrue(out.endswith("the server runs\n"), out)

    def progress(self, *lines):
        log = self.checkout.base / "log"
        write(log, "".join(f"{line}\n" for line in lines))
        return self.checkout.shell(f'progress "{log}"').strip()

    def test_progress(self):
        self.assertEqual(self.progress("Collecting it"), "")
        told = self.progress("  [1/193] Building x", "  [61/193] Building y")
        self.assertEqual(told, "61 of 193, 31 %")
        self.assertEqual(self.progress("Test project", " 12/240 Test  #3: a"), "12 of 240, 5 %")
        apt = ["1 upgraded, 2 newly installed, 0 to remove", "Get:1 a [1 kB]", "Get:2 b [1 kB]"]
        self.assertEqual(self.progress(*apt), "2 of 3 fetched")
        apt += ["Unpacking liba:amd64 (1.0) ...", "Unpacking libb-dev:amd64 (1:2) ..."]
        self.assertEqual(self.progress(*apt), "2 of 6, 33 %, unpacking libb-dev")
        apt += ["Setting up liba (1.0) ..."]
        self.assertEqual(self.progress(*apt), "3 of 6, 50 %, setting up liba")


if __name__ == "__main__":
    unittest.main()
