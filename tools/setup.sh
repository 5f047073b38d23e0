# Sourced by ./perdure: what a fresh machine needs before anything can run.
# Every step looks before it acts, so that a second run changes nothing and takes well under 2 s.
# Progress goes to stderr; the output of apt, pip, cmake and ninja goes to build/log/.

# Clones of one tree share what the compiler cache holds, wherever they lie.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"

say() { printf 'perdure: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 2
}

# step LOG WHAT COMMAND...: runs the command with its output in build/log/LOG; on failure shows the
# end of it and stops.
step() {
  local log="$root/build/log/$1" what=$2 began=$SECONDS
  shift 2
  mkdir -p "$root/build/log"
  say "$what ..."
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 30 "$log" >&2
    fail "$what failed; the whole output is in ${log#"$root"/}"
  fi
  say "$what: done in $((SECONDS - began)) s"
}

# One set-up at a time: a second one waits for the first and then finds nothing left to do. The lock
# is held on descriptor 9 until release_setup; programs started meanwhile inherit it and end first.
lock_setup() {
  mkdir -p "$root/build"
  exec 9>"$root/build/setup.lock"
  if ! flock --nonblock 9; then
    say "waiting for another set-up of this folder to end"
    flock 9
  fi
}
release_setup() { exec 9>&-; }

# packages_for JOB...: the names in tools/debian-packages.txt that these jobs need.
packages_for() {
  awk -v jobs=" $* " '!/^#/ && NF == 2 && index(jobs, " " $2 " ") { print $1 }' \
    "$root/tools/debian-packages.txt"
}

find_python() {
  local candidate
  for candidate in python3.11 python3 python3.12 python3.13; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
  return 1
}

ensure_packages() {
  local wanted missing python
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: the counterparts of tools/debian-packages.txt must be installed"
    return
  fi
  mapfile -t wanted < <(packages_for "$@")
  # A virtual environment needs ensurepip, which Debian ships apart; other Pythons bring their own.
  if [[ ! -x $root/.venv/bin/python ]]; then
    if ! python=$(find_python); then
      wanted+=(python3 python3-venv)
    elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
      wanted+=(python3-venv)
    fi
  fi
  mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
    <(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
      awk '$2 == "installed" { print $1 }' | sort))
  [[ ${#missing[@]} -eq 0 ]] && return
  local install=(apt-get install --yes --no-install-recommends "${missing[@]}") as_root=()
  if [[ $EUID -ne 0 ]]; then
    if ! sudo --non-interactive true 2>/dev/null; then
      say "missing Debian packages; run this once, then try again:"
      printf 'sudo apt-get update && sudo %s\n' "${install[*]}" >&2
      exit 2
    fi
    as_root=(sudo --non-interactive)
  fi
  step apt-update.log "reading the package lists" "${as_root[@]}" apt-get update
  step apt-install.log "installing ${#missing[@]} Debian packages" \
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}"
}

# ensure_python LOCK: a virtual environment with the locked packages and this project. The test lock
# holds all of requirements.lock at the same versions, so it satisfies that one as well.
ensure_python() {
  local lock=$1 python state
  state=$(cd "$root" && sha256sum pyproject.toml requirements*.lock)
  [[ -x $root/.venv/bin/python && $(cat "$root/.venv/$lock.stamp" 2>/dev/null) == "$state" ]] &&
    return
  if [[ ! -x $root/.venv/bin/python || ! -f $root/.venv/created ]]; then
    python=$(find_python) || fail "no Python 3.11 or later found; install python3"
    step venv.log "creating .venv with $("$python" --version)" \
      "$python" -m venv --clear "$root/.venv"
    touch "$root/.venv/created"
  fi
  step pip.log "installing the Python packages of $lock" \
    "$root/.venv/bin/python" -m pip install --disable-pip-version-check --require-hashes \
    -r "$root/$lock"
  step pip-perdure.log "installing the perdure command" \
    "$root/.venv/bin/python" -m pip install --disable-pip-version-check --no-deps \
    --no-build-isolation --editable "$root"
  printf '%s\n' "$state" >"$root/.venv/$lock.stamp"
  printf '%s\n' "$state" >"$root/.venv/requirements.lock.stamp"
}

# The Release build. The stamp spares even the call of ninja, which would look at every glob again;
# the commit belongs to it because the program reports its commit.
ensure_build() {
  local build="$root/build/release" state
  state=$(cd "$root" && { git rev-parse HEAD 2>/dev/null || true; } &&
    find CMakeLists.txt cmake src -type f -printf '%T@ %s %p\n' | sort | sha256sum)
  [[ -f $build/build.ninja && $(cat "$build/perdure.stamp" 2>/dev/null) == "$state" ]] && return
  step configure.log "configuring build/release" cmake -S "$root" -B "$build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
  step build.log "building Release (a few minutes the first time)" cmake --build "$build"
  printf '%s\n' "$state" >"$build/perdure.stamp"
}
