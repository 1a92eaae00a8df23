# Every instruction probed: real programs do what they do without, and every count is right.
load helpers

# same_with_instructions PATTERN... -- COMMAND...: stdin is $work/input.
same_with_instructions() {
  local patterns=()
  while [ "$1" != -- ]; do patterns+=("$1"); shift; done
  shift
  [ -e "$work/input" ] || : >"$work/input"
  "$@" <"$work/input" >"$work/bare" 2>"$work/bare_errors" && bare_status=0 || bare_status=$?
  "$PINPRICK" count --instructions --allow-missing --json -o "$work/records" "${patterns[@]}" -- \
    "$@" <"$work/input" >"$work/probed" 2>"$work/probed_errors" && status=0 || status=$?
  [ $status -eq $bare_status ] || { echo "status $status, not $bare_status"; cat "$work/probed_errors"; return 1; }
  cmp "$work/bare" "$work/probed"
  cmp "$work/bare_errors" "$work/probed_errors"
  # Something has been seen, or the comparison says nothing.
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -gt 1000 ]
  field '[str(x["armed"]) + " armed, " + str(x["skipped"]) + " skipped" for x in r if x["type"] == "armed"][0]'
}

# nearly_all: of the last run's instructions at most one in a hundred could not be probed.
nearly_all() {
  [ "$(field '[x["armed"] > 99 * x["skipped"] for x in r if x["type"] == "armed"][0]')" = True ]
}

@test "gzip there and back, every instruction" {
  seq 1 20000 >"$work/input"
  same_with_instructions 'gzip:*' -- gzip -6c
  nearly_all
  gzip -6c <"$work/input" >"$work/compressed"
  mv "$work/compressed" "$work/input"
  same_with_instructions 'gzip:*' -- gzip -dc
}

@test "xz there and back, every instruction of liblzma" {
  seq 1 20000 >"$work/input"
  same_with_instructions 'liblzma:*' -- xz -1 -T1 -c
  xz -1 -c <"$work/input" >"$work/compressed"
  mv "$work/compressed" "$work/input"
  same_with_instructions 'liblzma:*' -- xz -dc
}

@test "zstd there and back on several threads, every instruction" {
  seq 1 60000 >"$work/input"
  same_with_instructions 'zstd:*' -- zstd -5 -T3 -qc
  nearly_all
  zstd -5 -qc <"$work/input" >"$work/compressed"
  mv "$work/compressed" "$work/input"
  same_with_instructions 'zstd:*' -- zstd -dqc
}

@test "sqlite3 at work, every instruction of the library's engine" {
  cat >"$work/input" <<'SQL'
create table t(id integer primary key, a int, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
insert into t select i, i * 7919 % 10007, 'row ' || (i * 31 % 97) from n;
create index t_b on t(b, a);
select b, count(*), avg(a) from t group by b order by 2 desc, 1 limit 5;
update t set a = a + 1 where id % 3 = 0;
delete from t where a between 100 and 200;
select count(*), total(a) from t join (select distinct b as bb from t where a > 9000) on b = bb;
begin; insert into t select id + 100000, a, b from t; rollback;
pragma integrity_check;
select * from missing;
SQL
  same_with_instructions 'libsqlite3:*' -- sqlite3 :memory:
}

# With SSSE3 and nothing newer glibc copies by a jump into the middle of the routine, among blocks of
# one size for each alignment.
@test "copies of every alignment, every instruction of each of glibc's routines" {
  local old=-AVX512F,-AVX512VL,-AVX2,-AVX_Fast_Unaligned_Load
  for without in '' -AVX512F,-AVX512VL $old $old,-ERMS,-SSSE3; do
    export GLIBC_TUNABLES=glibc.cpu.hwcaps=$without
    same_with_instructions 'libc:memcpy' 'libc:memmove' -- "$TARGETS/copies"
  done
}

@test "sort, sed and awk, every instruction" {
  seq 1 20000 | sed 's/\(.\)\(.*\)/\2\1 x/' >"$work/input"
  same_with_instructions 'sort:*' -- sort -k1,1n -u --parallel=4
  nearly_all
  same_with_instructions 'sed:*' -- sed -nE 's/([0-9]+)(1|2) x/\2<\1>/p; /77/{h;G;p}; $d'
  nearly_all
  same_with_instructions '*awk:*' -- awk '{ n[$1 % 17] += $1; s = s substr($1, 1, 1) }
    END { for (i = 0; i < 17; i++) printf "%d %.3f\n", n[i], sqrt(n[i]); print length(s); exit 3 }'
}

@test "python3 with threads, every instruction of a part of it" {
  local python=/usr/bin/python3
  [ -x $python ] || skip "needs Debian's python3"
  cat >"$work/input" <<'PYTHON'
import hashlib, threading
results = {}
def work(n):
    numbers = {str(i): [i * n, (i, n)] for i in range(400)}
    text = ''.join(sorted(numbers)) + repr(sorted(numbers.values())[:50])
    results[n] = hashlib.md5(text.encode()).hexdigest()
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print([results[n] for n in sorted(results)])
raise SystemExit(7)
PYTHON
  same_with_instructions 'python3*:dict*' 'python3*:PyDict*' 'python3*:list*' 'python3*:unicode*' \
    'python3*:PyUnicode*' 'python3*:long*' 'python3*:_PyEval*' 'python3*:tuple*' -- $python -
}

# --- Counts

# range_of_mill: where its code lies
range_of_mill() {
  nm -S "$TARGETS/mill" | awk '$4 == "mill" { print $1, $2 }'
}

# counts_by_offset: "offset hits" of every instruction of mill that was executed
counts_by_offset() {
  field '"\n".join("%#x %d" % (int((x["function"] + "+0x0").split("+")[1], 16), x["hits"])
    for x in r if x["type"] == "count" and x["final"] and x["hits"] and x["function"].split("+")[0] == "mill")' |
    sort
}

