/* Static tracepoints: points that an author puts into the code. Functions that are attached to a
 * point are called with its arguments whenever a thread reaches it. For C (C11 with GNU extensions)
 * and C++ (C++20), with gcc and clang, on x86-64.
 *
 *     // in a header: provider, name, types of the arguments
 *     PINPRICK_POINT_DECLARE(shop, order, int, const char*);
 *     // in one source file of the program or library
 *     PINPRICK_POINT_DEFINE(shop, order);
 *     // where it happens
 *     PINPRICK_POINT(shop, order, id, customer_name(id));
 *
 *     static void note(void* data, int id, const char* customer) { ... }
 *     PINPRICK_POINT_ATTACH(shop, order, note, NULL, 0);
 *
 * A point that is off is one nop of five bytes: the arguments are not evaluated, nothing is loaded,
 * and no branch is taken. While functions are attached, the nop is a jump to a block outside the
 * usual path, which evaluates the arguments and calls the functions on the thread that reached the
 * point.
 *
 * A program that does not link libpinprick can contain points: they stay off. The library is
 * reached by weak symbols, which `ld --as-needed` does not count as a use of the library. With
 * PINPRICK_POINTS_NEED_LIBRARY defined they are usual symbols, and the program must be linked with
 * it.
 *
 * A point belongs to the program or library in which it is defined, and is hidden from others. Up
 * to twelve arguments. Each type has to be one that can be put before a name: function pointers,
 * arrays, and types with commas need a typedef. PINPRICK_POINT and the like are statements, to be
 * used in functions, templates and lambdas alike, but not in constant expressions.
 *
 * docs/tracepoints.md says what points cost, and how other tools see them.
 */
