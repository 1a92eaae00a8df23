# Completions of the command line: `pinprick completion`, and real shells that ask it.
load helpers

repository=$BATS_TEST_DIRNAME/../..

# words WORD...: what may come next, where names are meant.
words() { "$PINPRICK" completion words -- "$@" | sed '1{/^names$/d}' | cut -f1; }

@test "every verb is offered with its description, and of each exactly its options" {
  same_lines "$("$PINPRICK" --help | sed -nE '/^Subcommands:/,/^$/s/^  ([a-z]+) +(.*)/\1\t\2/p')" \
    "$("$PINPRICK" completion words -- '' | sed 1d)"
  local verb
  for verb in '' $(verbs); do
    echo "$verb"
    # shellcheck disable=SC2086
    same_lines "$(help_options $verb)" "$(words $verb - | grep -vx -- -- | sort -u)"
  done
  for verb in count latency hist; do words $verb - | grep -qx -- --; done
  [ -z "$(words top - | grep -x -- --)" ]
}

@test "the processes offered are those that this user may probe, by number and name" {
  start_ticker
  "$PINPRICK" completion words -- count -p '' | grep -qx "$ticker	ticker"
  same_lines "$ticker" "$(words count -p "$ticker" | grep -x "$ticker")"
  [ -z "$(words count -p '' | grep -x 2)" ] || [ "$(cat /proc/2/comm)" != kthreadd ]
  become_nobody "$PINPRICK"
  [ -z "$("${as_nobody[@]}" "$work/pinprick" completion words -- count -p '' | grep "^$ticker	")" ]
  end_ticker
}

@test "functions are those of the process or the file, the program's own first" {
  start_ticker
  same_lines tick "$(words count -p "$ticker" tick | grep -x tick)"
  same_lines tick "$(words list --file "$TARGETS/ticker" tick | grep -x tick)"
  words latency "--pid=$ticker" libc:mallo | grep -qx libc:malloc
  words count --all "$TARGETS/ticker" main | grep -qx main
  words kstats -p "$ticker" trace tick | grep -qx tick
  words hist -p "$ticker" -x tick | grep -qx tick
  # As many as a list can show.
  [ "$(words count -p "$ticker" '' | wc -l)" -le 300 ]
  words count -p "$ticker" '' | head -n 20 | grep -qx main
  # What has no answer has none without a word.
  local none
  for none in "count -p 999999999 a" 'count a' "count -p $ticker no_such_" "list --file $work/none a" \
    "count -p $ticker tick+0x" "count -p $ticker ti*" "count -p x a" "nothing a" "nothing -" "doctor a"; do
    run bash -c "'$PINPRICK' completion words -- $none 2>&1"
    [ "$output" = names ]
    [ "$status" -eq 0 ]
  done
  end_ticker
}

@test "statistics, and processes that have probes, are offered where they are meant" {
  start_ticker
  [ -z "$(words detach -p '' | grep -x "$ticker")" ]
  "$PINPRICK" kstats -p "$ticker" trace tick start ticker:tick
  words detach -p '' | grep -qx "$ticker"
  words kstats -p "$ticker" show '' | grep -qx tick
  words kstats -p "$ticker" remove t | grep -qx tick
  "$PINPRICK" detach -p "$ticker"
  end_ticker
}

@test "what takes longer than a second is given up" {
  start_ticker
  # Whose turn it is to look at the process, src/ledger/turn.h: another one's, until the test ends.
  exec 8</proc/$ticker/personality
  flock --nonblock 8
  local begin=$EPOCHREALTIME
  run "$PINPRICK" completion words -- count -p "$ticker" tick 8>&-
  ((${EPOCHREALTIME/./} - ${begin/./} < 10000000))  # and not until the turn's timeout
  [ "$status" -eq 0 ]
  [ -z "$output" ]
  exec 8<&-
  words count -p "$ticker" tick | grep -qx tick
  end_ticker
}

@test "each shell's file is printed as it is, and no other shell is known" {
  for shell in bash zsh fish; do
    cmp <("$PINPRICK" completion $shell) "$repository/completions/pinprick.$shell"
  done
  local wrong
  for wrong in tcsh '' 'words' 'bash -- true' 'words --'; do
    # shellcheck disable=SC2086
    run "$PINPRICK" completion $wrong
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
  done
  run bash -c "'$PINPRICK' completion bash 2>&1 >/dev/full"
  [ "$status" -eq 1 ]
  [[ "$output" == *"No space left on device"* ]]
}

