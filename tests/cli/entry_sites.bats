# Places that compilers leave for tools at the start of functions.
load helpers

# build COMPILER OPTION...: $work/program, whose functions f and g are called a thousand times.
build() {
  cat >"$work/program.cc" <<'END'
#include <cstdio>
extern "C" __attribute__((noinline)) long f(long x) {
  asm volatile("" : "+r"(x));
  return 3 * x;
}
extern "C" __attribute__((noinline)) long g(long x) {
  if (x < 0) std::puts("never");
  return f(x) + 1;
}
int main() {
  long sum = 0;
  for (long i = 0; i < 1000; ++i) sum += g(i);
  std::printf("%ld\n", sum);
}
END
  "$1" -O2 "${@:2}" -o "$work/program" "$work/program.cc" 2>"$work/warnings" ||
    skip "$1 does not take ${*:2}"
}

# built_with COMPILER: the test ends here without it.
built_with() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# entry_sites: what `list` says of f and g.
entry_sites() {
  "$PINPRICK" list --json -f "$work/program" f g >"$work/records"
  field "sorted((x['function'], x.get('entry_site'), x.get('tactic')) for x in r)"
}

# each_call_is_counted: and the program prints what it always does. Profiled programs leave a file
# where they run.
each_call_is_counted() {
  (cd "$work" && "$work/program") >"$work/bare"
  (cd "$work" && "$PINPRICK" count --json -o "$work/records" f g -- "$work/program" >"$work/probed")
  cmp "$work/bare" "$work/probed"
  [ "$(field "sorted((x['function'], x['hits']) for x in r if x['type'] == 'count' and x['final'])")" = \
    "[('f', 1000), ('g', 1000)]" ]
}

@test "nops of -fpatchable-function-entry are replaced by the jump" {
  built_with g++
  build g++ -fpatchable-function-entry=5
  [ "$(entry_sites)" = "[('f', 'patchable', 'nop'), ('g', 'patchable', 'nop')]" ]
  each_call_is_counted
  run "$PINPRICK" list -f "$work/program" f
  [[ "$output" == *" nop "*" f  entry site: patchable" ]]
}

@test "nops before a function do not count, and an endbr64 stays" {
  built_with g++
  build g++ -fpatchable-function-entry=8,3 -fcf-protection=branch
  [ "$(entry_sites)" = "[('f', 'patchable', 'nop'), ('g', 'patchable', 'nop')]" ]
  each_call_is_counted
}

@test "where there are too few nops, what follows them is displaced, too" {
  built_with g++
  build g++ -fpatchable-function-entry=2
  [ "$(entry_sites)" = "[('f', 'patchable', 'window'), ('g', 'patchable', 'window')]" ]
  each_call_is_counted
}

@test "a call of __fentry__ goes on being made" {
  built_with g++
  build g++ -pg -mfentry
  [ "$(entry_sites)" = "[('f', 'fentry', 'insn'), ('g', 'fentry', 'insn')]" ]
  each_call_is_counted
  [ -s "$work/gmon.out" ]
}

@test "nops instead of calls of __fentry__ are replaced by the jump" {
  built_with g++
  build g++ -pg -mfentry -mrecord-mcount -mnop-mcount -fno-pie -no-pie
  [ "$(entry_sites)" = "[('f', 'fentry', 'nop'), ('g', 'fentry', 'nop')]" ]
  each_call_is_counted
}

@test "a call of mcount after the prologue is found with and without a list of them" {
  built_with g++
  local more
  for more in "" -mrecord-mcount "-fno-pie -no-pie"; do
    # shellcheck disable=SC2086
    build g++ -pg $more -Wl,-z,notext
    [[ "$(entry_sites)" == "[('f', 'mcount', "*"('g', 'mcount', "* ]]
    each_call_is_counted
  done
}

@test "clang++ makes one nop of them" {
  built_with "${clangxx:-clang++}"
  build "$clangxx" -fpatchable-function-entry=5
  [ "$(entry_sites)" = "[('f', 'patchable', 'nop'), ('g', 'patchable', 'nop')]" ]
  each_call_is_counted
}

