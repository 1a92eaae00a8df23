# The code of `-- COMMAND` that runs before main().
load helpers

# counts_all CALLS COMMAND...: each call of counted() is counted, and each is timed.
counts_all() {
  local calls=$1 verb
  shift
  for verb in count latency; do
    "$PINPRICK" $verb --json -o "$work/records" counted -- "$@" >"$work/out" 2>"$work/errors" || {
      cat "$work/errors" >&2
      return 1
    }
    [ "$(cat "$work/out")" = "$calls" ]
    case $verb in
      count) [ "$(hits counted)" -eq "$calls" ] ;;
      latency)
        [ "$(field '[x["count"] for x in r if x["type"] == "latency" and x.get("final")][0]')" -eq "$calls" ] ;;
    esac
  done
}

@test "-- COMMAND is counted from a linked library's resolvers on: preinit, constructor, main" {
  counts_all 4 "$TARGETS/early"
}

@test "so it is in a static program, and in one that relocates itself" {
  counts_all 4 "$TARGETS/early_static"
  counts_all 4 "$TARGETS/early_static_pie"
}

@test "so it is in a library that is preloaded, and where all names are bound at once" {
  LD_BIND_NOW=1 counts_all 4 "$TARGETS/early"
  # It has a constructor, and its IFUNC is not used.
  ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 \
    LD_PRELOAD="$TARGETS/libearly.so" run "$PINPRICK" count --json -o "$work/records" counted -- true
  [ "$status" -eq 0 ]
  [ "$(hits counted)" -eq 1 ]
}

@test "so it is in a program whose rseq area the C library does not register" {
  GLIBC_TUNABLES=glibc.pthread.rseq=0 counts_all 4 "$TARGETS/early"
  [ "$(field '[x for x in r if x["type"] == "armed"][0]["rseq"]')" = False ]
  counts_all 4 "$TARGETS/early"
  [ "$(field '[x for x in r if x["type"] == "armed"][0]["rseq"]')" = True ]
}

@test "so it is in the interpreter of a script" {
  printf '#!%s\n' "$TARGETS/early" >"$work/script"
  chmod +x "$work/script"
  counts_all 4 "$work/script"
}

@test "with musl, which runs constructors only" {
  [ -x "$TARGETS/early_musl" ] || skip "musl-gcc is not installed"
  counts_all 2 "$TARGETS/early_musl"
}

# loader_of PROGRAM: prints its path.
loader_of() { readelf -lW "$1" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p'; }

@test "so it is where the loader is the command, and maps the program itself" {
  local loader
  loader=$(loader_of "$TARGETS/early")
  counts_all 4 "$loader" "$TARGETS/early"
  counts_all 4 "$loader" --library-path /lib/x86_64-linux-gnu "$TARGETS/early"
  "$PINPRICK" count --json -o "$work/records" libearly:counted early:main -- "$loader" \
    "$TARGETS/early" >/dev/null
  [ "$(field "sorted(x['object'] for x in r if x['type'] == 'count' and x['final'] and x['hits'] != 0)")" = \
    "['early', 'libearly.so']" ]
  LD_BIND_NOW=1 "$PINPRICK" count --json -o "$work/records" libearly.so:by_ifunc -- "$loader" \
    "$TARGETS/early" >/dev/null
  [ "$(field "[x['hits'] > 0 for x in r if x['type'] == 'count' and x['final']]")" = '[True]' ]
}

@test "so it is in a static program that the loader executes" {
  local loader
  loader=$(loader_of "$TARGETS/early")
  counts_all 4 "$loader" "$TARGETS/early_static"
  counts_all 4 "$loader" "$TARGETS/early_static_pie"
}

@test "so it is where musl's loader is the command" {
  [ -x "$TARGETS/early_musl" ] || skip "musl-gcc is not installed"
  counts_all 2 "$(loader_of "$TARGETS/early_musl")" "$TARGETS/early_musl"
}

@test "a loader that is told to do something else than to run a program does that" {
  local loader
  loader=$(loader_of "$TARGETS/early")
  run "$PINPRICK" count malloc -- "$loader" --version
  echo "$output"
  [[ "$output" == *"ld.so"* ]]
  run "$PINPRICK" count --allow-missing nowhere -- "$loader" --list "$TARGETS/early"
  echo "$output"
  [[ "$output" == *libc.so.6* ]]
}

@test "a program that its loader was told to run is probed while it runs, with what it loads" {
  mkfifo "$work/in"
  "$(loader_of "$TARGETS/dlhost")" "$TARGETS/dlhost" <"$work/in" >"$work/out" 3>&- &
  fed=$!
  ends_with_test $fed
  exec 7>"$work/in"
  tell ready ready
  watch count -p $fed --allow-missing dlhost:call 'plugin:plugin_*'
  tell "load $TARGETS/plugin.so" load
  tell 'call 100' call
  end_watch
  [ "$(hits call)" -eq 1 ]
  [ "$(hits plugin_step)" -eq 105 ]
  no_trace $fed
  end_fed
}

@test "an IFUNC of a linked library is counted in its constructors" {
  LD_BIND_NOW=1 "$PINPRICK" count --json -o "$work/records" libearly.so:by_ifunc \
    libearly.so:counted -- "$TARGETS/early" >"$work/out"
  [ "$(hits counted)" -eq 4 ]
  # main() calls it, by its name here or that of its implementation.
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x.get("final") and x["function"] != "counted")')" -eq 1 ]
  # Alone it is all that is armed, and that once.
  LD_BIND_NOW=1 "$PINPRICK" count --json -o "$work/records" libearly.so:by_ifunc -- \
    "$TARGETS/early" >"$work/out"
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x.get("final"))')" -eq 1 ]
}

@test "a constructor that forks does no harm to its child" {
  # The child runs to the program's entry point as well.
  run "$PINPRICK" count early_forks:main -o /dev/null -- "$TARGETS/early_forks"
  echo "$output"
  [ "$status" -eq 0 ]
  [ "$(grep -c '^4$' <<<"$output")" -eq 2 ]
}

# A library on a server that does not answer is like one that is a pipe.
hangs_in_loader() {
  hung=$(pgrep -P "$pid" -x early) && grep -q '^State:.S' "/proc/$hung/status"
}

has_ended() { ! kill -0 "$pid" 2>/dev/null; }

@test "a command that ends while it is relocated passes its status on" {
  local status options
  for options in '' --children=follow; do
    status=0
    "$PINPRICK" count $options dies_early:chosen -- "$TARGETS/dies_early" >"$work/out" 2>&1 ||
      status=$?
    [ "$status" -eq 9 ]
    ! grep -q 'no function matches' "$work/out"
  done
}

@test "pinprick can be ended while the command hangs in its loader, and the command ends with it" {
  mkfifo "$work/libearly.so"
  LD_LIBRARY_PATH=$work "$PINPRICK" count counted -- "$TARGETS/early" >"$work/out" 2>&1 3>&- &
  pid=$!
  ends_with_test $pid
  patiently hangs_in_loader
  kill -TERM $pid
  patiently has_ended
  local status=0
  wait $pid || status=$?
  cat "$work/out"
  [ "$status" -eq 143 ]
  grep -q "interrupted before any probe was in" "$work/out"
  [ ! -d "/proc/$hung" ]
}
