# Functions that pass their callers on to others, which read them, return twice, or leave the stack to a
# child (tests/targets/callers): with all functions timed, the program prints what it prints without,
# however its objects were linked, and whether their imports are bound. By slots, all passes_... are
# refused, and all keeps_... are timed. By exits, all can be timed.
load helpers

sources=$BATS_TEST_DIRNAME/../targets/callers

# compile CC FLAGS...: into $objects.
compile() {
  local cc=$1 name
  shift
  objects=$work/objects
  mkdir "$objects"
  for name in defined middle user private overriding late; do
    "$cc" -O2 -fPIC "$@" -c "$sources/$name.c" -o "$objects/$name.o" || return
  done
  # What is missing when the plugin is loaded has to be bound later, which takes a linkage table.
  "$cc" -O2 -fPIC "$@" -fplt -c "$sources/plugin.c" -o "$objects/plugin.o"
  "$cc" -O2 -fPIE "$@" -c "$sources/program.c" -o "$objects/program.o"
}

# link CC FLAGS...: into $built. The program alone has the flags of $program_flags as well.
link() {
  local cc=$1
  shift
  built=$work/built
  mkdir -p "$built/private"
  "$cc" -shared "$@" $defined_flags "$objects/defined.o" -o "$built/libdefined.so" -ldl
  "$cc" -shared "$@" "$objects/middle.o" -o "$built/libmiddle.so" -L"$built" -ldefined -ldl
  "$cc" -shared "$@" "$objects/user.o" -o "$built/libuser.so" -L"$built" -lmiddle -ldl \
    -Wl,-rpath,"$built/private" -Wl,--enable-new-dtags
  "$cc" -shared "$objects/private.o" -o "$built/private/libprivate.so"
  "$cc" -shared "$@" "$objects/overriding.o" -o "$built/liboverriding.so" -ldl
  "$cc" -shared "$@" -Wl,-z,lazy "$objects/plugin.o" -o "$built/plugin.so" -L"$built" -lmiddle
  "$cc" -shared "$@" "$objects/late.o" -o "$built/liblate.so" -ldl
  "$cc" "$@" ${program_flags:--pie} "$objects/program.o" -o "$built/program" -L"$built" -luser -lmiddle \
    -ldefined -ldl -Wl,-rpath-link,"$built" -Wl,-rpath,"$built" -Wl,--enable-new-dtags
}
defined_flags=-Wl,--version-script=$sources/defined.versions

# right_functions: those that were timed, and those that were not, in $work/records.
right_functions() {
  evaluate - "$work/records" <<'PYTHON'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
objects = {'program', 'libmiddle.so', 'libdefined.so', 'libuser.so', 'plugin.so', 'liblate.so'}
timed = {r['function']: r['count'] for r in records
         if r['type'] == 'latency' and r['final'] and r['object'] in objects}
refused = {r['function']: r['reason'] for r in records if r['type'] == 'skipped' and r['object'] in objects}
keeps = {'keeps_value', 'keeps_on', 'keeps_on_twice', 'keeps_on_by_resolver', 'keeps_directly', 'keeps_by_one',
         'keeps_by_two', 'keeps_to_resolver', 'keeps_nothing', 'keeps_on_from_plugin'}
wrong = [f'{name} was timed' for name in timed if name.startswith('passes_') and not name.endswith('$plt')]
wrong += [f'{name} was not timed, {refused.get(name)}' for name in keeps if timed.get(name, 0) == 0]
reasons = {'reads_return_address', 'returns_otherwise', 'unresolved_import'}
wrong += [f'{name}: {why}' for name, why in refused.items() if name.startswith('passes_') and why not in reasons]
if sum(name.startswith('passes_') for name in refused) < 25:
    wrong += ['few were refused']
sys.exit('\n'.join(wrong) or 0)
PYTHON
}

