#include "survive/subjects.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace pinprick::survive {
namespace {

// A program that answers "ok" as long as all its results are right.
class Asked : public Subject {
 public:
  Asked(const Command& command, std::string question, Command patterns)
      : program_(command), question_(std::move(question)), patterns_(std::move(patterns)) {}
  pid_t pid() const override { return program_.pid(); }
  Command patterns() const override { return patterns_; }
  std::string check() override {
    program_.say(question_);
    const std::string answer = program_.hear();
    return answer == "ok" ? "" : "the target answers '" + answer + "'";
  }

 private:
  Program program_;
  std::string question_;
  Command patterns_;
};

class Thrower : public Subject {
 public:
  Thrower()
      : program_({TARGETS "thrower", "1000000000", "lines"}),
        oracle_({TARGETS "thrower", "1000000000", "lines"}),
        asker_([this] { ask(); }) {}
  ~Thrower() override {
    ending_ = true;
    asker_.join();
  }

  pid_t pid() const override { return program_.pid(); }
  // Among them functions that the unwinder calls itself.
  Command patterns() const override {
    return {"thrower:*",     "libstdc++:__gxx_p*", "libstdc++:*do_catch*", "libstdc++:__cxa*",
            "libc:*strlen*", "libc:*memset*",      "--allow-missing"};
  }
  std::string check() override {
    const long until = rounds_ + 2 * kAtOnce;
    while (rounds_ < until && !broken_) std::this_thread::yield();
    return broken_ ? "an exception went wrong" : "";
  }

 private:
  static constexpr int kAtOnce = 8;

  void ask() {
    while (!ending_ && !broken_) {
      for (int i = 0; i < kAtOnce; ++i) {
        program_.say("");
        oracle_.say("");
      }
      for (int i = 0; i < kAtOnce; ++i) {
        const std::string expected = oracle_.hear();
        if (expected.empty() || program_.hear() != expected) broken_ = true;
      }
      rounds_ += kAtOnce;
    }
  }

  Program program_;
  Program oracle_;
  std::atomic<long> rounds_ = 0;
  std::atomic<bool> broken_ = false;
  std::atomic<bool> ending_ = false;
  std::thread asker_;
};

class Loader : public Subject {
 public:
  Loader() : program_({TARGETS "dlhost"}) {
    stir();
    check();
  }
  pid_t pid() const override { return program_.pid(); }
  Command patterns() const override {
    return {"plugin:plugin_*", "libc:strlen", "--allow-missing"};
  }
  void stir() override { ask("go " TARGETS "plugin.so", "go"); }
  std::string check() override {
    ask("check", "check");
    return wrong_;
  }

 private:
  void ask(const std::string& what, const std::string& expected) {
    program_.say(what);
    const std::string answer = program_.hear();
    if (answer != expected) wrong_ = "the target answers '" + answer + "' to " + expected;
  }

  Program program_;
  std::string wrong_;
};

class Points : public Subject {
 public:
  Points() : program_({TARGETS "points"}) {}
  pid_t pid() const override { return program_.pid(); }
  // Of which all sites can be shared.
  Command patterns() const override { return {"usdt:shop:price", "usdt:shop:order"}; }
  std::string check() override {
    orders_ += 10;
    program_.say("10");
    answer_ = program_.hear();
    const std::string expected = "orders " + std::to_string(orders_) + " ";
    return answer_.starts_with(expected) ? "" : "the target answers '" + answer_ + "'";
  }
  // Of the last check.
  std::string traces() override {
    return answer_.ends_with("semaphore 0") ? "" : "a semaphore is not as it was: " + answer_;
  }

 private:
  Program program_;
  std::string answer_;
  long orders_ = 0;
};

class Tracepoints : public Subject {
 public:
  Tracepoints() : program_({TARGETS "orders"}) {}
  pid_t pid() const override { return program_.pid(); }
  Command patterns() const override { return {"usdt:shop:order", "usdt:shop:mixed"}; }
  std::string check() override {
    work_off();
    const std::string expected = "orders " + std::to_string(orders_) + " ";
    return answer_.starts_with(expected) ? "" : "the target answers '" + answer_ + "'";
  }
  // Points that are off evaluate nothing.
  std::string traces() override {
    work_off();
    const std::string before = evaluated();
    work_off();
    return evaluated() == before ? "" : "a point is still on: " + answer_;
  }

 private:
  void work_off() {
    orders_ += 10;
    program_.say("10");
    answer_ = program_.hear();
  }
  std::string evaluated() const {
    const size_t from = answer_.find(" order ");
    return from == answer_.npos ? answer_ : answer_.substr(from);
  }

