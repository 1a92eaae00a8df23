// The fixed parts of the page: the program has them wherever it lies.

        .macro  begin name
        .globl  pinprick_\name, pinprick_\name\()_end
        .type   pinprick_\name, @object
pinprick_\name:
        .endm

        .macro  end name
pinprick_\name\()_end:
        .size   pinprick_\name, . - pinprick_\name
        .endm

        .section .rodata.page, "a", @progbits
        begin   page_html
        .incbin "page.html"
        end     page_html

        begin   page_css
        .incbin "page.css"
        end     page_css

        // One script, whose last part starts it.
        begin   page_js
        .incbin "format.js"
        .incbin "histogram.js"
        .incbin "table.js"
        .incbin "chart.js"
        .incbin "flame.js"
        .incbin "timeline.js"
        .incbin "page.js"
        end     page_js

        .section .note.GNU-stack, "", @progbits
