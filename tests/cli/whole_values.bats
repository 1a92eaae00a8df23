# Structures, arrays, containers and floating-point numbers as values of `trace`.
load helpers

# compile COMPILER OPTION...: tests/targets/containers.cc, as $work/containers.
source=$BATS_TEST_DIRNAME/../targets/containers.cc
compile() { "$@" -std=c++20 -o "$work/containers" "$source"; }

# traced ARGUMENT...: what the first call of each point tells, without the time and the thread.
traced() {
  "$PINPRICK" trace -o "$work/lines" "$@" -- "$work/containers" <<<go >/dev/null 2>"$work/said" ||
    { cat "$work/said"; return 1; }
  sed -E 's/^[0-9:.]+ +[0-9]+ +[^ ]+ +//' "$work/lines"
}

@test "a structure is shown by its members, as their types say" {
  local optimized
  for optimized in -O0 -O2; do
    compile g++ -g $optimized
    "$PINPRICK" trace --json -o "$work/records" 'request *r' -- "$work/containers" <<<go >/dev/null
    evaluate - "$work/records" <<'PYTHON'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1]) if '"type":"event"' in line]
got = events[0]['values']['*r']
next_one = got.pop('next')
assert next_one > 4096, next_one
assert got == {
    'id': 77, 'name': 'first', 'city': 'Oslo', 'at': {'x': 3, 'y': -4}, 'weight': 2.5, 'small': -0.25,
    'color': 'green', 'done': 1, 'low': 5, 'high': -7, 'word': 0x01020304,
    'bytes': '\x04\x03\x02\x01', 'handler': 'puts',
    'grid': {'size': 2, 'elements': [{'size': 3, 'elements': [1, 2, 3]}, {'size': 3, 'elements': [4, 5, 6]}]},
    'many': {'size': 10, 'elements': [10, 11, 12, 13]}}, got
assert 'cut' not in events[0] and 'unreadable' not in events[0], events[0]
PYTHON
  done
}

# What the compiled program has in nodes, and in variants.
shows_nodes() {
  run traced 'containers sorted=all.sorted set=all.set linked=all.linked two=all.two many=all.many single=all.single'
  [ "$output" = 'containers(sorted=[3]{{first=1,second=1},{first=2,second=4},...}, set=[2]{2,4}, linked=[4]{1,2,3,4}, two=[2]{{first=1,second="one"},{first=2,second="two"}}, many=[100]{{first=1,second=1},{first=2,second=4},...}, single=[1]{{first=7,second=8}})' ]
  run traced 'containers hashed=all.hashed one=all.one_hashed no_list=all.no_list no_set=all.no_set'
  local x='{first="x",second=1}' y='{first="y",second=2}' rest='one=[1]{{first=5,second={x=6,y=7}}}, no_list=[0]{}, no_set=[0]{}'
  [ "$output" = "containers(hashed=[2]{$x,$y}, $rest)" ] ||
    [ "$output" = "containers(hashed=[2]{$y,$x}, $rest)" ]
  run traced 'containers either=all.either is_text=all.is_text is_point=all.is_point'
  [ "$output" = 'containers(either={index=1,value=1.5}, is_text={index=1,value="chosen"}, is_point={index=2,value={x=5,y=6}})' ]
  ! grep -q unread "$work/said"
}

# shows_containers COMPILER OPTION...
shows_containers() {
  compile "$@"
  run traced 'containers text=all.text view=all.view numbers=all.numbers none=all.none texts=all.texts points=all.points'
  [ "$output" = 'containers(text="short", view="viewed", numbers=[6]{1,2,3,4,...}, none=[0]{}, texts=[2]{"a","bc"}, points=[2]{{x=1,y=2},{x=3,y=4}})' ]
  run traced 'containers rows=all.rows fixed=all.fixed part=all.part maybe=all.maybe nothing=all.nothing both=all.both three=all.three'
  [ "$output" = 'containers(rows=[2]{[1]{1},[2]{2,3}}, fixed=[3]{7,8,9}, part=[2]{2,3}, maybe=42, nothing=none, both={first=5,second="five"}, three={65,-9,"nine"})' ]
  shows_nodes
  run traced 'containers owned=all.owned shared=all.shared'
  [[ $output =~ ^'containers(owned=0x'[0-9a-f]{8,}', shared=0x'[0-9a-f]{8,}')'$ ]]
}

@test "containers of libstdc++ are shown by their elements" {
  shows_containers g++ -g -O1
  shows_containers g++ -gdwarf-4 -O0
}

@test "so they are in programs of clang" {
  [ -n "$clangxx" ] || skip "there is no clang++"
  shows_containers "$clangxx" -g -O1
}

@test "containers of libc++ are shown by their elements" {
  [ -n "$clangxx" ] || skip "there is no clang++"
  compile "$clangxx" -stdlib=libc++ -g -O1 || skip "there is no libc++"
  run traced 'containers view=all.view numbers=all.numbers none=all.none points=all.points rows=all.rows fixed=all.fixed'
  [ "$output" = 'containers(view="viewed", numbers=[6]{1,2,3,4,...}, none=[0]{}, points=[2]{{x=1,y=2},{x=3,y=4}}, rows=[2]{[1]{1},[2]{2,3}}, fixed=[3]{7,8,9})' ]
  run traced 'containers part=all.part maybe=all.maybe nothing=all.nothing'
  [ "$output" = 'containers(part=[2]{2,3}, maybe=42, nothing=none)' ]
  shows_nodes
  run traced 'containers text=all.text long=all.long_text texts=all.texts'
  [ "$output" = 'containers(text="short", long="a text that is too long to lie in the string itself", texts=[2]{"a","bc"})' ]
  run traced 'containers owned=all.owned three=all.three'
  [[ $output == 'containers(owned=0x'*', three={65,-9,"nine"})' ]]
}

