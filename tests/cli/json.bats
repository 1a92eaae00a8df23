# docs/json.md says what --json prints: every type of record, every field, from every verb.
load helpers

document=$BATS_TEST_DIRNAME/../../docs/json.md

# as_documented: the records in $work/all, each with the verb that has printed it.
as_documented() {
  evaluate - "$document" "$work/all" <<'PYTHON'
import collections, json, re, sys
document = open(sys.argv[1]).read()
records = [json.loads(line) for line in open(sys.argv[2])]
wrong = []

def expect(what, seen, documented):
    if seen - documented: wrong.append(f'{what}: not in the document: {sorted(seen - documented)}')
    if documented - seen: wrong.append(f'{what}: in the document alone: {sorted(documented - seen)}')

def names(cell): return re.findall(r'`([a-z0-9_]+)`', cell)
def rows(text):
    return [[cell.strip() for cell in line.strip('|').split('|')]
            for line in text.splitlines() if re.match(r'\| `', line)]

head, *sections = re.split(r'^## ', document, flags=re.M)
types = collections.defaultdict(set)  # by verb
for cells in rows(head):
    for verb in names(cells[1]) or [cells[1]]: types[verb].update(names(cells[0]))
fields = {}  # by type
for section in sections:
    title, text = section.split('\n', 1)
    kinds = title.split(', ')
    for kind in kinds:
        fields[kind] = {name for cells in rows(text) for name in names(cells[0])
                        if len(kinds) == 1 or not (owner := re.match('of `(.*?)`', cells[1]))
                        or owner[1] == kind}
    for line in re.findall(r'^\{.*\}$', text, flags=re.M):
        example = json.loads(line)
        extra = example.keys() - {'type', 'version'} - fields[example['type']]
        if extra: wrong.append(f'the example of {title}: {extra}')

losses = {'missed', 'unwound', 'abandoned', 'ended', 'from_generated', 'repeated_starts', 'unmatched_ends', 'unread',
          'dropped'}
seen = collections.defaultdict(set)
seen_types = collections.defaultdict(set)
for record in records:
    seen[record['type']] |= record.keys() - {'type', 'verb', 'version'}
    if record['version'] != 1: wrong.append(f'version of {record}')
    seen_types[record['verb']].add(record['type'])
expect('types', set(seen), set(fields))
for kind in fields: expect(kind, seen[kind], fields[kind])
everywhere = types.pop('all')
for verb in types: expect(verb, seen_types[verb] - everywhere, types[verb])
for record in records:
    for probe in record.get('probes', []):
        kind = 'hist' if 'value' in probe else 'latency' if 'count' in probe else 'count'
        at_return = (fields[kind] & fields['latency'] & losses - ({'missed', 'unread'} if kind == 'hist' else set())
                              if kind != 'latency' else set())
        optional = {'at', 'pid', 'seconds', 'final', 'measure', 'if', 'by', 'key', 'cut', 'unreadable', 'other',
                    'sum_of', 'partial', 'out'} | ({'sum', 'avg', 'min', 'max'} if kind == 'count' else set())
        optional |= {field for field in fields[kind] if field.startswith('self_')}
        expect('probes', set(probe) - optional,
               fields[kind] - optional - (set() if at_return & set(probe) else at_return))
sys.exit('\n'.join(wrong) or 0)
PYTHON
}

# add VERB: what it has printed, of which it does not say the verb.
add() { sed "s/^{/{\"verb\":\"$1\",/" >>"$work/all"; }

# add_dumps: what a flight recorder says, until it is killed, and what it has left.
add_dumps() {
  start_ticker
  watch trace -p "$ticker" --overwrite 64K --until ticker:nap --repeat 2 'ticker:tick $arg1'
  tell "tick 9999" ticked
  tell "nap 1" napped
  until_line "$work/records" '"type":"dump"'
  kill -KILL $watcher
  wait $watcher || true
  add trace <"$work/records"
  "$PINPRICK" status -p "$ticker" --json | add status
  "$PINPRICK" trace --collect -p "$ticker" --json | add trace
  end_ticker
  rm "$work/in" "$work/out"
}

# The program waits for a line again.
in_a_call() { "$PINPRICK" calls -p "$ticker" --json | grep -q '"type":"call"'; }

# What mount says, also where nothing can be mounted.
add_mounted() {
  local mounter
  mkdir "$work/mounted"
  "$PINPRICK" mount --json "$work/mounted" >"$work/mount" 2>&1 3>&- 7>&- &
  mounter=$!
  ends_with_test $mounter
  until_line "$work/mount" '"type":"(mounted|error)"'
  kill -INT $mounter 2>/dev/null || true
  wait $mounter || true
  if grep -q '"type":"error"' "$work/mount"; then
    echo '{"type":"mounted","folder":"cannot mount here","version":1}' >"$work/mount"
  fi
  add mount <"$work/mount"
}