#ifndef PINPRICK_TRACEPOINT_H
#define PINPRICK_TRACEPOINT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <type_traits>
extern "C" {
#endif

typedef void pinprick_point_untyped_(void);

/* A function that is attached to a point, without its type. */
struct pinprick_point_call {
  pinprick_point_untyped_* function;
  void* data;
};

/* Made by PINPRICK_POINT_DEFINE. All of it is libpinprick's own. */
struct pinprick_point {
  const struct pinprick_point_call* calls; /* at least one, up to one without a function; or NULL */
  const char* names;                       /* the provider, a zero, the name */
  const char* types;                       /* of the arguments, separated by commas */
  uint16_t semaphore; /* how many tools and libraries want PINPRICK_POINT_SDT */
};

/* Made by PINPRICK_ATTACHMENT, which checks the type of the function. */
struct pinprick_attachment {
  struct pinprick_point* point;
  pinprick_point_untyped_* function;
  void* data;
  int priority;
};

/* An attachment by name, for those who learn names while they run, or whose functions are for
 * points of other objects. PINPRICK_NAMED_ATTACHMENT makes one, and checks the type of the
 * function. */
struct pinprick_named_attachment {
  const char* object; /* the path of its file, or the last part of that; NULL: all that have it */
  const char* provider;
  const char* name;
  const char* types; /* of the function's arguments after `data`, as in the point's declaration */
  pinprick_point_untyped_* function;
  void* data;
  int priority;
};

/* An object with points that comes or goes. */
struct pinprick_points_event {
  const char* object; /* path of its file; valid during the call */
  unsigned points;    /* that it has */
  bool comes;         /* false: it goes */
};
typedef void pinprick_points_notified(void* data, const struct pinprick_points_event* event);

/* One point, as a list has it. The strings live as long as the list. */
struct pinprick_point_info {
  const char* object; /* path of the file */
  const char* provider;
  const char* name;
  const char* types;
  const struct pinprick_point* point; /* not to be used after the object may have been unloaded */
  unsigned sites;                     /* nops in the code, inlined copies included */
  unsigned foreign_sites;             /* of these: hold neither the nop nor the jump */
  unsigned semaphore_sites;           /* those of PINPRICK_POINT_SDT */
  unsigned functions;                 /* attached now */
};
struct pinprick_point_list;

/* The library's own. */
struct pinprick_point_reader {
  uint64_t* running;
  uint64_t period;
};
#ifdef PINPRICK_POINTS_NEED_LIBRARY
#define PINPRICK_POINT_WEAK_
#else
#define PINPRICK_POINT_WEAK_ __attribute__((weak))
#endif
PINPRICK_POINT_WEAK_ struct pinprick_point_reader pinprick_library_points_read(void);
PINPRICK_POINT_WEAK_ int pinprick_library_points_attach(const struct pinprick_attachment* all,
                                                        size_t count);
PINPRICK_POINT_WEAK_ int pinprick_library_points_detach(const struct pinprick_attachment* all,
                                                        size_t count);
PINPRICK_POINT_WEAK_ int pinprick_library_points_attach_named(
    const struct pinprick_named_attachment* all, size_t count);
PINPRICK_POINT_WEAK_ int pinprick_library_points_detach_named(
    const struct pinprick_named_attachment* all, size_t count);
PINPRICK_POINT_WEAK_ int pinprick_library_points_synchronize(void);
PINPRICK_POINT_WEAK_ const char* pinprick_library_points_error(void);
PINPRICK_POINT_WEAK_ int pinprick_library_points_notify(pinprick_points_notified* function,
                                                        void* data);
PINPRICK_POINT_WEAK_ int pinprick_library_points_stop_notifying(pinprick_points_notified* function,
                                                                void* data);
PINPRICK_POINT_WEAK_ void pinprick_library_points_object(const void* inside, int comes);
PINPRICK_POINT_WEAK_ struct pinprick_point_list* pinprick_library_points_list(void);
PINPRICK_POINT_WEAK_ const struct pinprick_point_info* pinprick_library_points_next(
    struct pinprick_point_list* list);
PINPRICK_POINT_WEAK_ void pinprick_library_points_free(struct pinprick_point_list* list);

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Waddress"
#endif

/* Returns whether the program has libpinprick. Without it nothing can be attached. */
static inline bool pinprick_points_available(void) {
  return &pinprick_library_points_attach != NULL;
}

static inline int pinprick_points_no_library_(void) {
  errno = ENOSYS;
  return -1;
}

/* The functions below may be called from any thread, from functions that are attached to points,
 * and from handlers of probes; not from signal handlers. They may allocate, and take locks. */

/* Attaches all functions, or none. Points that were off are on when it returns: each later hit, on
 * whichever thread, calls the functions, those of higher priority first; of equal ones, the oldest.
 * Many at once take about as long as one. Returns 0, or -1 with errno; then
 * pinprick_points_error() has a sentence with the remedy.
 *   EINVAL   an attachment without a point or function
 *   EEXIST   the function is attached to the point with the same data already
 *   ENOENT   a point has no place in the code: the compiler has left out the functions that reach
 *            it, or its object is being loaded or unloaded
 *   ENOSYS   the program does not have libpinprick
 *   EBUSY    the code cannot be changed now: a debugger holds the process, which has several
 *            threads; or an attached pinprick holds it; or a thread blocks SIGTRAP
 *   EILSEQ   a site of a point does not have the bytes it was compiled with
 *   ENOMEM and others from the system
 */
static inline int pinprick_points_attach(const struct pinprick_attachment* all, size_t count) {
  return pinprick_points_available() ? pinprick_library_points_attach(all, count)
                                     : pinprick_points_no_library_();
}

/* Detaches all of them, or none: the functions with this data; the priority does not matter. Does
 * not wait: other threads may be running the functions until pinprick_points_synchronize() returns.
 * Returns 0, or -1 with errno: ENOENT if one is not attached; EINVAL and ENOMEM as above. A point
 * stays on, without functions, while a thread blocks SIGTRAP, or while a debugger holds a process
 * of several threads. */
static inline int pinprick_points_detach(const struct pinprick_attachment* all, size_t count) {
  return pinprick_points_available() ? pinprick_library_points_detach(all, count)
                                     : pinprick_points_no_library_();
}

/* Attach and detach functions by the names of points, in all objects that have such a point now.
 * Points of one name, with other types than the function's, are other points. Types are compared as
 * they are written, spaces aside. As the two above, and also:
 *   ENOENT   no object that is loaded has such a point; of a detach: none of them has the function
 *            with this data
 */
static inline int pinprick_points_attach_named(const struct pinprick_named_attachment* all,
                                               size_t count) {
  return pinprick_points_available() ? pinprick_library_points_attach_named(all, count)
                                     : pinprick_points_no_library_();
}
static inline int pinprick_points_detach_named(const struct pinprick_named_attachment* all,
                                               size_t count) {
  return pinprick_points_available() ? pinprick_library_points_detach_named(all, count)
                                     : pinprick_points_no_library_();
}

/* Waits until no function runs, nor will run, that was detached before the call. Afterwards its
 * data can be freed, and its library unloaded. Returns 0, or -1 with errno EDEADLK if it is called
 * from such a function, which it would wait for. */
static inline int pinprick_points_synchronize(void) {
  return pinprick_points_available() ? pinprick_library_points_synchronize() : 0;
}

/* Has `function` called for each object with points that is loaded or unloaded from now on: after
 * its addresses are in place and before its constructors, and after its destructors and before its
 * code goes. It runs in the thread that loads or unloads, which holds the loader's lock: it may
 * make all calls here, such as attaching to the new points, and must not wait for threads that
 * load. It is not called when the process exits. Objects that are there already are in
 * pinprick_points_list(). Returns 0, or -1 with errno: EINVAL without a function, EEXIST if it is
 * called with this data already, ENOSYS, ENOMEM. */
static inline int pinprick_points_notify(pinprick_points_notified* function, void* data) {
  return pinprick_points_available() ? pinprick_library_points_notify(function, data)
                                     : pinprick_points_no_library_();
}

/* Ends that. When it returns, no other thread is calling the function. Returns 0, or -1 with errno
 * ENOENT if it is not called with this data, ENOSYS, ENOMEM. */
static inline int pinprick_points_stop_notifying(pinprick_points_notified* function, void* data) {
  return pinprick_points_available() ? pinprick_library_points_stop_notifying(function, data)
                                     : pinprick_points_no_library_();
}

/* Returns why the last call on this thread has failed, in one sentence. */
static inline const char* pinprick_points_error(void) {
  return pinprick_points_available()
             ? pinprick_library_points_error()
             : "this program is not linked with libpinprick (see PINPRICK_POINTS_NEED_LIBRARY)";
}

/* Returns all points of the process that have sites, by object, then by name; NULL with errno
 * ENOSYS or ENOMEM. Those of an object that another thread is loading may be missing, until its
 * constructors run. It is a copy: it does not change, and outlives the objects. */
static inline struct pinprick_point_list* pinprick_points_list(void) {
  if (pinprick_points_available()) return pinprick_library_points_list();
  errno = ENOSYS;
  return NULL;
}

/* Returns the first point, then the next one at each call, and NULL after the last one. */
static inline const struct pinprick_point_info* pinprick_points_next(
    struct pinprick_point_list* list) {
  return list == NULL ? NULL : pinprick_library_points_next(list);
}

/* Frees the list, and with it what pinprick_points_next() has returned. NULL is allowed. */
static inline void pinprick_points_free(struct pinprick_point_list* list) {
  if (list != NULL) pinprick_library_points_free(list);
}

/* Calls `run` with each function that is attached. Between the two stores, no list of functions
 * that this thread reads is freed, and pinprick_points_synchronize() waits. A signal handler that
 * interrupts between load and store leaves the word as it was.
 *
 * The branches are such that none is taken when one function is attached. */
#define PINPRICK_POINT_RUN_(point, run)                                                            \
  do {                                                                                             \
    if (!pinprick_points_available()) break;                                                       \
    const struct pinprick_point_reader pp_reader = pinprick_library_points_read();                 \
    const uint64_t pp_outer = __atomic_load_n(pp_reader.running, __ATOMIC_RELAXED);                \
    if (pp_outer == 0) __atomic_store_n(pp_reader.running, pp_reader.period, __ATOMIC_RELAXED);    \
    __atomic_signal_fence(__ATOMIC_SEQ_CST);                                                       \
    const struct pinprick_point_call* pp_call = __atomic_load_n(&(point).calls, __ATOMIC_ACQUIRE); \
    if (__builtin_expect(pp_call != NULL, 1)) {                                                    \
      do {                                                                                         \
        run;                                                                                       \
      } while (__builtin_expect((++pp_call)->function != NULL, 0));                                \
    }                                                                                              \
    __atomic_store_n(pp_reader.running, pp_outer, __ATOMIC_RELEASE);                               \
  } while (0)

#ifdef __cplusplus
} /* extern "C" */
#endif

