# Sourced by ./perdure: what a fresh machine needs before anything can run.
# Every step checks first whether it is needed, so that a second run changes nothing and takes well
# under 2 s.
# Progress goes to stderr; the output of apt, pip, cmake and ninja goes to build/log/.

# Clones of one tree share the compiler cache, in whatever folders they are.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$root}" CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"
# Without this it keeps nothing that is compiled with a precompiled header.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}"

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

# What ninja has done, from its output in FILE, until the process that runs it is gone: one line that
# is overwritten on a terminal, else a line each 30 s. The time left assumes that the remaining files
# take as long as those built so far.
report_progress() {
  local log=$1 what=$2 builder=$3 began=$SECONDS said=$SECONDS line left
  while sleep 1 && kill -0 "$builder" 2>/dev/null; do
    line=$(tail -c 20000 "$log" 2>/dev/null | grep -aoE '^\[[0-9]+/[0-9]+\]' | tail -n 1) || continue
    [[ $line =~ ([1-9][0-9]*)/([0-9]+) ]] || continue  # [0/2]: it looks what there is to do
    left=$(((SECONDS - began) * (BASH_REMATCH[2] - BASH_REMATCH[1]) / BASH_REMATCH[1]))
    line="perdure: $what $line, about $((left / 60)) min $((left % 60)) s left"
    if [[ -t 2 ]]; then
      printf '\r%s\e[K' "$line" >&2
    elif ((SECONDS - said >= 30)); then
      printf '%s\n' "$line" >&2
      said=$SECONDS
    fi
  done
}

# build LOG WHAT COMMAND...: a step with ninja's progress.
build_step() {
  local reporter status=0
  mkdir -p "$root/build/log"
  : >"$root/build/log/$1"
  report_progress "$root/build/log/$1" "$2" $$ 9>&- >/dev/null &
  reporter=$!
  (step "$@") || status=$?
  kill "$reporter" 2>/dev/null || true
  wait "$reporter" 2>/dev/null || true
  [[ ! -t 2 ]] || printf '\r\e[K' >&2
  return "$status"
}

# One set-up at a time: a second one waits for the first and then finds nothing left to do. The lock
# is held on descriptor 9 until release_setup; programs started meanwhile inherit it and end first.
# WHAT is missing is said where the folder is another user's, or read-only.
lock_setup() {
  if ! mkdir -p "$root/build" 2>/dev/null || ! [[ -w $root && -w $root/build ]]; then
    fail "$root: $1, and the folder cannot be written to; run ./perdure as its owner, or clone it"
  fi
  exec 9>"$root/build/setup.lock"
  if ! flock --nonblock 9; then
    say "waiting for another set-up of this folder to end"
    flock 9
  fi
}
release_setup() { exec 9>&-; }

# programs_of COMMAND [...]: what it runs, `none`, `native` (perdure-native) or `all`. The simulator
# takes more than half of a build, so commands that only measure do not build it.
programs_of() {
  case $1 in
    list | doctor)  # which say less without a program
      if [[ -f $root/build/release/native.stamp ]]; then echo native; else echo none; fi
      ;;
    bench | probe | describe)
      if [[ " $* " == *sim:* ]]; then echo all; else echo native; fi
      ;;
    crash) echo all ;;
    serve | engine) echo native ;;
    report | figures | compare | baseline | export) echo none ;;  # which only read results
    *) if [[ " $* " == *" --help "* || "$1 ${2:-}" == "study status" ]]; then echo none; else echo all; fi ;;
  esac
}

# set_up JOBS LOCK PROGRAMS: sets up what is missing. If nothing is missing, it locks and writes
# nothing, so that any user who may read the folder can use it.
set_up() {
  local what= jobs
  read -ra jobs <<<"$1"
  if lacks_packages "${jobs[@]}"; then
    what="Debian packages are missing (${missing[*]})"
  elif lacks_python "$2"; then
    what="its .venv is not there or not up to date"
  elif lacks_programs "$3"; then
    what="its programs are not built or not up to date"
  else
    return 0
  fi
  lock_setup "$what"
  ensure_packages "${jobs[@]}"
  ensure_python "$2"
  ensure_programs "$3"
  release_setup
}