@test "every record has exactly the fields that the document says" {
  local verb
  "$PINPRICK" doctor --json | add doctor || true
  # One that cannot be probed at all, and many that cannot be timed.
  "$PINPRICK" list --json --file /lib/x86_64-linux-gnu/libc.so.6 | add list
  "$PINPRICK" list --json --args --file "$TARGETS/points" 'usdt:*' | add list
  "$PINPRICK" list --json --args --file /lib/x86_64-linux-gnu/libc.so.6 read | add list
  "$PINPRICK" list --json --vars --lines --file "$TARGETS/variables" serve | add list
  "$PINPRICK" list --json --types --file "$TARGETS/variables" 'struct peer' | add list
  gcc -g -O2 -x c -o "$work/both" - <<<'int sink; int serve(int a) { return sink += a; } int main(int c, char **v) { return serve(c); }'
  "$PINPRICK" list --json --file "$work/both" serve | add list
  "$PINPRICK" list --json --summary "$TARGETS/ticker" | add list
  "$PINPRICK" list --json --file "$TARGETS/profiled_by_fentry" | add list
  "$PINPRICK" count --json -p 999999999 main | add count || true

  # Its own, as --all measures all that run it.
  cp "$TARGETS/dlhost" "$work"
  TARGETS=$work TICKER=dlhost start_ticker
  for verb in count latency top hist measure trace; do
    local value='' timed='' what
    [[ $verb != latency && $verb != top ]] || timed=dlhost:_start
    [[ $verb != hist && $verb != trace ]] || value=' $arg1'
    # shellcheck disable=SC2206
    what=("plugin*:plugin_*$value" "dlhost:call$value" "libc:__restore_rt$value" $timed)
    # shellcheck disable=SC2016
    [ $verb != measure ] || what=('count plugin*:plugin_*' 'latency dlhost:call'
      'hist dlhost:call $arg1' 'count libc:__restore_rt')
    watch $verb --allow-missing -p "$ticker" "${what[@]}"
    tell "load $TARGETS/plugin_textrel.so" load
    tell unload unload
    tell "load $TARGETS/plugin.so" load
    tell "call 10" call
    "$PINPRICK" status -p "$ticker" --json | add status
    tell unload unload
    end_watch
    add $verb <"$work/records"
  done
  for verb in count latency hist measure trace; do
    local of='' is=''
    [[ $verb != hist && $verb != trace ]] || of=' $arg1'
    [ $verb != measure ] || is='count '
    watch $verb --allow-missing --all "$work/dlhost" "${is}call$of"
    end_watch
    add $verb <"$work/records"
    "$PINPRICK" $verb --json -o "$work/records" --silence-mcount "${is}libc:exit$of" -- /bin/true
    add $verb <"$work/records"
  done
  "$PINPRICK" count --once --json -o "$work/records" 'libc:exit if %rsp!=0' -- /bin/true
  add count <"$work/records"
  # With more sizes than there is room for.
  "$PINPRICK" count --json -o "$work/records" --keys 1 --by '%rsp*%rdi+%rax' --sum '$arg1' 'libc:*' -- ls -lR /etc >/dev/null
  add count <"$work/records"
  "$PINPRICK" latency --json -o "$work/records" --keys 1 --by '$retval' 'libc:*' -- ls -lR /etc >/dev/null
  add latency <"$work/records"
  "$PINPRICK" latency --self --json -o "$work/records" 'libc:*alloc' -- ls / >/dev/null
  add latency <"$work/records"
  "$PINPRICK" hist --json -o "$work/records" --keys 1 --by '$arg2' 'libc:* $arg1' -- ls -lR /etc >/dev/null
  add hist <"$work/records"
  "$PINPRICK" count --json -o "$work/records" --by stack,size 'libc:malloc if $arg1' -- ls / >/dev/null
  "$PINPRICK" diff --json "$work/records" "$work/records" | add diff
  "$PINPRICK" count --json -o "$work/records" --min '$arg1' --max '$arg1' libc:malloc -- ls / >/dev/null
  add count <"$work/records"
  "$PINPRICK" count --json -o "$work/records" --by '$retval' --sum '$retval' 'libc:malloc%return' -- ls / >/dev/null
  add count <"$work/records"
  "$PINPRICK" count --once --json -o "$work/records" 'libc:malloc%return' -- /bin/true
  add count <"$work/records"
  "$PINPRICK" measure --json -o "$work/records" 'count libc:exit if %rsp!=0' \
    'hist libc:exit $arg1 if %rsp!=0' 'latency libc:malloc if %rsp!=0' 'count libc:free%return' \
    'hist libc:free%return $latency' 'latency libc:calloc --faster 10s' -- /bin/ls /
  add measure <"$work/records"
  "$PINPRICK" diff --json "$work/records" "$work/records" | add diff
  "$PINPRICK" trace --json -o "$work/records" 'mine:malloc = libc:malloc%return $arg1 $retval if $retval' -- ls / >/dev/null
  add trace <"$work/records"
  "$PINPRICK" trace --json -o "$work/records" 'libc:malloc..libc:free "{$arg1} bytes"' -- ls / >/dev/null
  add trace <"$work/records"
  watch latency -p "$ticker" libc:read
  tell "load $TARGETS/plugin.so" load
  tell unload unload
  patiently in_a_call
  "$PINPRICK" calls -p "$ticker" --json | add calls
  end_watch
  watch count -p "$ticker" dlhost:call
  kill -KILL "$watcher"
  wait "$watcher" || true
  "$PINPRICK" keep -p "$ticker" -d 0.01 --json | add keep
  watch measure -p "$ticker" 'count dlhost:call%return' 'hist dlhost:call%return $retval'
  tell "load $TARGETS/plugin.so" load
  tell "call 10" call
  tell unload unload
  "$PINPRICK" status -p "$ticker" --json | add status
  end_watch
  # An allocator, and a function that cannot be timed.
  printf '%s\n' 'void *je_malloc(unsigned long n) { static char all[4096]; return all + n; }' \
    'void *volatile caller; void *je_valloc(void) { caller = __builtin_return_address(0); return 0; }' \
    'int pthread_rwlock_rdlock(void *lock) { caller = __builtin_return_address(0); return lock == 0; }' \
    'int pthread_mutex_unlock(void *lock) { static int n; n += lock != 0; return n; }' \
    'int plugin_main(int n) { return je_malloc(n) ? n : 0; }' >"$work/allocator.c"
  gcc -O1 -shared -fPIC -o "$work/allocator.so" "$work/allocator.c"
  watch leaks -p "$ticker" --older 0s
  tell "load $work/allocator.so" load
  tell "call 10" call
  tell unload unload
  end_watch
  add leaks <"$work/records"
  # The same of functions of locks.
  watch locks -p "$ticker"
  tell "load $work/allocator.so" load
  tell "call 10" call
  tell unload unload
  end_watch
  add locks <"$work/records"
  "$PINPRICK" kstats -p "$ticker" trace call start dlhost:call
  "$PINPRICK" kstats -p "$ticker" list --json | add kstats
  "$PINPRICK" status -p "$ticker" --json | add status
  "$PINPRICK" detach -p "$ticker" --json | add detach
  add_mounted
  "$PINPRICK" serve --json 127.0.0.1:0 -d 0.1 | add serve
  end_ticker
  rm "$work/in" "$work/out"

  start_fed tides
  for verb in count latency top hist measure; do
    local value='' is=''
    [ $verb != hist ] || value=' $arg1'
    [ $verb != measure ] || is='count '
    watch $verb --budget 1%,once -p "$fed" "${is}tides:surge$value"
    answer "surge 700 20000" >/dev/null
    end_watch
    add $verb <"$work/records"
  done
  end_fed
  rm "$work/in" "$work/out"

  # Texts of which some go on, and some cannot be read.
  start_fed reads
  for verb in 'count --by $arg1:string reads:take' 'count reads:take if *(u8*)($arg1+8)==1'; do
    local -a words=()
    read -ra words <<<"${verb%% if *}"
    [[ $verb != *" if "* ]] || words[-1]+=" if ${verb##* if }"
    watch "${words[0]}" -p "$fed" "${words[@]:1}"
    echo edges >&7
    until_line "$work/out" 'to edge'
    "$PINPRICK" status -p "$fed" --json | add status
    end_watch
    add count <"$work/records"
  done
  watch trace -p "$fed" 'reads:take $arg1:string'
  echo edges >&7
  patiently has_more_lines 2
  end_watch
  add trace <"$work/records"
  end_fed
  rm "$work/in" "$work/out"
  "$PINPRICK" trace --every 3 --json -o "$work/records" 'libc:malloc' -- ls / >/dev/null
  add trace <"$work/records"
  "$PINPRICK" trace --overwrite 64K --until 'ticker:tick if $arg1==99999' --json -o "$work/records" \
    'ticker:tick $arg1' -- "$TARGETS/ticker" <<<"tick 100000" >/dev/null
  add trace <"$work/records"
  add_dumps
  "$PINPRICK" record -o "$work/x.rec" 'ticker:tick%return' -- "$TARGETS/ticker" <<<"tick 10" >/dev/null
  "$PINPRICK" report --functions --json "$work/x.rec" | add report
  "$PINPRICK" record --tree -o "$work/x.rec" 'paths:*' -- "$TARGETS/paths" >/dev/null
  "$PINPRICK" report --graph middle --json "$work/x.rec" | add report
  "$PINPRICK" record -o "$work/x.rec" 'ticker:recurse..ticker:tick n=$arg1' -- "$TARGETS/ticker" \
    <<<$'recurse 0\ntick 2' >/dev/null
  "$PINPRICK" report --json "$work/x.rec" | add report
  start_fed locker
  watch locks -p "$fed"
  tell 'hold 1 0' hold
  tell invert invert
  tell deadlock deadlock
  until_line "$work/records" 'deadlock in'
  end_watch
  add locks <"$work/records"
  rm "$work/in" "$work/out"
  "$PINPRICK" locks --all "$TARGETS/locker" --exclude-pid "$fed" --lock own_lock --unlock own_unlock -d 0.1 --json |
    add locks
  start_ticker
  "$PINPRICK" count --dry-run --probe-rate --json -p $ticker ticker:tick libc:setjmp ticker:nap >"$work/records"
  for verb in count latency hist measure trace; do add $verb <"$work/records"; done
  end_ticker
  rm "$work/in" "$work/out"
  # More texts than there is room for.
  python3 -c 'for i in range(70000): print(i, end="\0")' >"$work/texts"
  "$PINPRICK" trace --json -o "$work/records" 'reads:take $arg1:string' -- "$TARGETS/reads" texts "$work/texts" >/dev/null
  grep -v '"type":"event"' "$work/records" | add trace
  grep -m 1 '"other":' "$work/records" | add trace

  for verb in count latency top hist measure trace leaks locks; do
    local value='' is=''
    [[ $verb != hist && $verb != trace ]] || value=' $arg1'
    [ $verb != measure ] || is='count '
    mkfifo "$work/in"
    # The shell waits until it is known, and the program until the shell's end is.
    sh -c 'read x; exec "$0"' "$TARGETS/ticker" <"$work/in" >"$work/out" 3>&- &
    ticker=$!
    ends_with_test $ticker
    exec 7>"$work/in"
    patiently has_begun $ticker /bin/sh
    local -a what=(--allow-missing "${is}libc:read$value" "${is}ticker:tick$value")
    [[ $verb != leaks && $verb != locks ]] || what=()
    watch $verb --follow-exec -p "$ticker" "${what[@]}"
    echo go >&7
    until_line "$work/records" '"type":"executed"'
    tell ready ready
    end_watch
    add $verb <"$work/records"
    end_ticker
    rm "$work/in" "$work/out"
  done
  as_documented
}