/* Calls the function whose address is first in *arguments, with `arguments`. For the compiler this
 * is no call: it changes no general register, so the code around a point keeps its values where
 * they are, and saves none of them. Vector registers are changed. The direction flag is clear, as
 * at each statement.
 *
 * The caller pushes `arguments` below its red zone. CFA is the caller's stack pointer before that,
 * by which unwinders find its frame. */
__asm__(".ifndef pinprick_point_visit\n" /* with LTO, several files become one */
        ".pushsection "
        ".text.unlikely.pinprick_point_visit,\"axG\",@progbits,pinprick_point_visit,comdat\n"
        ".weak pinprick_point_visit\n"
        ".hidden pinprick_point_visit\n"
        ".type pinprick_point_visit, @function\n"
        "pinprick_point_visit:\n"
        ".cfi_startproc\n"
        ".cfi_def_cfa %rsp, 144\n"
        ".cfi_offset %rip, -144\n"
        "pushq %rbp\n"
        ".cfi_def_cfa_offset 152\n"
        ".cfi_offset %rbp, -152\n"
        "movq %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "pushq %rax\n"
        "pushq %rcx\n"
        "pushq %rdx\n"
        "pushq %rsi\n"
        "pushq %rdi\n"
        "pushq %r8\n"
        "pushq %r9\n"
        "pushq %r10\n"
        "pushq %r11\n"
        "movq 16(%rbp), %rdi\n"
        "andq $-16, %rsp\n"
        "callq *(%rdi)\n"
        "movq -72(%rbp), %r11\n"
        "movq -64(%rbp), %r10\n"
        "movq -56(%rbp), %r9\n"
        "movq -48(%rbp), %r8\n"
        "movq -40(%rbp), %rdi\n"
        "movq -32(%rbp), %rsi\n"
        "movq -24(%rbp), %rdx\n"
        "movq -16(%rbp), %rcx\n"
        "movq -8(%rbp), %rax\n"
        "leave\n"
        ".cfi_def_cfa %rsp, 144\n"
        ".cfi_restore %rbp\n"
        "retq $136\n"
        ".cfi_endproc\n"
        ".size pinprick_point_visit, . - pinprick_point_visit\n"
        ".popsection\n"
        ".endif\n");

/* Tells the library that this object comes, and that it goes: once for each object, whichever of
 * its files include this header. Before all constructors, and after all destructors. */
