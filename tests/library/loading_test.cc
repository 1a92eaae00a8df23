// Libraries that are looked at while another thread is loading them: after they are mapped and
// before they are relocated, when their pointers are not set yet.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/rseq.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "library/loading.h"
#include "library/place.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"
#include "pinprick/tracepoint.h"

namespace pinprick {
namespace {

using testing::HasSubstr;

PINPRICK_POINT_DECLARE(loading, hit, long);

// Calls `meanwhile` while another thread is loading the library; it is loaded as long as this
// lives.
class Loading {
 public:
  Loading(const char* path, const std::function<void()>& meanwhile) {
    int begun[2], go_on[2];
    if (::pipe(begun) != 0 || ::pipe(go_on) != 0) throw std::runtime_error("pipe");
    ::dup2(begun[1], 198);
    ::dup2(go_on[0], 199);
    std::thread loader([&] {
      handle_ = ::dlopen(path, RTLD_LAZY | RTLD_LOCAL);
      if (handle_ == nullptr) why_ = ::dlerror();
      char byte = 0;  // if it was not waited for
      EXPECT_EQ(::write(begun[1], &byte, 1), 1);
    });
    char byte = 0;
    EXPECT_EQ(::read(begun[0], &byte, 1), 1);
    meanwhile();
    EXPECT_EQ(::write(go_on[1], &byte, 1), 1);
    loader.join();
    for (const int end : {begun[0], begun[1], go_on[0], go_on[1], 198, 199}) ::close(end);
    if (handle_ == nullptr) throw std::runtime_error(why_);
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;
  ~Loading() { ::dlclose(handle_); }

  template <class F>
  F* find(F*, const char* name) const {
    void* const found = ::dlsym(handle_, name);
    if (found == nullptr) throw std::runtime_error(name);
    return reinterpret_cast<F*>(found);
  }
#define FIND(name) find(&(name), #name)

 private:
  void* handle_ = nullptr;
  std::string why_;
};

std::string library(const char* name) {
  return std::string(LOADING_LIBRARIES) + name;
}

unsigned listed() {
  unsigned sites = 0;
  pinprick_point_list* const list = pinprick_points_list();
  while (const pinprick_point_info* const one = pinprick_points_next(list))
    if (std::strcmp(one->provider, "loading") == 0) sites += one->sites;
  pinprick_points_free(list);
  return sites;
}

void add(void* sum, long value) {
  *static_cast<long*>(sum) += value;
}

int attach_named(long* sum) {
  const pinprick_named_attachment one =
      PINPRICK_NAMED_ATTACHMENT(nullptr, loading, hit, add, sum, 0);
  return pinprick_points_attach_named(&one, 1);
}

TEST(Loading, PointsAreKnownOnceTheirLibraryIsLoadedWheneverTheyWereListed) {
  long sum = 0;
  const Loading loading(library("libloading.so").c_str(), [&] {
    EXPECT_EQ(listed(), 0u);
    EXPECT_EQ(attach_named(&sum), -1);
    EXPECT_EQ(errno, ENOENT);
  });
  EXPECT_EQ(listed(), 1u);
  ASSERT_EQ(attach_named(&sum), 0) << pinprick_points_error();
  loading.FIND(loading_run)(5);
  EXPECT_EQ(sum, 5);
}

// Before all other constructors of the library.
TEST(Loading, NotifiersCanAttachToPointsThatWereListedTooEarly) {
  struct Told {
    long sum = 0;
    int attached = -1;
  } told;
  const auto note = [](void* data, const pinprick_points_event* event) {
    auto& to = *static_cast<Told*>(data);
    if (event->comes) to.attached = attach_named(&to.sum);
  };
  ASSERT_EQ(pinprick_points_notify(note, &told), 0);
  {
    const Loading loading(library("libloading.so").c_str(), [] { listed(); });
    EXPECT_EQ(told.attached, 0);
    loading.FIND(loading_run)(3);
    EXPECT_EQ(told.sum, 3);
  }
  EXPECT_EQ(pinprick_points_stop_notifying(note, &told), 0);
}

TEST(Loading, AFunctionThatIsAttachedByItsPointIsCalled) {
  long sum = 0;
  const Loading loading(library("libloading.so").c_str(), [] { listed(); });
  ASSERT_EQ(loading.FIND(loading_attach)(add, &sum), 0) << pinprick_points_error();
  loading.FIND(loading_run)(4);
  EXPECT_EQ(sum, 4);
}

TEST(Loading, ProbesThatArePlacedBeforeItIsDoneWorkAfterwards) {
  std::optional<Counter> run;
  const Loading loading(library("libloading.so").c_str(), [&] {
    run = must(Counter::place("libloading.so:loading_run"));
    const auto unresolved = Counter::place("libloading_slow:loading_resolved");
    EXPECT_FALSE(unresolved);
  });
  const Latency calls = must(Latency::place("libloading.so:loading_calls"));
  const Counter resolved = must(Counter::place("libloading_slow:implementation"));
  EXPECT_EQ(loading.FIND(loading_run)(1), 1);
  EXPECT_EQ(loading.FIND(loading_calls)(), 2);
  EXPECT_EQ(run->value(), 1u);
  EXPECT_EQ(calls.snapshot().count(), 1u);
  EXPECT_EQ(resolved.value(), 1u);
  run.reset();
}

// The loader writes there, and makes the pages of the code writable for it.
TEST(Loading, CodeThatTheLoaderStillChangesIsProbedAfterwards) {
  const char* const kName = "libloading_text.so:loading_relocated";
  const Loading loading(library("libloading_text.so").c_str(), [&] {
    const auto refused = Counter::place(kName);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("is being loaded"));
  });
  const Counter relocated = must(Counter::place(kName));
  auto* const run = loading.FIND(loading_run);
  EXPECT_EQ(loading.FIND(loading_relocated)(), reinterpret_cast<void*>(run));
  EXPECT_EQ(relocated.value(), 1u);
}

// Where a library's calls lead to is set by the loader, and changed by ours for unwinders and for
// what starts children. Before it is set, the loader would add to what is there.
TEST(Loading, CallsOfOtherLibrariesLeadWhereTheyShould) {
  static int in_child = 0;
  const auto look = [] {
    const auto* const area = reinterpret_cast<volatile struct ::rseq*>(
        static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
    in_child = static_cast<int>(area->cpu_id);
  };
  const auto place_any = [] {
    const Probe any = place({.where = "libc:getppid", .pre = [](Registers&) {}});
  };
  const Loading loading(library("libunwind.so.loading").c_str(), place_any);
  const Probe any = place({.where = "libc:getppid", .pre = [](Registers&) {}});
  EXPECT_EQ(loading.FIND(loading_finds)(reinterpret_cast<void*>(&add)), 1);
  EXPECT_EQ(loading.FIND(loading_vfork)(look), 1);
  if (__rseq_size == 0) GTEST_SKIP() << "glibc has registered no rseq area";
  EXPECT_EQ(in_child, RSEQ_CPU_ID_UNINITIALIZED);
}

}  // namespace
}  // namespace pinprick