@test "the intervals add up to the whole" {
  start_ticker
  watch count -p $ticker -i 0.05 ticker:tick
  tell "tick 40" ticked
  until_line "$work/records" '"hits":40'
  tell "tick 50" ticked
  end_watch
  [ "$(hits tick)" -eq 90 ]
  [ "$(field "sum(x['hits'] for x in r if x['type'] == 'count' and not x['final'])")" -eq 90 ]
  end_ticker
}

# Programs decide by these words, so none may come, or change, without the document.
@test "every cause of an error that a message has stands in the document, and no other" {
  local said documented
  said=$(grep -oE '^[a-z_]+ \([0-9]+\): ' "$BATS_TEST_DIRNAME/messages.txt" | cut -d' ' -f1 | sort -u)
  documented=$(sed -n '/^The words of `cause`/,$p' "$document" | grep '^| ' | grep -oE '`[a-z_]+`' | tr -d '`' | sort -u)
  diff <(echo "$said") <(grep -vxE 'mount|serve|kstats|cause' <<<"$documented")
}

@test "errors are records with the documented cause, those of the command line, too" {
  local one
  for one in "4 no_such_process -p 999999999 f" "3 nothing_matched -p $$ no_such_function" \
    "2 usage -p $$ --no-such-option f" "2 usage f" "2 bad_pattern -p $$ libc:"; do
    # shellcheck disable=SC2086
    set -- $one
    run "$PINPRICK" count "${@:3}" --json
    [ "$status" -eq "$1" ]
    [[ $output == *"\"cause\":\"$2\""*"\"exit\":$1,"* ]]
  done
}
