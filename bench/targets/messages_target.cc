// messages_target PROCESSES MESSAGES: processes that exchange messages, as hackbench has them. Half
// of each 50 sends, the other half receives, and each sender sends to each receiver, over sockets.
// With POINTS, each message passes two tracepoints, which are off. Prints how many nanoseconds it
// took until all messages, about MESSAGES, had arrived, and how many of CPU time all processes have
// used; or `started N` if no more than N processes could be started.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <vector>

#include "timing.h"

#ifdef POINTS
#include <pinprick/tracepoint.h>
PINPRICK_POINT_DECLARE(messages, sent, int, size_t);
PINPRICK_POINT_DEFINE(messages, sent);
PINPRICK_POINT_DECLARE(messages, received, int, size_t);
PINPRICK_POINT_DEFINE(messages, received);
#define POINT(name, ...) PINPRICK_POINT(messages, name, __VA_ARGS__)
#else
#define POINT(name, ...)
#endif

namespace {

constexpr int kHalf = 25;  // senders, or receivers, of a group
constexpr unsigned kLongestSeconds = 50;

struct Message {
  char bytes[100];
};

struct Pipe {
  int reading = -1, writing = -1;
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    reading = ends[0], writing = ends[1];
    return true;
  }
};

// What all processes share: each says that it is ready, starts when the last writer of `start` is
// gone, and says that it is done.
struct Gates {
  Pipe ready, start, done;
};

void tell(int descriptor) {
  const char byte = 0;
  if (write(descriptor, &byte, 1) != 1) _exit(1);
}

// Returns how many bytes came until there were `count`, or no process that could write was left.
int wait_for_bytes(int descriptor, int count) {
  char bytes[64];
  int come = 0;
  while (come < count) {
    const ssize_t n = read(descriptor, bytes, sizeof bytes);
    if (n <= 0) break;
    come += static_cast<int>(n);
  }
  return come;
}

bool send_all(const std::vector<int>& sockets, int rounds) {
  Message message = {};
  for (int round = 0; round < rounds; ++round)
    for (const int socket : sockets) {
      POINT(sent, socket, sizeof message);
      if (write(socket, &message, sizeof message) != sizeof message) return false;
    }
  return true;
}

bool receive_all(int socket, int messages) {
  Message message;
  for (int i = 0; i < messages; ++i) {
    if (read(socket, &message, sizeof message) != sizeof message) return false;
    POINT(received, socket, sizeof message);
  }
  return true;
}

// Starts a process that does `work` when all have started, if it can be had.
template <class Work>
void start(const Gates& gates, std::vector<pid_t>& started, Work&& work) {
  const pid_t parent = getpid(), pid = fork();
  if (pid > 0) started.push_back(pid);
  if (pid != 0) return;
  // None of them outlives the program.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  close(gates.ready.reading), close(gates.start.writing), close(gates.done.reading);
  tell(gates.ready.writing);
  char byte;
  if (read(gates.start.reading, &byte, 1) != 0 || !work()) _exit(1);
  tell(gates.done.writing);
  _exit(0);
}

double children_cpu_ns() {
  rusage used = {};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto ns = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_usec) * 1e3;
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

void start_group(const Gates& gates, int rounds, std::vector<pid_t>& started) {
  std::vector<int> receiving, sending;
  for (int i = 0; i < kHalf; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) break;
    receiving.push_back(ends[0]), sending.push_back(ends[1]);
  }
  if (sending.size() == kHalf)
    for (const int socket : receiving) {
      start(gates, started, [&] { return receive_all(socket, kHalf * rounds); });
      start(gates, started, [&] { return send_all(sending, rounds); });
    }
  for (const int socket : receiving) close(socket);
  for (const int socket : sending) close(socket);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto processes = static_cast<int>(std::strtol(argv[1], nullptr, 10));
  const auto messages = static_cast<int>(std::strtol(argv[2], nullptr, 10));
  const int groups = processes / (2 * kHalf);
  if (groups < 1) return 2;
  const int rounds = std::max(1, messages / (groups * kHalf * kHalf));
  alarm(kLongestSeconds);
  Gates gates;
  if (!gates.ready.open() || !gates.start.open() || !gates.done.open()) return 1;
  std::vector<pid_t> started;
  for (int group = 0; group < groups; ++group) start_group(gates, rounds, started);
  close(gates.ready.writing), close(gates.start.reading), close(gates.done.writing);
  const int all = groups * 2 * kHalf;
  const int ready = wait_for_bytes(gates.ready.reading, static_cast<int>(started.size()));
  int done = 0;
  const double ns = ns_of([&] {
    if (ready == all) {
      close(gates.start.writing);
      done = wait_for_bytes(gates.done.reading, all);
    }
  });
  // Those of an incomplete group would wait for each other.
  if (done != all)
    for (const pid_t pid : started) kill(pid, SIGKILL);
  while (wait(nullptr) > 0) {
  }
  if (ready == all && done != all) return 1;
  if (ready != all)
    std::cout << "started " << ready << std::endl;
  else
    std::cout << ns << " " << children_cpu_ns() << std::endl;
}
