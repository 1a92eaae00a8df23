// The texts of --help around the lists of options: the summary of the program, and for each verb
// its patterns, its examples and its exit status.
//
// For options.cc. tests/cli/help.txt shows them as they are printed: read it when one changes.
#pragma once

namespace pinprick::cli {

inline constexpr const char* kSummary =
    "Probes for programs that are already running: how often, how long, right now.\n"
    "No restart, no recompile, no agent; out again without a trace.";

inline constexpr const char* kMainFooter =
    "Examples:\n"
    "  pinprick                                         what to type first, for processes here\n"
    "  pinprick doctor                                  does it work on this machine?\n"
    "  pinprick list -p 4242 'libssl:SSL_*'             what can be probed, and how\n"
    "  pinprick count -p 4242 -d 10 'libc:*alloc'       hits of each function in 10 seconds\n"
    "  pinprick latency -p 4242 processCommand          how long does it take, until Ctrl-C\n"
    "  pinprick count 'libc:*alloc' -- ls -l            a program from its start\n"
    "\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused,\n"
    "5 something was missed (with --fail-on-loss). With -- COMMAND: the command's own, or 125 "
    "when\n"
    "pinprick failed.\n"
    "`pinprick VERB --help` says more; so do the manual pages pinprick(1) and pinprick-VERB(1).";

inline constexpr const char* kPatternFooter =
    "Patterns: [OBJECT:]FUNCTION[+0xOFFSET], * and ? stand for any characters\n"
    "  processCommand            wherever it is, in the program or in a library\n"
    "  'libc:mall*'              of one object, by its file name without version\n"
    "  'net::Conn::*'            C++ by the demangled name; :: never ends an object's name\n"
    "  'net::Conn::read(char*, *' one overload, by the signature from its (\n"
    "  redis-server:call+0x1f    one instruction (not for timed calls)\n"
    "  gzip+0x3500               a function by its address, as `pinprick list` prints it\n"
    "  @server.c:42              a line of source, with debug information (not for timed calls)\n"
    "  serve%inline              each place where it was inlined, likewise\n"
    "  '*.cold'                  parts of functions, which other patterns leave out\n"
    "  'usdt:python:function__*' SDT points: usdt:[OBJECT:]PROVIDER:NAME\n"
    "\n";

inline constexpr const char* kListFooter =
    "Examples:\n"
    "  pinprick list -p 4242 'libssl:SSL_*'\n"
    "  pinprick list --file /usr/bin/redis-server 'lookupKey*'\n"
    "  pinprick list --file /usr/bin/redis-server --instructions call\n"
    "  pinprick list --args -p 4242 libc:write 'usdt:*'\n"
    "  pinprick list --vars -p 4242 processCommand @server.c:42\n"
    "  pinprick list --types --file ./server 'struct request'\n"
    "  pinprick list --summary /usr/bin/redis-server --instructions --together\n"
    "\n"
    "Prints the address in the file, the object, how a probe is placed (nop, insn, window, pad,\n"
    "hop, evict, pun; - is not at all), the function, and the reason where it cannot be probed,\n"
    "or not be timed. With --types: the offset of each member, as byte or byte:bit, its size in\n"
    "bytes, its type and its name.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused.";

inline constexpr const char* kCountFooter =
    "Examples:\n"
    "  pinprick count -p 4242 -d 10 'libc:*alloc'       for 10 seconds\n"
    "  pinprick count -p 4242 -i 1 'SSL_*' -x '*_ctrl'  each second, without the *_ctrl\n"
    "  pinprick count 'libc:*alloc' -- ls -l            a program from its start\n"
    "  pinprick count -p 4242 'libc:write if fd==1'     only those of file descriptor 1\n"
    "  pinprick count -p 4242 --by fd --sum count libc:write   bytes by file\n"
    "  pinprick count -p 4242 --by stack --sum '$arg1' libc:malloc  who allocates how much\n"
    "  pinprick count -p 4242 --by fd --avg count libc:write   the usual size of a write\n"
    "  pinprick count -p 4242 --by comm processCommand  which threads\n"
    "  pinprick count --once -p 4242 'libssl:*'         what is executed, and what is not\n"
    "  pinprick count -p 4242 'libc:read%return if $retval<0'  by what calls return\n"
    "\n"
    "Ends at Ctrl-C, after --duration, or with the program, and takes the probes out first;\n"
    "Ctrl-C before they are in changes nothing (exit status 130).\n"
    "With -- COMMAND and no --output the results go to stderr: stdout is the command's.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused, 5 something was\n"
    "missed (with --fail-on-loss). With -- COMMAND: the command's own, or 125 when pinprick "
    "failed.";

inline constexpr const char* kLatencyFooter =
    "Examples:\n"
    "  pinprick latency -p 4242 processCommand            until Ctrl-C\n"
    "  pinprick latency -p 4242 -i 1 -d 60 'lookupKey*'   each second for a minute\n"
    "  pinprick latency -p 4242 readQuery..writeReply     from a hit of one to the next hit of the "
    "other\n"
    "  pinprick latency libc:read -- sort file            a program from its start\n"
    "  pinprick latency -p 4242 'libc:read if $arg3>=4Ki'  only some of the calls\n"
    "  pinprick latency -p 4242 --slower 1ms 'libssl:SSL_*'  only slow ones\n"
    "  pinprick latency -p 4242 'libc:read%return if $retval<0'  by what they return\n"
    "\n"
    "Ends at Ctrl-C, after --duration, or with the program, and takes the probes out first;\n"
    "Ctrl-C before they are in changes nothing (exit status 130).\n"
    "With -- COMMAND and no --output the results go to stderr: stdout is the command's.\n"
    "Calls that an exception leaves are counted separately. If pinprick warns that it has not\n"
    "found the program's unwinder, use `count` for functions that exceptions pass through: timing\n"
    "them may end the program.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused, 5 something\n"
    "was missed (with --fail-on-loss). With -- COMMAND: the command's own, or 125.";

inline constexpr const char* kTraceFooter =
    "Values follow the pattern, in the same word, as many as you like:\n"
    "  'libc:write fd count'     parameters by name, where pinprick knows them\n"
    "  'f n=$arg2 %r12:x32'      an argument that gets a name; a register, in hexadecimal\n"
    "  'libc:pthread_create $arg3:sym'  an address of code, by its name\n"
    "  'libc:open pathname:string'  the text there; *(u32*)($arg1+8) is a number there\n"
    "  'libc:write buf:bytes[count]'  as many bytes\n"
    "  'libc:read%return fd $retval $errno'  when the call returns, with its time\n"
    "  'malloc $arg1 if $arg1>=1M'  of some hits only\n"
    "  'f \"n is {$arg1}\"'         your own words instead, with values in braces\n"
    "  'X..Y $arg1'              from a hit of X to the next of Y on the thread, with the time\n"
    "  'f $arg2:u32[4] $arg7 $stack3'  an array; an argument and a word on the stack\n"
    "  'io:opened = libc:open64'  an event with a name\n"
    "\n"
    "Examples:\n"
    "  pinprick trace -p 4242 'libc:write fd count'\n"
    "  pinprick trace 'libc:open64%return pathname:string $retval' -- ls -l\n"
    "  pinprick trace --args 'libc:open*%return' 'libc:stat*%return' -- ls -l\n"
    "  pinprick trace -p 4242 'processCommand c->argc c->cmd->fullname'  with debug information\n"
    "  pinprick trace -p 4242 --slower 10ms 'processCommand'  slow calls as they end\n"
    "  pinprick trace -p 4242 --stack 'libc:abort'  with all callers\n"
    "  pinprick trace -p 4242 --tree 'redis-server:*'  which calls lie within which\n"
    "  pinprick trace -p 4242 --limit 20 'usdt:python:function__entry $arg2:string'\n"
    "  pinprick trace -p 4242 --tree --overwrite 4M --until 'call if $latency>50ms' "
    "'redis-server:*'\n"
    "                            what happened before the one slow call\n"
    "  pinprick trace -p 4242 --collect  what a killed pinprick had recorded\n"
    "  pinprick trace -p 4242 --event-file my.events --format=ftrace  as the kernel's tracing\n"
    "\n"
    "A line has the time, the thread, its command, and what was hit. What is not printed in time\n"
    "is dropped and counted; the program never waits.\n"
    "Ends as `pinprick count` does, with the same exit status; with --limit also after N events.";

inline constexpr const char* kRecordFooter =
    "Values follow the pattern, in the same word, as for `pinprick trace`.\n"
    "\n"
    "Examples:\n"
    "  pinprick record -p 4242 --tree -d 10 'redis-server:*'    ten seconds of all calls\n"
    "  pinprick record -p 4242 --tree --overwrite 16M --until 'call if $latency>50ms' "
    "'redis-server:*'\n"
    "                            what happened before the one slow call\n"
    "  pinprick record -o ls.rec --args 'libc:open*%return' -- ls -l\n"
    "  pinprick report ls.rec    what it was\n"
    "\n"
    "The file can be read while it grows, and after a crash. It has all names, so it can be read\n"
    "elsewhere, and later.\n"
    "Ends as `pinprick trace` does, with the same exit status.";

inline constexpr const char* kReportFooter =
    "Examples:\n"
    "  pinprick report pinprick.rec                    as `pinprick trace` would have printed it\n"
    "  pinprick report --slower 1ms pinprick.rec       of --tree: slow calls, and what called "
    "them\n"
    "  pinprick report --functions pinprick.rec        calls, total time, and time without "
    "callees\n"
    "  pinprick report pinprick.rec -o calls.html      for a browser\n"
    "  pinprick report --graph call pinprick.rec       what calls it, and what it calls\n"
    "  pinprick report --functions -o t.folded pinprick.rec    a flame graph of the time\n"
    "  pinprick report pinprick.rec -o trace.pftrace   for Perfetto\n"
    "  pinprick report --json pinprick.rec             for programs\n"
    "\n"
    "What was recorded with --tree is shown as a tree.\n"
    "Exit status: 0 ok, 1 failed, or the recording is damaged, 2 usage, 3 no call for --graph.";

inline constexpr const char* kLeaksFooter =
    "Functions: malloc, calloc, realloc, free and the rest of their family, in whichever objects\n"
    "have them. --alloc and --free name others, as for trace:\n"
    "  --alloc 'libpool:pool_get $arg2'   it returns a block, and $arg2 is the size\n"
    "  --free 'libpool:pool_put $arg2'    $arg2 is the block; without it, $arg1\n"
    "\n"
    "Examples:\n"
    "  pinprick leaks -p 4242 -d 60              what was not freed in a minute\n"
    "  pinprick leaks -p 4242 -i 10 --older 60s  every 10 seconds, until Ctrl-C\n"
    "  pinprick leaks -p 4242 --sample 16        a sixteenth of the blocks, if there are too many\n"
    "  pinprick leaks -- ./server                from its start to its end\n"
    "\n"
    "Blocks from before are not known, and what children free is not looked at. A block that is\n"
    "held for good reason is shown, too: look at what grows from one interval to the next.\n"
    "Ends as `pinprick count` does, with the same exit status.";

inline constexpr const char* kLocksFooter =
    "Locks: the mutexes, read-write locks and condition variables of POSIX threads, and those of\n"
    "C++ and others that are made of them. --lock and --unlock name other functions:\n"
    "  --lock 'postgres:LWLockAcquire' --unlock 'postgres:LWLockRelease'   $arg1 is the lock\n"
    "  --lock 'pool_enter $arg2' --unlock 'pool_leave $arg2'               $arg2 is the lock\n"
    "\n"
    "Examples:\n"
    "  pinprick locks -p 4242 -d 10            which locks threads wait for, and who holds them "
    "long\n"
    "  pinprick locks -p 4242 --slower 100us   only waits that were longer, where locks are hot\n"
    "  pinprick locks --now -p 4242            it hangs: who waits for whom? No probe is placed\n"
    "  pinprick locks -- ./server              from its start to its end\n"
    "\n"
    "A deadlock is told while it measures, and by --now: the threads, the locks and the stacks.\n"
    "Locks that are taken in orders that contradict one another are told before they deadlock.\n"
    "Ends as `pinprick count` does, with the same exit status; with --now it is 1 if there is a\n"
    "deadlock.";

inline constexpr const char* kTopFooter =
    "Examples:\n"
    "  pinprick top -p 4242 'lookupKey*' processCommand   until q or Ctrl-C\n"
    "  pinprick top -p 4242 -p 4243 'libssl:SSL_*'        two processes\n"
    "  pinprick top -p 4242 -d 10 'libc:*alloc' | cat     as tables, each second\n"
    "  pinprick top                                       all statistics of pinprick-kstats(1)\n"
    "\n"
    "Without a PATTERN it shows the statistics that are in the processes already, and without -p\n"
    "those of all processes.\n"
    "On a terminal, `?` shows the keys. Otherwise, and with --output, it prints a table for each\n"
    "interval, and with --json what `latency --json` prints.\n"
    "q, Ctrl-C, --duration and signals end it, and take the probes out.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing matched, 4 attach refused, 5 something\n"
    "was missed (with --fail-on-loss).";

inline constexpr const char* kHistFooter =
    "Values follow the pattern, in the same word:\n"
    "  'libc:write $arg3'        an argument: $arg1, $arg2 and so on\n"
    "  'usdt:libstdcxx:throw $arg1'  of an SDT point: $arg1 to $arg12\n"
    "  'gzip:fill_window+0x2a %rax'   a register at an instruction\n"
    "  'libc:memset $arg2:u8'    less of it: u8, u16, u32; s8 to s64 have a sign\n"
    "  'libc:malloc $arg1/1Ki if $arg1>=1Ki'  computed, and of some hits only\n"
    "  'libc:read%return $retval'  what calls return; also $latency, in nanoseconds\n"
    "\n"
    "Examples:\n"
    "  pinprick hist -p 4242 'libc:write $arg3'          how much is written at once\n"
    "  pinprick hist 'libc:malloc $arg1' -- ls -l        a program from its start\n"
    "\n"
    "Ends as `pinprick count` does, with the same exit status.";

inline constexpr const char* kMeasureFooter =
    "Each MEASURE is one word of the shell: [NAME =] and what another verb would measure.\n"
    "  'count libc:read'              hits; the pattern as for count\n"
    "  'latency libc:write'           times of calls\n"
    "  'latency readQuery..reply'     times from a hit of one to the next hit of the other\n"
    "  'hist libc:write $arg3'        values; as for hist\n"
    "  'count libc:write if $arg1==1' some of the hits, as for all verbs\n"
    "  'latency libc:read --slower 1ms'  slow calls; --faster for fast ones\n"
    "Several with one NAME and verb are one measure with all their patterns.\n"
    "\n"
    "Examples:\n"
    "  pinprick measure -p 4242 'reads = count libc:read' 'latency libc:write' 'hist libc:write "
    "$arg3'\n"
    "  pinprick measure -p 4242 -i 1 -f my.measures      one in each line of a file\n"
    "  pinprick measure 'count libc:malloc' 'hist libc:malloc $arg1' -- ls -l\n"
    "\n"
    "All probes come and go together. Each measure is printed as its verb prints it, in the order\n"
    "in which they are given; with --json each record has its name as `measure`.\n"
    "Ends as `pinprick count` does, with the same exit status.";

inline constexpr const char* kDoctorFooter =
    "Examples:\n"
    "  pinprick doctor -p 4242      can this process be probed, by me, here?\n"
    "  pinprick doctor --json       what a report of a bug should have\n"
    "\n"
    "Exit status: 0 all that is needed works, 1 something does not (BAD), 2 usage.";

inline constexpr const char* kStatusFooter =
    "Examples:\n"
    "  pinprick status -p 4242 --json\n"
    "  pinprick status -p 4242 --symbols probes.o && gdb -p 4242 -ex 'add-symbol-file probes.o'\n"
    "\n"
    "It only looks. It works beside a running pinprick, and after one was killed.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 no probes for --symbols, 4 refused.";

inline constexpr const char* kCallsFooter =
    "Examples:\n"
    "  pinprick calls -p 4242                  what is it doing right now, of all that is timed\n"
    "  pinprick calls -p 4242 --older 1s       what hangs\n"
    "  pinprick calls -p 4242 'libssl:SSL_*'   only calls of these functions\n"
    "\n"
    "Shows the calls and spans that `latency`, `top` and `kstats` time, of all pinpricks, and\n"
    "of the program's own libpinprick: the oldest first, each with its thread and its caller.\n"
    "A ? is a thread that is not known, as on the stack of a coroutine.\n"
    "It only reads, and stops nothing: the process may hang, be stopped, or be measured.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 nothing times calls there, 4 refused.";

inline constexpr const char* kDiffFooter =
    "Examples:\n"
    "  pinprick latency -p 4242 -i 1 -d 30 --json -o old.json 'redis-server:*Command'\n"
    "  pinprick latency -p 4243 -i 1 -d 30 --json -o new.json 'redis-server:*Command'\n"
    "  pinprick diff old.json new.json\n"
    "  pinprick diff --before old1.json old2.json old3.json --after new1.json new2.json new3.json\n"
    "  pinprick diff old.rec new.rec        two recordings, best with --tree\n"
    "  pinprick diff -o mallocs.folded old.json new.json    from count --by stack\n"
    "\n"
    "Reads what count, latency, hist, measure, top and kstats show write with --json, and\n"
    "recordings: times of calls, and as the measure `self` those without the calls in them. Rows "
    "of\n"
    "one name belong together, in whatever process they were. What is more than noise is decided "
    "by\n"
    "how far runs or intervals (-i) of one side are apart; so repeat, at best the whole run.\n"
    "Exit status: 0 ok, whether or not anything changed, 1 failed, 2 usage, or a file that cannot\n"
    "be read, 3 nothing to compare.";

inline constexpr const char* kDetachFooter =
    "Examples:\n"
    "  pinprick detach -p 4242      after the pinprick that probed it was killed\n"
    "  pinprick detach --all        everywhere\n"
    "  pinprick detach -p 4242 --owner 77    only what pinprick 77 put there\n"
    "\n"
    "Probes of a pinprick that still runs stay: end that one with Ctrl-C.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 no probes there, 4 refused.";

inline constexpr const char* kKeepFooter =
    "Example:\n"
    "  pinprick keep -p 4242        after the pinprick that probed it was killed\n"
    "\n"
    "Such probes go on recording. Until Ctrl-C this pinprick gives them what they would run out\n"
    "of: slots for calls in flight, and space for histograms. The probes stay after that;\n"
    "`pinprick detach` takes them out.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 3 no such probes there, 4 refused.";

inline constexpr const char* kKstatsFooter =
    "Commands:\n"
    "  trace S [bits B] [start X] [end Y] [gap cpu|thread|none] [if CONDITION]\n"
    "                     times of the calls of X, or from X to the next Y on the same thread;\n"
    "                     X is S if it is not given; __tracepoint_NAME is a static point\n"
    "  remove S           takes S out of the process, and GAP-S with it\n"
    "  START S, STOP S    resumes S, or pauses it; the figures stay\n"
    "  RESET S            clears the figures, for all readers\n"
    "  list               the names of all\n"
    "  show [S]           the distribution of S, or of all\n"
    "\n"
    "Examples:\n"
    "  pinprick kstats -p 4242 trace processCommand\n"
    "  pinprick kstats -p 4242 trace query bits 4 start readQueryFromClient end processCommand\n"
    "  pinprick kstats -p 4242 show query\n"
    "\n"
    "A statistic stays when pinprick ends. GAP-S has the times from the end of one call or span "
    "to\n"
    "the next start on the same CPU, or with `gap thread` on the same thread.\n"
    "Exit status: 0 ok, 1 failed, 2 EINVAL, 3 ENOENT, 4 attach refused.";
inline constexpr const char* kMountFooter =
    "Files, for each process:\n"
    "  DIR/PID/_control   read: names of the statistics; write: trace S [bits B] [start X] [end "
    "Y]\n"
    "                     [gap cpu|thread|none] [if CONDITION], remove S, start S, stop S, reset "
    "S\n"
    "  DIR/PID/NAME       read: the figures; write: START, STOP, RESET; rm: removes the statistic\n"
    "\n"
    "Example:\n"
    "  pinprick mount /tmp/stats &\n"
    "  echo trace write bits 3 > /tmp/stats/4242/_control\n"
    "  cat /tmp/stats/4242/write\n"
    "\n"
    "Serves the files until Ctrl-C, or until DIR is unmounted; the statistics stay.\n"
    "This pinprick prints why a command failed; its writer gets an errno.\n"
    "After kill -9, `fusermount3 -u DIR` unmounts DIR.\n"
    "Exit status: 0 ok, 1 failed, 2 usage, 4 a process of -p was refused.";

inline constexpr const char* kServeFooter =
    "ADDRESS:\n"
    "  127.0.0.1:9467, [::1]:9467   an IP address and a port; port 0 is any that is free\n"
    "  0.0.0.0:9467                 all of this machine: all who reach it see the names\n"
    "  unix:/run/pinprick.sock      a socket in a folder, for those who may write to it\n"
    "\n"
    "Examples:\n"
    "  pinprick kstats -p 4242 trace processCommand\n"
    "  pinprick serve &\n"
    "  curl http://127.0.0.1:9467/metrics\n"
    "\n"
    "Shows the statistics of `pinprick kstats`, those that programs record about themselves, and\n"
    "the figures of each `count`, `latency` and `hist` that runs, of all processes that you may\n"
    "look at. It only reads, and stops nothing. docs/serve.md has the metrics.\n"
    "Exit status: 0 ok, 1 failed, 2 usage.";

inline constexpr const char* kCompletionFooter =
    "SHELL is bash, zsh or fish. Where a package has installed pinprick, the shell finds its file "
    "by\n"
    "itself. Otherwise, add to the file that it reads when it starts:\n"
    "  ~/.bashrc                    source <(pinprick completion bash)\n"
    "  ~/.zshrc, after compinit     source <(pinprick completion zsh)\n"
    "  ~/.config/fish/config.fish   pinprick completion fish | source\n"
    "\n"
    "The shell then asks `pinprick completion words -- WORD...`, with what was typed so far, for\n"
    "what may come next: verbs, options and their values, the processes that you may probe, their\n"
    "functions (300 at most, if they are found within a second), and statistics.\n"
    "Exit status: 0 ok, 1 failed, 2 usage.";

inline constexpr const char* kFtraceFooter =
    "Filters, as in set_ftrace_filter:\n"
    "  processCommand            the function of that name, in the program or a library\n"
    "  'lookup*'  '*Command'  '*key*'  'get*Command'   with *, ? and [a-z]; \\ before one escapes "
    "it\n"
    "  '!lookupKeyRead*'         none of these, of what filters before it have added\n"
    "  'mem*:mod:libc'           those of one object, by its file name without version\n"
    "  ':mod:libssl'             all of its functions; ':mod:!*' all of the program itself\n"
    "  ''                        clears what filters before it have added\n"
    "The last filter that matches decides. Without any, the program's own functions are traced.\n"
    "\n"
    "Examples:\n"
    "  pinprick ftrace -p 4242 --filter 'lookup*' --filter '!*Write*'\n"
    "  pinprick ftrace -p 4242 --tracer function_graph --graph processCommand --max-depth 4\n"
    "  pinprick ftrace -p 4242 --profile -d 10         hits and times, the most time first\n"
    "  pinprick ftrace -p 4242 --tid 4250 --filter-file set_ftrace_filter\n"
    "\n"
    "Lines are those of the kernel, for tools that read its trace; docs/ftrace.md has them.\n"
    "Ends as `pinprick trace` does, with the same exit status.";

inline constexpr const char* kHelpFooter =
    "Without a TOPIC, prints what `pinprick --help` does. The page `agents` says how to look into "
    "a\n"
    "process that must not be harmed, and how to read the answer.\n"
    "Exit status: 0 ok, 1 failed, 2 there is no such topic.";

}  // namespace pinprick::cli
