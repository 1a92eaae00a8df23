# Hits that follow pointers and read texts, in programs that know what lies there. Most in
# tests/targets/reads.c.
load helpers

# texts EXPRESSION: Python's, a list of texts, which become the file $work/texts for the program to read.
texts() {
  evaluate - "$work/texts" "$1" <<'PYTHON'
import random, sys
random.seed(4)
some = [text if isinstance(text, bytes) else text.encode() for text in eval(sys.argv[2])]
open(sys.argv[1], 'wb').write(b''.join(text + b'\0' for text in some))
PYTHON
}

# expected [BYTES [TIMES]]: rows of $work/texts, of which BYTES are taken, each met TIMES times.
expected() {
  evaluate - "$work/texts" "${1:-64}" "${2:-1}" <<'PYTHON'
import collections, json, sys
most, times = map(int, sys.argv[2:])
rows = collections.Counter()
for text in open(sys.argv[1], 'rb').read().split(b'\0')[:-1]:
    shown = text if len(text) <= most else text[:most] + b'...'
    rows[shown.decode(errors='replace')] += times
print(json.dumps(sorted(map(list, rows.items()))))
PYTHON
}

# known JSON [BYTES]: rows of what the program says: texts, and how often each was.
known() {
  evaluate - "$1" "${2:-64}" <<'PYTHON'
import json, sys
most = int(sys.argv[2])
rows = [[text if text is None or len(text) <= most else text[:most] + '...', times]
        for text, times in json.loads(sys.argv[1])]
print(json.dumps(sorted(rows, key=lambda row: (row[0] is None, row[0]))))
PYTHON
}

# rows FUNCTION [CONDITION]: keys and hits, calls or values of the last report. The key of what could not
# be read is null, of (other) false.
rows() {
  evaluate - "$work/records" "$1" "${2:-}" <<'PYTHON'
import json, sys
rows = []
for line in open(sys.argv[1]):
    x = json.loads(line)
    if not x.get('final') or x['function'] != sys.argv[2] or x.get('if', '') != sys.argv[3]: continue
    times = x.get('hits', x.get('count'))
    if x['key'] is None and not times: continue
    rows.append([False if 'other' in x else x['key'], times])
print(json.dumps(sorted(rows, key=lambda row: (row[0] is None, row[0] is False, row[0]))))
PYTHON
}

# figure FIELD FUNCTION CONDITION: of the last report, where there are no keys; 0 without a hit.
figure() {
  field "([x.get('$1', 0) for x in r if x.get('final') and x.get('function') == '$2'
            and x.get('if', '') == '$3'] or [0])[0]"
}

# program VERB ARGUMENTS... -- COMMAND...: of the target `reads`, or $PROGRAM, whose words are in $work/tally.
program() {
  local arguments=()
  while [ "$1" != -- ]; do arguments+=("$1"); shift; done
  "$PINPRICK" "${arguments[@]}" --json -o "$work/records" -- "$TARGETS/${PROGRAM:-reads}" "${@:2}" \
    >"$work/tally"
}

# table KEY: the rows of the table $work/table in which hits are counted by this key, as JSON.
table() {
  evaluate - "$work/table" "$1" <<'PYTHON'
import json, sys
lines = open(sys.argv[1]).read().splitlines()
head = next(line for line in lines if 'hits per second' in line)
key, function = head.index(sys.argv[2]), head.index('  function') + 2
rows = [[line[key:function - 2].rstrip().replace('""', ''), int(line[:15].replace(',', ''))]
        for line in lines[lines.index(head) + 1:] if line[:15].strip()[:1].isdigit()]
print(json.dumps(sorted(rows)))
PYTHON
}

@test "calls are counted exactly by the text that an argument leads to" {
  texts "random.choices(['alpha', 'beta', '', 'x' * 63, 'x' * 64, 'x' * 65, 'x' * 200, 'café', 'a b'], k=3000)"
  local bytes
  for bytes in 64 63 4 1; do
    program count --by "\$arg1:string[$bytes]" reads:take -- texts "$work/texts"
    [ "$(rows take)" = "$(expected $bytes)" ]
  done
  program count --by '$arg1:string' reads:take -- texts "$work/texts"
  [ "$(rows take)" = "$(expected)" ]
  "$PINPRICK" count --by '$arg1:string' -o "$work/table" reads:take -- "$TARGETS/reads" texts "$work/texts"
  [ "$(table '$arg1:string')" = "$(expected)" ]
}

@test "a static program's texts are read, although it has no prctl() that could be hooked" {
  ! nm "$TARGETS/reads_static" | grep -qE ' [TtWw] prctl$' || skip "this C library has prctl() in each program"
  texts "random.choices(['alpha', 'beta', ''], k=300)"
  "$PINPRICK" count --json -o "$work/records" --by '$arg1:string' take -- "$TARGETS/reads_static" texts "$work/texts"
  [ "$(rows take)" = "$(expected)" ]
}