#ifdef PINPRICK_POINTS_NEED_LIBRARY
#define PINPRICK_POINT_WEAK_SYMBOL_
#else
#define PINPRICK_POINT_WEAK_SYMBOL_ ".weak pinprick_library_points_object\n"
#endif
__asm__(".ifndef pinprick_point_object_comes\n" PINPRICK_POINT_WEAK_SYMBOL_ ".pushsection "
        ".text.unlikely.pinprick_point_object,\"axG\",@progbits,pinprick_point_object,comdat\n"
        ".weak pinprick_point_object_comes\n"
        ".hidden pinprick_point_object_comes\n"
        ".type pinprick_point_object_comes, @function\n"
        "pinprick_point_object_comes:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "movl $1, %esi\n"
        ".Lpp_object_tell:\n"
        "leaq pinprick_point_object_comes(%rip), %rdi\n"
        "movq pinprick_library_points_object@GOTPCREL(%rip), %rax\n"
        "testq %rax, %rax\n"
        "je .Lpp_object_alone\n"
        "jmpq *%rax\n"
        ".Lpp_object_alone:\n"
        "retq\n"
        ".cfi_endproc\n"
        ".size pinprick_point_object_comes, . - pinprick_point_object_comes\n"
        ".weak pinprick_point_object_goes\n"
        ".hidden pinprick_point_object_goes\n"
        ".type pinprick_point_object_goes, @function\n"
        "pinprick_point_object_goes:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "xorl %esi, %esi\n"
        "jmp .Lpp_object_tell\n"
        ".cfi_endproc\n"
        ".size pinprick_point_object_goes, . - pinprick_point_object_goes\n"
        ".popsection\n"
        ".pushsection .init_array.00101,\"awG\",@init_array,pinprick_point_object,comdat\n"
        ".balign 8\n"
        ".quad pinprick_point_object_comes\n"
        ".popsection\n"
        ".pushsection .fini_array.00101,\"awG\",@fini_array,pinprick_point_object,comdat\n"
        ".balign 8\n"
        ".quad pinprick_point_object_goes\n"
        ".popsection\n"
        ".endif\n");

#ifdef __AVX512F__
#define PINPRICK_POINT_MORE_REGISTERS_                                                          \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",   \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", \
      "k7"
#else
#define PINPRICK_POINT_MORE_REGISTERS_
#endif
#define PINPRICK_POINT_REGISTERS_                                                                 \
  "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
      "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)",      \
      "st(4)", "st(5)", "st(6)", "st(7)" PINPRICK_POINT_MORE_REGISTERS_

/* Calls the functions. `visit` is the point's function for this form of site.
 *
 * With -fstack-protector-strong, a function gets a canary on its usual path if the address of one
 * of its variables is taken, which is worse than a usual call. */
