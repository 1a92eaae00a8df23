// SDT points as <sys/sdt.h> makes them, without that header: a nop, and a note that describes it.
#pragma once

// The text of an asm statement. `semaphore` is a symbol or "0". `arguments` are operands with their
// sizes: "8@%0 -4@%1".
#define SDT_NOTE(provider, name, semaphore, arguments)                      \
  "990:\tnop\n"                                                             \
  "\t.pushsection .note.stapsdt,\"\",\"note\"\n"                            \
  "\t.balign 4\n"                                                           \
  "\t.4byte 992f-991f, 994f-993f, 3\n"                                      \
  "991:\t.asciz \"stapsdt\"\n"                                              \
  "992:\t.balign 4\n"                                                       \
  "993:\t.8byte 990b, _.stapsdt.base, " semaphore                           \
  "\n"                                                                      \
  "\t.asciz \"" provider "\", \"" name "\", \"" arguments                   \
  "\"\n"                                                                    \
  "994:\t.balign 4\n"                                                       \
  "\t.popsection\n"                                                         \
  "\t.ifndef _.stapsdt.base\n"                                              \
  "\t.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
  "\t.weak _.stapsdt.base\n"                                                \
  "\t.hidden _.stapsdt.base\n"                                              \
  "_.stapsdt.base: .space 1\n"                                              \
  "\t.size _.stapsdt.base, 1\n"                                             \
  "\t.popsection\n"                                                         \
  "\t.endif\n"

#define SDT_POINT(provider, name) __asm__ volatile(SDT_NOTE(provider, name, "0", "")::: "memory")
#define SDT_POINT1(provider, name, one) \
  __asm__ volatile(SDT_NOTE(provider, name, "0", "8@%0")::"nor"((long)(one)) : "memory")
// In general registers, whatever the compiler thinks.
#define SDT_POINT2_IN_REGISTERS(provider, name, one, two)                                         \
  __asm__ volatile(SDT_NOTE(provider, name, "0", "8@%0 -4@%1")::"r"((long)(one)), "r"((int)(two)) \
                   : "memory")
// With a semaphore, which is a symbol and a string here.
#define SDT_POINT1_GATED(provider, name, semaphore, one) \
  __asm__ volatile(SDT_NOTE(provider, name, semaphore, "8@%0")::"r"((long)(one)) : "memory")
