# bash completion for pinprick(1). tests/cli/manual.bats compares the options with --help.

_pinprick_pids() {
  local folder
  for folder in /proc/[0-9]*; do
    # Not kernel threads, nor what this user may not look at.
    [ -O "$folder" ] || [ "$(id -u)" -eq 0 ] || continue
    [ "$(readlink "$folder/exe" 2>/dev/null)" ] && echo "${folder#/proc/}"
  done
}

# The session files that `pinprick status` looks at: processes that have probes.
_pinprick_probed_pids() {
  pinprick status --json 2>/dev/null | sed -nE 's/^\{"type":"session","pid":([0-9]+),.*/\1/p'
}

_pinprick() {
  local word=$2 previous=$3 verb="" i
  local verbs="doctor list count latency top hist status detach keep kstats mount"
  local common="-h --help --json --color -p --pid"
  local patterns="-x --exclude --notrace --entry-sites -r --regex"
  local watching="-d --duration -i --interval -o --output -a --idle --top --allow-missing --children --follow-exec --fail-on-loss --no-cache"
  local files="--all --by --comm --uid --exclude-pid --cgroup"
  COMPREPLY=()

  for ((i = 1; i < COMP_CWORD; ++i)); do
    # What follows -- is a command of its own.
    if [ "${COMP_WORDS[i]}" = -- ]; then
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        compopt -o default
      fi
      return
    fi
    case " $verbs " in
      *" ${COMP_WORDS[i]} "*) [ -n "$verb" ] || verb=${COMP_WORDS[i]} ;;
    esac
  done

  # In --option=value, = is a word of its own.
  if [ "$word" = = ]; then
    word=""
  elif [ "$previous" = = ]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi

  case $previous in
    -p | --pid)
      local pids
      if [ "$verb" = detach ] || [ "$verb" = keep ]; then pids=$(_pinprick_probed_pids); else pids=$(_pinprick_pids); fi
      mapfile -t COMPREPLY < <(compgen -W "$pids" -- "$word")
      return
      ;;
    --children)
      mapfile -t COMPREPLY < <(compgen -W "count ignore follow" -- "$word")
      return
      ;;
    --all)
      if [[ $verb != status && $verb != detach ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
      fi
      ;;
    --by)
      mapfile -t COMPREPLY < <(compgen -W "pid" -- "$word")
      return
      ;;
    --exclude-pid)
      mapfile -t COMPREPLY < <(compgen -W "$(_pinprick_pids)" -- "$word")
      return
      ;;
    --color)
      mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$word")
      return
      ;;
    -f | --file | -s | --summary | --notrace | -o | --output | --symbols)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
    --bits)
      mapfile -t COMPREPLY < <(compgen -W "0 1 2 3 4 5" -- "$word")
      return
      ;;
    -d | --duration | -i | --interval | -x | --exclude | --slots | --comm | --uid | --cgroup)
      return
      ;;
  esac

  local words
  case $verb in
    "") words="$verbs -h --help -V --version" ;;
    doctor) words=$common ;;
    list) words="$common $patterns -f --file -s --summary --instructions --together --args --no-cache" ;;
    count) words="$common $patterns $watching $files --instructions --trap --silence-mcount --" ;;
    latency) words="$common $patterns $watching $files --bits --slots --force --silence-mcount --" ;;
    top) words="$common $patterns $watching --bits --slots --force" ;;
    hist) words="$common $patterns $watching $files --bits --silence-mcount --" ;;
    status) words="$common -a --all --symbols" ;;
    detach) words="$common -a --all --owner" ;;
    keep) words="$common -d --duration" ;;
    kstats)
      words="$common --density --force --no-cache"
      if [[ $word != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "trace remove START STOP RESET list show" -- "$word")
        return
      fi
      ;;
    mount)
      words=$common
      if [[ $word != -* ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
      fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _pinprick pinprick
