# Real programs, every function probed: what they print and how they end is the same with and without.
load helpers

# same_with_probes PATTERN -- COMMAND...: bare, counted, timed; stdin is $work/input if there is one.
same_with_probes() {
  local pattern=$1 input=/dev/null verb
  shift 2
  [ -e "$work/input" ] && input=$work/input
  rm -f "$work/db"
  "$@" <"$input" >"$work/bare" 2>"$work/bare_errors" && bare_status=0 || bare_status=$?
  for verb in count latency; do
    rm -f "$work/db"
    "$PINPRICK" $verb --allow-missing --json -o "$work/records" "$pattern" -- "$@" \
      <"$input" >"$work/probed" 2>"$work/probed_errors" && status=0 || status=$?
    [ $status -eq $bare_status ] || { echo "$verb: status $status, not $bare_status"; cat "$work/probed_errors"; return 1; }
    cmp "$work/bare" "$work/probed"
    cmp "$work/bare_errors" "$work/probed_errors"
    # Something has been seen, or the comparison says nothing.
    [ "$(field 'sum(x.get("hits", x.get("count", 0)) for x in r if x["type"] in ("count", "latency"))')" -gt 0 ]
    echo "$verb: $(field '[str(x["armed"]) + " armed, " + str(x["skipped"]) + " skipped" for x in r if x["type"] == "armed"][0]')"
  done
}

@test "sqlite3 at work" {
  cat >"$work/input" <<'SQL'
create table t(id integer primary key, a int, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into t select i, i * 7919 % 10007, 'row ' || (i * 31 % 977) from n;
create index t_a on t(a);
create index t_b on t(b, a);
select count(*), sum(a), min(b), max(b) from t;
select b, count(*), avg(a) from t group by b order by 2 desc, 1 limit 20;
update t set a = a + 1 where id % 3 = 0;
delete from t where a between 100 and 200;
select count(*), total(a) from t join (select distinct b as bb from t where a > 9000) on b = bb;
select json_group_array(a) from (select a from t order by a desc limit 50);
begin; insert into t select id + 100000, a, b from t; rollback;
pragma integrity_check;
vacuum;
select hex(sha) from (select sum(id * a) as sha from t);
SQL
  same_with_probes 'libsqlite3:*' -- sqlite3 "$work/db"
  same_with_probes '*' -- sqlite3 :memory:
}

@test "the C compiler itself, 45,000 functions, at work on a large file" {
  local cc1 i
  cc1=$(gcc -print-prog-name=cc1)
  for i in $(seq 100); do
    echo "int f$i(int n, double* x, const char* s) {
      int r = 0;
      for (int i = 0; i < n; i++) switch (i * $i % 7) {
        case 0: r += i; break;
        case 1: r ^= n; break;
        case 2: r -= x[i % 8] * $i; break;
        case 4: r += s[i] * r; break;
        default: x[i & 7] = x[(i + 1) & 7] * r + $i;
      }
      return r; }"
  done >"$work/input"
  same_with_probes 'cc1:*' -- "$cc1" -quiet -O2 - -o -
  [ "$(wc -l <"$work/probed")" -gt 5000 ]
}

@test "python3, one thread" {
  cat >"$work/input" <<'PYTHON'
import collections, decimal, hashlib, itertools, json, re, zlib
words = re.findall(r'[a-z]+', ' '.join(str(i) + 'ab' * (i % 7) for i in range(5000)))
print(collections.Counter(words).most_common(3))
print(hashlib.sha256(json.dumps(list(range(20000))).encode()).hexdigest())
print(sum(itertools.accumulate(x * x % 97 for x in range(50000))))
print(decimal.Decimal(2).sqrt(decimal.Context(200)))
print(len(zlib.compress(bytes(range(256)) * 1000)))
try:
    {}['missing']
except KeyError as error:
    print('caught', error)
class A:
    def __del__(self): print('gone')
a = A(); del a
print(sorted((hash(str(i)) % 1) for i in range(3)))
raise SystemExit(3)
PYTHON
  same_with_probes 'python3*:*' -- python3 -
}

@test "python3, many threads" {
  cat >"$work/input" <<'PYTHON'
import hashlib, queue, threading
q, results = queue.Queue(), {}
def work(n):
    h = hashlib.md5()
    for i in range(300):
        h.update(str(i * n).encode())
        q.put(n)
    results[n] = h.hexdigest()
for round in range(5):
    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for t in threads: t.start()
    for t in threads: t.join()
print(q.qsize(), [results[n] for n in sorted(results)])
PYTHON
  same_with_probes 'python3*:*' -- python3 -
  same_with_probes 'libc:*' -- python3 -
}