@test "texts are read up to the last byte that is there, and others are counted as unread" {
  program count --by '$arg1:string' reads:take -- edges
  [ "$(rows take)" = "$(known "$(cat "$work/tally")")" ]
  "$PINPRICK" count --by '$arg1:string' -o "$work/table" reads:take -- "$TARGETS/reads" edges
  [ "$(table '$arg1:string')" = "$(known "$(cat "$work/tally")" | python3 -c '
import json, sys
print(json.dumps(sorted(["?" if text is None else text, times] for text, times in json.load(sys.stdin))))')" ]
  # It has no end within the page, and is longer than 10 bytes.
  program count --by '$arg1:string[10]' reads:take -- edges
  [ "$(field "[x['hits'] for x in r if x.get('key') == 'eeeeeeeeee...']")" = "[10]" ]
  # That no more than the first byte is there makes no difference to those that differ there.
  program count 'reads:take if $arg1:string=="to edge"' 'reads:take if $arg1:string!="to edge"' \
    'reads:take if $arg1:string=~"to*"' -- edges
  [ "$(figure hits take '$arg1:string=="to edge"')" = 6 ]
  [ "$(figure hits take '$arg1:string=~"to*"')" = 6 ]
}

@test "no byte of a text breaks a line of the table or of the records" {
  texts "[bytes([b]) + b'x' for b in range(1, 256)] + ['\x1b[31mred', b'\xff\xfe', 'a\x85b', 'tab\there', '\"\\\\']"
  program count --by '$arg1:string' reads:take -- texts "$work/texts"
  [ "$(evaluate '
import json, sys
print(json.dumps(sorted(x["key"] for x in map(json.loads, open(sys.argv[1])) if x["type"] == "count")))' "$work/records")" = \
    "$(evaluate '
import json, sys
print(json.dumps(sorted(t.decode(errors="replace") for t in open(sys.argv[1], "rb").read().split(b"\0")[:-1])))' "$work/texts")" ]
  "$PINPRICK" count --by '$arg1:string' -o "$work/table" reads:take -- "$TARGETS/reads" texts "$work/texts"
  evaluate - "$work/table" <<'PYTHON'
import sys, unicodedata
text = open(sys.argv[1], encoding='utf-8').read()
assert all(c == '\n' or unicodedata.category(c) not in ('Cc', 'Cf') for c in text)
assert sum(line.endswith('  take') for line in text.splitlines()) == 260
PYTHON
}

@test "a text is compared with another one, exactly" {
  texts "random.choices(['/etc/passwd', '/etc/passwd2', '/etc/passw', '', 'a\"b\\\\c', 'tab\t', 'new\nline',
                         'x' * 254, 'x' * 255, 'x' * 256, 'x' * 300], k=4000)"
  local long of=() i
  long=$(printf 'x%.0s' {1..255})
  local literals=('/etc/passwd' '' 'a\"b\\c' 'tab\t' 'new\nline' "${long:1}" "$long" 'not there')
  for i in "${literals[@]}"; do of+=("reads:take if \$arg1:string==\"$i\"" "reads:take if \$arg1:string!=\"$i\""); done
  program count "${of[@]}" -- texts "$work/texts"
  for i in "${literals[@]}"; do
    local met
    met=$(evaluate '
import sys
print(open(sys.argv[1], "rb").read().split(b"\0")[:-1].count(eval("b\"" + sys.argv[2] + "\"")))' "$work/texts" "$i")
    evaluate - "$work/records" "$i" "$met" <<'PYTHON'
import json, sys
hits = {x['if']: x['hits'] for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']}
same, other = (hits.get(f'$arg1:string{sign}"{sys.argv[2]}"', 0) for sign in ('==', '!='))
assert (same, same + other) == (int(sys.argv[3]), 4000), (sys.argv[2], same, other)
PYTHON
  done
}

# Patterns and texts of few different bytes, so that many match, and the * has to go back.
@test "texts are compared with patterns as another program does it" {
  cat >"$work/patterns.py" <<'PYTHON'
import json, random
random.seed(12)
def matches(pattern, text):
    ends = {0}  # after a part of the pattern, how much of the text it can be
    at = 0
    while at < len(pattern):
        c, one = pattern[at], pattern[at]
        if c == '\\': at, one = at + 1, pattern[at + 1]
        if c == '*': ends = set(range(min(ends), len(text) + 1)) if ends else ends
        else: ends = {end + 1 for end in ends if end < len(text) and (c == '?' or text[end] == one)}
        at += 1
    return len(text) in ends
some = [''.join(random.choices('aab*?\\', k=random.randrange(9))) for _ in range(300)] + ['a' * 255, 'a' * 200 + 'b']
patterns = ['', '*', '?', '**', '\\*', '\\?', 'a\\*b', '*\\?', '\\a*', '*a*b*a', 'a*' * 20 + 'b', '?' * 255]
patterns += [''.join(random.choices(['a', 'b', '*', '?', '\\*', '\\?', '\\\\'], k=random.randrange(7))) for _ in range(48)]
patterns = list(dict.fromkeys(patterns))
open('texts', 'wb').write(b''.join(t.encode() + b'\0' for t in some))
json.dump({p: sum(matches(p, t) for t in some) for p in patterns}, open('tally', 'w'))
open('points', 'w').write(''.join(f'reads:take if $arg1:string =~ "{p}"\n' for p in patterns))
PYTHON
  (cd "$work" && python3 patterns.py)
  local points
  mapfile -t points <"$work/points"
  [ ${#points[@]} -ge 40 ]
  "$PINPRICK" count --json -o "$work/records" "${points[@]}" -- \
    "$TARGETS/reads" texts "$work/texts" >"$work/out"
  evaluate - "$work/records" "$work/tally" <<'PYTHON'
import json, sys
hits = {x['if']: x['hits'] for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']}
tally = json.load(open(sys.argv[2]))
wrong = {p: (hits.get(f'$arg1:string =~ "{p}"', 0), n) for p, n in tally.items()
         if hits.get(f'$arg1:string =~ "{p}"', 0) != n}
assert not wrong and sum(tally.values()) > 1000, (wrong, sum(tally.values()))
PYTHON
}

@test "of a long text, its first 256 bytes are matched" {
  texts "['a' * 255 + 'b' + 'c' * 50] * 7 + ['a' * 256 + 'b'] * 5 + ['a' * 255 + 'b'] * 3"
  program count 'reads:take if $arg1:string=~"*b"' 'reads:take if $arg1:string=~"*a"' \
    'reads:take if $arg1:string=~"*c*"' -- texts "$work/texts"
  [ "$(figure hits take '$arg1:string=~"*b"')" = 10 ]
  [ "$(figure hits take '$arg1:string=~"*a"')" = 5 ]
  [ "$(figure hits take '$arg1:string=~"*c*"')" = 0 ]
}

# sums EXPRESSION: of the records of the program `reads numbers`, each `x` a list of the four numbers and
# how often it was.
sums() { evaluate 'import json, sys; r = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$work/tally" "$1"; }

@test "numbers that a pointer leads to are recorded with their size and sign" {
  local type at which
  while read -r type at which; do
    program measure --bits 5 "hist reads:look *($type*)(\$arg1+$at)" "count reads:look" -- numbers
    [ "$(field "[[x['count'], int(x['sum']), x['negative']] for x in r if x.get('final') and x['type'] == 'hist']")" = \
      "$(sums "[[sum(x[4] for x in r if x[$which] is not None),
                 sum(x[4] * x[$which] for x in r if (x[$which] or -1) >= 0),
                 sum(x[4] for x in r if (x[$which] or 0) < 0)]]")" ]
  done <<'END'
int 0 0
s32 0 0
u8 0 1
s64 8 2
END
  # What could not be read is said.
  "$PINPRICK" hist 'reads:look *(int*)$arg1' -o "$work/table" -- "$TARGETS/reads" numbers
  grep -q "^unread $(sums 'sum(x[4] for x in r if x[0] is None)'): what a pointer leads to could not be read$" "$work/table"
}

# The last line of the table says so, but the records do not.
@test "the records of values say how many could not be read" {
  program hist 'reads:look *(int*)$arg1' -- numbers
  [ "$(field "[x.get('unread') for x in r if x['type'] == 'hist']")" = "$(sums '[sum(x[4] for x in r if x[0] is None)]')" ]
}

@test "numbers that a pointer leads to are keys and sums" {
  local type at which
  while read -r type at which; do
    program count --by "*($type*)(\$arg1+$at)" reads:look -- numbers
    [ "$(field "sorted([x['key'], x['hits']] for x in r if x['type'] == 'count')")" = \
      "$(sums "sorted([k, sum(x[4] for x in r if x[$which] == k)] for k in {x[$which] for x in r} - {None})")" ]
    [ "$(field "sum(x.get('unread', 0) for x in r if x['type'] == 'count')")" = \
      "$(sums "sum(x[4] for x in r if x[$which] is None)")" ]
  done <<'END'
int 0 0
u8 0 1
s64 8 2
END
  program count --by '*(u8*)$arg1&1' --sum '*(int*)$arg1' reads:look -- numbers
  [ "$(field "sorted([x['key'], x['hits'], x['sum']] for x in r if x['type'] == 'count')")" = \
    "$(sums "sorted([k, sum(x[4] for x in r if x[0] is not None and x[1] & 1 == k),
                     sum(x[4] * x[0] for x in r if x[0] is not None and x[1] & 1 == k)] for k in (0, 1))")" ]
}

@test "a pointer that a pointer leads to is followed, to a number and to a text" {
  program count --by '(*(char**)($arg1+16)):string' reads:look -- numbers
  # The one that could be read leads nowhere for some.
  [ "$(field "sorted([x['key'] or '', x['hits']] for x in r if x['type'] == 'count')")" = \
    "$(sums "sorted([k or '', sum(x[4] for x in r if x[3] == k and x[2] is not None)] for k in {x[3] for x in r})")" ]
  program count --by '*(u8*)*(void**)($arg1+16)' reads:look -- numbers
  [ "$(field "sorted([x['key'], x['hits']] for x in r if x['type'] == 'count' and x['key'] is not None)")" = \
    "$(sums "sorted([ord(c), sum(x[4] for x in r if x[3] and x[3][0] == c)] for c in 'ot')")" ]
}

# The row of texts that could not be read has `unreadable`. `unread` is how many hits of the function did
# nothing, for want of a number.
@test "a text that could not be read is told from a number that could not" {
  program count --by '(*(char**)($arg1+16)):string' reads:look -- numbers
  [ "$(field "[[x['unreadable'], x['hits']] for x in r if x['type'] == 'count' and x['key'] is None]")" = \
    "$(sums '[[True, sum(x[4] for x in r if x[2] == 6)]]')" ]
  [ "$(field "sum(x.get('unread', 0) for x in r if x['type'] == 'count')")" = "$(sums 'sum(x[4] for x in r if x[2] is None)')" ]
  program latency --by '$arg1:string' reads:take -- edges
  [ "$(field "[x['unreadable'] for x in r if x['type'] == 'latency' and x['key'] is None]")" = "[True]" ]
  [ "$(field "sum(x['unread'] for x in r if x['type'] == 'latency')")" = 0 ]
}

@test "conditions follow pointers, and what cannot be read counts as unread alone" {
  local conditions=('*(int*)$arg1<0' '*(int*)$arg1>=0' '*(int*)$arg1 in {5,1000..9000}' '*(u8*)$arg1==129'
    '*(s64*)($arg1+8)==-5G' '*(s64*)($arg1+8)<0 && *(int*)$arg1>10000' '(*(char**)($arg1+16)):string=~"t*"'
    '!(*(int*)$arg1<0)' '(u8)*(int*)$arg1!=*(u8*)$arg1')
  local answers=('x[0] is not None and x[0] < 0' 'x[0] is not None and x[0] >= 0'
    'x[0] is not None and (x[0] == 5 or 1000 <= x[0] <= 9000)' 'x[1] == 129' 'x[2] == -5000000000'
    'x[2] is not None and x[2] < 0 and x[0] > 10000' '(x[3] or "").startswith("t")'
    'x[0] is not None and x[0] >= 0' 'False')
  local i
  program count "${conditions[@]/#/reads:look if }" -- numbers
  for i in "${!conditions[@]}"; do
    echo "${conditions[i]}"
    [ "$(figure hits look "${conditions[i]}")" = "$(sums "sum(x[4] for x in r if ${answers[i]})")" ]
  done
  [ "$(figure unread look '*(int*)$arg1>=0')" = "$(sums 'sum(x[4] for x in r if x[0] is None)')" ]
  [ "$(figure unread look '*(u8*)$arg1==129')" = "$(sums 'sum(x[4] for x in r if x[1] is None)')" ]
  [ "$(figure unread look '(*(char**)($arg1+16)):string=~"t*"')" = "$(sums 'sum(x[4] for x in r if x[3] is None)')" ]
  # Where the first side decides, the second is not read.
  program count 'reads:look if $arg1:u64>=4Ki && $arg1>0 && *(int*)$arg1<0' \
    'reads:look if $arg1==0 || *(int*)$arg1<0' -- numbers
  [ "$(figure hits look '$arg1==0 || *(int*)$arg1<0')" = "$(sums 'sum(x[4] for x in r if (x[0] or 0) < 0) + 1')" ]
  [ "$(figure unread look '$arg1==0 || *(int*)$arg1<0')" = "$(sums 'sum(x[4] for x in r if x[0] is None) - 1')" ]
}

@test "at the return, what an argument led to at the entry is kept, and what it leads to then is read" {
  texts "[t * 7 for t in 'abcdef'] + [''] * 3 + ['even', 'odd'] * 20"
  # rows_of EXPRESSION: how often each is, of the program's records `x`.
  rows_of() {
    evaluate '
import collections, json, sys
rows = collections.Counter(eval("lambda x: " + sys.argv[2])(x) for x in json.load(open(sys.argv[1])))
print(json.dumps(sorted(map(list, rows.items()), key=lambda row: (row[0] is None, row[0]))))' "$work/tally" "$1"
  }
  program count --by '$arg1:string' reads:fill%return -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[0]')" ]
  program count --by '$arg1@ret:string' reads:fill%return -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[1]')" ]
  program count --by '$arg2:string[2]' reads:fill%return -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[1] if len(x[1]) <= 2 else x[1][:2] + "..."')" ]
  program count --by '$retval:string' reads:fill%return -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[2]')" ]
  program count --by '*(u32*)$arg3' reads:fill%return -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[3]')" ]
  program count --by '*(u32*)$arg3@ret' reads:fill%return -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[4]')" ]
  program latency --by '$arg1:string' reads:fill -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[0]')" ]
  program latency --by '$arg1@ret:string' reads:fill -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[1]')" ]
  program hist --by '$arg1:string' 'reads:fill%return *(u32*)$arg3' -- returns "$work/texts"
  [ "$(rows fill)" = "$(rows_of 'x[0]')" ]
  [ "$(field "sum(x['sum'] for x in r if x.get('final'))")" = \
    "$(evaluate 'import json, sys; print(float(sum(x[3] for x in json.load(open(sys.argv[1])))))' "$work/tally")" ]
}

# What is read at the entry is read between the two times that are taken, so that a call of 10 ns takes 2 us.
@test "the time that a call takes is not that which reading takes" {
  local value plain=0 p50
  texts "['text'] * 2000"
  for value in '$arg1@ret' '$arg1'; do
    program latency --by "*(u8*)$value" reads:take -- texts "$work/texts"
    p50=$(field "[x['p50_ns'] for x in r if x['type'] == 'latency'][0]")
    program latency --by "$value:string" reads:take -- texts "$work/texts"
    p50+=" $(field "[x['p50_ns'] for x in r if x['type'] == 'latency'][0]")"
    echo "$value: $p50"
    if ((plain == 0)); then plain=${p50% *}; continue; fi
    ((${p50% *} <= 10 * plain)) && ((${p50#* } <= 10 * plain))
  done
}

@test "conditions at the return are decided of the entry, or of the return" {
  texts "['even', 'odd', ''] * 20"
  program count 'reads:fill%return if $arg1:string=="before 1"' 'reads:fill%return if $arg1@ret:string=="even"' \
    'reads:fill%return if $arg1:string=="before 1" && $arg1@ret:string=="odd"' \
    'reads:fill%return if *(u32*)$arg3==1001 && $retval==0' 'reads:fill%return if *(u32*)$arg3@ret==4' \
    'reads:fill%return if $retval && $retval:string=="ven"' 'reads:fill%return if $retval:string!="ven"' \
    -- returns "$work/texts"
  [ "$(figure hits fill '$arg1:string=="before 1"')" = 20 ]
  [ "$(figure hits fill '$arg1@ret:string=="even"')" = 20 ]
  [ "$(figure hits fill '$arg1:string=="before 1" && $arg1@ret:string=="odd"')" = 20 ]
  [ "$(figure hits fill '*(u32*)$arg3==1001 && $retval==0')" = 20 ]
  [ "$(figure hits fill '*(u32*)$arg3@ret==4')" = 20 ]
  [ "$(figure hits fill '$retval && $retval:string=="ven"')" = 20 ]
  # Of the others, `odd` has no result to be read.
  [ "$(figure hits fill '$retval:string!="ven"')" = 20 ]
  [ "$(figure unread fill '$retval:string!="ven"')" = 20 ]
}

@test "a call keeps eight values for its return, and no more" {
  local eight='$retval:u8+$arg1+$arg2+$arg3+*(u32*)$arg3+*(u8*)$arg1+*(u8*)$arg2+*(u16*)$arg1+*(u8*)($arg1+7)'
  texts "['ab'] * 6"
  program hist "reads:fill%return ($eight)-(\$retval:u8+\$arg1+\$arg2+\$arg3)" -- returns "$work/texts"
  # before N: the length, 'b', the text's 'a', 'be', and N
  [ "$(field "[x['sum'] for x in r if x.get('final')]")" = \
    "$(evaluate 'print([float(sum(1000 + n + 98 + 97 + 98 + 256 * 101 + 48 + n for n in (0, 1, 2, 0, 1, 2)))])')" ]
  run "$PINPRICK" count "reads:fill%return if $eight+*(u8*)(\$arg1+6)" -- "$TARGETS/reads" returns "$work/texts"
  [ "$status" -eq 2 ]
  [[ "$output" == *"a call keeps 8 values for its return, and this needs more"* ]]
}

# all_met: the rows are all calls that the program has made, and the text of the last is none of them.
all_met() {
  evaluate - "$work/records" "$work/tally" <<'PYTHON'
import json, sys
rows = {x['key']: x.get('hits', x.get('count')) for x in map(json.loads, open(sys.argv[1])) if x.get('final')}
made = json.load(open(sys.argv[2]))
assert set(rows) == {'before', 'in a thread', None}, rows
assert rows['before'] == made['before'], (rows, made)
assert rows['in a thread'] + rows[None] == made['threads'] + made['after'], (rows, made)
# Each thread has called 3000 times before, and 1000 times after.
assert rows['in a thread'] >= 9000 and rows[None] >= 3000 + made['after'], (rows, made)
PYTHON
}

@test "no thread reads any more when the program installs a filter of system calls, and it lives" {
  local how verb
  for how in prctl syscall number; do
    for verb in count latency; do
      local status=0
      PROGRAM=filters program $verb --by '$arg1:string' filters:named -- later $how || status=$?
      echo "$how $verb: $status"
      [ $status -eq 7 ]
      all_met
    done
  done
}

@test "a child that installs a filter lives, and its parent's texts are read as before" {
  PROGRAM=filters program count --by '$arg1:string' filters:named -- child kill || local status=$?
  [ "$status" -eq 7 ]
  [ "$(rows named)" = '[["parent", 100], [null, 100]]' ]
}

@test "a program that handles its system calls itself gets none for those of hits" {
  PROGRAM=filters program count --by '$arg1:string' filters:named -- dispatch || local status=$?
  [ "$status" -ne 77 ] || skip "the kernel has no PR_SET_SYSCALL_USER_DISPATCH"
  [ "$status" -eq 7 ]
  [ "$(rows named)" = '[["before", 100], [null, 100]]' ]
}

# Here the number of the system call is loaded as assemblers write it, 48 c7 c0, and in the library, which
# is not there yet when probes are put in, as compilers do, b8.
@test "a program that installs a filter by an instruction of its own lives" {
  PROGRAM=filters_own program count --by '$arg1:string' filters_own:named -- later prctl || local status=$?
  [ "$status" -eq 7 ]
  adds_up
}

@test "a program that installs a filter by an instruction of a library that it loads later lives" {
  PROGRAM=filters program count --by '$arg1:string' filters:named -- later "$TARGETS/filter_plugin.so" ||
    local status=$?
  [ "$status" -eq 7 ]
  adds_up
}

# adds_up: the rows are all calls that the program has made.
adds_up() {
  [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count' and x['final'])")" = \
    "$(evaluate 'import json, sys; print(sum(json.load(open(sys.argv[1])).values()))' "$work/tally")" ]
}

@test "under a filter that kills for it, nothing is read, which is said" {
  start_fed filters first kill
  tell "" "done"
  watch count -p $fed --by '$arg1:string' filters:named 'filters:named if *(u8*)$arg1==102'
  tell "" "done"
  end_watch
  grep -q "nothing that pointers lead to can be read, and all counts as unread: it has a seccomp filter" \
    "$work/records" "$work/errors"
  [ "$(rows named)" = "[[null, 100]]" ]
  [ "$(field "sum(x.get('unread', 0) for x in r if x.get('if'))")" = 100 ]
  no_trace $fed
  end_fed
}

# has_admin: the kernel shows its filters to processes with CAP_SYS_ADMIN.
has_admin() { (($((16#$(sed -n 's/^CapEff:\s*//p' /proc/self/status))) >> 21 & 1)); }

@test "under a filter that allows it, texts are read" {
  has_admin || skip "needs CAP_SYS_ADMIN, to look at filters"
  start_fed filters first allow
  tell "" "done"
  watch count -p $fed --by '$arg1:string' filters:named
  tell "" "done"
  end_watch
  if grep "nothing that pointers lead to" "$work/records" "$work/errors"; then return 1; fi
  [ "$(rows named)" = '[["filtered", 100]]' ]
  no_trace $fed
  end_fed
}

@test "a filter that refuses to read makes texts unread" {
  has_admin || skip "needs CAP_SYS_ADMIN, to look at filters"
  start_fed filters first errno
  tell "" "done"
  watch count -p $fed --by '$arg1:string' filters:named
  tell "" "done"
  end_watch
  [ "$(rows named)" = "[[null, 100]]" ]
  end_fed
}

# execute_filtered HOW: the program lives that is executed under a filter that kills for it.
execute_filtered() {
  local status=0
  PROGRAM=filters program count $1 --allow-missing --by '$arg1:string' named -- execute kill || status=$?
  [ $status -eq 7 ]
}

@test "a program that is executed under a filter that kills for it lives" {
  execute_filtered --follow-exec
  execute_filtered --children=follow
}

# Without a text to read, they are counted.
@test "calls of a program that is executed under a filter that kills for it are counted all the same" {
  local how
  for how in --follow-exec --children=follow; do
    execute_filtered $how
    [ "$(rows named)" = "[[null, 100]]" ]
  done
}

@test "in programs that are executed, texts are read" {
  local how status=0
  for how in --follow-exec --children=follow; do
    "$PINPRICK" count $how --allow-missing --json -o "$work/records" --by '$arg1:string' named -- \
      sh -c "exec '$TARGETS/filters' run" || status=$?
    [ $status -eq 7 ]
    [ "$(rows named)" = '[["executed", 100]]' ]
  done
}

@test "texts of the C library's functions are read in programs that are executed" {
  "$PINPRICK" count --children=follow --json -o "$work/records" --by 'name:string' \
    'libc:getenv if name:string=~"PINPRICK_?*"' -- \
    sh -c 'python3 -c "import ctypes; [ctypes.CDLL(None).getenv(b\"PINPRICK_ONE\") for i in range(7)]"; exit 0'
  [ "$(rows getenv 'name:string=~"PINPRICK_?*"')" = '[["PINPRICK_ONE", 7]]' ]
}

@test "that the kernel has to read everything is said once, with the reason" {
  start_fed generated 10
  answer go >/dev/null
  "$PINPRICK" count -d 0.05 -p $fed --by '*(u8*)$arg1' 'generated:*ed' 2>"$work/said" >/dev/null
  [ "$(grep -c 'each read .* takes a system call: it could unmap memory unnoticed' "$work/said")" = 1 ]
  end_fed
  rm "$work/in"
  start_fed odd_rseq
  [ "$(answer go)" != usual ] || skip "the kernel accepts no unusual rseq area"
  "$PINPRICK" count -d 0.05 -p $fed --by '*(u8*)$arg1' odd_rseq:tick 2>"$work/said" >/dev/null
  grep -q 'each read .* takes a system call: its threads have no restartable sequences' "$work/said"
  "$PINPRICK" count -d 0.05 -p $fed --by '$arg1' odd_rseq:tick 2>"$work/said" >/dev/null
  ! grep -q 'takes a system call' "$work/said"
}

@test "that the kernel has to read since a library was loaded is said once, when it has read much" {
  cat >"$work/get.py" <<'PYTHON'
import ctypes, sys
get = ctypes.CDLL(None).getenv
for line in sys.stdin:
    if line != 'load\n':
        for i in range(int(line)): get(b'HOME')
    else:
        ctypes.CDLL(sys.argv[1])
PYTHON
  mkfifo "$work/in"
  "$PINPRICK" count --by 'name:string' libc:getenv -- python3 "$work/get.py" "$TARGETS/unmapper.so" \
    <"$work/in" 2>"$work/said" 3>&- &
  local pinprick=$!
  ends_with_test $pinprick
  exec 7>"$work/in"
  printf '2000\nload\n2000\n' >&7
  patiently grep -q 'takes a system call: a library that it has loaded since could' "$work/said"
  echo 2000 >&7
  exec 7>&-
  wait $pinprick
  [ "$(grep -c 'takes a system call' "$work/said")" = 1 ]
  grep -Eq '^ *6,[0-9]{3} .*HOME' "$work/said"
}

@test "a process that handles page faults itself is not read, which is said" {
  start_fed reads
  [ "$(answer faults)" = "done" ] || skip "userfaultfd is not to be had here"
  texts "['alpha'] * 5"
  watch count -p $fed --by '$arg1:string' reads:take
  tell "texts $work/texts" "done"
  end_watch
  grep -q "nothing that pointers lead to can be read, and all counts as unread: it handles page faults itself" \
    "$work/records" "$work/errors"
  [ "$(rows take)" = "[[null, 5]]" ]
  no_trace $fed
  end_fed
}

# reading_ends_with_faults [FILE]: when the program has opened a userfaultfd, by that device if it is given.
reading_ends_with_faults() {
  start_fed reads
  texts "['alpha'] * 5"
  watch count -p $fed --by '$arg1:string' reads:take
  tell "texts $work/texts" "done"
  [ "$(answer "faults${1:+ $1}")" = "done" ] || skip "userfaultfd is not to be had here"
  tell "texts $work/texts" "done"
  end_watch
  rows take
  [ "$(rows take)" = '[["alpha", 5], [null, 5]]' ]
  no_trace $fed
  end_fed
}

@test "when a program opens a userfaultfd, reading ends for good" { reading_ends_with_faults; }

# Reading goes on. Where the thread that serves the faults comes to a probe with an address that is not
# there yet, it waits for itself forever.
@test "when a program opens a userfaultfd by its device, reading ends for good" {
  # As /dev/userfaultfd, which is not made everywhere.
  local minor
  minor=$(awk '$2 == "userfaultfd" { print $1 }' /proc/misc)
  [ -n "$minor" ] && mknod "$work/userfaultfd" c 10 "$minor" || skip "the device userfaultfd cannot be made here"
  reading_ends_with_faults "$work/userfaultfd"
}

# As all threads of a Rust program do that are parked. It is no installation of a filter.
@test "texts are read although a thread waits in syscall() while probes are put in" {
  start_fed reads
  tell park "done"
  patiently grep -q '^202 ' /proc/$fed/task/*/syscall  # futex
  texts "['alpha'] * 5"
  watch count -p $fed --by '$arg1:string' reads:take
  tell "texts $work/texts" "done"
  end_watch
  [ "$(rows take)" = '[["alpha", 5]]' ]
  no_trace $fed
  end_fed
}

@test "children that are forked count their texts with their parent's, into rows of their own, or not at all" {
  texts "random.choices(['one', 'two', 'three', '', 'x' * 70], k=200)"
  local children times
  while read -r children times; do
    program count --children=$children --by '$arg1:string' reads:take -- forks "$work/texts"
    echo "$children: $(rows take)"
    [ "$(rows take)" = "$(expected 64 "$times")" ]
    program latency --children=$children --by '$arg1:string' reads:take -- forks "$work/texts"
    [ "$(rows take)" = "$(expected 64 "$times")" ]
  done <<'END'
count 3
follow 3
ignore 1
END
}

@test "a child of vfork reads its texts in the memory of its parent" {
  texts "random.choices(['one', 'two', ''], k=100)"
  program count --by '$arg1:string' reads:take -- vforks "$work/texts"
  [ "$(rows take)" = "$(expected 64 2)" ]
}

@test "texts that signal handlers come to in the midst of others are counted exactly" {
  texts "['one', 'two', 'x' * 70, '']"
  program count --by '$arg1:string' reads:take -- signals "$work/texts"
  local rounds handled
  read -r rounds handled <"$work/tally"
  [ "$handled" -ge 200 ]
  [ "$(rows take)" = "$(evaluate '
import json, sys
rows = json.loads(sys.argv[1]) + [["of a handler", int(sys.argv[2])]]
print(json.dumps(sorted(rows)))' "$(expected 64 "$rounds")" "$handled")" ]
}

@test "texts that find no room are counted in a row of their own, and none gets lost" {
  texts "random.choices(['text %d' % i for i in range(300)], k=5000)"
  local verb
  for verb in count latency; do
    program $verb --keys 64 --by '$arg1:string' reads:take -- texts "$work/texts"
    evaluate - "$(rows take)" "$(expected)" <<'PYTHON'
import json, sys
rows, expected = map(json.loads, sys.argv[1:])
assert sum(n for _, n in rows) == 5000, rows
assert [text for text, n in rows if not text] == [False], rows
assert 64 <= len(rows) <= 129, len(rows)
# Those that have a row have all of their hits there.
assert all([text, n] in expected for text, n in rows if text), rows
PYTHON
  done
  "$PINPRICK" count --keys 64 --by '$arg1:string' -o "$work/table" reads:take -- "$TARGETS/reads" texts "$work/texts"
  grep -qE '^ +[0-9,]+ .* \(other\) +take$' "$work/table"
}

@test "there is one row for a text that four threads come to at the same moment" {
  texts "['text %d' % i for i in range(1000)]"
  program count --keys 4096 --by '$arg1:string' reads:take -- threads "$work/texts"
  [ "$(rows take)" = "$(expected 64 4)" ]
  program latency --keys 4096 --by '$arg1:string[6]' reads:take -- threads "$work/texts"
  [ "$(rows take)" = "$(expected 6 4)" ]
}

@test "probes that read come and go while four threads call, and the program is right" {
  start_fed reads
  texts "['text %d' % i for i in range(500)]"
  local i
  for i in {1..40}; do echo "threads $work/texts" >&7; done
  for i in 1 2 3 4 5 6; do
    "$PINPRICK" measure -p $fed -d 0.03 --json --by '$arg1:string' 'count reads:take if *(u8*)$arg1==116' \
      'latency reads:take if $arg1:string=~"text *"' >"$work/records"
    [ "$(field "all(x['key'] is None or x['key'].startswith('text ') for x in r
                    if x['type'] in ('count', 'latency'))")" = True ]
  done
  tell "texts $work/texts" "done"
  no_trace $fed
  end_fed
}

@test "texts have sums and distributions, and those with the most hits come first" {
  texts "['often'] * 30 + ['sometimes'] * 20 + ['rarely'] * 10"
  program count --by '$arg1:string' --sum '*(u8*)$arg1' reads:take -- texts "$work/texts"
  [ "$(field "sorted([x['key'], x['sum']] for x in r if x['type'] == 'count')")" = \
    "[['often', $((30 * 111))], ['rarely', $((10 * 114))], ['sometimes', $((20 * 115))]]" ]
  program hist --by '$arg1:string' 'reads:take *(u8*)$arg1' -- texts "$work/texts"
  [ "$(field "sorted([x['key'], x['count'], x['sum']] for x in r if x['type'] == 'hist')")" = \
    "[['often', 30, $((30 * 111)).0], ['rarely', 10, $((10 * 114)).0], ['sometimes', 20, $((20 * 115)).0]]" ]
  "$PINPRICK" count --top 2 --by '$arg1:string' -o "$work/table" reads:take -- "$TARGETS/reads" texts "$work/texts"
  [ "$(awk '$NF == "take" { print $(NF - 1) }' "$work/table" | paste -sd' ')" = "often sometimes" ]
}

@test "of intervals, each has the texts that were met in it, and all together make the whole" {
  start_fed reads
  texts "random.choices(['one', 'two', 'three', ''], k=1000)"
  watch count -p $fed -i 0.02 --by '$arg1:string' reads:take
  for _ in {1..5}; do tell "texts $work/texts" "done"; done
  end_watch
  [ "$(rows take)" = "$(expected 64 5)" ]
  evaluate - "$work/records" <<'PYTHON'
import collections, json, sys
parts, whole = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record['type'] != 'count': continue
    (whole if record['final'] else parts)[record['key']] += record['hits']
del parts[None], whole[None]
assert parts == whole and len(whole) == 4, (parts, whole)
PYTHON
  no_trace $fed
  end_fed
}

@test "two pinpricks read the texts of one function, each into a table of its own" {
  start_fed reads
  texts "random.choices(['one', 'two', 'three', ''], k=1000)"
  watch count -p $fed --by '$arg1:string' reads:take
  local first=$watcher
  mv "$work/records" "$work/first"
  watch count -p $fed --by '$arg1:string[2]' 'reads:take if $arg1:string!=""'
  tell "texts $work/texts" "done"
  end_watch
  [ "$(rows take '$arg1:string!=""')" = "$(expected 2 | python3 -c '
import json, sys
print(json.dumps([row for row in json.load(sys.stdin) if row[0]]))')" ]
  tell "texts $work/texts" "done"
  kill -INT "$first"
  wait "$first"
  mv "$work/first" "$work/records"
  [ "$(rows take)" = "$(expected 64 2)" ]
  no_trace $fed
  end_fed
}

@test "by file, texts of all processes are added up, and by process each has its own" {
  use_copy reads
  texts "random.choices(['one', 'two', 'three', ''], k=100)"
  start_fed reads
  local first=$fed
  exec 8>&7
  mkfifo "$work/in2"
  "$TARGETS/reads" <"$work/in2" >>"$work/out2" 3>&- 7>&- 8>&- &
  local second=$!
  ends_with_test $second
  exec 9>"$work/in2"
  patiently has_begun $second "$TARGETS/reads"
  local by
  for by in '' '--by pid'; do
    # The text is one word, or two.
    # shellcheck disable=SC2086
    watch count --all "$TARGETS/reads" $by --by '$arg1:string' take
    tell "texts $work/texts" "done"
    : >"$work/out2"
    echo "texts $work/texts" >&9
    until_line "$work/out2" "done"
    end_watch
    if [ -z "$by" ]; then
      [ "$(rows take)" = "$(expected 64 2)" ]
    else
      [ "$(field "sorted([x['pid'], x['key'], x['hits']] for x in r if x.get('final') and x['pid'])")" = \
        "$(evaluate '
import json, sys
print(sorted([int(pid)] + row for pid in sys.argv[2:] for row in json.loads(sys.argv[1])))' "$(expected)" $first $second)" ]
    fi
  done
  exec 9>&- 8>&-
  end_fed
}

@test "by file, programs that are executed later are read as well, and the key has its name" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to hold executions"
  use_copy reads
  texts "random.choices(['one', 'two', 'three', ''], k=100)"
  watch count --all "$TARGETS/reads" --by '$arg1:string' take
  for _ in 1 2; do "$TARGETS/reads" texts "$work/texts"; done
  end_watch
  echo "$(field "[x['by'] for x in r if x['type'] == 'count'][0]"): $(rows take)"
  [ "$(field "{x['by'] for x in r if x['type'] == 'count'}")" = "{'\$arg1:string'}" ]
  [ "$(rows take)" = "$(expected 64 2)" ]
}

@test "status shows the texts of a pinprick that was killed" {
  start_fed reads
  texts "['one'] * 3 + ['x' * 64] * 4 + ['x' * 65] * 5 + [''] * 2"
  watch measure -p $fed --by '$arg1:string' 'count reads:take' 'count reads:take if *(u8*)($arg1+70)==1'
  tell "texts $work/texts" "done"
  echo edges >&7
  until_line "$work/out" 'to edge'
  kill -KILL "$watcher"
  wait "$watcher" || true
  "$PINPRICK" status -p $fed --json >"$work/status"
  evaluate - "$work/status" "$(expected)" "$(tail -n 1 "$work/out")" <<'PYTHON'
import collections, json, sys
wanted = collections.Counter()
for text, times in json.loads(sys.argv[2]) + json.loads(sys.argv[3]):
    wanted[text if text is None or len(text) < 65 or text.endswith('...') else text[:64] + '...'] += times
found = {x['key']: x['hits'] for x in json.load(open(sys.argv[1]))['probes'] if 'if' not in x}
assert found == wanted, (found, wanted)
PYTHON
  "$PINPRICK" status -p $fed >"$work/table"
  grep -qE '^ +6 .* to edge  +take$' "$work/table"
  "$PINPRICK" detach -p $fed
  no_trace $fed
  end_fed
}

@test "status says how many hits could not read, as the last line of the measurement does" {
  start_fed reads
  watch measure -p $fed 'count reads:take if *(u8*)($arg1+8)==1' 'hist reads:take *(u8*)($arg1+8)'
  echo edges >&7
  until_line "$work/out" 'to edge'
  "$PINPRICK" status -p $fed >"$work/table"
  "$PINPRICK" status -p $fed --json >"$work/status"
  end_watch
  # Those that lead nowhere, and some at the end of a page.
  local unread
  unread=$(field "[x['unread'] for x in r if x.get('if') and x.get('final')][0]")
  [ "$unread" -ge 35 ]
  cat "$work/table"
  evaluate '
import json, sys
assert [x.get("unread") for x in json.load(open(sys.argv[1]))["probes"]] == [int(sys.argv[2])] * 2' "$work/status" "$unread"
  grep -qE "^unread $unread: what a pointer leads to could not be read$" "$work/table"
  no_trace $fed
  end_fed
}

@test "statistics that stay in the process follow pointers in their conditions" {
  start_fed reads
  texts "['one'] * 3 + ['two'] * 4 + [''] * 2"
  "$PINPRICK" kstats -p $fed trace ones start reads:take if '*(u8*)$arg1=='"$(printf '%d' "'o")"
  "$PINPRICK" kstats -p $fed trace twos start reads:take if '$arg1:string=="two"'
  "$PINPRICK" kstats -p $fed trace all start reads:take
  tell "texts $work/texts" "done"
  tell "texts $work/texts" "done"
  local name times
  while read -r name times; do
    "$PINPRICK" kstats -p $fed --json show $name >"$work/records"
    [ "$(field "[x['count'] for x in r if x['type'] == 'statistic'][0]")" = "$times" ]
    "$PINPRICK" kstats -p $fed remove $name
  done <<'END'
ones 6
twos 8
all 18
END
  no_trace $fed
  end_fed
}

@test "top counts what a condition that follows pointers lets through" {
  start_fed reads
  texts "['one'] * 3 + ['two'] * 4 + [''] * 2"
  "$PINPRICK" top -p $fed --json -o "$work/records" 'reads:take if $arg1:string=~"t*"' 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/records" '"type":"armed"'
  tell "texts $work/texts" "done"
  end_watch
  [ "$(figure count take '$arg1:string=~"t*"')" = 4 ]
  no_trace $fed
  end_fed
}

# refuses WHERE SENTENCE ARGUMENTS...: with status 2, the sentence, and a mark under WHERE.
refuses() {
  run "$PINPRICK" "${@:3}" -- true
  echo "$output"
  [ "$status" -eq 2 ]
  [ "${lines[0]}" = "pinprick: $2" ]
  if [ -n "$1" ]; then
    local text=${lines[1]:2} mark=${lines[2]:2}
    [ "${text:$((${#mark} - ${#1})):${#1}}" = "$1" ]
    [[ "$mark" =~ ^\ *\^~*$ ]]
    [ "$(tr -d ' ' <<<"$mark" | wc -c)" -eq $((${#1} + 1)) ]
  fi
}

@test "what is no text, no number, or leads nowhere is refused with the remedy" {
  local no_number='a text can be compared by == != =~, or be a key; it is no number'
  local no_structure='follows a name, whose type debug information knows; for 4 bytes at offset 8 of $arg1, write *(u32*)($arg1+8)'
  refuses '' "'libc:write \$arg2:string': $no_number" hist 'libc:write $arg2:string'
  refuses '' "'libc:write if \$arg2:string': $no_number" count 'libc:write if $arg2:string'
  refuses '' "'libc:write if \$arg2:string+1==2': $no_number" count 'libc:write if $arg2:string+1==2'
  refuses '' "'libc:write --sum \$arg2:string': $no_number" count --sum '$arg2:string' libc:write
  refuses '*' "'libc:write if *\$arg2': say what is there: *(u32*)\$arg1, or \$arg1:string" count 'libc:write if *$arg2'
  refuses '"x"' "'libc:write if \$arg2==\"x\"': only a text can be compared with \"x\"; write x:string==\"...\"" \
    count 'libc:write if $arg2=="x"'
  refuses '=~' "'libc:write if \$arg2=~\"x\"': only a text can be compared with =~; write x:string==\"...\"" \
    count 'libc:write if $arg2=~"x"'
  refuses '->' "'libc:write if \$arg2->x==1': '->' $no_structure" \
    count 'libc:write if $arg2->x==1'
  refuses '[' "'libc:write if \$arg2[1]==1': '[' $no_structure" \
    count 'libc:write if $arg2[1]==1'
  local length
  for length in 0 65 x '' -1; do
    run "$PINPRICK" count --by "\$arg2:string[$length]" libc:write -- true
    echo "$output"
    [ "$status" -eq 2 ]
    [[ "${lines[0]}" == *"no length; texts have up to 64 bytes" ]]
  done
  for length in '$arg2:string[3]=="abc"' '$arg2:string[3]!="abc"' '$arg2:string[3]=~"a*"'; do
    run "$PINPRICK" count "libc:write if $length" -- true
    echo "$output"
    [ "$status" -eq 2 ]
    [[ "${lines[0]}" == *"': texts are compared as a whole; leave out the length" ]]
  done
  refuses '' "'libc:write if \$arg2:string=~': =~ wants a pattern: path:string =~ \"/etc/*\"" \
    count 'libc:write if $arg2:string=~'
  refuses '1' "'libc:write if \$arg2:string =~ 1': =~ wants a pattern: path:string =~ \"/etc/*\"" \
    count 'libc:write if $arg2:string =~ 1'
  local at_return='$retval:string is known at the return alone; write '
  refuses '$retval:string' "'libc:write if \$retval:string==\"\"': $at_return'libc:write%return if \$retval:string==\"\"'" \
    count 'libc:write if $retval:string==""'
}

@test "with a budget, pointers are not followed, which is refused" {
  local of
  for of in "count --by \$arg2:string libc:write" "count --by *(u8*)\$arg2 libc:write" \
    "latency --by \$arg2:string libc:write"; do
    # shellcheck disable=SC2086 # words of a command
    run "$PINPRICK" ${of/ / --budget 2% } -- true
    echo "$output"
    [ "$status" -eq 2 ]
    [[ "${lines[0]}" == *budget* ]]
  done
  run "$PINPRICK" count --budget 2% 'libc:write if $arg2:string=="x"' -- true
  [ "$status" -eq 2 ]
  [[ "${lines[0]}" == *budget* ]]
}
