# Calls that are left by exceptions, by cancellation and by the end of their thread: what the program
# does is what it does without probes, and each is counted for what it was.
load helpers

# probed PROGRAM PATTERN: what it prints while these functions are timed. There are more slots than can be
# in use: on a busy machine the controller may come late to make more.
probed() {
  "$PINPRICK" latency --allow-missing --slots 65536 --json -o "$work/records" "$2" -- "$TARGETS/$1" 300 \
    2>"$work/errors"
}

@test "exceptions, cancellation and pthread_exit pass through the timed functions of a program and its libraries" {
  local pattern
  "$TARGETS/thrower" 300 >"$work/bare"
  grep -q 'trace whole' "$work/bare"
  for pattern in 'thrower:*' 'libstdc++:*' '*'; do
    probed thrower "$pattern" >"$work/out"
    cmp "$work/bare" "$work/out"
    [ "$(field 'sum(x["unwound"] for x in r if x["type"] == "latency")')" -gt 0 ]
    ! grep -q '"type":"warning"' "$work/records"
  done
}

# has_unwinder PROGRAM: of tests/targets, made with another unwinder than GCC's; else skips.
has_unwinder() {
  [ -x "$TARGETS/$1" ] && return
  case $1 in
    *nongnu*) skip "nongnu's libunwind is not installed (libunwind8)" ;;
    *) skip "clang++ makes no programs with LLVM's libunwind (clang-14, libclang-rt-14-dev," \
      "libc++-14-dev, libc++abi-14-dev, libunwind-14-dev)" ;;
  esac
}

# passes_through PROGRAM: exceptions, forced unwinding and backtraces, through all that is timed.
passes_through() {
  local pattern
  has_unwinder "$1"
  "$TARGETS/$1" 300 >"$work/bare"
  grep -q 'trace whole' "$work/bare"
  for pattern in "$1:*" '*'; do
    probed "$1" "$pattern" >"$work/out"
    cmp "$work/bare" "$work/out"
    ! grep -q '"type":"warning"' "$work/records"
    [ "$(field 'sum(x["missed"] for x in r if x["type"] == "latency" and x["final"])')" -eq 0 ]
    [ "$(field 'sum(x["unwound"] for x in r if x["type"] == "latency")')" -gt 10000 ]
  done
}

@test "LLVM's libunwind: exceptions, forced unwinding and backtraces pass through timed functions" {
  passes_through thrower_llvm
}

@test "LLVM's libunwind, linked statically: exceptions, forced unwinding and backtraces pass" {
  passes_through thrower_llvm_in_program
  passes_through thrower_llvm_static
}

@test "nongnu's libunwind: exceptions, forced unwinding and backtraces pass through timed functions" {
  passes_through thrower_nongnu
}

@test "exceptions pass where the unwinder is linked statically" {
  local program
  for program in thrower_static thrower_static_libgcc; do
    "$TARGETS/$program" 300 >"$work/bare"
    probed $program "$program:*" >"$work/out"
    # What backtrace() loads after arming, a second unwinder, knows nothing of slots.
    cmp <(sed 's/, trace.*//' "$work/bare") <(sed 's/, trace.*//' "$work/out")
    [ "$(field 'sum(x["unwound"] for x in r if x["type"] == "latency")')" -gt 0 ]
    ! grep -q '"type":"warning"' "$work/records"
  done
}