@test "how much is shown can be chosen" {
  compile g++ -g -O1
  run traced --elements 2 'containers all.numbers' 'request r->many'
  [ "${lines[0]}" = 'request(r->many=[10]{10,11,...})' ]
  [ "${lines[1]}" = 'containers(all.numbers=[6]{1,2,...})' ]
  run traced 'deep *d'
  [ "$output" = 'deep(*d={one={two={three={four={...}}}}})' ]
  run traced --nest 6 'deep *d'
  [ "$output" = 'deep(*d={one={two={three={four={five={end=6}}}}}})' ]
  run traced --strings 2 'request r->name r->at' 'containers all.texts'
  [ "${lines[0]}" = 'request(r->name="fi"..., r->at={x=3,y=-4})' ]
  [ "${lines[1]}" = 'containers(all.texts=[2]{"a","bc"})' ]
  run traced 'containers all.numbers:raw'
  [[ $output == *'{_M_start=0x'*',_M_finish=0x'* ]]
  run "$PINPRICK" trace --nest 0 f -- true
  [ "$status" -eq 2 ]
}

@test "what has no room is left out, and said" {
  compile g++ -g -O1
  run traced 'containers all'
  [[ $output == 'containers(all={text="short",view="viewed",'*',...})' ]]
  "$PINPRICK" trace --json -o "$work/records" 'containers all' -- "$work/containers" <<<go >/dev/null
  [ "$(field "[x['cut'] for x in r if x['type'] == 'event'][0]")" = "['all']" ]
}

@test "parameters that are structures and floating-point numbers are told at entries and returns" {
  local optimized
  for optimized in -O1 -O2; do
    compile g++ -g $optimized
    run traced --args numbers 'scale%return'
    [[ $output == *'numbers(v=[6]{1,2,3,4,...}, at={x=8,y=9}, d=1.5)'* ]]
    [[ $output == *'scale(factor=2.5, by=0.5, n=1) = 2.25 <'* ]]
    run traced 'request%return r@ret->at r@ret->many'
    [[ $output == 'request(r@ret->at={x=3,y=-4}, r@ret->many=[10]{10,11,12,13,...}) <'* ]]
  done
}

@test "values that look like others are shown as they are" {
  compile g++ -g -O1
  run traced 'edges *e bits' 'scale%return $retval'
  [[ $output == *'edges(*e={x=3,y=-4,x=99,zero=-0,none=0,least=-2147483648,least_of_all=-9223372036854775808,texts=[0]{},rows=[2]{[1]{"a"},[2]{"b","c"}}}, bits={raw=170,of={low=2,high=21}})'* ]]
  [[ $output == *'scale() = 2.25 <'* ]]
  ! grep -q unread "$work/said"
  "$PINPRICK" trace --json -o "$work/records" 'edges *e' -- "$work/containers" <<<go >/dev/null
  [ "$(field "[[x['values']['*e'][n] for n in ('x', 'x#2')] for x in r if x['type'] == 'event']")" = '[[3, 99]]' ]
}

@test "a container that says what is not true is bounded, and shown as far as it can be read" {
  compile g++ -g -O1
  run traced 'lies *v'
  [ "$status" -eq 0 ]
  [ "${lines[0]}" = 'lies(*v=?)' ]
  [ "${lines[1]}" = 'lies(*v=?)' ]
  [ "${lines[2]}" = "lies(*v=[$((1 << 38))]{1,2,3,4,...})" ]
  [ "${lines[3]}" = 'lies(*v=[12]{?,?,?,?,...})' ]
  [ "${lines[4]}" = 'lies(*v=[0]{})' ]
  [ "${lines[5]}" = 'lies(*v=[2]{1,2})' ]
}

@test "enums, options and results of Rust are shown as they are written" {
  command -v rustc >/dev/null || skip "there is no rustc"
  local optimized
  for optimized in 0 3; do
    rustc -g -C opt-level=$optimized -o "$work/containers" "$BATS_TEST_DIRNAME/../targets/enums.rs"
    run traced 'shapes some=all.some none=all.none text=all.text no_text=all.no_text slice=all.slice no_box=all.no_box good=all.good bad=all.bad'
    [ "$output" = 'shapes(some=Some(5), none=None, text=Some("a text"), no_text=None, slice=Some("slice"), no_box=None, good=Ok(-7), bad=Err("broken"))' ]
    run traced 'shapes nested=all.nested signed=all.signed color=all.color empty=all.empty circle=all.circle line=all.line named=all.named only=all.only'
    [ "$output" = 'shapes(nested=Some(None), signed=Some(-3), color=Green, empty=Empty, circle=Circle(2.5), line=Line{from={x=1,y=2},to={x=3,y=4}}, named=Named("square"), only=One(9))' ]
    run traced 'shapes shapes=all.shapes words=all.words map=all.map point=all.line.Line.to.y'
    [ "$output" = 'shapes(shapes=[3]{Circle(0.5),Empty,Named("n")}, words=[2]{"x","yz"}, map=[2]{...}, point=4)' ]
    run traced 'shapes boxed=all.boxed'
    [[ $output =~ ^'shapes(boxed=Some(0x'[0-9a-f]+'))'$ ]]
    ! grep -q unread "$work/said"
  done
  "$PINPRICK" trace --json -o "$work/records" 'shapes all.some all.none all.line' -- "$work/containers" <<<go >/dev/null
  [ "$(field "[x['values'] for x in r if x['type'] == 'event'][0]")" = \
    "{'all.some': {'Some': 5}, 'all.none': 'None', 'all.line': {'Line': {'from': {'x': 1, 'y': 2}, 'to': {'x': 3, 'y': 4}}}}" ]
}