#ifdef __SSP_STRONG__
#define PINPRICK_POINT_VISIT_(id, ...) pinprick_point_pass_##id(__VA_ARGS__)
#else
#define PINPRICK_POINT_VISIT_(id, ...)                                                         \
  __extension__({                                                                              \
    struct pinprick_point_arguments_##id pp_arguments = pinprick_point_pack_##id(__VA_ARGS__); \
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushq %[pp_it]\n\tcallq pinprick_point_visit" \
                     :                                                                         \
                     : [pp_it] "r"(&pp_arguments)                                              \
                     : PINPRICK_POINT_REGISTERS_);                                             \
  })
#endif

/* A record of a site, for libpinprick: a note, so that it is found through the program headers. It
 * is kept and dropped together with the function that it is about ("o", "?"). It has three
 * distances, each from its own address: to the nop, to the block that runs while the point is on,
 * and to the point. Kind 1 has a nop to change. Kind 2, a site of PINPRICK_POINT_SDT, has neither a
 * nop to change nor a block. */
#define PINPRICK_POINT_RECORD_(kind, block)                    \
  ".pushsection pinprick_points,\"ao?\",@note,.Lpp_site%=\n\t" \
  ".balign 4\n\t"                                              \
  ".long 9, 12, " kind "\n\t"                                  \
  ".asciz \"pinprick\"\n\t"                                    \
  ".balign 4\n\t"                                              \
  ".long .Lpp_site%= - .\n\t"                                  \
  ".long " block " - .\n\t"                                    \
  ".long %c[pp_point] - .\n\t"                                 \
  ".popsection\n\t"

#define PINPRICK_POINT_SITE_(id, on)                                                         \
  __asm__ goto(".Lpp_site%=: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t" PINPRICK_POINT_RECORD_( \
                   "1", "%l[" #on "]")                                                       \
               :                                                                             \
               : [pp_point] "i"(&pinprick_point_##id)                                        \
               :                                                                             \
               : on)

#ifdef __clang__
#define PINPRICK_POINT_COLD_LABEL_ __attribute__((unused))
#else
#define PINPRICK_POINT_COLD_LABEL_ __attribute__((unused, cold))
#endif

#define PINPRICK_POINT_FIRE_(id, ...)                       \
  __extension__({                                           \
    if (__builtin_expect(pinprick_point_is_on_##id(), 0)) { \
      PINPRICK_POINT_VISIT_(id, __VA_ARGS__);               \
    }                                                       \
    (void)0;                                                \
  })

#define PINPRICK_POINT_FIRE_SDT_(id, ...)                       \
  __extension__({                                               \
    if (__builtin_expect(pinprick_point_is_wanted_##id(), 0)) { \
      PINPRICK_POINT_VISIT_(id, __VA_ARGS__);                   \
    }                                                           \
    (void)0;                                                    \
  })

/* Returns whether the point is on. For work that only its functions need:
 *     if (PINPRICK_POINT_ENABLED(shop, order)) { ... } */
#define PINPRICK_POINT_ENABLED(provider, name) \
  (__builtin_expect(pinprick_point_is_on_##provider##__##name(), 0) != 0)

/* The note by which other tools find a point (systemtap's format, version 3). %c[pp_semaphore] is 0
 * in the plain form. The note's nop is in the function that a hit calls. */
#define PINPRICK_POINT_NOTE_(provider, name, record, texts)                     \
  ".Lpp_site%=: nop\n\t" record ".pushsection .note.stapsdt,\"?\",\"note\"\n\t" \
  ".balign 4\n\t"                                                               \
  ".long 8, .Lpp_note_end%= - .Lpp_note%=, 3\n\t"                               \
  ".asciz \"stapsdt\"\n"                                                        \
  ".Lpp_note%=: .8byte .Lpp_site%=, _.stapsdt.base, %c[pp_semaphore]\n\t"       \
  ".asciz \"" provider "\"\n\t.asciz \"" name "\"\n\t" texts ".byte 0\n"        \
  ".Lpp_note_end%=: .balign 4\n\t"                                              \
  ".popsection\n\t"                                                             \
  ".ifndef _.stapsdt.base\n\t"                                                  \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n\t"     \
  ".weak _.stapsdt.base\n\t.hidden _.stapsdt.base\n"                            \
  "_.stapsdt.base: .space 1\n\t.size _.stapsdt.base, 1\n\t"                     \
  ".popsection\n\t"                                                             \
  ".endif"
/* An argument in a note is its size, negative if it is signed, an f if it is a floating-point
 * number, @, and where it is. An asm has at most 30 operands, so size and f are one: a
 * floating-point number's size plus 10. */
#define PINPRICK_POINT_NOTE_TEXT_(i, type)                         \
  ".if " #i " - 1\n\t.ascii \" \"\n\t.endif\n\t"                   \
  ".if %c[pp_kind" #i "] - 14\n\t"                                 \
  ".if %c[pp_kind" #i "] - 18\n\t.ascii \"%c[pp_kind" #i "]\"\n\t" \
  ".else\n\t.ascii \"8f\"\n\t.endif\n\t"                           \
  ".else\n\t.ascii \"4f\"\n\t.endif\n\t"                           \
  ".ascii \"@%[pp_" #i "]\"\n\t"
#define PINPRICK_POINT_NOTE_OPERAND_(i, type)                       \
  , [pp_##i] "norx"(PINPRICK_POINT_NOTE_VALUE_(arguments->a##i)),   \
      [pp_kind##i] "n"(PINPRICK_POINT_NOTE_SIZE_(arguments->a##i) + \
                       10 * PINPRICK_POINT_NOTE_FLOAT_(arguments->a##i))

/* Types that are no numbers or pointers are in the note with their address. */
#ifdef __cplusplus
namespace pinprick::detail {
template <class T>
using PointType = T;
template <class T>
inline constexpr bool kFitsNote = std::is_scalar_v<T> && sizeof(T) <= 8;
template <class T>
__attribute__((always_inline)) inline auto note_value(const T& value) {
  if constexpr (kFitsNote<T>)
    return value;
  else
    return static_cast<const void*>(&value);
}
template <class T>
constexpr int note_size() {
  if constexpr (!kFitsNote<T>)
    return 8;
  else if constexpr (std::is_enum_v<T>)
    return note_size<std::underlying_type_t<T>>();
  else
    return static_cast<int>(sizeof(T)) * (std::is_integral_v<T> && std::is_signed_v<T> ? -1 : 1);
}
} /* namespace pinprick::detail */
#define PINPRICK_POINT_TYPE_(type) ::pinprick::detail::PointType<type>
#define PINPRICK_POINT_NOTE_PLAIN_(x) std::remove_cvref_t<decltype(x)>
#define PINPRICK_POINT_NOTE_VALUE_(x) ::pinprick::detail::note_value(x)
#define PINPRICK_POINT_NOTE_SIZE_(x) \
  (::pinprick::detail::note_size<PINPRICK_POINT_NOTE_PLAIN_(x)>())
#define PINPRICK_POINT_NOTE_FLOAT_(x)                              \
  (::pinprick::detail::kFitsNote<PINPRICK_POINT_NOTE_PLAIN_(x)> && \
   std::is_floating_point_v<PINPRICK_POINT_NOTE_PLAIN_(x)>)
#define PINPRICK_POINT_C_ extern "C"
#define PINPRICK_POINT_CAST_(type, x) reinterpret_cast<type>(x)
#else
#define PINPRICK_POINT_TYPE_(type) __typeof__(type)
/* 5 pointer, 8 floating point, 9 complex, 12 structure, 13 union; less than 5: integers */
#define PINPRICK_POINT_NOTE_FITS_(x) (__builtin_classify_type(x) <= 8 && sizeof(x) <= 8)
#define PINPRICK_POINT_NOTE_VALUE_(x) __builtin_choose_expr(PINPRICK_POINT_NOTE_FITS_(x), (x), &(x))
#define PINPRICK_POINT_NOTE_NUMBER_(x)                                                       \
  __builtin_choose_expr(PINPRICK_POINT_NOTE_FITS_(x) && __builtin_classify_type(x) < 5, (x), \
                        (unsigned char)0)
#define PINPRICK_POINT_NOTE_SIZE_(x)                                             \
  (!PINPRICK_POINT_NOTE_FITS_(x)                                                 \
       ? 8                                                                       \
       : (int)sizeof(x) * ((__typeof__(PINPRICK_POINT_NOTE_NUMBER_(x)))-1 <      \
                                   (__typeof__(PINPRICK_POINT_NOTE_NUMBER_(x)))1 \
                               ? -1                                              \
                               : 1))
#define PINPRICK_POINT_NOTE_FLOAT_(x) \
  (PINPRICK_POINT_NOTE_FITS_(x) && __builtin_classify_type(x) == 8)
#define PINPRICK_POINT_C_ extern
#define PINPRICK_POINT_CAST_(type, x) ((type)(x))
#endif

/* Declares a point: PINPRICK_POINT_DECLARE(provider, name, type of each argument...). */
#define PINPRICK_POINT_DECLARE(...) \
  PINPRICK_POINT_GLUE_(PINPRICK_POINT_DECLARE_, PINPRICK_POINT_COUNT_(__VA_ARGS__))(__VA_ARGS__)

/* Defines a point that is declared before. */
#define PINPRICK_POINT_DEFINE(provider, name)                             \
  struct pinprick_point pinprick_point_##provider##__##name = {           \
      NULL, #provider "\0" #name,                                         \
      pinprick_point_types_##provider##__##name +                         \
          (sizeof pinprick_point_types_##provider##__##name > 1 ? 2 : 0), \
      0}

/* Is reached: PINPRICK_POINT(provider, name, argument...). */
#define PINPRICK_POINT(...) \
  PINPRICK_POINT_GLUE_(PINPRICK_POINT_PLAIN_, PINPRICK_POINT_SOME_(__VA_ARGS__))(__VA_ARGS__)

/* The same with a semaphore, which is loaded and tested. Other tools (gdb, perf, bpftrace) turn it
 * on by themselves. A point may have sites of both forms. */
#define PINPRICK_POINT_SDT(...) \
  PINPRICK_POINT_GLUE_(PINPRICK_POINT_SDT_, PINPRICK_POINT_SOME_(__VA_ARGS__))(__VA_ARGS__)

/* A function and its data for a point. Another prototype than void(void* data, arguments...) does
 * not compile. The function must not throw, and must not leave by longjmp. */
#define PINPRICK_ATTACHMENT(provider, name, function, data, priority) \
  pinprick_point_attachment_##provider##__##name(                     \
      PINPRICK_POINT_TYPED_(provider##__##name, function), data, priority)
#ifdef __cplusplus
#define PINPRICK_POINT_TYPED_(id, function) function
#else
#define PINPRICK_POINT_TYPED_(id, f) _Generic((f), pinprick_point_function_##id * : (f))
#endif

/* The same for the points of this name in other objects. The point has to be declared, and need not
 * be defined: PINPRICK_NAMED_ATTACHMENT(NULL, shop, order, note, NULL, 0). */
#define PINPRICK_NAMED_ATTACHMENT(object, provider, name, function, data, priority) \
  pinprick_point_named_attachment_##provider##__##name(                             \
      object, PINPRICK_POINT_TYPED_(provider##__##name, function), data, priority)

/* Attach, and detach, one function. As pinprick_points_attach() and pinprick_points_detach(). */
#define PINPRICK_POINT_ATTACH(provider, name, function, data, priority) \
  pinprick_points_attach_one_(PINPRICK_ATTACHMENT(provider, name, function, data, priority))
#define PINPRICK_POINT_DETACH(provider, name, function, data) \
  pinprick_points_detach_one_(PINPRICK_ATTACHMENT(provider, name, function, data, 0))

static inline int pinprick_points_attach_one_(struct pinprick_attachment one) {
  return pinprick_points_attach(&one, 1);
}
static inline int pinprick_points_detach_one_(struct pinprick_attachment one) {
  return pinprick_points_detach(&one, 1);
}

#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic pop
#endif

#define PINPRICK_POINT_GLUE_(a, b) PINPRICK_POINT_GLUE_AGAIN_(a, b)
#define PINPRICK_POINT_GLUE_AGAIN_(a, b) a##b
/* How many arguments follow provider and name. */
#define PINPRICK_POINT_COUNT_(...) \
  PINPRICK_POINT_16TH_(__VA_ARGS__, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0)
#define PINPRICK_POINT_16TH_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ...) p
/* 0 if none does, else 1. With commas of templates there may be many. */
#define PINPRICK_POINT_SOME_(...)                                                                  \
  PINPRICK_POINT_26TH_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
                       1, 1, 0, 0, 0)
#define PINPRICK_POINT_26TH_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, \
                             x, y, z, ...)                                                        \
  z
#define PINPRICK_POINT_PLAIN_0(provider, name) \
  PINPRICK_POINT_FIRE_(provider##__##name, pinprick_point_visit_##provider##__##name)
#define PINPRICK_POINT_PLAIN_1(provider, name, ...) \
  PINPRICK_POINT_FIRE_(provider##__##name, pinprick_point_visit_##provider##__##name, __VA_ARGS__)
#define PINPRICK_POINT_SDT_0(provider, name) \
  PINPRICK_POINT_FIRE_SDT_(provider##__##name, pinprick_point_visit_sdt_##provider##__##name)
#define PINPRICK_POINT_SDT_1(provider, name, ...)                                             \
  PINPRICK_POINT_FIRE_SDT_(provider##__##name, pinprick_point_visit_sdt_##provider##__##name, \
                           __VA_ARGS__)

/* What a declaration makes of each type. */
#define PINPRICK_POINT_FIELD_(i, type) PINPRICK_POINT_TYPE_(type) a##i;
#define PINPRICK_POINT_PARAMETER_(i, type) , PINPRICK_POINT_TYPE_(type) a##i
#define PINPRICK_POINT_NAME_(i, type) , a##i
#define PINPRICK_POINT_VALUE_(i, type) , arguments->a##i
#define PINPRICK_POINT_STRING_(i, type) ", " #type

#define PINPRICK_POINT_DECLARE_0(p, n) PINPRICK_POINT_DECLARE_ALL_(p, n, p##__##n, , , , , "", "", )
#define PINPRICK_POINT_EACH_1(m, T1) m(1, T1)
#define PINPRICK_POINT_EACH_2(m, T1, T2) m(1, T1) m(2, T2)
#define PINPRICK_POINT_EACH_3(m, T1, T2, T3) m(1, T1) m(2, T2) m(3, T3)
#define PINPRICK_POINT_EACH_4(m, T1, T2, T3, T4) m(1, T1) m(2, T2) m(3, T3) m(4, T4)
#define PINPRICK_POINT_EACH_5(m, T1, T2, T3, T4, T5) m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5)
#define PINPRICK_POINT_EACH_6(m, T1, T2, T3, T4, T5, T6) \
  m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5) m(6, T6)
#define PINPRICK_POINT_EACH_7(m, T1, T2, T3, T4, T5, T6, T7) \
  m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5) m(6, T6) m(7, T7)
#define PINPRICK_POINT_EACH_8(m, T1, T2, T3, T4, T5, T6, T7, T8) \
  m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5) m(6, T6) m(7, T7) m(8, T8)
#define PINPRICK_POINT_EACH_9(m, T1, T2, T3, T4, T5, T6, T7, T8, T9) \
  m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5) m(6, T6) m(7, T7) m(8, T8) m(9, T9)
#define PINPRICK_POINT_EACH_10(m, T1, T2, T3, T4, T5, T6, T7, T8, T9, T10) \
  m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5) m(6, T6) m(7, T7) m(8, T8) m(9, T9) m(10, T10)
#define PINPRICK_POINT_EACH_11(m, T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11)               \
  m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5) m(6, T6) m(7, T7) m(8, T8) m(9, T9) m(10, T10) \
      m(11, T11)
#define PINPRICK_POINT_EACH_12(m, T1, T2, T3, T4, T5, T6, T7, T8, T9, T10, T11, T12)          \
  m(1, T1) m(2, T2) m(3, T3) m(4, T4) m(5, T5) m(6, T6) m(7, T7) m(8, T8) m(9, T9) m(10, T10) \
      m(11, T11) m(12, T12)
#define PINPRICK_POINT_DECLARE_1(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_1, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_2(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_2, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_3(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_3, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_4(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_4, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_5(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_5, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_6(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_6, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_7(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_7, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_8(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_8, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_9(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_9, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_10(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_10, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_11(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_11, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_12(p, n, ...) \
  PINPRICK_POINT_DECLARE_SOME_(p, n, p##__##n, PINPRICK_POINT_EACH_12, __VA_ARGS__)
#define PINPRICK_POINT_DECLARE_SOME_(p, n, id, each, ...)                                    \
  PINPRICK_POINT_DECLARE_ALL_(                                                               \
      p, n, id, each(PINPRICK_POINT_FIELD_, __VA_ARGS__),                                    \
      each(PINPRICK_POINT_PARAMETER_, __VA_ARGS__), each(PINPRICK_POINT_NAME_, __VA_ARGS__), \
      each(PINPRICK_POINT_VALUE_, __VA_ARGS__), each(PINPRICK_POINT_STRING_, __VA_ARGS__),   \
      each(PINPRICK_POINT_NOTE_TEXT_, __VA_ARGS__),                                          \
      each(PINPRICK_POINT_NOTE_OPERAND_, __VA_ARGS__))

/* The functions are static, so that nothing has to be exported, and no other file's copy is used.
 * Those that a file does not use are left out by the compiler. */
#define PINPRICK_POINT_DECLARE_ALL_(provider, name, id, fields, parameters, names, values, types,  \
                                    texts, operands)                                               \
  typedef void pinprick_point_function_##id(void* data parameters);                                \
  PINPRICK_POINT_C_ struct pinprick_point pinprick_point_##id                                      \
      __attribute__((visibility("hidden")));                                                       \
  static const char pinprick_point_types_##id[] __attribute__((unused)) = types;                   \
  struct pinprick_point_arguments_##id {                                                           \
    void (*visit)(const struct pinprick_point_arguments_##id*);                                    \
    fields                                                                                         \
  };                                                                                               \
  /* A function of its own: clang 14 takes each asm goto of a function for a jump to the labels of \
     all of them, past initialisations. */                                                         \
  static inline __attribute__((unused, always_inline)) int pinprick_point_is_on_##id(void) {       \
    PINPRICK_POINT_SITE_(id, on);                                                                  \
    return 0;                                                                                      \
  on:                                                                                              \
    PINPRICK_POINT_COLD_LABEL_;                                                                    \
    return 1;                                                                                      \
  }                                                                                                \
  static inline __attribute__((unused, always_inline)) int pinprick_point_is_wanted_##id(void) {   \
    return __atomic_load_n(&pinprick_point_##id.semaphore, __ATOMIC_RELAXED) != 0;                 \
  }                                                                                                \
  static inline __attribute__((always_inline)) void pinprick_point_run_##id(                       \
      const struct pinprick_point_arguments_##id* arguments) {                                     \
    (void)arguments;                                                                               \
    PINPRICK_POINT_RUN_(pinprick_point_##id,                                                       \
                        PINPRICK_POINT_CAST_(pinprick_point_function_##id*,                        \
                                             pp_call->function)(pp_call->data values));            \
  }                                                                                                \
  static __attribute__((unused, cold, noinline)) void pinprick_point_visit_##id(                   \
      const struct pinprick_point_arguments_##id* arguments) {                                     \
    __asm__ volatile(PINPRICK_POINT_NOTE_(#provider, #name, "", texts)                             \
                     :                                                                             \
                     : [pp_semaphore] "n"(0)operands);                                             \
    pinprick_point_run_##id(arguments);                                                            \
  }                                                                                                \
  static __attribute__((unused, cold, noinline)) void pinprick_point_visit_sdt_##id(               \
      const struct pinprick_point_arguments_##id* arguments) {                                     \
    __asm__ volatile(                                                                              \
        PINPRICK_POINT_NOTE_(#provider, #name, PINPRICK_POINT_RECORD_("2", "."), texts)            \
        :                                                                                          \
        : [pp_semaphore] "i"(&pinprick_point_##id.semaphore), [pp_point] "i"(                      \
                                                                  &pinprick_point_##id)operands);  \
    pinprick_point_run_##id(arguments);                                                            \
  }                                                                                                \
  static inline __attribute__((unused, always_inline)) struct pinprick_point_arguments_##id        \
      pinprick_point_pack_##id(void (*visit)(const struct pinprick_point_arguments_##id*)          \
                                   parameters) {                                                   \
    struct pinprick_point_arguments_##id all = {visit names};                                      \
    return all;                                                                                    \
  }                                                                                                \
  static __attribute__((unused, cold, noinline)) void pinprick_point_pass_##id(                    \
      void (*visit)(const struct pinprick_point_arguments_##id*) parameters) {                     \
    const struct pinprick_point_arguments_##id all = {visit names};                                \
    visit(&all);                                                                                   \
  }                                                                                                \
  static inline __attribute__((unused)) struct pinprick_attachment pinprick_point_attachment_##id( \
      pinprick_point_function_##id* function, void* data, int priority) {                          \
    struct pinprick_attachment all = {&pinprick_point_##id,                                        \
                                      PINPRICK_POINT_CAST_(pinprick_point_untyped_*, function),    \
                                      data, priority};                                             \
    return all;                                                                                    \
  }                                                                                                \
  static inline __attribute__((unused)) struct pinprick_named_attachment                           \
      pinprick_point_named_attachment_##id(                                                        \
          const char* object, pinprick_point_function_##id* function, void* data, int priority) {  \
    struct pinprick_named_attachment all = {                                                       \
        object,                                                                                    \
        #provider,                                                                                 \
        #name,                                                                                     \
        pinprick_point_types_##id + (sizeof pinprick_point_types_##id > 1 ? 2 : 0),                \
        PINPRICK_POINT_CAST_(pinprick_point_untyped_*, function),                                  \
        data,                                                                                      \
        priority};                                                                                 \
    return all;                                                                                    \
  }                                                                                                \
  struct pinprick_point_declared_ /* takes the semicolon */

#endif