# counts_right PROGRAM [TWIN]: a build of tests/targets/thrower.cc; if it is stripped, the same with
# its symbols.
counts_right() {
  probed "$1" "$1:*" >"$work/out"
  nm --defined-only "$TARGETS/${2:-$1}" >"$work/symbols"
  evaluate - "$work/records" "${2:-$1}" "$work/symbols" "$1" <<'PYTHON'
import collections, json, sys
name_at = {f'{sys.argv[4]}+{int(at, 16):#x}': name
           for at, _, name in map(str.split, open(sys.argv[3]))}
returned, left = collections.Counter(), collections.Counter()

def leaf(x):
    done = x % 3 == 2
    (returned if done else left)['leaf'] += 1
    return done
def through(name, done):
    (returned if done else left)[name] += 1
    return done
def middle(x): return through('middle', leaf(x))
def rethrows(x): return through('rethrows', middle(x))
def catches(x):
    rethrows(x)
    through('catches', True)

for i in range(300):
    for j in range(6): catches(i + j)
    through('nested', middle(3 * i))
    catches(i)
    left['deep'] += i % 50 + 1
left['leaves_thread'] = 210
if sys.argv[2] == 'thrower': left['waits'] = 20
records = [json.loads(line) for line in open(sys.argv[1])]
# Without symbols nothing says that a function is called to which there are only jumps.
skipped = {name_at.get(x['function']) for x in records if x['type'] == 'skipped'}
assert skipped & (returned.keys() | left.keys()) <= {'rethrows'}, skipped
for name in skipped: returned.pop(name, None), left.pop(name, None)
for x in records:
    name = name_at.get(x.get('function'), x.get('function'))
    if x['type'] != 'latency' or not x['final'] or not (name in returned or name in left): continue
    assert x['missed'] == 0, x
    assert (x['count'], x['unwound']) == (returned[name], left[name]), \
        (name, x['count'], x['unwound'], returned[name], left[name])
    returned.pop(name, None), left.pop(name, None)
assert not returned and not left, (returned, left)
PYTHON
}

@test "calls that were left are counted apart from those that returned, each once" {
  counts_right thrower
}

@test "calls that were left with other unwinders are counted apart, too, each once" {
  local program
  for program in thrower_llvm thrower_llvm_in_program thrower_llvm_static thrower_nongnu; do
    has_unwinder $program
    counts_right $program
  done
}

@test "slots come back from calls that were left" {
  "$TARGETS/thrower" 1000 >"$work/bare"
  "$PINPRICK" latency --slots 128 --allow-missing --json -o "$work/records" 'thrower:*' -- \
    "$TARGETS/thrower" 1000 >"$work/out" 2>"$work/errors"
  cmp "$work/bare" "$work/out"
  [ "$(field 'sum(x["unwound"] for x in r if x["type"] == "latency")')" -gt 20000 ]
  [ "$(field 'sum(x["missed"] for x in r if x["type"] == "latency")')" -eq 0 ]
}

# start_thrower [PROGRAM]: a round for each line it is sent, and a line of output for each round.
start_thrower() {
  start_fed "${1:-thrower}" 1000000 lines
  thrower=$fed
  echo >&7
  until_line "$work/out" '^-?[0-9]+ [0-9]+$'
}

# What it has printed of its rounds is what it prints without probes.
threw_right() {
  local rounds
  grep -E '^-?[0-9]+ [0-9]+$' "$work/out" >"$work/probed"
  rounds=$(wc -l <"$work/probed")
  (yes '' || true) | "$TARGETS/thrower" "$rounds" lines | head -n "$rounds" >"$work/bare"
  cmp "$work/bare" "$work/probed"
}

# attached_often PROGRAM [TIMES]: while exceptions fly. Timed as well: what the unwinder calls itself, on its
# way.
attached_often() {
  start_thrower "$1"
  (yes '' || true) >&7 3>&- &
  ends_with_test $!
  for _ in $(seq "${2:-15}"); do
    "$PINPRICK" latency -p $thrower --allow-missing -d 0.001 "$1:*" 'libstdc++:__gxx_p*' \
      'libstdc++:*do_catch*' 'libstdc++:__cxa*' 'libc++abi:*' 'libc:*strlen*' 'libc:*memset*' \
      'libc:*pthread_mutex*' >"$work/table" 2>&1
    "$PINPRICK" detach -p $thrower >/dev/null 2>&1 || true
  done
  kill -0 $thrower
  no_trace $thrower
  exec 7>&-
  kill $thrower
  wait $thrower || true
  threw_right
}

@test "attaching and detaching while exceptions fly leaves the program right, and nothing behind" {
  attached_often thrower
}