@test "gzip there and back" {
  seq 1 200000 >"$work/input"
  same_with_probes '*' -- gzip -9c
  gzip -9c <"$work/input" >"$work/compressed"
  mv "$work/compressed" "$work/input"
  same_with_probes '*' -- gzip -dc
}

# The same program built in every way.
every_build() {
  printf 'tick 30000\nrecurse 40\nnap 2\ntick 1000\n' >"$work/input"
  same_with_probes "$2" -- "$TARGETS/$1" 4
}

@test "functions of three and of four bytes between others, each call counted and timed once" {
  local verb
  "$TARGETS/cramped" 4 50000 >"$work/bare"
  for verb in count latency; do
    "$PINPRICK" $verb --json -o "$work/records" cramped:before cramped:three cramped:four \
      cramped:behind -- "$TARGETS/cramped" 4 50000 >"$work/probed"
    cmp "$work/bare" "$work/probed"
    [ "$(field '{x.get("hits", x.get("count", 0) + x.get("missed", 0))
      for x in r if x["type"] == "'$verb'" and x["final"]}')" = "{200000}" ]
  done
  "$PINPRICK" list --file "$TARGETS/cramped" cramped:three cramped:four --json >"$work/records"
  [ "$(field '[x["tactic"] for x in r]')" = "['evict', 'evict']" ]
}

@test "jumps that end in others' bytes, each hit counted and each call timed once" {
  local sites=(punned:one punned:looped+0xb punned:locked+0x5 punned:prefixed punned:edge)
  "$PINPRICK" list --file "$TARGETS/punned" "${sites[@]}" --json >"$work/records"
  [ "$(field '{x["tactic"] for x in r}')" = "{'pun'}" ]
  "$TARGETS/punned" 4 50000 >"$work/bare"
  "$PINPRICK" count --json -o "$work/records" "${sites[@]}" -- "$TARGETS/punned" 4 50000 >"$work/probed"
  cmp "$work/bare" "$work/probed"
  # By the argument modulo 8, the loop goes 0 to 7 times; the lock is for every other one.
  [ "$(field 'sorted((x["function"], x["hits"]) for x in r if x["type"] == "count" and x["final"])')" = \
    "[('edge', 200000), ('locked+0x5', 100000), ('looped+0xb', 700000), ('one', 200000), ('prefixed', 200000)]" ]
  "$PINPRICK" latency --json -o "$work/records" punned:one punned:prefixed punned:edge -- \
    "$TARGETS/punned" 4 50000 >"$work/probed"
  cmp "$work/bare" "$work/probed"
  [ "$(field '{x["count"] + x["missed"] for x in r if x["type"] == "latency" and x["final"]}')" = \
    "{200000}" ]
}

@test "jumps that end in another jump, each hit counted and each call timed once" {
  # One after the other in memory, and the second probed itself or not.
  local next sites=(punned_nopie:one punned_nopie:looped+0xb punned_nopie:prefixed)
  "$PINPRICK" list --file "$TARGETS/punned_nopie" "${sites[@]}" --json >"$work/records"
  [ "$(field '{x["tactic"] for x in r}')" = "{'evict'}" ]
  "$TARGETS/punned_nopie" 4 50000 >"$work/bare"
  for next in "" punned_nopie:behind_one; do
    "$PINPRICK" count --json -o "$work/records" "${sites[@]}" $next -- "$TARGETS/punned_nopie" 4 50000 \
      >"$work/probed"
    cmp "$work/bare" "$work/probed"
    [ "$(field 'sorted((x["function"], x["hits"]) for x in r if x["type"] == "count" and x["final"]
      and x["function"] != "behind_one")')" = \
      "[('looped+0xb', 700000), ('one', 200000), ('prefixed', 200000)]" ]
    "$PINPRICK" latency --json -o "$work/records" punned_nopie:one punned_nopie:prefixed $next -- \
      "$TARGETS/punned_nopie" 4 50000 >"$work/probed"
    cmp "$work/bare" "$work/probed"
    [ "$(field '{x["count"] + x["missed"] for x in r if x["type"] == "latency" and x["final"]}')" = \
      "{200000}" ]
  done
}

