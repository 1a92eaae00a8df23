// Documents that `pinprick help` prints: the program has them wherever it lies.

        .section .rodata.documents, "a", @progbits
        .globl  pinprick_agents_page, pinprick_agents_page_end
        .type   pinprick_agents_page, @object
pinprick_agents_page:
        .incbin AGENTS_FILE
pinprick_agents_page_end:
        .size   pinprick_agents_page, . - pinprick_agents_page

        .section .note.GNU-stack, "", @progbits