# offered_by_SHELL LINE: what an interactive one offers for a line, in its own order.
offered_by_bash() {
  PATH=$(dirname "$PINPRICK"):$PATH timeout 60 python3 "$BATS_TEST_DIRNAME/complete_bash.py" \
    "$repository/completions/pinprick.bash" "$1"
}
offered_by_zsh() {
  local folder=$BATS_FILE_TMPDIR/zsh
  if [ ! -d "$folder" ]; then
    mkdir "$folder"
    cp "$repository/completions/pinprick.zsh" "$folder/_pinprick"
  fi
  HOME=$work PATH=$(dirname "$PINPRICK"):$PATH timeout 60 zsh -f "$BATS_TEST_DIRNAME/complete.zsh" \
    "$folder/_pinprick" "$1"
}
offered_by_fish() {
  HOME=$work PATH=$(dirname "$PINPRICK"):$PATH timeout 60 fish --no-config -c \
    "source '$repository/completions/pinprick.fish'; complete -C \$argv[1]" -- "$1" | cut -f1
}

# completes SHELL: the same of each, but for what a shell inserts of a word: bash what follows the last
# = or :, and zsh the last part of a path.
completes() {
  local shell=$1 offered verb after=cat
  command -v "$shell" >/dev/null || skip "$shell is not installed"
  # offers LINE NAME...: these, in any order
  offers() {
    offered=$(offered_by_"$shell" "$1" | sort -u)
    same_lines "$(printf '%s\n' "${@:2}" | sort)" "$offered"
  }
  [ "$shell" != bash ] || after='sed s/.*[=:]//'
  # shellcheck disable=SC2046
  offers 'pinprick ' $(verbs)
  for verb in '' $(verbs); do
    echo "$verb"
    # shellcheck disable=SC2086
    same_lines "$(words $verb - | sort)" "$(offered_by_"$shell" "pinprick $verb${verb:+ }-" | sort)"
  done
  offers 'pinprick count --children ' count follow ignore
  offers 'pinprick count --children=f' "$($after <<<--children=follow)"
  offers 'pinprick completion ' bash zsh fish
  start_ticker
  # Of this one alone, as others may begin or end at any time.
  offered_by_"$shell" "pinprick count -p $ticker" | grep -qx "$ticker"
  offers "pinprick count -p $ticker ticker:ticki" "$($after <<<ticker:ticking)"
  offers "pinprick count -p $ticker 'ticker:ticki" ticker:ticking
  offers "pinprick count -p $ticker -x ticker:ticki" "$($after <<<ticker:ticking)"
  end_ticker
  cd "$work"
  mkdir -p paths/folder
  touch paths/file
  if [ "$shell" = zsh ]; then
    offers 'pinprick list --file paths/f' file folder
    offers 'pinprick mount paths/f' folder
    offers 'pinprick list --file=paths/fi' --file=file
  else
    same_lines "$(printf '%s\n' paths/file paths/folder)" \
      "$(offered_by_"$shell" 'pinprick list --file paths/f' | sed 's:/$::' | sort)"
    same_lines paths/folder "$(offered_by_"$shell" 'pinprick mount paths/f' | sed 's:/$::')"
    same_lines "$($after <<<--file=paths/file)" "$(offered_by_"$shell" 'pinprick list --file=paths/fi')"
  fi
}

@test "bash completes verbs, options, values, processes, functions and paths" { completes bash; }
@test "zsh completes verbs, options, values, processes, functions and paths" { completes zsh; }
@test "fish completes verbs, options, values, processes, functions and paths" { completes fish; }

@test "after -- the command's own words are completed" {
  local shell
  for shell in zsh fish; do
    command -v $shell >/dev/null || continue
    offered_by_$shell 'pinprick count main -- setpri' | grep -qx setpriv
  done
  [ "$("$PINPRICK" completion words -- count -x a main -- ls -)" = 'command 5' ]
}

@test "bash escapes what it would take for its own" {
  g++ -x c++ -c -o "$work/odd.o" - <<<'void f(int) {} void f(char*) {}'
  g++ -shared -o "$work/odd.so" "$work/odd.o"
  same_lines "$(printf '%s\n' 'f(char*)' 'f(int)')" "$(words list --file "$work/odd.so" 'f(' | sort)"
  same_lines "$(printf '%s\n' 'f\(char\*\)' 'f\(int\)')" \
    "$(offered_by_bash "pinprick list --file $work/odd.so f\\(" | sort)"
}

@test "zsh's file can be sourced as well" {
  command -v zsh >/dev/null || skip "zsh is not installed"
  HOME=$work PATH=$(dirname "$PINPRICK"):$PATH zsh -f -c \
    'autoload -U compinit && compinit -u -D && source <(pinprick completion zsh) && [[ ${_comps[pinprick]} == _pinprick ]]'
}