  Program program_;
  std::string answer_;
  long orders_ = 0;
};

class Redis : public Subject {
 public:
  Redis()
      : socket_(scratch_ / "socket"),
        server_({"redis-server", "--port", "0", "--unixsocket", socket_, "--save", "",
                 "--appendonly", "no", "--dir", scratch_.path()}) {
    server_.hear_of("ready to accept connections");
    client_ = std::thread([this] { count(); });
  }
  ~Redis() override {
    ending_ = true;
    client_.join();
  }

  pid_t pid() const override { return server_.pid(); }
  Command patterns() const override {
    return {"redis-server:call", "redis-server:*Command", "redis-server:lookupKey*",
            "redis-server:ae*", "--allow-missing"};
  }
  std::string check() override {
    const long until = answers_ + 50;
    while (answers_ < until && !broken_) std::this_thread::yield();
    return broken_ ? "redis-server answered wrongly, or not at all" : "";
  }

 private:
  // INCR returns 1, 2, 3 ...
  void count() {
    const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socket_.copy(address.sun_path, sizeof address.sun_path - 1);
    const timeval timeout = {20, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    broken_ = ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0;
    while (!ending_ && !broken_) {
      const std::string request = "INCR n\r\n";
      const std::string expected = ":" + std::to_string(answers_ + 1) + "\r\n";
      std::string answer;
      char buffer[64];
      ssize_t n = ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
      while (n > 0 && !answer.ends_with("\r\n")) {
        n = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (n > 0) answer.append(buffer, static_cast<size_t>(n));
      }
      if (answer != expected)
        broken_ = true;
      else
        ++answers_;
      ::usleep(500);  // a small load, as other tests run on the machine
    }
  }

  Scratch scratch_;
  std::string socket_;
  Program server_;
  std::atomic<long> answers_ = 0;
  std::atomic<bool> broken_ = false;
  std::atomic<bool> ending_ = false;
  std::thread client_;
};

}  // namespace

std::unique_ptr<Subject> start_steady() {
  return std::make_unique<Asked>(Command{TARGETS "steady", "4"}, "check",
                                 Command{"steady:*", "-x", "steady:_*"});
}

std::unique_ptr<Subject> start_steady_for_keys() {
  return std::make_unique<Asked>(Command{TARGETS "steady", "4"}, "check",
                                 Command{"steady:*", "-x", "steady:_*", "--by", "%rsp>>4&255",
                                         "--sum", "$arg1", "--keys", "64"});
}

std::unique_ptr<Subject> start_steady_for_measures() {
  return std::make_unique<Asked>(
      Command{TARGETS "steady", "4"}, "check",
      Command{"count steady:*", "latency steady:*", "hist steady:descend $arg1",
              "again = count steady:descend", "-x", "steady:_*",
              "if = count steady:* if $arg1>=0 || %rbx==7",
              "return = count steady:*%return if $retval!=1",
              "return = hist steady:descend%return $arg1+$retval",
              "if = hist steady:* $arg1*2 if ($arg1 & 3) != 1",
              "s = latency steady:step..steady:descend", "s = latency steady:descend..steady:step",
              "s = latency steady:step..steady:step",
              "s = latency steady:descend..steady:descend"});
}

std::unique_ptr<Subject> start_punned() {
  return std::make_unique<Asked>(Command{TARGETS "punned", "4"}, "",
                                 Command{"punned:one", "punned:looped+0xb", "punned:locked+0x5",
                                         "punned:prefixed", "punned:edge"});
}

// Puns would lead below address 0 there, unless the next instruction makes room.
std::unique_ptr<Subject> start_evicting() {
  return std::make_unique<Asked>(
      Command{TARGETS "punned_nopie", "4"}, "",
      Command{"punned_nopie:one", "punned_nopie:behind_one", "punned_nopie:looped+0xb",
              "punned_nopie:prefixed", "punned_nopie:wide_edge"});
}

std::unique_ptr<Subject> start_turmoil() {
  return std::make_unique<Asked>(Command{TARGETS "turmoil", "8"}, "",
                                 Command{"turmoil:*", "--allow-missing"});
}

std::unique_ptr<Subject> start_thrower() {
  return std::make_unique<Thrower>();
}

std::unique_ptr<Subject> start_loader() {
  return std::make_unique<Loader>();
}

std::unique_ptr<Subject> start_points() {
  return std::make_unique<Points>();
}

std::unique_ptr<Subject> start_tracepoints() {
  return std::make_unique<Tracepoints>();
}

std::unique_ptr<Subject> start_redis() {
  if (!run({"redis-server", "--version"}).ending.exited_with(0)) return nullptr;
  return std::make_unique<Redis>();
}

}  // namespace pinprick::survive