@test "attaching and detaching while LLVM's libunwind unwinds leaves the program right, and nothing behind" {
  has_unwinder thrower_llvm
  attached_often thrower_llvm
}

@test "attaching and detaching while nongnu's libunwind unwinds leaves the program right, and nothing behind" {
  has_unwinder thrower_nongnu
  attached_often thrower_nongnu
}

@test "an orphaned session goes on letting exceptions through, and detach puts the unwinder back" {
  start_thrower
  watch latency -p $thrower --allow-missing 'thrower:*'
  kill -KILL $watcher
  wait $watcher || true
  local round
  for round in $(seq 2 40); do echo >&7; done
  until (($(wc -l <"$work/out") >= 40)); do
    kill -0 $thrower
    nap
  done
  "$PINPRICK" status -p $thrower --json >"$work/records"
  [ "$(field 'sum(p["unwound"] for x in r for p in x["probes"])')" -gt 100 ]
  "$PINPRICK" detach -p $thrower
  no_trace $thrower
  exec 7>&-
  wait $thrower
  threw_right
}

@test "libgcc in a stripped program is found by what it does, and each call is counted once" {
  local program
  for program in thrower_static thrower_static_pie thrower_static_libgcc; do
    passes_through ${program}_stripped
    counts_right ${program}_stripped $program
  done
  # Where no stripped twin is made.
  for program in thrower_clang_static thrower_clang_static_libgcc; do
    [ -x "$TARGETS/${program}_stripped" ] || continue
    passes_through ${program}_stripped
  done
}

@test "LLVM's libunwind in a stripped program finds its way through timed functions" {
  local program pattern
  for program in thrower_llvm_stripped thrower_llvm_static_stripped; do
    has_unwinder $program
    "$TARGETS/$program" 600 >"$work/bare"
    for pattern in "$program:*" '*'; do
      "$PINPRICK" latency --allow-missing --json -o "$work/records" "$pattern" -- \
        "$TARGETS/$program" 600 >"$work/out" 2>"$work/errors"
      cmp "$work/bare" "$work/out"
      ! grep -q '"type":"warning"' "$work/records"
    done
  done
}

# So are Rust's programs for musl linked.
@test "LLVM's libunwind in a program with musl, which has no unwind tables, finds its way" {
  local program pattern
  for program in forced_musl forced_musl_stripped; do
    [ -x "$TARGETS/$program" ] || skip "musl-gcc or LLVM's libunwind is not installed"
    "$TARGETS/$program" 3000 >"$work/bare"
    [ "$(cat "$work/bare")" = $'frames 20\ncleaned 60000' ]
    for pattern in "$program:*" '*'; do
      "$PINPRICK" latency --allow-missing --json -o "$work/records" "$pattern" -- \
        "$TARGETS/$program" 3000 >"$work/out" 2>"$work/errors"
      cmp "$work/bare" "$work/out"
      ! grep -q '"type":"warning"' "$work/records"
      [ "$(field 'sum(x["unwound"] + x["abandoned"] for x in r if x["type"] == "latency")')" -ge 60000 ]
    done
  done
}

# with_own_libgcc PLUGIN: its exceptions pass its timed functions, whenever it was loaded.
with_own_libgcc() {
  local plugin=$TARGETS/$1.so
  printf '%s\n' "load $plugin" 'call 1000' unload |
    "$PINPRICK" latency --allow-missing --json -o "$work/records" "$1:*" \
      'libc:*' -- "$TARGETS/dlhost" >"$work/answers" 2>"$work/errors"
  [ "$(tr '\n' ' ' <"$work/answers")" = 'load call unload ' ]
  local unwound='[x["unwound"] for x in r if x["type"] == "latency" and x["function"] == "plugin_step"]'
  [ "$(field "$unwound")" = '[500]' ]
  start_fed dlhost
  local host=$fed
  tell "load $plugin" load
  watch latency -p $host --allow-missing "$1:*"
  tell 'call 1000' call
  end_watch
  [ "$(field "$unwound")" = '[500]' ]
  no_trace $host
  exec 7>&-
  wait $host
}

