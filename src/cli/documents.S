// Documents that `pinprick help` prints. They are a part of the program, so it needs no other file.

        .section .rodata.documents, "a", @progbits
        .globl  pinprick_agents_page, pinprick_agents_page_end
        .type   pinprick_agents_page, @object
pinprick_agents_page:
        .incbin AGENTS_FILE
pinprick_agents_page_end:
        .size   pinprick_agents_page, . - pinprick_agents_page

        .section .note.GNU-stack, "", @progbits