# packages_for JOB...: the names in tools/debian-packages.txt that these jobs need.
packages_for() {
  awk -v jobs=" $* " '!/^#/ && NF == 2 && index(jobs, " " $2 " ") { print $1 }' \
    "$root/tools/debian-packages.txt"
}

# The first Python that is new enough and can make a virtual environment, else one that is new enough.
# The system's comes first, because other users may not run one in a user's home.
find_python() {
  local candidate able
  local new_enough='import sys; assert sys.version_info >= (3, 11)'
  for able in "$new_enough; import venv, ensurepip" "$new_enough"; do
    for candidate in /usr/bin/python3 python3.11 python3 python3.12 python3.13; do
      if "$candidate" -c "$able" 2>/dev/null; then
        printf '%s' "$candidate"
        return
      fi
    done
  done
  return 1
}

# Sets `missing` to the packages that are not installed.
lacks_packages() {
  local wanted python
  missing=()
  command -v dpkg-query >/dev/null || return 1
  mapfile -t wanted < <(packages_for "$@")
  # A virtual environment needs ensurepip, which Debian ships apart; other Pythons bring their own.
  if [[ ! -x $root/.venv/bin/python ]]; then
    if ! python=$(find_python); then
      wanted+=(python3 python3-venv)
    elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
      wanted+=(python3-venv)
    fi
  fi
  [[ ${#wanted[@]} -gt 0 ]] || return 1
  mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}" | sort) \
    <(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
      awk '$2 == "installed" { print $1 }' | sort))
  [[ ${#missing[@]} -gt 0 ]]
}

ensure_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian system: the counterparts of tools/debian-packages.txt must be installed"
    return
  fi
  lacks_packages "$@" || return 0
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

python_state() { (cd "$root" && sha256sum pyproject.toml requirements*.lock); }

lacks_python() {
  [[ ! -x $root/.venv/bin/python || $(cat "$root/.venv/$1.stamp" 2>/dev/null) != "$(python_state)" ]]
}

# ensure_python LOCK: a virtual environment with the locked packages and this project. The test lock
# holds all of requirements.lock at the same versions, so it satisfies that one as well.
ensure_python() {
  local lock=$1 python
  lacks_python "$lock" || return 0
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
  python_state | tee "$root/.venv/$lock.stamp" >"$root/.venv/requirements.lock.stamp"
}

# The stamp spares even the call of ninja, which would look at every glob again; the commit belongs to
# it because the program reports its commit. Git reads another user's folder only if told to.
build_state() {
  cd "$root" && { git -c "safe.directory=$root" rev-parse HEAD 2>/dev/null || true; } &&
    find CMakeLists.txt cmake src -type f -printf '%T@ %s %p\n' | sort | sha256sum
}

# lacks_programs none|native|all
lacks_programs() {
  local build="$root/build/release"
  [[ $1 != none ]] || return 1
  [[ ! -f $build/build.ninja || $(cat "$build/$1.stamp" 2>/dev/null) != "$(build_state)" ]]
}

# The Release build, or the part of it that measures.
ensure_programs() {
  local build="$root/build/release" state what="building Release" target=()
  lacks_programs "$1" || return 0
  [[ $1 != native ]] || target=(--target perdure-native) what="building perdure-native"
  state=$(build_state)
  step configure.log "configuring build/release" cmake -S "$root" -B "$build" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache
  build_step build.log "$what" cmake --build "$build" "${target[@]}"
  printf '%s\n' "$state" >"$build/native.stamp"
  [[ $1 == native ]] || cp "$build/native.stamp" "$build/all.stamp"
}