@test "exceptions pass through a stripped library that has its own libgcc" {
  with_own_libgcc plugin_thrower_stripped
}

@test "exceptions pass through a library that has its own libgcc and names its functions" {
  with_own_libgcc plugin_thrower_static
}

@test "attaching and detaching while a stripped program unwinds leaves it right, and nothing behind" {
  local program
  for program in thrower_static_stripped thrower_static_libgcc_stripped; do
    attached_often $program 5
    rm "$work/in"
  done
}

@test "functions of a program whose unwinder is not found are not timed unless forced, with a warning" {
  local program=unknown_unwinder
  run "$PINPRICK" latency "$program:*" -- "$TARGETS/$program" 5
  [ "$status" -ne 0 ]
  [[ "$output" == *"an exception may pass through it, and the program's unwinder was not found"* ]]
  [[ "$output" == *'--force times it'* ]]
  [[ "$output" != *warning* ]]
  "$PINPRICK" latency --force --allow-missing --json -o "$work/records" "$program:*" -- \
    "$TARGETS/$program" 5 >"$work/out" 2>"$work/errors"
  [ "$(cat "$work/out")" = 'sum 15' ]
  [ "$(field '[x["message"] for x in r if x["type"] == "warning"]' | grep -c 'its unwinder was not found')" -eq 1 ]
  [ "$(field 'sum(x["count"] == 5 for x in r if x["type"] == "latency")')" -ge 1 ]
  "$PINPRICK" count --allow-missing -o "$work/table" "$program:*" -- "$TARGETS/$program" 5
}

@test "a static program that was linked without an unwinder is timed like any other" {
  run "$PINPRICK" latency 'ticker_static:tick' -- "$TARGETS/ticker_static" </dev/null
  [[ "$output" != *"can unwind"* ]]
  [ -x /sbin/ldconfig ] || skip 'there is no /sbin/ldconfig, a static program without an unwinder'
  run "$PINPRICK" latency --allow-missing 'ldconfig:*' -- /sbin/ldconfig --version
  [ "$status" -eq 0 ]
  [[ "$output" != *unwinder* ]]
}

# What backtrace(), pthread_cancel and pthread_exit load when they are first needed.
loads_libgcc_late() {
  local out=$work/out.$1
  mkfifo "$work/in.$1"
  "$TARGETS/$1" <"$work/in.$1" >"$out" 3>&- &
  local canceller=$!
  ends_with_test $canceller
  exec 7>"$work/in.$1"
  patiently has_begun $canceller "$TARGETS/$1"
  watch latency -p $canceller --allow-missing "$1:*" 'libc:*'
  echo >&7
  until_line "$out" 'cleaned 5555, trace whole$'
  end_watch || true
  text_is_original $canceller
  echo >&7
  until_line "$out" 'cleaned 11110, trace whole$'
  exec 7>&-
  wait $canceller
}

@test "cancellation and backtraces pass the timed functions of programs that load libgcc later" {
  local program
  for program in canceller canceller_with_cleanup; do
    loads_libgcc_late $program
  done
}

@test "gdb's backtrace leads through timed calls, with the file that status writes" {
  command -v gdb >/dev/null || skip "gdb is not installed"
  start_ticker
  watch latency --allow-missing -p "$ticker" 'ticker:*' 'libc:*nanosleep'
  echo 'nap 600000' >&7
  patiently grep -q nanosleep "/proc/$ticker/wchan"
  "$PINPRICK" status -p "$ticker" --symbols "$work/symbols" >/dev/null
  gdb -nx -batch -p "$ticker" -ex "add-symbol-file $work/symbols" -ex bt >"$work/bt" 2>"$work/gdb"
  cat "$work/bt"
  sed -nE 's/^#[0-9]+ +(0x[0-9a-f]+ in )?([^ ]+) \(.*/\2/p' "$work/bt" >"$work/frames"
  grep -q nanosleep "$work/frames"
  [ "$(tail -4 "$work/frames" | tr '\n' ' ')" = 'pinprick_timed_call nap pinprick_timed_call main ' ]
  end_watch
}

