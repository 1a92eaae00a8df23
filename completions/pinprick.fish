# fish completion for pinprick(1). The program itself knows what may come next (`pinprick completion
# --help`); this file is between the two. tests/cli/completion.bats tries it.

function __pinprick_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct | string trim --left --chars "'\"")
    set -l answer ($words[1] completion words -- $words[2..-1] $word 2>/dev/null)

    # What stands before a path in the same word: --option=
    set -l before (string match --regex -- '^-[^=]*=' $word)
    set -l path (string replace -- "$before" '' $word)

    switch "$answer[1]"
        case files
            string replace --regex -- '^' "$before" (__fish_complete_path $path)
        case folders
            string replace --regex -- '^' "$before" (__fish_complete_directories $path '')
        case 'command *'
            # The words before it are not the command's.
            set -l start (math (string replace 'command ' '' $answer[1]) + 2)
            complete -C (string join ' ' -- (string escape -- $words[$start..-1]) $word)
        case names
            printf '%s\n' $answer[2..-1]
    end
end

complete -c pinprick -f -a '(__pinprick_complete)'
