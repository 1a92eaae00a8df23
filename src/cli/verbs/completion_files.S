// The files of completions/, for `pinprick completion`: the program has them wherever it lies.

        .macro  file name, path
        .globl  pinprick_\name, pinprick_\name\()_end
        .type   pinprick_\name, @object
pinprick_\name:
        .incbin "\path"
pinprick_\name\()_end:
        .size   pinprick_\name, . - pinprick_\name
        .endm

        .section .rodata.completions, "a", @progbits
        file    bash_completion, BASH_FILE
        file    zsh_completion, ZSH_FILE
        file    fish_completion, FISH_FILE

        .section .note.GNU-stack, "", @progbits
