# bash completion for pinprick(1). The program itself knows what may come next (`pinprick completion
# --help`); this file is between the two. tests/cli/completion.bats tries it.

_pinprick() {
  local line=${COMP_LINE:0:COMP_POINT} piece words=() i
  COMPREPLY=()

  # bash splits words at = and : as well. Here they are whole, up to the cursor.
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    if [[ $i -eq 0 || $line == [[:space:]]* ]]; then
      words+=("")
      line=${line#"${line%%[![:space:]]*}"}
    fi
    piece=${COMP_WORDS[i]}
    ((${#piece} <= ${#line})) || piece=$line
    words[-1]+=$piece
    line=${line#"$piece"}
  done
  local word=${words[-1]} quote=""
  [[ $word != [\'\"]* ]] || quote=${word:0:1}

  # What the quotes are for, is for the shell.
  for i in "${!words[@]}"; do
    piece=${words[i]#[\'\"]}
    piece=${piece%[\'\"]}
    words[i]=${piece//\\/}
  done

  local answer=()
  mapfile -t answer < <("${words[0]/#\~\//$HOME/}" completion words -- "${words[@]:1}" 2>/dev/null)

  # Readline replaces what follows the last = or :, unless they are in quotes.
  local kept=""
  [[ $quote ]] || [[ $word != *[=:]* ]] || kept=${word%"${word##*[=:]}"}

  case ${answer[0]-} in
    files | folders)
      compopt -o filenames
      local action=-f
      [ "${answer[0]}" = files ] || action=-d
      word=${word#"$kept"}
      mapfile -t COMPREPLY < <(compgen $action -- "${word#"$quote"}")
      ;;
    command*)
      # Its number counts the words after pinprick; here the first of COMP_WORDS after --.
      for ((i = 1; i < COMP_CWORD; ++i)); do
        [ "${COMP_WORDS[i]}" != -- ] || break
      done
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        compopt -o default
      fi
      ;;
    names)
      local names=("${answer[@]:1}")
      for i in "${!names[@]}"; do
        piece=${names[i]%%$'\t'*}
        [[ $quote ]] || printf -v piece %q "$piece"
        piece=${piece#"$kept"}
        # A list that bash only shows, and of which it inserts nothing, has the names of processes.
        if [[ ${COMP_TYPE-} -eq 63 && $piece == [0-9]* && ${#names[@]} -gt 1 ]]; then
          piece+=" (${names[i]#*$'\t'})"
        fi
        COMPREPLY+=("$piece")
      done
      ;;
  esac
}

complete -o nosort -F _pinprick pinprick
