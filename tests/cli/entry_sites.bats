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
  built_with clang++
  build clang++ -fpatchable-function-entry=5
  [ "$(entry_sites)" = "[('f', 'patchable', 'nop'), ('g', 'patchable', 'nop')]" ]
  each_call_is_counted
}

@test "an XRay sled is replaced by the jump" {
  built_with clang++
  build clang++ -fxray-instrument -fxray-instruction-threshold=1
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