@test "no jump is made room for by data after a return, nor by what an indirect jump may look for" {
  local sites=(punned_nopie:tabled+0x14 punned_nopie:marked+0x9)
  "$PINPRICK" list --file "$TARGETS/punned_nopie" "${sites[@]}" --json >"$work/records"
  [ "$(field '[(x["function"], x.get("tactic")) for x in r]')" = "[('tabled+0x14', None), ('marked+0x9', None)]" ]
  "$TARGETS/punned_nopie" 4 20000 >"$work/bare"
  "$PINPRICK" count punned_nopie:one "${sites[@]}" -- "$TARGETS/punned_nopie" 4 20000 >"$work/probed"
  cmp "$work/bare" "$work/probed"
}

@test "jumps after a prefix that lies in the page before" {
  "$TARGETS/punned_nopie" 4 50000 >"$work/bare"
  "$PINPRICK" count --json -o "$work/records" punned_nopie:wide_edge -- "$TARGETS/punned_nopie" 4 50000 \
    >"$work/probed"
  cmp "$work/bare" "$work/probed"
  [ "$(field '[x["hits"] for x in r if x["type"] == "count" and x["final"]]')" = "[200000]" ]
}

@test "every instruction around jumps that end in others' bytes" {
  local program
  for program in punned punned_nopie; do
    "$TARGETS/$program" 4 20000 >"$work/bare"
    "$PINPRICK" count --instructions --json -o "$work/records" "$program:*" -x "$program:tabled" -- \
      "$TARGETS/$program" 4 20000 >"$work/probed"
    cmp "$work/bare" "$work/probed"
    [ "$(field '[x["hits"] for x in r if x["type"] == "count" and x["final"] and
      x["function"] in ("behind_one", "behind_one+0x2", "behind_one+0x4", "wide_edge", "one")]')" = \
      "[80000, 80000, 80000, 80000, 80000]" ]
  done
}

@test "nearly every entry of CPython" {
  local python=/usr/bin/python3
  [ -x $python ] || skip "needs Debian's python3"
  "$PINPRICK" count --json -o "$work/records" 'python3*:*' -- \
    $python -c 'import sys; print(sum(sys.getsizeof({}) for i in range(10)))' >"$work/out"
  [ "$(cat "$work/out")" = 640 ]
  # Numbers look like addresses, so that a build may seem to jump into its functions.
  [ "$(field '[x["skipped"] <= 3 for x in r if x["type"] == "armed"]')" = '[True]' ]
}

@test "a position-independent program and its libc" { every_build ticker '*'; }
@test "a function without a symbol is found by the name that list gives it" {
  local name line
  name=$("$PINPRICK" list --file "$TARGETS/ticker_stripped" --json |
    sed -nE 's/.*"function":"(ticker_stripped\+0x[0-9a-f]+)".*/\1/p' | sed -n 1p)
  [ -n "$name" ]
  for pattern in "$name" "ticker_stripped:$name" "ticker_stripped:${name#*+}"; do
    line=$("$PINPRICK" list --file "$TARGETS/ticker_stripped" --json "$pattern")
    echo "$pattern: $line"
    [ "$(wc -l <<<"$line")" -eq 1 ]
    [[ "$line" == *"\"$name\""* ]]
  done
}

@test "a stripped program" { every_build ticker_stripped 'ticker_stripped:*'; }
@test "parts of functions that keep their data below the stack pointer, with and without names" {
  local program pattern
  rm -f "$work/input"
  for program in parts parts_stripped parts_nopie parts_nopie_stripped; do
    same_with_probes "$program:*" -- "$TARGETS/$program" 5000
    cp "$work/bare" "$work/$program"
    cmp "$work/parts" "$work/$program"
    "$PINPRICK" count --allow-missing "$program:*" "$program:*.cold*" -o "$work/table" -- \
      "$TARGETS/$program" 5000 >"$work/probed"
    cmp "$work/parts" "$work/probed"
    "$PINPRICK" count --instructions --allow-missing "$program:*" -o "$work/table" -- \
      "$TARGETS/$program" 5000 >"$work/probed"
    cmp "$work/parts" "$work/probed"
  done
}

@test "a program at a fixed address" { every_build ticker_nopie 'ticker_nopie:*'; }
@test "a static program" { every_build ticker_static '*'; }
@test "a static position-independent program" { every_build ticker_static_pie '*'; }
@test "a static program with musl" {
  [ -x "$TARGETS/ticker_musl" ] || skip "musl-gcc is not installed"
  every_build ticker_musl '*'
}
