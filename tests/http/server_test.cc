#include "http/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/clock.h"
#include "scratch.h"

namespace pinprick::http {
namespace {

// More than the buffers of a socket take.
constexpr size_t kLarge = size_t{32} << 20;

class Running {
 public:
  explicit Running(const Address& address = *parse_address("127.0.0.1:0"))
      : listener_(*Listener::listen(address)),
        server_(listener_, [this](const std::string& path) { return answer(path); }),
        thread_([this] { server_.serve(interrupt_.get(), UINT64_MAX); }) {}
  ~Running() {
    ::eventfd_write(interrupt_.get(), 1);
    thread_.join();
  }

  Fd connect() const {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(listener_.address().port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  int answers() const { return answers_; }

 private:
  Response answer(const std::string& path) {
    ++answers_;
    Response response;
    response.content =
        std::make_shared<const std::string>(path == "/large" ? std::string(kLarge, 'x') : path);
    return response;
  }

  Fd interrupt_ = Fd(::eventfd(0, EFD_CLOEXEC));
  std::atomic<int> answers_ = 0;
  Listener listener_;
  Server server_;
  std::thread thread_;
};

void send_all(const Fd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(size));
  }
}

// Everything until the server closes.
std::string rest_of(const Fd& fd) {
  std::string all;
  std::array<char, 65536> bytes;
  for (ssize_t size = 0; (size = ::recv(fd.get(), bytes.data(), bytes.size(), 0)) > 0;)
    all.append(bytes.data(), static_cast<size_t>(size));
  return all;
}

std::string asked(const Running& running, std::string_view request) {
  const Fd fd = running.connect();
  send_all(fd, request);
  return rest_of(fd);
}

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";

bool is_answered(const Running& running) {
  const std::string response = asked(running, kGet);
  return response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\n/a");
}

TEST(HttpServer, AnswersGetAndHead) {
  const Running running;
  EXPECT_EQ(asked(running, kGet),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: "
            "close\r\n\r\n/a");
  const std::string head = asked(running, "HEAD /abc HTTP/1.0\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 4\r\n"), head.npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST(HttpServer, SaysWhatIsWrongWithARequestAlsoIfMoreOfItIsOnItsWay) {
  const Running running;
  const std::string large(200'000, 'a');
  const std::string post =
      asked(running, "POST /a HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + large);
  EXPECT_TRUE(post.starts_with("HTTP/1.1 405 ")) << post;
  EXPECT_NE(post.find("Allow: GET, HEAD\r\n"), post.npos);
  EXPECT_TRUE(asked(running, "GET /a HTTP/1.1\r\nA: " + large).starts_with("HTTP/1.1 431 "));
  EXPECT_TRUE(asked(running, "rubbish\r\n\r\n" + large).starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(running.answers(), 0);
}

TEST(HttpServer, ARequestMayComeInPieces) {
  const Running running;
  const Fd fd = running.connect();
  const int now = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
  for (const char c : std::string_view(kGet)) {
    send_all(fd, {&c, 1});
    // In between, others are answered.
    if (c == '\n') {
      EXPECT_TRUE(is_answered(running));
    }
  }
  EXPECT_TRUE(rest_of(fd).ends_with("/a"));
}

TEST(HttpServer, ClientsThatDoNotReadOrSendDoNotKeepOthersWaiting) {
  const Running running;
  std::vector<Fd> silent;
  // More than there are connections.
  for (size_t i = 0; i < kMostConnections; ++i) {
    silent.push_back(running.connect());
    silent.push_back(running.connect());
    send_all(silent.back(), "GET /large HTTP/1.1\r\n\r\n");
    silent.push_back(running.connect());
    send_all(silent.back(), "GET /a");
  }
  const uint64_t begin_ns = monotonic_ns();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(is_answered(running));
  // Otherwise the time of a request would pass first.
  EXPECT_LT(monotonic_ns() - begin_ns, 4 * kRequestNs);
}

TEST(HttpServer, ASlowReaderGetsAllOfALargeResponse) {
  const Running running;
  const Fd fd = running.connect();
  send_all(fd, "GET /large HTTP/1.1\r\n\r\n");
  std::array<char, 1> one;
  ASSERT_EQ(::recv(fd.get(), one.data(), 1, 0), 1);
  EXPECT_TRUE(is_answered(running));
  const std::string rest = rest_of(fd);
  EXPECT_EQ(rest.size() - rest.find("\r\n\r\n") - 4, kLarge);
}

TEST(HttpServer, ARequestThatDoesNotEndInTimeIsClosed) {
  const Running running;
  const Fd fd = running.connect();
  send_all(fd, "GET /a HTTP/1.1\r\n");
  const uint64_t begin_ns = monotonic_ns();
  EXPECT_EQ(rest_of(fd), "");
  EXPECT_GE(monotonic_ns() - begin_ns, kRequestNs * 9 / 10);
}

TEST(HttpServer, AHundredClientsAtOnceAreAllAnswered) {
  const Running running;
  std::vector<Fd> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(running.connect());
    send_all(clients.back(), kGet);
  }
  for (const Fd& one : clients) EXPECT_TRUE(rest_of(one).ends_with("/a"));
}

TEST(HttpServer, AtAPathASocketOfAKilledServerIsReplacedAndNoOtherFile) {
  const Scratch folder;
  const Address address = {Address::Kind::path, folder / "socket", 0};
  {
    Fd stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un to = {};
    to.sun_family = AF_UNIX;
    address.name.copy(to.sun_path, sizeof to.sun_path - 1);
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  }
  struct stat file = {};
  {
    const auto listener = Listener::listen(address);
    ASSERT_TRUE(listener);
    const auto second = Listener::listen(address);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().cause, ListenError::Cause::in_use);
    EXPECT_EQ(::stat(address.name.c_str(), &file), 0);
  }
  EXPECT_NE(::stat(address.name.c_str(), &file), 0);
  const Fd other(::open(address.name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const auto refused = Listener::listen(address);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().cause, ListenError::Cause::not_socket);
  EXPECT_EQ(::stat(address.name.c_str(), &file), 0);
}

TEST(HttpServer, APortOfAnotherServerIsInUse) {
  const auto first = Listener::listen(*parse_address("127.0.0.1:0"));
  ASSERT_TRUE(first);
  const auto second = Listener::listen(first->address());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().cause, ListenError::Cause::in_use);
  const auto elsewhere = Listener::listen(*parse_address("192.0.2.1:0"));
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().cause, ListenError::Cause::no_address);
}

}  // namespace
}  // namespace pinprick::http
