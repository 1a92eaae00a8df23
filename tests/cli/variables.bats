# Variables, their types, and lines of source, by debug information.
load helpers

# compile NAME COMPILER OPTION...: tests/targets/variables.c, as $work/NAME.
source=$BATS_TEST_DIRNAME/../targets/variables.c
loop=$(grep -n '// line: loop' "$source")
loop=@variables.c:${loop%%:*}
compile() { "${@:2}" -I"${source%/*}" -o "$work/$1" "$source"; }

# agrees COMPILER OPTION...: what hits tell of variables is what gdb says.
agrees() {
  command -v gdb >/dev/null || skip "there is no gdb"
  compile variables "$@"
  local stored=()
  [[ " $* " != *" -O0 "* ]] || stored=(stored)
  python3 "$BATS_TEST_DIRNAME/variables.py" "$work/variables" "$source" "${stored[@]}"
}

@test "variables of unoptimized code are what gdb says" {
  agrees gcc -g -O0
}

@test "variables of optimized code are what gdb says, wherever they are, or nowhere" {
  agrees gcc -g -O2
}

@test "so it is with DWARF 4, and code that was optimized for debugging" {
  agrees gcc -gdwarf-4 -Og
}

@test "so it is with clang" {
  [ -n "$clang" ] || skip "there is no clang"
  agrees "$clang" -g -O1
}

@test "a separate debug file, and compressed sections, have the same variables" {
  compile whole gcc -g -gz -O2 -Wl,--build-id
  "$PINPRICK" list --vars --lines --json -f "$work/whole" serve >"$work/of_whole"
  cp "$work/whole" "$work/stripped"
  objcopy --only-keep-debug "$work/whole" "$work/whole.debug"
  objcopy --strip-debug --add-gnu-debuglink="$work/whole.debug" "$work/stripped"
  "$PINPRICK" list --vars --lines --json -f "$work/stripped" serve >"$work/of_stripped"
  evaluate - "$work/of_whole" "$work/of_stripped" <<'PYTHON'
import json, sys
whole, stripped = (json.loads(open(path).readline()) for path in sys.argv[1:])
names = [one['name'] for one in whole['variables'] if one['is_parameter']]
assert names == ['r', 'n', 'flags', 'far'], names
assert len(whole['lines']) > 5, whole
assert whole['variables'] == stripped['variables'] and whole['lines'] == stripped['lines']
PYTHON
}

@test "split debug information has the same values" {
  local version
  for version in 4 5; do
    gcc -gdwarf-$version -gsplit-dwarf -O2 -I"${source%/*}" -c -o "$work/split.o" "$source"
    gcc -o "$work/variables" "$work/split.o"
    [ -e "$work/split.dwo" ]
    "$PINPRICK" trace --json -o "$work/records" 'serve r->peer->port n total' -- "$work/variables" <<<go >/dev/null
    [ "$(field "[list(x['values'].values()) for x in r if x['type'] == 'event'][0]")" = '[443, 0, 0]' ]
    [ "$(field "[x['values']['r->peer->port'] for x in r if x['type'] == 'event'][1]")" = 8080 ]
  done
}

@test "a name that means nothing at a place is an error, with what there is" {
  compile variables gcc -g -O0
  refuses() {
    run "$PINPRICK" trace "$1" -- "$work/variables" </dev/null
    [ "$status" -ne 0 ]
    [[ "$output" == *"$2"* ]] || { echo "$output" >&2; return 1; }
  }
  refuses 'serve r->prot' "struct request has no member 'prot'; it has peer, name, items, kind, nested, grid, packed, next, handler"
  refuses 'serve nothing' "'nothing' is no variable at serve, where there are r, n, flags, far"
  refuses 'serve n if r->nested' 'is no number; name one of its members: inner'
  refuses 'serve n->x' 'int has no members'
  refuses 'serve $arg1->x' "'->' follows a name"
  refuses 'serve%return sum' "'sum' is a variable of the function, which has none any more"
  refuses 'many d if sum' "'sum' is no variable at many"
  refuses '@variables.c:9999 n' 'no function matches'
  refuses '@variables.c n' 'write @FILE:LINE'
}

