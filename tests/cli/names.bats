# Names come from the files of other programs, and from processes, which choose them. They forge no line
# and no colour of what pinprick prints, be it on a terminal or in a pipe.
load helpers

# start_forger: a copy with names of the same lengths, in a file with such a name.
start_forger() {
  mkdir "$work/named"
  python3 - "$TARGETS/forger" "$work/named/"$'o\n\033[7m' <<'PYTHON'
import os, sys
names = {b'forger_with_newline': b'forger_\n 99999 x',
         b'forger_with_colours': b'forger_\x1b[31mr\x1b[0m',
         b'forger_with_no_utf8': b'forger_\xff\xc0\x80\xed\xa0\x80',
         b'forger_with_control': b'forger_\xc2\x9b2K\x7f\x07',
         b'forger_to_the_right': b'forger_\xe2\x80\xae\xe2\x80\xa8',
         b'forger_with_returns': b'forger_\r\rforged',
         b'forger_with_umlauts': b'forger_\xc3\xa4\xc3\xb6\xc3\xbc'}
program = open(sys.argv[1], 'rb').read()
for old, new in names.items():
    assert old in program and len(new) <= len(old), old
    program = program.replace(old, new.ljust(len(old), b'.'))
with open(sys.argv[2], 'wb') as file:
    file.write(program)
os.chmod(sys.argv[2], 0o755)
PYTHON
  TARGETS=$work/named start_fed $'o\n\033[7m'
  until_line "$work/out" '^ready'
}

# is_clean FILE [LINES]: valid UTF-8, without anything that a terminal obeys but newlines, and of this
# number of lines. Pinprick's own colours, which are whole commands, do not count.
is_clean() {
  evaluate - "$@" <<'PYTHON'
import re, sys
text = open(sys.argv[1], 'rb').read().decode()
plain = re.sub('\x1b\\[(1|2|3[1-6]|0)m', '', text)
bad = re.findall('[^\x20-\x7e\n\u00a0-\u200a\u2010-\u2027\u2030-\u205f\u2070-\uffef]', plain)
assert not bad, (bad, text)
assert not re.search('(?m)^ *99,?999', plain), text
if len(sys.argv) > 2:
    assert plain.count('\n') == int(sys.argv[2]), (plain.count('\n'), text)
PYTHON
}

# measured OPTIONS...: what a verb prints at its end, and its notes.
measured() {
  mkfifo "$work/notes"
  "$PINPRICK" "$@" >"$work/text" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  exec 9<"$work/notes"
  read -r line <&9
  [[ "$line" == *armed* ]]
  tell 3 called
  end_watch
  { echo "$line"; cat <&9; } >"$work/said"
  exec 9<&-
  rm "$work/notes"
}

@test "names of functions forge no row of a table" {
  start_forger
  measured count -p "$fed" 'forger_*'
  is_clean "$work/text" 8
  is_clean "$work/said"
  grep -q ' forger_?\[31mr?\[0m\.*$' "$work/text"
  grep -q ' forger_äöü\.*$' "$work/text"
  [ "$(grep -c '^ \+3 .* forger_' "$work/text")" -eq 7 ]
  measured latency --color=always -p "$fed" 'forger_*'
  is_clean "$work/text"
  grep -qF 'forger_?[31mr?[0m.' "$work/text"
  measured hist -p "$fed" 'forger_* $arg1'
  is_clean "$work/text"
  measured top -d 0.3 -p "$fed" 'forger_*'
  is_clean "$work/text"
  end_fed
}

@test "names of functions, files and processes forge nothing in list, status, messages and notes" {
  start_forger
  "$PINPRICK" list -p "$fed" 'forger_*' >"$work/text" 2>&1
  is_clean "$work/text" 7
  "$PINPRICK" list -p "$fed" nothing_of_that_name >"$work/text" 2>&1 || true
  is_clean "$work/text" 1
  "$PINPRICK" latency -p "$fed" $'forger_\n*none' >"$work/text" 2>&1 || true
  is_clean "$work/text" 1
  "$PINPRICK" count -p "$fed" -p $$ -d 0.1 $'o\n\033[7m:forger_*' getppid >"$work/text" 2>&1 || true
  is_clean "$work/text"
  watch count -p "$fed" 'forger_*'
  tell 2 called
  "$PINPRICK" status -p "$fed" >"$work/text" 2>&1
  is_clean "$work/text" 9
  grep -qF "$fed (x??[7m?y)" "$work/text"
  kill -KILL $watcher
  wait $watcher || true
  "$PINPRICK" detach -p "$fed" >"$work/text" 2>&1
  is_clean "$work/text" 1
  "$PINPRICK" frob $'x\n\033[7mnicate' >"$work/text" 2>&1 || true
  is_clean "$work/text" 1
  end_fed
}

@test "JSON has names as they are, and is valid whatever they are" {
  start_forger
  watch count -p "$fed" 'forger_*'
  tell 2 called
  end_watch
  iconv -f UTF-8 -t UTF-8 "$work/records" >/dev/null
  [ "$(field "sorted(x['function'][7:].rstrip('.') for x in r if x['type'] == 'count' and x['final']) == sorted(['\n 99999 x', '\x1b[31mr\x1b[0m', '\ufffd' * 6, '\x9b2K\x7f\x07', '\u202e\u2028', '\r\rforged', 'äöü'])")" = True ]
  [ "$(field "{x['command'] for x in r if x['type'] == 'armed'} == {'x\n\x1b[7m\ufffdy'}")" = True ]
  end_fed
}

@test "names of statistics have no control characters, and forge nothing else" {
  start_forger
  for name in $'a\nb' $'a\033[7m' . .. _control a/b GAP-a; do
    run "$PINPRICK" kstats -p "$fed" trace "$name" start 'forger_äöü*'
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
  done
  "$PINPRICK" kstats -p "$fed" trace $'n\377\342\200\256' start 'forger_äöü*'
  "$PINPRICK" kstats -p "$fed" list >"$work/text"
  is_clean "$work/text" 1
  "$PINPRICK" kstats -p "$fed" show >"$work/text"
  is_clean "$work/text"
  "$PINPRICK" status -p "$fed" >"$work/text"
  is_clean "$work/text"
  "$PINPRICK" detach -p "$fed"
  end_fed
}