@test "an XRay sled is replaced by the jump" {
  built_with "${clangxx:-clang++}"
  build "$clangxx" -fxray-instrument -fxray-instruction-threshold=1
  [ "$(entry_sites)" = "[('f', 'xray', 'nop'), ('g', 'xray', 'nop')]" ]
  each_call_is_counted
}

@test "a list that does not say where entries are makes no entry sites" {
  built_with g++
  build g++ -fpatchable-function-entry=5 -fno-pie -no-pie
  # Each address in the list one byte further: at the second nop.
  python3 - "$work/program" <<'END'
import struct, subprocess, sys
path = sys.argv[1]
line = [l for l in subprocess.check_output(['readelf', '-SW', path], text=True).splitlines()
        if '__patchable_function_entries' in l][0].split('PROGBITS')[1].split()
offset, size = int(line[1], 16), int(line[2], 16)
with open(path, 'r+b') as file:
    for at in range(offset, offset + size, 8):
        file.seek(at)
        address = struct.unpack('<Q', file.read(8))[0]
        file.seek(at)
        file.write(struct.pack('<Q', address + 1))
END
  [[ "$(entry_sites)" == "[('f', None, "*"('g', None, "* ]]
  each_call_is_counted
}

@test "a program without entry sites has none" {
  built_with g++
  build g++
  [[ "$(entry_sites)" == "[('f', None, "*"('g', None, "* ]]
}

# selected OPTION...: which functions of the program `list` shows.
selected() {
  "$PINPRICK" list --json -f "$work/program" "$@" >"$work/records"
  field "sorted(x['function'] for x in r)"
}

# build_with_initializer OPTION...: f and g have entry sites, `plain` has none, and an initialiser
# that runs once has one.
build_with_initializer() {
  built_with g++
  cat >"$work/program.cc" <<'END'
#include <cstdlib>
extern "C" __attribute__((noinline)) int f(int x) { return x * 3; }
extern "C" __attribute__((noinline)) int g(int x) { return f(x) + 1; }
extern "C" __attribute__((noinline, no_instrument_function, patchable_function_entry(0)))
int plain(int x) { return x * 5; }
struct Once { Once() { value = std::getenv("HOME") != nullptr; } int value; } once;
int main(int argc, char**) { return g(argc) + plain(argc) + once.value == 0; }
END
  g++ -O2 "$@" -o "$work/program" "$work/program.cc"
}

@test "--entry-sites selects functions that have one, but no initialiser that is not named" {
  local option
  for option in "-fpatchable-function-entry=5" "-pg" "-pg -mfentry"; do
    # shellcheck disable=SC2086
    build_with_initializer $option
    [ "$(selected --entry-sites '*')" = "['f', 'g', 'main']" ]
    [ "$(selected --entry-sites _GLOBAL__sub_I_f f)" = "['_GLOBAL__sub_I_f', 'f']" ]
  done
}

@test "--entry-sites says so where a function has none" {
  build_with_initializer -fpatchable-function-entry=5
  run "$PINPRICK" list -f "$work/program" --entry-sites plain
  echo "$output"
  [ "$status" -eq 3 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"no function with an entry site of the compiler matches 'plain'"* ]]
}

@test "--notrace leaves out what the patterns of a file match" {
  build_with_initializer -fpatchable-function-entry=5
  printf '# not these\n\n  g \nprogram:ma*\r\n' >"$work/notrace"
  [ "$(selected --entry-sites --notrace "$work/notrace" '*')" = "['f']" ]
  run "$PINPRICK" count -p 1 --notrace "$work/no_such_file" main
  echo "$output"
  [ "$status" -eq 2 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"cannot read $work/no_such_file: No such file or directory"* ]]
  printf 'libc:\n' >"$work/notrace"
  run "$PINPRICK" list -f "$work/program" --notrace "$work/notrace" f
  echo "$output"
  [ "$status" -eq 2 ]
  [[ "$output" == *"bad pattern 'libc:'"* ]]
}

