# What names find: several functions with one name, several names of one function, and what linkers
# and strippers leave of symbols.
load helpers

# compile NAME FLAGS...: C from stdin to $work/NAME.
compile() { gcc -x c -O1 -o "$work/$1" "${@:2}" -; }
# rows EXPRESSION: of the last records of count, as a list.
rows() { field "sorted($1 for x in r if x['type'] in ('count', 'latency') and x['final'])"; }

# Two files with a static function of the same name, which is called 3 and 5 times.
namesakes() {
  local source=$BATS_TEST_DIRNAME/../targets/image/namesakes.c
  gcc -O1 -c -o "$work/a.o" "$source"
  gcc -O1 -DSECOND -c -o "$work/b.o" "$source"
  gcc -o "$work/namesakes" "$work/a.o" "$work/b.o"
  # Its addresses, by how often each is called: that of main's file comes first.
  mapfile -t work_at < <(nm "$work/namesakes" | awk '$3 == "work" { print $1 }' | sort |
    while read -r one; do printf '0x%x\n' "0x$one"; done)
  [ ${#work_at[@]} -eq 2 ]
}

@test "functions with one name have a row each, with their address and file" {
  namesakes
  "$PINPRICK" count --json -o "$work/records" work -- "$work/namesakes"
  [ "$(rows '(hex(x["address"]), x["hits"], x["function"])')" = \
    "[('${work_at[0]}', 3, 'work'), ('${work_at[1]}', 5, 'work')]" ]
  [ "$(rows 'x["file"]')" = "['$work/namesakes', '$work/namesakes']" ]
  "$PINPRICK" count -o "$work/text" work -- "$work/namesakes"
  cat "$work/text"
  grep -qE "^ +3 .* work \(namesakes\+${work_at[0]}\)$" "$work/text"
  grep -qE "^ +5 .* work \(namesakes\+${work_at[1]}\)$" "$work/text"
  "$PINPRICK" latency -o "$work/text" work -- "$work/namesakes"
  grep -qE "^work \(namesakes\+${work_at[0]}\) " "$work/text"
  "$PINPRICK" count -o "$work/text" main -- "$work/namesakes"
  grep -qE " main$" "$work/text"
}

@test "one of several functions with one name is named by its address" {
  namesakes
  local i hits=(3 5)
  for i in 0 1; do
    "$PINPRICK" count --json -o "$work/records" "namesakes+${work_at[i]}" -- "$work/namesakes"
    [ "$(rows '(hex(x["address"]), x["hits"], x["function"])')" = \
      "[('${work_at[i]}', ${hits[i]}, 'work')]" ]
  done
  run "$PINPRICK" latency work..main -- "$work/namesakes"
  echo "$output"
  [ "$status" -eq 2 ]
  [[ "$output" == *"'work' matches 2 places, namesakes+${work_at[0]} (work), namesakes+${work_at[1]} (work); name one of them" ]]
  # What the message says is taken.
  "$PINPRICK" latency --json -o "$work/records" "namesakes+${work_at[0]}..namesakes+${work_at[1]}" \
    -- "$work/namesakes"
  [ "$(rows '(x["count"], x["repeated_starts"], x["unmatched_ends"], hex(x["address"]))')" = \
    "[(1, 2, 4, '${work_at[0]}')]" ]
}

@test "a statistic is made of one of several functions with one name by its address" {
  # Waits for a line, calls them, and answers.
  gcc -O1 -c -o "$work/b.o" -DSECOND "$BATS_TEST_DIRNAME/../targets/image/namesakes.c"
  gcc -O1 -x c -o "$work/waits" - -x none "$work/b.o" <<'END'
#include <stdio.h>
int second(int x);
__attribute__((noinline)) static int work(int x) {
  __asm__ volatile("" : "+r"(x));
  return x + 1;
}
int main(void) {
  char line[16];
  int sum = 0;
  while (fgets(line, sizeof line, stdin)) {
    for (int i = 0; i < 3; ++i) sum += work(i);
    for (int i = 0; i < 5; ++i) sum += second(i);
    printf("%s\n", sum == 0 ? "zero" : "done");
    fflush(stdout);
  }
  return 0;
}
END
  local at program
  at=$(nm "$work/waits" | awk '$3 == "work" { print $1 }' | sort | head -n 1)
  at=$(printf 0x%x "0x$at")
  mkfifo "$work/in"
  "$work/waits" <"$work/in" >"$work/out" 3>&- &
  program=$!
  ends_with_test $program
  exec 7>"$work/in"
  tell go "done"
  run "$PINPRICK" kstats -p $program trace work
  [ "$status" -ne 0 ]
  [[ "$output" == *"waits+$at (work), waits+0x"* ]]
  "$PINPRICK" kstats -p $program trace one start "waits+$at"
  tell go "done"
  "$PINPRICK" kstats -p $program --json show one >"$work/records"
  [ "$(field '[(x["count"], hex(x["address"]), x["file"], x["of"]) for x in r]')" = \
    "[(3, '$at', '$work/waits', 'waits:work')]" ] ||
    [ "$(field '[(x["count"], hex(x["address"]), x["of"]) for x in r]')" = \
      "[(3, '$(printf 0x%x $((at + 4)))', 'waits:work')]" ]  # after an endbr64
  "$PINPRICK" kstats -p $program remove one
  no_trace $program
  exec 7>&-
  wait $program
}

# Two functions with the same code, and one with an alias.
folded_source() {
  cat <<'END'
__attribute__((noinline)) int alpha(int x) { return x * 3 + 7; }
__attribute__((noinline)) int beta(int x) { return x * 3 + 7; }
__attribute__((noinline)) int gamma_(int x) { __asm__ volatile("" : "+r"(x)); return x; }
int delta(int x) __attribute__((alias("gamma_")));
int main(int argc, char** argv) {
  (void)argv;
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += alpha(i + argc);
  for (int i = 0; i < 4; ++i) sum += beta(i + argc);
  for (int i = 0; i < 5; ++i) sum += gamma_(i) + delta(i);
  return sum == 0;
}
END
}

@test "functions that a linker has folded into one, and aliases: each name that was asked for is shown" {
  local linker tried=0
  for linker in lld gold mold; do
    command -v ld.$linker >/dev/null || continue
    folded_source | compile folded -ffunction-sections -fno-ipa-icf -fuse-ld=$linker -Wl,--icf=all
    [ "$(nm "$work/folded" | awk '$3 == "alpha" || $3 == "beta" { print $1 }' | sort -u | wc -l)" -eq 1 ]
    tried=$((tried + 1))
    "$PINPRICK" count --json -o "$work/records" alpha beta gamma_ delta -- "$work/folded"
    [ "$(rows '(x["function"], x["hits"])')" = "[('alpha, beta', 7), ('gamma_, delta', 10)]" ]
    "$PINPRICK" count -o "$work/text" beta alpha -- "$work/folded"
    grep -qE "^ +7 .* beta, alpha$" "$work/text"
    "$PINPRICK" latency --json -o "$work/records" alpha beta -- "$work/folded"
    [ "$(rows '(x["function"], x["count"])')" = "[('alpha, beta', 7)]" ]
    "$PINPRICK" count --json -o "$work/records" beta -- "$work/folded"
    [ "$(rows '(x["function"], x["hits"])')" = "[('beta', 7)]" ]
  done
  [ $tried -gt 0 ] || skip "no linker that folds functions is installed"
}

@test "copies that a compiler has made of a function are meant by its name, in C as in C++" {
  local language of
  for language in c c++; do
    {
      printf '__attribute__((noinline)) static int work(int x) { __asm__ volatile("" : "+r"(x)); return x; }\n'
      [ $language = c ] && of=work || of='_Z4worki'
      # As GCC calls them: a function of each name.
      printf '__attribute__((noinline)) int copy%s(int x) __asm__("%s.%s"); int copy%s(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }\n' \
        1 $of isra.0 1 2 $of constprop.0 2 3 $of part.0 3 4 $of lto_priv.0 4
      printf 'int main() { return work(0) + copy1(1) + copy2(2) + copy3(3) + copy4(4) == 0; }\n'
    } >"$work/source"
    gcc -x $language -O1 -o "$work/copies" "$work/source"
    "$PINPRICK" count --json -o "$work/records" work -- "$work/copies"
    [ "$(rows 'x["hits"]')" = "[1, 1, 1, 1, 1]" ]
    # `work` is local, and mangled otherwise in C++.
    "$PINPRICK" count --json -o "$work/records" "copies:*.isra.0" -- "$work/copies"
    [ "$(rows 'x["hits"]')" = "[1]" ]
  done
}

@test "a symbol table that keeps some symbols has its debug file read" {
  compile full -g <<'END'
__attribute__((noinline)) static int hidden_a(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
__attribute__((noinline)) int open_c(int x) { __asm__ volatile("" : "+r"(x)); return x + 2; }
int main(void) { int s = 0; for (int i = 0; i < 3; ++i) s += hidden_a(i) + open_c(i); return s != 15; }
END
  objcopy --only-keep-debug "$work/full" "$work/kept.debug"
  strip --strip-all --keep-symbol=open_c -o "$work/kept" "$work/full"
  objcopy --add-gnu-debuglink="$work/kept.debug" "$work/kept"
  "$PINPRICK" count --json -o "$work/records" hidden_a open_c -- "$work/kept"
  [ "$(rows '(x["function"], x["hits"])')" = "[('hidden_a', 3), ('open_c', 3)]" ]
}

# A program whose functions must not be timed, by the names of what they pass their caller on to.
@test "rules by name hold without section headers" {
  command -v llvm-objcopy >/dev/null || skip "llvm-objcopy is not installed"
  compile whole -O2 -fcf-protection=none -ldl <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
jmp_buf saved;
__attribute__((noinline)) void* find(const char* name) { return dlsym(RTLD_NEXT, name); }
__attribute__((noinline)) int plain(int x) { __asm__ volatile("" : "+r"(x)); return x; }
int main(void) {
  volatile int round = 0;
  if (_setjmp(saved) < 3) longjmp(saved, ++round);
  printf("%d %d\n", find("puts") != NULL, plain(round));
  return 0;
}
END
  local find plain
  find=$(printf 0x%x "0x$(nm "$work/whole" | awk '$3 == "find" { print $1 }')")
  plain=$(printf 0x%x "0x$(nm "$work/whole" | awk '$3 == "plain" { print $1 }')")
  llvm-objcopy --strip-sections "$work/whole" "$work/bare"
  [[ "$(readelf -SW "$work/bare")" == *"no sections"* ]]
  "$PINPRICK" latency --ends=slots --json -o "$work/records" 'bare:*' -- "$work/bare" >"$work/printed"
  [ "$(cat "$work/printed")" = "1 3" ]
  [ "$(rows "x['count'] if x['function'] == 'bare+$plain' else -1" | tr -d '[]' | awk -F, '{ print $NF + 0 }')" = 1 ]
  [ "$(field "[x['reason'] for x in r if x['type'] == 'skipped' and x['function'] == 'bare+$find']")" = \
    "['reads_return_address']" ]
  # No stub of the linkage table is a function.
  local plt
  plt=$(readelf -SW "$work/whole" | sed 's/\[ */[/' | awk '$2 ~ /^\.plt/ { print "(0x" $4 ", 0x" $6 ")," }')
  [ "$(field "[hex(x['address']) for x in r if 'address' in x and x.get('object') == 'bare' and
    any(b <= x['address'] < b + n for b, n in [$plt])]")" = "[]" ]
}

@test "stripped Go has its functions and names" {
  [ -x "$TARGETS/goroutines" ] || skip "Go's compiler is not installed"
  local how
  for how in "strip -s" "llvm-objcopy --strip-sections"; do
    command -v ${how%% *} >/dev/null || continue
    cp "$TARGETS/goroutines" "$work/goroutines"
    $how "$work/goroutines"
    "$PINPRICK" count --json -o "$work/records" 'main.tick' 'main.leaf' -- "$work/goroutines" 2 >"$work/printed"
    cat "$work/printed"
    [[ "$(cat "$work/printed")" == right* ]]
    [ "$(rows '(x["function"], x["hits"])' | grep -o "'main.tick', [0-9]*" | grep -o '[0-9]*$')" = \
      "$(grep -o '[0-9]*$' "$work/printed")" ]
    "$PINPRICK" count --json -o "$work/records" 'goroutines:*' -- "$work/goroutines" 2 >"$work/printed"
    [[ "$(cat "$work/printed")" == right* ]]
    [ "$(field '[x["armed"] > 500 for x in r if x["type"] == "armed"][0]')" = True ]
  done
}

@test "functions without symbols are selected by wildcards in their addresses" {
  local at all
  cp "$TARGETS/ticker_stripped" "$work/azmcp"
  at=$(printf 0x%x "0x$(nm "$TARGETS/ticker" | awk '$3 == "tick" { print $1 }')")
  "$PINPRICK" list --json -f "$work/azmcp" "azmcp+${at%?}*" >"$work/records"
  [ "$(field "'azmcp+$at' in [x['function'] for x in r]")" = True ]
  all=$(field 'len(r)')
  "$PINPRICK" list --json -f "$work/azmcp" >"$work/records"
  [ "$(field 'len(r)')" -gt "$all" ]
  run "$PINPRICK" list -f "$work/azmcp" 'azmcp+0x4g'
  [ "$status" -eq 2 ]
}