# counted_by_stepping COMMANDS: the same from running the program instruction by instruction
counted_by_stepping() {
  local begin size
  read -r begin size < <(range_of_mill)
  "$TARGETS/stepped" "$begin" "$(printf %x $((0x$begin + 0x$size)))" "$TARGETS/mill" 1 <<<"$1" \
    9>"$work/steps" >/dev/null
  sort "$work/steps"
}

@test "with -- COMMAND every instruction is counted as often as single-stepping sees it" {
  counted_by_stepping "mill 160" >"$work/expected"
  [ "$(wc -l <"$work/expected")" -ge 40 ]
  "$PINPRICK" count --instructions --json -o "$work/records" mill:mill -- "$TARGETS/mill" 1 \
    <<<"mill 160" >"$work/out"
  [ "$(cat "$work/out")" = milled ]
  diff "$work/expected" <(counts_by_offset)
}

start_mill() {
  start_fed mill "$1"
  mill=$fed
  tell ready ready
}

end_mill() {
  exec 7>&-
  wait "$mill"
}

@test "in a running process every instruction is counted as often as single-stepping sees it" {
  # Without the calls that the program makes before it reads its input.
  counted_by_stepping "ready" >"$work/before"
  # Each of its 200 seeds once, and below twice as often.
  counted_by_stepping "mill 200" >"$work/after"
  join "$work/before" "$work/after" | awk '{ print $1, 250 * 2 * ($3 - $2) }' | sort >"$work/expected"
  [ "$(wc -l <"$work/expected")" -ge 40 ]
  start_mill 4
  # Armed with all threads at work, so that some are stopped under the jumps; counted from a rest on.
  tell spin spinning
  watch count -p $mill --instructions mill:mill
  tell rest rested
  end_watch
  watch count -p $mill --instructions mill:mill
  for _ in $(seq 250); do echo "mill 400"; done >&7
  tell ready ready
  end_watch
  [ "$(grep -c '^milled$' "$work/out")" -eq 250 ]
  diff "$work/expected" <(counts_by_offset)
  no_trace $mill
  end_mill
}

@test "twenty times every instruction of a program at full speed on four threads" {
  local hits
  start_mill 4
  tell spin spinning
  for _ in $(seq 20); do
    watch count -p $mill --instructions mill:mill mill:half -d 0.02
    wait $watcher
    cat "$work/records" >>"$work/all"
  done
  # No branch leads in between the first instructions, which share a window. So they are executed
  # equally often, except by threads that are there when it begins or ends.
  mv "$work/all" "$work/records"
  hits=$(field '[x["hits"] for x in r if x["type"] == "count" and x["final"]
    and x["function"] in ("mill", "mill+0x1", "mill+0x4", "mill+0x6")]')
  echo "$hits"
  [ "$(evaluate "h = $hits
print(len(h) == 80 and sum(h) > 1000 and all(max(h[i:i + 4]) - min(h[i:i + 4]) <= 8 for i in range(0, 80, 4)))")" = True ]
  tell rest rested
  no_trace $mill
  tell "mill 4000" milled
  end_mill
}

@test "redis under load, every instruction of its commands and back, again and again" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  local redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  redis-benchmark -s "$work/socket" -q -n 100000000 -P 8 -t set,get,lpush >/dev/null 3>&- &
  local load=$!
  ends_with_test $load
  for _ in 1 2 3; do
    watch count -p $redis --instructions --allow-missing -d 0.1 'redis-server:dict*' \
      'redis-server:sds*' 'redis-server:call' 'redis-server:processCommand' 'redis-server:*Command'
    wait $watcher
    [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -gt 1000 ]
  done
  kill $load && wait $load || true
  no_trace $redis
  redis-cli -s "$work/socket" set key value
  [ "$(redis-cli -s "$work/socket" get key)" = value ]
}

@test "threads that wait in a system call are cancelled, with glibc and with musl" {
  local program
  for program in cancelled_read cancelled_read_musl; do
    [ -x "$TARGETS/$program" ] || skip "musl-gcc is not installed"
    [ "$(timeout 60 "$PINPRICK" count --instructions --allow-missing -o /dev/null "$program:*" \
      'libc:read' 'libc:pthread_*' -- "$TARGETS/$program" 10 2>"$work/errors")" = 'cancelled 10' ]
  done
}
