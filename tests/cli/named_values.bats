# Parameters and variables by their names, on programs that know their own figures.
load helpers

# figure FIELD FUNCTION CONDITION [AT]: of the last report, as JSON; null if nothing was hit.
figure() {
  field "([x['$1'] for x in r if x.get('final') and x.get('function') == '$2'
           and x.get('if', '') == '$3' and x.get('at', '') == '${4:-}'] or [None])[0]"
}

# A Python program that writes by os.write and os.pwrite to files and to a pipe that may be full.
write_program() {
  cat >"$work/program.py" <<'PYTHON'
import collections, json, os, random
random.seed(5)
null = os.open('/dev/null', os.O_WRONLY)
for fd in range(100, 104): os.dup2(null, fd)
reads, full = os.pipe()
os.set_blocking(reads, False)
os.set_blocking(full, False)
os.dup2(full, 104)
by_file, tally = collections.Counter(), collections.Counter()
for i in range(5000):
    to, size = random.choice(range(100, 106)), random.choice((0, 1, 4096, 30000))
    try: wrote = os.write(to, bytes(size))
    except OSError: wrote = -1
    by_file[to] += 1
    tally['short'] += wrote != size
    tally['large'] += to == 102 and size >= 4096
    tally['bytes'] += size
    if size == 1:
        os.pwrite(101, b'xy', -1 % 2**33)
        tally['far'] += 1
    if i % 7 == 0:
        try: os.read(reads, 50000)
        except OSError: pass
json.dump({'files': sorted(map(list, by_file.items())), **tally}, open(os.environ['TALLY'], 'w'))
PYTHON
}
# program VERB ARGUMENTS...: measures it from its start.
program() {
  TALLY="$work/tally" "$PINPRICK" "$@" --json -o "$work/records" -- python3 "$work/program.py"
}

@test "calls are counted by the name of a parameter, exactly as a Python program knows it" {
  write_program
  program count --by fd 'libc:write if fd in {100..105}'
  [ "$(keyed write)" = "$(figure_of files)" ]
  [ "$(field "{x['by'] for x in r if x['type'] == 'count' and 'by' in x} or {'fd'}")" = "{'fd'}" ]
  program count --sum count 'libc:write if fd in {100..105}'
  [ "$(field "[x['sum'] for x in r if x['type'] == 'count' and x['final']]")" = "[$(figure_of bytes)]" ]
}

@test "a name in a condition is the parameter, with its size and sign" {
  write_program
  program count 'libc:write if fd==102 && count>=4Ki' 'libc:pwrite if offset>4G && count==2' \
    'libc:pwrite if offset:u32!=-1'
  [ "$(figure hits write 'fd==102 && count>=4Ki')" = "$(figure_of large)" ]
  [ "$(figure hits pwrite 'offset>4G && count==2')" = "$(figure_of far)" ]
  [ "$(figure hits pwrite 'offset:u32!=-1')" = "$(figure_of far)" ]
}

@test "the same function is meant by each of its names, and its prototype by any of them" {
  write_program
  program count 'libc:__write if fd==102 && count>=4Ki' 'libc:pwrite64 if count==2'
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final'] and 'fd' in x['if']]")" = "[$(figure_of large)]" ]
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final'] and 'fd' not in x['if']]")" = "[$(figure_of far)]" ]
}

@test "at a return, a parameter is what it was at the entry" {
  write_program
  local own='fd in {100..105}'
  program count "libc:write%return if $own && \$retval!=count"
  [ "$(figure hits write "$own && \$retval!=count" return)" = "$(figure_of short)" ]
}