@test "conditions, keys and sums have variables" {
  compile variables gcc -g -O2
  measured() { "$PINPRICK" count --json -o "$work/records" "$@" -- "$work/variables" <<<go >/dev/null; }
  measured 'serve if r->peer->port==443 && r->items[1]>-5'
  # Items are k*i-7, and the even calls have that peer.
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final']]")" = '[3]' ]
  # It is always 1.5, and a counts up from 0.
  measured 'many if d*2==3 && a>d'
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final']]")" = '[8]' ]
  measured --by d --sum d --max d many
  [ "$(field "[[x['key'], x['hits'], x['sum'], x['avg'], x['max']] for x in r
               if x['type'] == 'count' and x['final']]")" = '[[1.5, 10, 15.0, 1.5, 1.5]]' ]
  measured --by 'r->peer->city:string' serve
  [ "$(keyed serve)" = "[['first.example', 5], ['second.example', 5]]" ]
  measured --sum far serve
  [ "$(field "[x['sum'] for x in r if x['type'] == 'count' and x['final']]")" = "[$((-5000000000 * 45))]" ]
  # The loop as it is written.
  compile variables gcc -g -O0
  measured "$loop-${loop##*:}" "$loop"
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final'] and x['function'] == '${loop#@}']")" = '[30]' ]
}

@test "arguments are told at the return as they were at the entry, and memory as it is when it is asked for" {
  compile variables gcc -g -O2
  traced() { "$PINPRICK" trace --json -o "$work/records" "$@" -- "$work/variables" <<<go >/dev/null; }
  traced --args 'many%return'
  [ "$(field "[[x['values'][name] for name in ('a', 'b', 'c', 'e', '\$retval')] for x in r if x['type'] == 'event'][3]")" = \
    "[3, -3, -2, 4000000000, $((3 - 3 - 2 + 1 + 4000000000 + 120 + 7 - 8 + 15 + 110))]" ]
  traced 'serve%return before=r->number after=r@ret->number far cast=((struct request*)$arg1)->number'
  evaluate - "$work/records" <<'PYTHON'
import json, sys
hits = [json.loads(line)['values'] for line in open(sys.argv[1]) if '"event"' in line]
assert len(hits) == 10, hits
for i, hit in enumerate(hits):
    sum_ = i + sum(k * i - 7 + (250 + i) % 256 for k in range(3))
    assert hit['after'] == hit['far'] - sum_, (i, hit)
    assert hit['before'] == hit['cast'] == (hits[i - 3]['after'] if i >= 3 else 0), (i, hit)
PYTHON
}

@test "\$vars are all variables at a place, and \$params the parameters" {
  compile variables gcc -g -O0
  told() {
    "$PINPRICK" trace --json -o "$work/records" "$1" -- "$work/variables" <<<go >/dev/null
    field "' '.join(sorted([x['values'] for x in r if x['type'] == 'event'][0]))"
  }
  [ "$(told "$loop \$vars")" = 'far flags i n part r sum' ]
  [ "$(told 'serve $params twice=2*n')" = 'far flags n r twice' ]
  [ "$(told "$loop \$params")" = 'far flags n r' ]
}

@test "C++: references, base classes, strings, and what the optimizer knows" {
  cat >"$work/objects.cc" <<'CC'
#include <cstdio>
#include <string>
#include <string_view>
struct Base { int id = 1, of_base = 5; virtual ~Base() = default; };
struct Job : Base { int id = 2; std::string name = "first job"; long total = -7; };
enum class Mode : unsigned char { off, on = 200 };
struct Settings { int level = 10; } settings;
static inline __attribute__((always_inline)) int within(int a, int q) { return a * q + 1; }
__attribute__((noinline)) int run(Job& job, const std::string& by, std::string_view what, Mode mode) {
  settings.level += 5;
  return job.id + (int)by.size() + (int)what.size() + (int)mode;
}
__attribute__((noinline)) int wraps(int a, int b) { return within(b, a); }
int main() {
  Job job;
  return run(job, "someone", "something else", Mode::on) + wraps(3, 4) == 0;
}
CC
  g++ -std=c++17 -g -O2 -o "$work/objects" "$work/objects.cc"
  told() {
    "$PINPRICK" trace --json -o "$work/records" "$@" -- "$work/objects" >/dev/null
    field "list([x['values'] for x in r if x['type'] == 'event'][0].values())"
  }
  [ "$(told 'run job.id job.of_base job.name job.total by what mode')" = \
    "[2, 5, 'first job', -7, 'someone', 'something else', 'on']" ]
  # As it is at the return, and at the entry.
  [ "$(told 'run%return settings.level')" = '[15]' ]
  [ "$(told 'run settings.level')" = '[10]' ]
  # And not those of the function that is inlined at its first instruction.
  [ "$(told 'wraps a b')" = '[3, 4]' ]
}

@test "a library without debug information has the types of the program" {
  cat >"$work/sleeps.c" <<'C'
#include <time.h>
int main(void) {
  for (int i = 1; i <= 5; ++i) nanosleep(&(struct timespec){0, 1000 * i}, 0);
  return 0;
}
C
  gcc -g -o "$work/sleeps" "$work/sleeps.c"
  local asked
  for asked in 'req->tv_nsec' '((struct timespec*)$arg1)->tv_nsec'; do
    "$PINPRICK" count --sum "$asked" --json -o "$work/records" libc:nanosleep -- "$work/sleeps"
    [ "$(field "[x['sum'] for x in r if x['type'] == 'count' and x['final']]")" = '[15000]' ]
  done
}

# inlines NAME COMPILER OPTION...: a program in which serve is inlined wherever it is called.
inlines() {
  cat >"$work/inlined.c" <<'C'
#include <stdio.h>
int sink;
static inline int twice(int v) { sink ^= v; return 2 * v; }
static inline __attribute__((always_inline)) int serve(int a, int b) {
  int s = twice(a);
  for (int i = 0; i < b; ++i) s += (i ^ a) * 3 + sink;
  sink += s;
  return s;
}
__attribute__((noinline)) int one(int x) { return serve(x, 3) + 1; }
__attribute__((noinline)) int two(int x) {
  puts("two");
  int r = serve(x + 1, x);
  puts("then");
  return r + serve(r, 9);
}
__attribute__((noinline)) int alone(int x) { return sink += x; }
int main(int c, char **v) {
  for (int i = 0; i < 5; ++i) { one(i); two(i); alone(c); }
  sink = serve(c, 2);
  return 0;
}
C
  "${@:2}" -o "$work/$1" "$work/inlined.c"
}

# is_where_gdb_breaks PROGRAM: serve%inline is where gdb's `break serve` is. Since its version 16 gdb
# takes the attribute for the entry, too; before that, the first range.
is_where_gdb_breaks() {
  command -v gdb >/dev/null || skip "there is no gdb"
  gdb -nx -batch -ex 'break serve' -ex 'info breakpoints' "$1" >"$work/by_gdb"
  "$PINPRICK" list --json -f "$1" 'serve%inline' >"$work/listed"
  readelf --debug-dump=info "$1" >"$work/entries"
  evaluate - "$work/by_gdb" "$work/listed" "$work/entries" <<'PYTHON'
import json, re, sys
gdb, listed, entries = (open(path).read() for path in sys.argv[1:])
theirs = {int(at, 16) for at in re.findall(r'\b0x0[0-9a-f]{15}\b', gdb)}
ours = {json.loads(line)['address'] for line in listed.splitlines()}
given = {int(at, 16) for at in re.findall(r'DW_AT_entry_pc +: (0x[0-9a-f]+)', entries)}
assert len(ours) == len(theirs) == 4, (ours, theirs)
assert ours - theirs <= given, (ours, theirs, given)
names = [json.loads(line)['function'] for line in listed.splitlines()]
assert all(re.fullmatch(r'serve%inline in (one|two|main)(\+0x[0-9a-f]+)?', name) for name in names), names
PYTHON
}

@test "FUNCTION%inline is each place where gcc has inlined it, as gdb has it" {
  inlines inlined gcc -g -O2
  is_where_gdb_breaks "$work/inlined"
  inlines inlined gcc -gdwarf-4 -O3
  is_where_gdb_breaks "$work/inlined"
}

@test "FUNCTION%inline is each place where clang has inlined it, as gdb has it" {
  [ -n "$clang" ] || skip "there is no clang"
  inlines inlined "$clang" -g -O2
  is_where_gdb_breaks "$work/inlined"
}

@test "inlined functions are counted, recorded and traced with their own variables" {
  local compiler
  for compiler in gcc "$clang"; do
    [ -n "$compiler" ] || continue
    inlines inlined $compiler -g -O1
    "$PINPRICK" count --json -o "$work/records" 'inlined:serv?%inline' -- "$work/inlined" >/dev/null
    [ "$(field "sorted(x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = '[1, 5, 5, 5]' ]
    "$PINPRICK" count --json -o "$work/records" 'serve%inline' -x two -- "$work/inlined" >/dev/null
    [ "$(field "sorted(x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = '[1, 5]' ]
    "$PINPRICK" hist --json -o "$work/records" 'serve%inline b' -- "$work/inlined" >/dev/null
    [ "$(field "int(sum(x['sum'] for x in r if x['type'] == 'hist' and x['final']))")" = $((5 * 3 + 10 + 5 * 9 + 2)) ]
    "$PINPRICK" trace --json -o "$work/records" --args 'serve%inline if b<9' -- "$work/inlined" >/dev/null
    [ "$(field "[[x['values'][name] for name in ('a', 'b')] for x in r if x['type'] == 'event'][:4]")" = \
      '[[0, 3], [1, 0], [1, 3], [2, 1]]' ]
  done
}

@test "what begins at one instruction has one probe, with both names" {
  cat >"$work/nested.c" <<'C'
int sink;
static inline __attribute__((always_inline)) int inner(int v) { return sink ^= v; }
static inline __attribute__((always_inline)) int outer(int v) { return inner(v) * 3; }
__attribute__((noinline)) int around(int v) { return outer(v) + 1; }
int main(int c, char **v) { return around(c) == 0; }
C
  gcc -g -O2 -o "$work/nested" "$work/nested.c"
  names() { "$PINPRICK" list --json -f "$work/nested" "$@" >"$work/records"; field "[x['function'] for x in r]"; }
  [ "$(names 'inner%inline')" = "['inner%inline in around']" ]
  [ "$(names 'outer%inline' 'inner%inline')" = "['outer%inline, inner%inline in around']" ]
  [ "$(names around 'outer%inline')" = "['around, outer%inline']" ]
  [ "$(names '*er%inline' -x 'inner%inline')" = "['outer%inline in around']" ]
}

@test "C++ functions that were inlined are named as others are" {
  cat >"$work/inlined.cc" <<'CC'
namespace net {
int sink;
struct Conn {
  int fd;
  __attribute__((always_inline)) Conn(int n) : fd(n) { sink += n; }
  __attribute__((always_inline)) int read(int n) { return sink += fd * n; }
  __attribute__((always_inline)) int read(long n) { return sink -= fd * (int)n; }
};
__attribute__((noinline)) int run(int n) {
  Conn conn(n);
  sink ^= n;
  return conn.read(n) + conn.read(5L);
}
}
int main(int c, char **v) { return net::run(c) == 0; }
CC
  local compiler
  for compiler in g++ "$clangxx"; do
    [ -n "$compiler" ] || continue
    $compiler -g -O1 -o "$work/inlined" "$work/inlined.cc"
    names() { "$PINPRICK" list --json -f "$work/inlined" "$1" >"$work/records"; field "sorted(x['function'].split(' in ')[0] for x in r)"; }
    [ "$(names 'net::Conn::Conn%inline')" = "['net::Conn::Conn%inline']" ]
    [ "$(names 'net::Conn::read%inline')" = "['net::Conn::read(int)%inline', 'net::Conn::read(long)%inline']" ]
    [ "$(names 'net::Conn::read(long)%inline')" = "['net::Conn::read%inline']" ]
    [[ "$("$PINPRICK" list -f "$work/inlined" 'net::Conn::read(long)%inline')" == *' in net::run+0x'* ]] || return 1
  done
}

@test "what was not inlined, or cannot be timed, is an error that says what to do" {
  inlines inlined gcc -g -O2
  refuses() {
    run "$PINPRICK" "${@:2}" -- "$work/inlined"
    [ "$status" -ne 0 ]
    [[ "$output" == *"$1"* ]] || { echo "$output" >&2; return 1; }
  }
  refuses "'alone' is inlined nowhere, as debug information has it; it has code of its own" count 'alone%inline'
  refuses "'inlined:missing' is inlined nowhere" count 'inlined:missing%inline'
  refuses "no function matches 'serve', but it was inlined at 4 places, which 'serve%inline' means" count serve
  refuses "'serve%inline': what was inlined does not return" latency 'serve%inline'
  refuses "'serve%inline': what was inlined does not return" trace 'serve%inline%return'
  refuses "an inlined function has no offsets" count 'serve%inline+0x4'
  refuses 'an argument is in its register at' trace 'serve%inline $arg1'
  refuses "'nothing' is no variable at serve%inline in" trace 'serve%inline nothing'
  strip -g "$work/inlined"
  refuses "no function matches 'serve%inline'" count 'serve%inline'
  refuses "no function matches 'serve';" count serve
}

@test "list says where a function that is named was inlined besides" {
  cat >"$work/both.c" <<'C'
int sink;
int serve(int a) { return sink += a; }
__attribute__((noinline)) int one(int a) { return serve(a) + serve(a + sink); }
int main(int c, char **v) { return one(c) == 0; }
C
  gcc -g -O2 -o "$work/both" "$work/both.c"
  run "$PINPRICK" list -f "$work/both" serve
  [[ "$output" == *' serve  also inlined at 2 places (serve%inline)' ]]
  run "$PINPRICK" list -f "$work/both" 'serv*'
  [[ "$output" != *inlined* ]]
  "$PINPRICK" list --json -f "$work/both" serve >"$work/records"
  [ "$(field "r[0]['inlined_places']")" = 2 ]
}

@test "list --types shows members, holes, bit fields and padding" {
  run "$PINPRICK" list --types -f "$TARGETS/variables" 'struct peer'
  diff - <(echo "$output") <<'TEXT'
struct peer  24 bytes  variables
       0        4  int           port
       4           4 bytes hole
       8        8  const char *  city
    16:0   3 bits  unsigned int  low
    16:3   7 bits  unsigned int  high
    17:2   4 bits  int           below
    17:6  40 bits  uint64_t      wide
    22:6           1 byte 2 bits padding
TEXT
  cat >"$work/layouts.cc" <<'CC'
struct Empty {};
struct Base { int id; char kind; };
struct Virtual { long far; };
namespace net {
struct Conn : Empty, Base, virtual Virtual {
  virtual ~Conn() {}
  short port;
  union { int number; char bytes[2][4]; };
  static int all;
} conn;
typedef struct { char c; } Small;
Small small;
}
int main() { return sizeof(net::conn) + sizeof(net::small) == 0; }
CC
  local compiler
  for compiler in g++ "$clangxx"; do
    [ -n "$compiler" ] || continue
    $compiler -g -o "$work/layouts" "$work/layouts.cc"
    "$PINPRICK" list --types --json -f "$work/layouts" net::Conn Small layouts:Base >"$work/records"
    evaluate - "$work/records" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [(row['name'], row['bytes']) for row in rows] == [('Conn', 40), ('Small', 1), ('Base', 8)], rows
parts = [(one['kind'], one['depth'], one.get('offset'), one.get('bytes'),
          one.get('type', '').replace('short int', 'short'), one.get('name'))
         for one in rows[0]['members'] if not one.get('name', '').startswith('_vptr')]
assert len(parts) == len(rows[0]['members']) - 1 and parts == [
    ('base', 0, 0, 0, 'Empty', None), ('base', 0, 8, 8, 'Base', None), ('member', 0, 16, 2, 'short', 'port'),
    ('hole', 0, 18, 2, '', None), ('member', 0, 20, 8, 'union {...}', ''),
    ('member', 1, 20, 4, 'int', 'number'), ('member', 1, 20, 8, 'char [2][4]', 'bytes'),
    ('virtual_base', 0, None, None, 'Virtual', None)], parts
PYTHON
  done
}

@test "list --types refuses what is no structure" {
  refuses() {
    run "$PINPRICK" list --types "${@:2}"
    [ "$status" -ne 0 ]
    [[ "$output" == *"$1"* ]] || { echo "$output" >&2; return 1; }
  }
  refuses "no structure is called 'uint8_t' in the debug information" -f "$TARGETS/variables" uint8_t
  refuses '--types needs the NAME of a structure' -f "$TARGETS/variables"
  refuses 'options about functions go without it' --vars -f "$TARGETS/variables" request
  cp "$TARGETS/variables" "$work/bare"
  strip -g "$work/bare"
  refuses "'request': there is no debug information" -f "$work/bare" request
}