# build_profiled OPTION...: a program and a library of it, both profiled, with constructors. Their
# mcount and __fentry__ only count; the program prints how often.
build_profiled() {
  built_with g++
  cat >"$work/mcount.S" <<'END'
  .text
  .globl mcount, __fentry__, mcount_calls
  .type mcount, @function
  .type __fentry__, @function
  .type mcount_calls, @function
mcount:
__fentry__:
  lock incq calls(%rip)
  ret
mcount_calls:
  mov calls(%rip), %rax
  ret
  .bss
  .balign 8
calls: .zero 8
  .section .note.GNU-stack, "", @progbits
END
  cat >"$work/library.cc" <<'END'
int made;
extern "C" __attribute__((noinline)) int in_library(int x) { return x + made; }
__attribute__((constructor)) static void make() { made = in_library(1); }
END
  cat >"$work/program.cc" <<'END'
#include <cstdio>
extern "C" int in_library(int);
extern "C" long mcount_calls();
extern "C" __attribute__((noinline)) int f(int x) { return in_library(x) * 3; }
__attribute__((constructor)) static void start() { std::printf("%d ", f(2)); }
int main() {
  int sum = 0;
  for (int i = 0; i < 1000; ++i) sum += f(i);
  std::printf("%d %ld\n", sum, mcount_calls());
}
END
  g++ -shared -fPIC "$work/mcount.S" -o "$work/libmcount.so"
  g++ -O2 -pg "$@" -fPIC -c "$work/library.cc" -o "$work/library.o"
  g++ -shared "$work/library.o" -o "$work/libprofiled.so" "$work/libmcount.so" -Wl,-rpath,"$work"
  g++ -O2 -pg "$@" -c "$work/program.cc" -o "$work/program.o"
  g++ "$work/program.o" -o "$work/program" "$work/libprofiled.so" "$work/libmcount.so" \
    -Wl,-rpath,"$work" "${link[@]}"
}

@test "--silence-mcount makes calls of mcount nops before any code runs, and probes count" {
  local -a link=()
  local option silenced
  for option in "" -mfentry -mrecord-mcount "-mfentry -mrecord-mcount" "-fno-pie -mfentry"; do
    link=(-Wl,-z,notext)
    [[ "$option" != *-fno-pie* ]] || link=(-no-pie)
    # shellcheck disable=SC2086
    build_profiled $option
    [ "$("$work/program")" = "9 1501500 2006" ]
    for silenced in "" --silence-mcount; do
      # shellcheck disable=SC2086
      "$PINPRICK" count --json -o "$work/records" $silenced f in_library -- "$work/program" \
        >"$work/printed" 2>"$work/said"
      cat "$work/printed" "$work/said"
      if [ -n "$silenced" ]; then
        [ "$(cat "$work/printed")" = "9 1501500 0" ]
        [ "$(field "[x['calls'] for x in r if x['type'] == 'silenced']")" = "[5]" ]
      else
        [ "$(cat "$work/printed")" = "9 1501500 2006" ]
      fi
      [ "$(field "sorted((x['function'], x['hits']) for x in r if x['type'] == 'count' and x['final'])")" = \
        "[('f', 1001), ('in_library', 1002)]" ]
    done
  done
}

@test "--silence-mcount goes with a command, and says how many calls there were" {
  built_with g++
  build g++ -pg
  run "$PINPRICK" count -p 1 --silence-mcount f
  echo "$output"
  [ "$status" -eq 2 ]
  [[ "$output" == *"--silence-mcount goes with -- COMMAND"* ]]
  (cd "$work" && "$PINPRICK" latency --silence-mcount f -- "$work/program" >"$work/printed" 2>"$work/said")
  cat "$work/said"
  grep -q 'silenced 3 calls of mcount and __fentry__' "$work/said"
  # Its own profile is still written, without a call.
  gprof -b -p "$work/program" "$work/gmon.out" >"$work/profile"
  [ "$(grep -c ' 1000 ' "$work/profile")" -eq 0 ]
}