@test "values and times are recorded by name" {
  "$PINPRICK" measure --json --bits 5 -o "$work/records" 'hist libc:read count if fd==0' \
    'latency libc:read if count==512' -- \
    dd if=/dev/zero of=/dev/null bs=512 count=300 status=none
  [ "$(field "[x['sum'] for x in r if x.get('final') and x.get('value') == 'count']")" = "[153600.0]" ] ||
    [ "$(field "[x['sum'] for x in r if x.get('final') and x.get('value') == 'count']")" = "[153600]" ]
  [ "$(figure count read 'count==512')" = 300 ]
  head -c 700 /dev/zero >"$work/in"
  # It reads 700 of 1,000, and then nothing.
  "$PINPRICK" hist --json -o "$work/records" 'libc:read%return count-$retval if fd==0' -- \
    dd bs=1000 of=/dev/null status=none <"$work/in"
  [ "$(field "[[x['count'], float(x['sum'])] for x in r if x.get('final')]")" = "[[2, 1300.0]]" ]
}

@test "a parameter after floating-point numbers is found in its register" {
  cat >"$work/program.py" <<'PYTHON'
import math
for i in range(-20, 21): math.ldexp(1.5, i)
PYTHON
  "$PINPRICK" count --json -o "$work/records" --by exp libm:ldexp -- python3 "$work/program.py"
  [ "$(keyed ldexp)" = "$(python3 -c 'print([[i, 1] for i in range(-20, 21)])')" ]
}

@test "a global variable is read at the hit, by its own size" {
  "$PINPRICK" count --json -o "$work/records" 'levels:work if level:s32==-7' \
    'levels:work if level==7' 'levels:work if small==2' 'levels:work if wide==40001' \
    'levels:work if big:s64<0' 'levels:work if big>=1Gi' 'levels:work if $arg1>=300 && small==0' \
    -- "$TARGETS/levels"
  [ "$(figure hits work 'level:s32==-7')" = 120 ]
  [ "$(figure hits work 'level==7')" = 480 ]
  [ "$(figure hits work 'small==2')" = 200 ]
  [ "$(figure hits work 'wide==40001')" = 300 ]
  [ "$(figure hits work 'big:s64<0')" = 150 ]
  # It has no sign.
  [ "$(figure hits work 'big>=1Gi')" = 600 ]
  [ "$(figure hits work '$arg1>=300 && small==0')" = 100 ]
}

@test "a global variable is read at each instruction, and at the return as it is then" {
  "$PINPRICK" count --json -o "$work/records" --by 'level:s32' levels:work -- "$TARGETS/levels"
  [ "$(keyed work)" = "[[-7, 120], [7, 480]]" ]
  "$PINPRICK" count --json -o "$work/records" 'levels:work%return if level:s32==7' \
    'levels:work%return if level:s32==-7 && $arg1>=0' -- "$TARGETS/levels"
  [ "$(figure hits work 'level:s32==7' return)" = 120 ]
  [ "$(figure hits work 'level:s32==-7 && $arg1>=0' return)" = 480 ]
  # The last instruction is its return.
  "$PINPRICK" count --json -o "$work/records" --instructions 'levels:work if wide==40001' -- \
    "$TARGETS/levels"
  [ "$(field "{x['hits'] for x in r if x['type'] == 'count' and x['final'] and x['hits']}")" = "{300}" ]
}

@test "of a variable that the linker copies into the program, a library means the copy" {
  "$PINPRICK" count --json -o "$work/records" --by optind 'libc:write if fd==2' -- "$TARGETS/levels"
  [ "$(keyed write)" = "[[1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6]]" ]
}

@test "functions without the name are skipped if another one has it" {
  run "$PINPRICK" count --json -o "$work/records" --by count libc:read libc:malloc -- \
    dd if=/dev/zero of=/dev/null bs=64k count=10 status=none
  [ "$(field "[x['reason'] for x in r if x['type'] == 'skipped']")" = "['unknown_name']" ]
  [ "$(field "[x['hits'] for x in r if x['type'] == 'count' and x['final'] and x['key'] == 65536]")" = "[10]" ]
}

