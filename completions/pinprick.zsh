#compdef pinprick
# zsh completion for pinprick(1). The program itself knows what may come next (`pinprick completion
# --help`); this file is between the two. tests/cli/completion.bats tries it.

_pinprick() {
  local -a answer names
  local program=${words[1]} line
  answer=("${(@f)$(${~program} completion words -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")

  case ${answer[1]} in
    files | folders)
      # After --option= only the rest is a path.
      compset -P '-[^=]#='
      if [[ ${answer[1]} == files ]]; then _files; else _files -/; fi
      ;;
    command\ *)
      # The words before it are not the command's.
      shift $((${answer[1]#command } + 1)) words
      ((CURRENT -= ${answer[1]#command } + 1))
      _normal
      ;;
    names)
      for line in "${(@)answer[2,-1]}"; do
        # _describe takes NAME:DESCRIPTION.
        names+=("${${line%%$'\t'*}//:/\\:}${${(M)line%%$'\t'*}:+:${line#*$'\t'}}")
      done
      _describe -V pinprick names
      ;;
  esac
}

# This file is either the function itself, as compinit loads it, or is sourced.
if [[ ${funcstack[1]} == _pinprick ]]; then
  _pinprick "$@"
else
  compdef _pinprick pinprick
fi