# unharmed [PATTERN...]: started by pinprick; and attached to, before and after its imports are bound.
# Without patterns, its own objects are timed. At least so many that pass callers on are timed by exits.
least=20
unharmed() {
  local round way
  [ $# -gt 0 ] || set -- --allow-missing {program,libmiddle,libdefined,libuser,plugin,liblate}:'*'
  "$built/program" 2 >"$work/bare"
  for way in '' --ends=exits; do
    # shellcheck disable=SC2086
    "$PINPRICK" latency $way "$@" --json -o "$work/records" -- "$built/program" 2 >"$work/out" 2>"$work/errors"
    cmp "$work/bare" "$work/out"
    [ "$(field "len({x['function'] for x in r if x['type'] == 'latency' and x['final'] and x['count'] > 0
                     and x['function'].startswith('passes_')}) >= $least")" = True ]
  done
  "$PINPRICK" latency --ends=slots "$@" --json -o "$work/records" -- "$built/program" 2 >"$work/out" 2>"$work/errors"
  cmp "$work/bare" "$work/out"
  right_functions
  TARGETS=$built start_fed program
  until_line "$work/out" '^ready$'
  for round in 1 2; do
    watch latency --ends=slots "$@" -p "$fed"
    echo >&7
    patiently has_rounds $round
    end_watch
    right_functions
    text_is_original "$fed"
  done
  end_fed
  cmp "$work/bare" "$work/out"
}
has_rounds() { (($(grep -c '^done$' "$work/out") >= $1)) || has_ended "$fed"; }

@test "callers are passed on through a procedure linkage table that is bound lazily" {
  compile gcc
  link gcc -Wl,-z,lazy
  unharmed '*'
}

@test "callers are passed on through a procedure linkage table that is bound at the start" {
  compile gcc
  link gcc -Wl,-z,now
  unharmed
}

@test "callers are passed on in a program with fixed addresses" {
  compile gcc
  gcc -O2 -fno-pie -c "$sources/program.c" -o "$objects/program.o"
  program_flags=-no-pie link gcc -Wl,-z,lazy
  unharmed
}

@test "callers are passed on without a procedure linkage table" {
  compile gcc -fno-plt
  link gcc
  unharmed
  rm -r "$built" "$work/in"
  link gcc -Wl,--no-relax -Wl,-z,pack-relative-relocs
  unharmed
}

@test "callers are passed on by linkage tables with landing pads" {
  compile gcc -fcf-protection=full
  link gcc -Wl,-z,lazy -Wl,-z,ibtplt
  unharmed
}

@test "callers are passed on in libraries that bind their own functions themselves" {
  compile gcc
  link gcc -Wl,-z,lazy -Wl,-Bsymbolic
  unharmed
}

@test "callers are passed on by the linkage tables of other linkers, and by retpolines" {
  local linker linked=0
  compile gcc
  for linker in lld gold mold; do
    gcc -fuse-ld=$linker "$objects/private.o" -shared -o "$work/linked" 2>"$work/errors" || continue
    link gcc -fuse-ld=$linker -Wl,-z,lazy
    unharmed
    rm -r "$built" "$work/in"
    linked=$((linked + 1))
    [ $linker = lld ] || continue
    link gcc -fuse-ld=lld -Wl,-z,retpolineplt
    least=2 unharmed  # no jump to such a table is known as a way out
    rm -r "$built" "$work/in"
  done
  [ $linked -gt 0 ] || skip "lld, gold and mold are not installed"
}

@test "callers are passed on by what another compiler makes" {
  [ -n "$clang" ] || skip "clang is not installed"
  compile "$clang" -fno-plt
  link "$clang"
  unharmed
}

@test "callers are passed on in objects without section headers, and with old hash tables" {
  compile gcc
  link gcc -Wl,-z,lazy -Wl,--hash-style=sysv -rdynamic
  unharmed
  rm "$work/in"
  python3 - "$built"/*.so "$built/program" <<'PYTHON'
import sys
for name in sys.argv[1:]:
    with open(name, 'r+b') as file:
        file.seek(0x28)  # e_shoff
        file.write(bytes(8))
        file.seek(0x3c)  # e_shnum, e_shstrndx
        file.write(bytes(4))
PYTHON
  unharmed
}

@test "callers are passed on with musl" {
  command -v musl-gcc >/dev/null || skip "musl-gcc is not installed"
  defined_flags=
  compile musl-gcc
  link musl-gcc
  unharmed
}

@test "callers are passed on to a library that is preloaded" {
  compile gcc
  link gcc -Wl,-z,lazy
  "$built/program" 2 >"$work/bare"
  "$PINPRICK" latency 'leads_*' --json -o "$work/records" -- "$built/program" 2 >"$work/out"
  cmp "$work/bare" "$work/out"
  [ "$(field 'sorted((x["function"], x["count"]) for x in r if x.get("final"))')" = \
    "[('leads_by_one_to_overridden', 2), ('leads_to_overridden', 2)]" ]
  LD_PRELOAD=$built/liboverriding.so "$built/program" 2 >"$work/bare"
  grep -q '^program$' "$work/bare"
  LD_PRELOAD=$built/liboverriding.so \
    "$PINPRICK" latency --ends=slots 'leads_*' 'keeps_*' --json -o "$work/records" -- "$built/program" 2 >"$work/out"
  cmp "$work/bare" "$work/out"
  [ "$(field 'sorted(x["function"] for x in r if x["type"] == "skipped" and x["function"].startswith("leads"))')" = \
    "['leads_by_one_to_overridden', 'leads_to_overridden']" ]
  [ "$(field 'len([x for x in r if x.get("final") and x["function"].startswith("keeps_") and x["count"] > 0]) > 8')" = True ]
}

@test "a function that jumps to one which is not loaded yet has no slots, and that one is asked once it is there" {
  compile gcc
  link gcc -Wl,-z,lazy
  TARGETS=$built start_fed program
  until_line "$work/out" '^ready$'
  reasons() {
    "$PINPRICK" list --ends=slots 'plugin:*_late*' 'plugin:keeps_*' -p "$fed" --json | python3 -c '
import json, sys
for line in sys.stdin:
    record = json.loads(line)
    print(record["function"], record.get("latency_refused", "timed"))' | sort
  }
  [ "$(reasons)" = "$(printf '%s\n' 'keeps_on_from_plugin timed' 'passes_on_late unresolved_import' \
    'passes_on_late_twice unresolved_import')" ]
  echo >&7
  until_line "$work/out" '^done$'
  [ "$(reasons)" = "$(printf '%s\n' 'keeps_on_from_plugin timed' 'passes_on_late reads_return_address' \
    'passes_on_late_twice reads_return_address')" ]
  end_fed
}