@test "a name that nothing has is an error, which says what there is" {
  run "$PINPRICK" count 'libc:write if $arg1==1 && size>0' -- true
  [ "$status" -eq 2 ]
  [[ "${lines[0]}" == *"'size' is neither a parameter of write, which has fd (\$arg1), buf (\$arg2) and count (\$arg3), nor "* ]]
  [ "${lines[1]}" = '  $arg1==1 && size>0' ]
  [ "${lines[2]}" = '              ^~~~' ]
  run "$PINPRICK" count --by fd levels:work -- "$TARGETS/levels"
  [ "$status" -eq 2 ]
  [[ "$output" == *"'fd' is not a global variable of levels "*"\$arg1 to \$arg6"* ]]
  # Of the wrong size, thread-local, or too small for the type.
  local name
  for name in several of_thread small:u32; do
    run "$PINPRICK" count "levels:work if $name!=0" -- "$TARGETS/levels"
    [ "$status" -eq 2 ]
  done
  run "$PINPRICK" count 'libm:ldexp if x==1' -- python3 -c 'import math'
  [[ "$output" == *"floating-point"* ]]
}

@test "a parameter is known at the entry only, and where the argument is refused the name is, too" {
  # Of a library that has no debug information here.
  run "$PINPRICK" count 'libsqlite3:sqlite3_prepare_v2+4 if $arg3==1' -- sqlite3 :memory: 'select 1'
  local of_argument=$output
  run "$PINPRICK" count 'libsqlite3:sqlite3_prepare_v2+4 if nByte==1' -- sqlite3 :memory: 'select 1'
  [ "$status" -eq 2 ]
  [ "$output" = "${of_argument//\$arg3==1/nByte==1}" ]
  run "$PINPRICK" count --instructions 'libc:write if $arg1==1' -- true
  of_argument=$output
  run "$PINPRICK" count --instructions 'libc:write if fd==1' -- true
  [ "$output" = "${of_argument//\$arg1==1/fd==1}" ]
  run "$PINPRICK" count 'libc:pread%return if $retval==$retval*fd+$retval*count+$retval*offset+$retval*buf || *(u8*)buf==$retval || *(u8*)(buf+1)==$retval || *(u8*)(buf+2)==$retval || *(u8*)(buf+3)==$retval || *(u8*)(buf+4)==$retval' -- true
  [[ "$output" == *"a call keeps 8 values"* ]]
}

@test "a static program has no prototypes, as its functions may be anything" {
  run "$PINPRICK" count 'spans_static:write if fd==1' -- "$TARGETS/spans_static"
  [ "$status" -eq 2 ]
  [[ "$output" == *"knows no parameters of write by name"* ]]
}

@test "list --args shows the parameters of functions, and where there are none" {
  local libc
  libc=$(ldd "$(command -v dd)" | sed -n 's/.*=> \(.*libc\.so[^ ]*\).*/\1/p')
  run "$PINPRICK" list --args --file "$libc" read
  [ "$status" -eq 0 ]
  [ "$(echo "$output" | sed '1d;s/  */ /g')" = ' $arg1 fd int
 $arg2 buf void * output, bytes[count]
 $arg3 count size_t
 $retval ssize_t -1 and errno, if it fails' ]
  # Without blanks at the ends.
  run "$PINPRICK" list --args --file "$libc" printf
  [ "${lines[2]}" = "    ..." ]
  run "$PINPRICK" list --args --file "$TARGETS/levels" work
  [[ "${lines[1]}" == *"no parameters of it by name"*"\$arg1 to \$arg6"* ]]
  "$PINPRICK" list --json --args --file "$libc" open >"$work/records"
  [ "$(field "[[p['name'], p['argument'], p.get('is')] for p in r[0]['parameters']]")" = \
    "[['pathname', '\$arg1', 'string'], ['flags', '\$arg2', 'flags'], ['mode', '\$arg3', None]]" ]
  [ "$(field "[r[0]['result'], r[0]['fails_with'], r[0]['parameters'][0]['type']]")" = "['int', '-1', 'const char *']" ]
  "$PINPRICK" list --json --args --file "$TARGETS/levels" work >"$work/records"
  [ "$(field "r[0]['parameters']")" = None ]
  "$PINPRICK" list --json --file "$libc" open >"$work/records"
  [ "$(field "'parameters' in r[0]")" = False ]
}
