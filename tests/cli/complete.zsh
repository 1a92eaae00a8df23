#!/usr/bin/zsh -f
# What an interactive zsh offers for a command line: each candidate on a line, as it would insert it.
# Usage: complete.zsh FILE LINE, where FILE has the completion of pinprick, as compinit finds it.
# The shell runs on a terminal of its own, and a key is what asks it.

zmodload zsh/zpty || exit 77
zpty asked "PS1= zsh -f -i"
tell() { zpty -w asked "$1" }

tell "unsetopt zle_bracketed_paste; PROMPT=; fpath=(${(q)1:h} \$fpath)"
# What it finds it keeps beside the file, for the next one that is asked: it reads a thousand files.
tell "autoload -U compinit && compinit -u -d ${(q)1:h}/dump"
# compinit calls it by the name of its file.
tell "autoload -U $1:t && compdef $1:t pinprick"
tell "zstyle ':completion:*' insert-tab false"
# Prints what was found instead of inserting it.
cat >$1:h/capture <<'END'
compadd() {
  local -a found
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  builtin compadd -A found "$@"
  local one
  for one in $found; do print -r -- "candidate:$IPREFIX$one"; done
  builtin compadd "$@"
}
before() { print }
after() { print -r -- COMPLETED; exit }
compprefuncs=(before)
comppostfuncs=(after)
bindkey '^I' complete-word
END
tell "source ${(q)1:h}/capture"
# What the terminal echoes has no such words.
tell "print REA''DY"
local text
zpty -r asked text $'*READY*' || exit 1
zpty -w -n asked "$2"$'\t'
zpty -r asked text '*COMPLETED*' || exit 1
print -r -- ${(F)${(@M)${(@f)${text//$'\r'/}}:#candidate:*}#candidate:}