# gdb_steps VERB: from the first instruction of tick() on, through its probe and until it has
# returned, gdb's backtrace is after each instruction what it is without a probe.
gdb_steps() {
  command -v gdb >/dev/null || skip "gdb is not installed"
  start_ticker
  watch "$1" -p "$ticker" ticker:tick
  "$PINPRICK" status -p "$ticker" --symbols "$work/symbols" >/dev/null
  cat >"$work/steps.py" <<'PYTHON'
import gdb, os
gdb.execute('set pagination off')
gdb.execute('break *tick')
with open(os.environ['IN'], 'w') as tell:
    tell.write('tick 1\n')
gdb.execute('continue')
gdb.execute('delete')

def callers():
    frame, names, exact = gdb.newest_frame(), [], []
    while frame is not None:
        names.append(frame.name() or '?')
        frame = frame.older()
    return names

bare = callers()
assert bare[0] == 'tick' and 'main' in bare, bare
pcs, inside, returned = set(), 0, False
for step in range(400):
    gdb.execute('stepi', to_string=True)
    names = callers()
    pcs.add(int(gdb.parse_and_eval('(long)$pc')))
    own = [name for name in names if not name.startswith('pinprick_')]
    if names[0].startswith('pinprick_'):
        inside += 1
    elif names[0] == bare[1]:
        returned = True
        break
    assert own == bare or (inside > 0 and own == bare[1:]), (hex(max(pcs)), names, bare)
print('STEPPED', len(pcs), inside, 'returned' if returned else 'did not return')
gdb.execute('detach')
PYTHON
  IN=$work/in gdb -nx -batch -p "$ticker" -ex "add-symbol-file $work/symbols" -x "$work/steps.py" \
    >"$work/steps" 2>&1
  cat "$work/steps"
  until_line "$work/out" '^ticked$'
  end_watch
}

@test "gdb's backtrace is right after each instruction of a counting probe" {
  # A thread that is stopped in a restartable sequence begins it again: it would never get out.
  GLIBC_TUNABLES=glibc.pthread.rseq=0 gdb_steps count
  grep -qE '^STEPPED [0-9]{2,} [0-9]{2,} returned' "$work/steps"
}

@test "gdb's backtrace is right after each instruction of a timed call" {
  GLIBC_TUNABLES=glibc.pthread.rseq=0 gdb_steps latency
  grep -qE '^STEPPED [0-9]{2,} [0-9]{2,} returned' "$work/steps"
}

@test "gdb's backtrace is right within restartable sequences" {
  local verb
  gdb_steps count
  grep -qE '^STEPPED [0-9]+ [0-9]{3}' "$work/steps"
}

# profiled_right PROGRAM ROUNDS VERB [OPTION...] PATTERN...: the program works as without probes, and
# each of the backtraces that it takes ten thousand times a second reaches main.
profiled_right() {
  local program=$TARGETS/$1 rounds=$2
  shift 2
  "$program" "$rounds" | head -1 >"$work/bare"
  "$PINPRICK" "$@" --allow-missing -o "$work/table" -- "$program" "$rounds" >"$work/out" \
    2>"$work/errors"
  cat "$work/out"
  cmp "$work/bare" <(head -1 "$work/out")
  grep -qE '^backtraces [0-9]{3,}, cut 0$' "$work/out"
}

@test "a profiler that unwinds 10,000 times a second reaches main from counted functions" {
  profiled_right profiled 200000 count 'profiled:*'
  profiled_right profiled 200000 count '*'
  profiled_right profiled_with_libgcc 200000 count '*'
}

@test "a profiler that unwinds 10,000 times a second reaches main from timed functions" {
  # Unwinding takes most of the time here: in a quarter of the rounds there are as many backtraces.
  profiled_right profiled 50000 latency 'profiled:*'
  profiled_right profiled 50000 latency '*'
  profiled_right profiled_with_libgcc 50000 latency '*'
}

@test "a profiler that unwinds 10,000 times a second reaches main from functions that are timed by exits" {
  profiled_right profiled 100000 latency --ends=exits 'profiled:*'
  profiled_right profiled 100000 latency --ends=exits '*'
  profiled_right profiled_with_libgcc 100000 latency --ends=exits '*'
}

# An entry of the unwind tables says of at most 64 KB where the frame is.
@test "a profiler that unwinds 10,000 times a second reaches main from a stub of more than 64 KB" {
  local value fields='' specs=() measure
  value=$(printf '+$arg1*%d' 1 2 3 4 5 6 7 8 9 10 11 12 13)
  for n in {1..60}; do fields+=" (\$arg1$value+$n)"; done
  for measure in 1 2 3 4 5 6; do specs+=("leaf$fields if \$arg1<-$measure"); done
  profiled_right profiled 200000 trace "${specs[@]}"
  "$PINPRICK" trace --json --allow-missing -o "$work/records" "${specs[@]}" -- "$TARGETS/profiled" 10 >/dev/null
  [ "$(field "[x['stub_bytes'] for x in r if x['type'] == 'armed'][0] > 65536")" = True ]
}

@test "threads that are cancelled anywhere in a probe are cleaned up as without" {
  local program verb pattern
  for program in cancelled cancelled_with_cleanup; do
    "$TARGETS/$program" 100 >"$work/bare"
    for verb in count latency; do
      for pattern in "$program:*" '*'; do
        "$PINPRICK" $verb --allow-missing -o "$work/table" "$pattern" -- "$TARGETS/$program" 100 \
          >"$work/out" 2>"$work/errors"
        cmp "$work/bare" "$work/out"
      done
    done
  done
}

@test "a profiler that unwinds 10,000 times a second with nongnu's libunwind reaches main" {
  has_unwinder profiled_nongnu
  profiled_right profiled_nongnu 200000 count '*'
  profiled_right profiled_nongnu 20000 latency 'profiled_nongnu:*'
  profiled_right profiled_nongnu 10000 latency '*'
}

# steps_right PROGRAM: step by step, it comes by all of its own frames.
steps_right() {
  local verb pattern
  has_unwinder "$1"
  printf '%s\n' 0 5 50 | "$TARGETS/$1" >"$work/bare"
  for verb in count latency; do
    for pattern in "$1:*" '*'; do
      printf '%s\n' 0 5 50 | "$PINPRICK" $verb --allow-missing -o "$work/table" "$pattern" -- \
        "$TARGETS/$1" >"$work/out" 2>"$work/errors"
      cmp "$work/bare" "$work/out"
    done
  done
}

@test "a program that steps through its stack with a libunwind sees its own frames as without probes" {
  steps_right stepper_llvm
  steps_right stepper_llvm_in_program
  steps_right stepper_nongnu
}

# start_stepper PROGRAM [hold]: tests/targets/stepper.c
start_stepper() {
  has_unwinder "$1"
  start_fed "$@"
  stepper=$fed
}

@test "code that lists the objects of a process sees those that exist; code that looks for a timed call sees one more" {
  printf '%s\n' any caller any caller | "$TARGETS/lister" >"$work/bare"
  [ "$(sort -u "$work/bare" | grep -c 'objects, and 0$')" -eq 1 ]
  local pattern
  for pattern in 'lister:*' '*'; do
    printf '%s\n' any caller any caller | "$PINPRICK" latency --allow-missing -o "$work/table" \
      "$pattern" -- "$TARGETS/lister" >"$work/out" 2>"$work/errors"
    sed '2s/0$/1/; 4s/0$/1/' "$work/bare" | cmp - "$work/out"
  done
}

@test "a thread that lists objects for a timed call when the probes are taken out comes back to their code" {
  start_fed lister
  local lister=$fed
  watch latency -p $lister --allow-missing 'lister:*'
  echo holds >&7
  until_line "$work/out" '^holds$'
  end_watch || true
  [ "$(field '[x["threads_inside"] for x in r if x["type"] == "detached"]')" = '[1]' ]
  echo >&7
  until_line "$work/out" 'objects, and 1$'
  "$PINPRICK" detach -p $lister
  no_trace $lister
  exec 7>&-
  wait $lister
}

@test "gdb's backtrace is right after each instruction of the hook that lists objects, and of what it calls" {
  command -v gdb >/dev/null || skip "gdb is not installed"
  GLIBC_TUNABLES=glibc.pthread.rseq=0 start_fed lister
  local lister=$fed
  watch latency -p $lister --allow-missing 'lister:*'
  echo caller >&7  # what it needs is loaded, and bound, from here on
  until_line "$work/out" 'objects, and 1$'
  "$PINPRICK" status -p $lister --symbols "$work/symbols" >/dev/null
  cat >"$work/steps.py" <<'PYTHON'
import gdb, os
gdb.execute('set pagination off')
gdb.execute('break *dl_iterate_phdr')
with open(os.environ['IN'], 'w') as tell:
    tell.write('caller\n')
gdb.execute('continue')
gdb.execute('delete')
inside = shown = 0
for step in range(20000):
    gdb.execute('stepi', to_string=True)
    frame, names = gdb.newest_frame(), []
    while frame is not None:
        names.append(frame.name() or '?')
        frame = frame.older()
    if names[0] == 'lists':
        break
    if names[0].startswith('pinprick_'):
        inside += 1
    if names[0] == 'on_object' and names[1].startswith('pinprick_'):
        shown += 1
    assert 'lists' in names and 'main' in names, (hex(gdb.newest_frame().pc()), names)
print('STEPPED', inside, shown, names[0])
gdb.execute('detach')
PYTHON
  IN=$work/in gdb -nx -batch -p $lister -ex "add-symbol-file $work/symbols" -x "$work/steps.py" \
    >"$work/steps" 2>&1
  cat "$work/steps"
  grep -qE '^STEPPED [0-9]{3,} [0-9]{2,} lists$' "$work/steps"
  end_watch
  exec 7>&-
  wait $lister
}

# Its cursor is at a slot meanwhile.
detaches_between_steps() {
  start_stepper "$1" hold
  watch latency -p $stepper --allow-missing "$1:*"
  echo 5 >&7
  until_line "$work/out" 'holds$'
  end_watch || true
  echo >&7
  until_line "$work/out" 'walked$'
  "$PINPRICK" detach -p $stepper || true
  no_trace $stepper
  exec 7>&-
  wait $stepper
  printf '%s\n' 5 '' | "$TARGETS/$1" hold | tr -d '\n' | sed 's/holds//' >"$work/bare"
  cmp "$work/bare" <(tr -d '\n' <"$work/out" | sed 's/holds//')
  rm "$work/in"
}

@test "a program that steps through its stack goes on with it when the probes are taken out meanwhile" {
  detaches_between_steps stepper_llvm
  detaches_between_steps stepper_llvm_in_program
  detaches_between_steps stepper_nongnu
}

@test "a libunwind that remembers the rules of an earlier session does not come by them" {
  local patterns slots=64 walks=0
  start_stepper stepper_nongnu
  for patterns in goes 'goes main walks' 'goes libc:*puts*' '*'; do
    set -f
    # shellcheck disable=SC2086
    watch latency -p $stepper --allow-missing --slots $slots $patterns
    set +f
    echo 5 >&7
    walks=$((walks + 1)) slots=$((slots * 2))
    until (($(wc -l <"$work/out") >= walks)); do
      kill -0 $stepper
      nap
    done
    end_watch || true
  done
  exec 7>&-
  wait $stepper
  printf '%s\n' 5 5 5 5 | "$TARGETS/stepper_nongnu" | cmp - "$work/out"
}

@test "status writes symbols only where there are probes" {
  start_ticker
  run "$PINPRICK" status -p "$ticker" --symbols "$work/symbols"
  [ "$status" -eq 3 ]
  [[ "$output" =~ 'has no probes of pinprick' ]]
  [ ! -e "$work/symbols" ]
  end_ticker
}
