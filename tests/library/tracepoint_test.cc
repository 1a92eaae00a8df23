// Tracepoints of our own process: what is called, when, and how often.
#include "pinprick/tracepoint.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "library/functions.h"
#include "library/place.h"
#include "library/pointed.h"
#include "library/tracepoint_user.h"
#include "patch/text_owner.h"
#include "pinprick/probe.h"

PINPRICK_POINT_DECLARE(test, value, long);
PINPRICK_POINT_DECLARE(test, other, long);
PINPRICK_POINT_DECLARE(test, mixed, double, const std::string&, float, uint8_t);
PINPRICK_POINT_DECLARE(test, inlined, int);
PINPRICK_POINT_DECLARE(test, semaphore, int);
PINPRICK_POINT_DECLARE(pointed, hit, long);  // in the library of pointed.c
PINPRICK_POINT_DEFINE(test, value);
PINPRICK_POINT_DEFINE(test, other);
PINPRICK_POINT_DEFINE(test, mixed);
PINPRICK_POINT_DEFINE(test, inlined);
PINPRICK_POINT_DEFINE(test, semaphore);

namespace pinprick {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

__attribute__((noinline)) void reach(long value) {
  PINPRICK_POINT(test, value, value);
}

__attribute__((noinline)) void reach_other(long value) {
  PINPRICK_POINT(test, other, value);
}

template <class T>
__attribute__((noinline)) T in_template(T value) {
  PINPRICK_POINT(test, inlined, static_cast<int>(sizeof(T)));
  return value;
}

void append(void* data, long value) {
  static_cast<std::vector<long>*>(data)->push_back(value);
}

void append_negative(void* data, long value) {
  append(data, -value);
}

int attach(void (*function)(void*, long), void* data, int priority = 0) {
  return PINPRICK_POINT_ATTACH(test, value, function, data, priority);
}

int detach(void (*function)(void*, long), void* data) {
  return PINPRICK_POINT_DETACH(test, value, function, data);
}

void only_once(void* data, long) {
  ++*static_cast<int*>(data);
  EXPECT_EQ(detach(only_once, data), 0);
  EXPECT_EQ(pinprick_points_synchronize(), -1);
  EXPECT_EQ(errno, EDEADLK);
}

// Attached as long as it lives.
class Attached {
 public:
  Attached(void (*function)(void*, long), void* data, int priority = 0)
      : function_(function), data_(data) {
    EXPECT_EQ(attach(function, data, priority), 0) << pinprick_points_error();
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() {
    EXPECT_EQ(detach(function_, data_), 0) << pinprick_points_error();
    EXPECT_EQ(pinprick_points_synchronize(), 0);
  }

 private:
  void (*function_)(void*, long);
  void* data_;
};

struct Listed {
  std::string object, name, types;
  unsigned sites, foreign_sites, semaphore_sites, functions;
};

std::vector<Listed> listed(const std::string& provider) {
  std::vector<Listed> all;
  pinprick_point_list* const list = pinprick_points_list();
  while (const pinprick_point_info* const one = pinprick_points_next(list))
    if (one->provider == provider)
      all.push_back({one->object, one->name, one->types, one->sites, one->foreign_sites,
                     one->semaphore_sites, one->functions});
  pinprick_points_free(list);
  return all;
}

TEST(Tracepoint, calls_a_function_only_while_it_is_attached) {
  std::vector<long> values;
  reach(1);
  {
    const Attached attached(append, &values);
    reach(2);
  }
  reach(3);
  EXPECT_THAT(values, ElementsAre(2));
}

TEST(Tracepoint, evaluates_arguments_only_while_it_is_on) {
  int evaluated = 0;
  const auto pass = [&] { PINPRICK_POINT(test, value, ++evaluated); };
  pass();
  EXPECT_EQ(evaluated, 0);
  std::vector<long> values;
  const Attached attached(append, &values);
  pass();
  EXPECT_EQ(evaluated, 1);
}

TEST(Tracepoint, tells_whether_it_is_on) {
  const auto is_on = [] { return PINPRICK_POINT_ENABLED(test, value); };
  EXPECT_FALSE(is_on());
  {
    std::vector<long> values;
    const Attached attached(append, &values);
    EXPECT_TRUE(is_on());
  }
  EXPECT_FALSE(is_on());
}

TEST(Tracepoint, passes_numbers_references_and_floating_point) {
  std::string seen;
  const auto note = [](void* data, double a, const std::string& b, float c, uint8_t d) {
    *static_cast<std::string*>(data) =
        std::to_string(a) + b + std::to_string(c) + std::to_string(d);
  };
  ASSERT_EQ(PINPRICK_POINT_ATTACH(test, mixed, note, &seen, 0), 0) << pinprick_points_error();
  PINPRICK_POINT(test, mixed, 1.5, std::string("text"), 2.5F, uint8_t{200});
  EXPECT_EQ(PINPRICK_POINT_DETACH(test, mixed, note, &seen), 0);
  EXPECT_EQ(seen, "1.500000text2.500000200");
}

TEST(Tracepoint, keeps_the_values_of_the_code_around_it) {
  std::vector<long> values;
  const Attached attached(append, &values);
  long whole = 1;
  double fraction = 1;
  for (long i = 0; i < 20; ++i) {
    PINPRICK_POINT(test, value, whole);
    whole = whole * 3 + i;
    fraction = fraction * 1.5 + static_cast<double>(i);
  }
  long expected = 1;
  double expected_fraction = 1;
  for (long i = 0; i < 20; ++i) {
    expected = expected * 3 + i;
    expected_fraction = expected_fraction * 1.5 + static_cast<double>(i);
  }
  EXPECT_EQ(whole, expected);
  EXPECT_EQ(fraction, expected_fraction);
  EXPECT_EQ(values.size(), 20U);
}

TEST(Tracepoint, turns_all_sites_of_templates_on) {
  int sum = 0;
  const auto add = [](void* data, int size) { *static_cast<int*>(data) += size; };
  ASSERT_EQ(PINPRICK_POINT_ATTACH(test, inlined, add, &sum, 0), 0) << pinprick_points_error();
  in_template<char>('a');
  in_template<double>(1);
  in_template<int>(1);
  EXPECT_EQ(PINPRICK_POINT_DETACH(test, inlined, add, &sum), 0);
  in_template<int>(1);
  EXPECT_EQ(sum, 1 + 8 + 4);
}

TEST(Tracepoint, runs_functions_by_priority_and_then_by_age) {
  std::vector<long> values;
  const auto first = [](void* data, long) { append(data, 1); };
  const auto second = [](void* data, long) { append(data, 2); };
  const auto third = [](void* data, long) { append(data, 3); };
  const auto fourth = [](void* data, long) { append(data, 4); };
  const Attached c(third, &values, 0), a(first, &values, 10), d(fourth, &values, 0),
      b(second, &values, 5);
  reach(0);
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
}

TEST(Tracepoint, refuses_the_same_function_and_data_twice) {
  std::vector<long> values, other;
  const Attached attached(append, &values);
  EXPECT_EQ(attach(append, &values, 7), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_THAT(pinprick_points_error(), HasSubstr("test:value: this function is attached already"));
  const Attached with_other_data(append, &other);
  reach(1);
  EXPECT_EQ(values.size() + other.size(), 2U);
}

TEST(Tracepoint, refuses_to_detach_what_is_not_attached) {
  std::vector<long> values, other;
  const Attached attached(append, &values);
  EXPECT_EQ(detach(append, &other), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(detach(append_negative, &values), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(Tracepoint, refuses_an_attachment_without_a_function) {
  pinprick_attachment none = {&pinprick_point_test__value, nullptr, nullptr, 0};
  EXPECT_EQ(pinprick_points_attach(&none, 1), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Tracepoint, attaches_a_batch_as_a_whole_or_not_at_all) {
  std::vector<long> values;
  const Attached attached(append, &values);
  const std::array<pinprick_attachment, 2> all = {
      PINPRICK_ATTACHMENT(test, other, append, &values, 0),
      PINPRICK_ATTACHMENT(test, value, append, &values, 0)};
  EXPECT_EQ(pinprick_points_attach(all.data(), all.size()), -1);
  EXPECT_EQ(errno, EEXIST);
  reach_other(1);
  EXPECT_THAT(values, IsEmpty());
  EXPECT_EQ(pinprick_points_detach(all.data(), all.size()), -1);
  EXPECT_EQ(errno, ENOENT);
  reach(2);
  EXPECT_THAT(values, ElementsAre(2));
}

TEST(Tracepoint, lets_a_function_detach_itself) {
  int calls = 0;
  ASSERT_EQ(attach(only_once, &calls), 0) << pinprick_points_error();
  reach(1);
  reach(2);
  EXPECT_EQ(calls, 1);
}

TEST(Tracepoint, lets_a_function_detach_and_attach_others) {
  std::vector<long> values;
  static constexpr auto exchange = [](void* data, long) {
    EXPECT_EQ(detach(append, data), 0);
    EXPECT_EQ(attach(append_negative, data), 0);
  };
  ASSERT_EQ(attach(append, &values), 0);
  ASSERT_EQ(attach(exchange, &values, 1), 0);
  reach(1);  // the list that was read at its start still has `append`
  EXPECT_EQ(detach(exchange, &values), 0);
  reach(2);
  EXPECT_EQ(detach(append_negative, &values), 0);
  EXPECT_THAT(values, ElementsAre(1, -2));
}

TEST(Tracepoint, works_within_functions_of_points) {
  std::vector<long> values;
  const auto nested = [](void*, long value) {
    if (value < 3) reach(value + 1);
    reach_other(value * 10);
  };
  const Attached outer(nested, &values, 1);
  ASSERT_EQ(PINPRICK_POINT_ATTACH(test, other, append, &values, 0), 0);
  reach(1);
  EXPECT_EQ(PINPRICK_POINT_DETACH(test, other, append, &values), 0);
  EXPECT_THAT(values, ElementsAre(30, 20, 10));
}

TEST(Tracepoint, works_within_handlers_of_probes) {
  std::vector<long> values;
  const Attached attached(append, &values);
  auto probe = place({.where = self_window, .pre = [](Registers&) { reach(5); }});
  self_window(1, 2);
  EXPECT_THAT(values, ElementsAre(5));
}

TEST(Tracepoint, works_within_signal_handlers) {
  std::vector<long> values;
  const Attached attached(append, &values);
  const auto former = std::signal(SIGUSR1, [](int) { reach(6); });
  std::raise(SIGUSR1);
  std::signal(SIGUSR1, former);
  EXPECT_THAT(values, ElementsAre(6));
}

TEST(Tracepoint, works_in_a_forked_child) {
  std::vector<long> values;
  const Attached attached(append, &values);
  const pid_t child = ::fork();
  if (child == 0) {
    reach(1);
    const bool off = detach(append, &values) == 0 && pinprick_points_synchronize() == 0;
    reach(2);
    const bool on = attach(append, &values) == 0;
    reach(3);
    ::_exit(off && on && values == std::vector<long>{1, 3} ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(values, IsEmpty());
}

TEST(Tracepoint, has_a_form_that_a_semaphore_turns_on) {
  int sum = 0;
  const auto add = [](void* data, int value) { *static_cast<int*>(data) += value; };
  const auto pass = [](int value) { PINPRICK_POINT_SDT(test, semaphore, value); };
  pass(1);
  EXPECT_EQ(pinprick_point_test__semaphore.semaphore, 0);
  ASSERT_EQ(PINPRICK_POINT_ATTACH(test, semaphore, add, &sum, 0), 0);
  EXPECT_EQ(pinprick_point_test__semaphore.semaphore, 1);
  pass(2);
  EXPECT_EQ(PINPRICK_POINT_DETACH(test, semaphore, add, &sum), 0);
  EXPECT_EQ(pinprick_point_test__semaphore.semaphore, 0);
  EXPECT_EQ(sum, 2);
}

TEST(Tracepoint, is_listed_by_object_and_name) {
  std::vector<long> values;
  const Attached attached(append, &values);
  const auto all = listed("test");
  std::vector<std::string> names;
  for (const Listed& one : all) names.push_back(one.name + "(" + one.types + ")");
  EXPECT_THAT(names,
              ElementsAre("inlined(int)", "mixed(double, const std::string&, float, uint8_t)",
                          "other(long)", "semaphore(int)", "value(long)"));
  EXPECT_THAT(all.back().object, HasSubstr("library_test"));
  EXPECT_EQ(all.back().functions, 1U);
  EXPECT_GE(all.back().sites, 1U);
  EXPECT_EQ(all.back().foreign_sites, 0U);
  EXPECT_EQ(all.front().functions, 0U);
  EXPECT_EQ(all[3].semaphore_sites, 1U);
}

TEST(Tracepoint, leaves_a_site_alone_that_a_probe_has_taken) {
  // The nop is the first instruction of the function, or follows a landing pad.
  std::vector<long> values;
  {
    auto probe = place({.where = reach_other, .pre = [](Registers&) {}});
    const int done = PINPRICK_POINT_ATTACH(test, other, append, &values, 0);
    if (done == 0) {
      reach_other(1);
      EXPECT_THAT(values, ElementsAre(1));
      EXPECT_EQ(PINPRICK_POINT_DETACH(test, other, append, &values), 0);
    } else {
      EXPECT_EQ(errno, EILSEQ);
      EXPECT_THAT(pinprick_points_error(), HasSubstr("take out the probe or breakpoint there"));
      reach_other(1);
      EXPECT_THAT(values, IsEmpty());
    }
  }
  values.clear();
  ASSERT_EQ(PINPRICK_POINT_ATTACH(test, other, append, &values, 0), 0) << pinprick_points_error();
  reach_other(2);
  EXPECT_EQ(PINPRICK_POINT_DETACH(test, other, append, &values), 0);
  EXPECT_THAT(values, ElementsAre(2));
}

TEST(Tracepoint, takes_twelve_arguments_of_all_kinds) {
  EXPECT_EQ(use_a_point_with_twelve_arguments(), 0);
}

TEST(Tracepoint, can_be_used_from_c) {
  EXPECT_EQ(use_points_from_c(), 0);
}

// A library with points, loaded as long as it lives.
class Pointed {
 public:
  Pointed() : handle_(::dlopen(POINTED_LIBRARY, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    find(run, "pointed_run");
    find(attach, "pointed_attach");
    find(detach, "pointed_detach");
  }
  Pointed(const Pointed&) = delete;
  Pointed& operator=(const Pointed&) = delete;
  ~Pointed() { ::dlclose(handle_); }

  decltype(&pointed_run) run = nullptr;
  decltype(&pointed_attach) attach = nullptr;
  decltype(&pointed_detach) detach = nullptr;

 private:
  template <class F>
  void find(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(handle_, name));
    if (function == nullptr) throw std::runtime_error(name);
  }
  void* handle_;
};

TEST(Tracepoint, comes_and_goes_with_its_library) {
  EXPECT_THAT(listed("pointed"), IsEmpty());
  std::vector<long> values;
  for (int round = 0; round < 3; ++round) {
    const Pointed library;
    EXPECT_EQ(listed("pointed").size(), 2U);
    library.run(1);
    // Is not detached before the library is unloaded.
    ASSERT_EQ(library.attach(append, &values), 0) << pinprick_points_error();
    library.run(2);
    EXPECT_EQ(listed("pointed").front().functions, 1U);
  }
  EXPECT_THAT(listed("pointed"), IsEmpty());
  EXPECT_THAT(values, ElementsAre(2, 2, 2));
}

// Those that attached sessions must leave alone.
std::vector<pinprick::layout::OwnSite> sites_in_use() {
  const auto memory = pinprick::target::Memory::open(::getpid());
  const auto maps = pinprick::image::read_maps(::getpid());
  auto sites = pinprick::patch::OwnProbes::read(*memory, *maps).sites();
  std::erase_if(sites, [](const pinprick::layout::OwnSite& site) {
    return site.state != pinprick::layout::OwnSite::State::in_use;
  });
  return sites;
}

TEST(Tracepoint, has_sites_that_are_free_once_its_library_is_unloaded) {
  std::vector<long> values;
  const size_t before = sites_in_use().size();
  {
    const Pointed library;
    ASSERT_EQ(library.attach(append, &values), 0) << pinprick_points_error();
    EXPECT_GT(sites_in_use().size(), before);
  }
  listed("pointed");  // looks what is there
  EXPECT_EQ(sites_in_use().size(), before);
  // Loaded again, most likely at the same address, and not attached to.
  const Pointed library;
  listed("pointed");
  EXPECT_EQ(sites_in_use().size(), before);
}

TEST(Tracepoint, has_a_list_that_outlives_the_library) {
  pinprick_point_list* list = nullptr;
  {
    const Pointed library;
    list = pinprick_points_list();
  }
  std::vector<std::string> names;
  while (const pinprick_point_info* const one = pinprick_points_next(list))
    if (std::strcmp(one->provider, "pointed") == 0) names.emplace_back(one->name);
  pinprick_points_free(list);
  EXPECT_THAT(names, ElementsAre("hit", "rest"));
}

TEST(Tracepoint, is_attached_to_by_name_in_an_object_that_hides_it) {
  std::vector<long> values;
  const Pointed library;
  const pinprick_named_attachment one =
      PINPRICK_NAMED_ATTACHMENT(nullptr, pointed, hit, append, &values, 0);
  ASSERT_EQ(pinprick_points_attach_named(&one, 1), 0) << pinprick_points_error();
  library.run(1);
  EXPECT_EQ(pinprick_points_attach_named(&one, 1), -1);
  EXPECT_EQ(errno, EEXIST);
  ASSERT_EQ(pinprick_points_detach_named(&one, 1), 0) << pinprick_points_error();
  library.run(2);
  EXPECT_EQ(pinprick_points_detach_named(&one, 1), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_THAT(values, ElementsAre(1));
}

pinprick_named_attachment named(const char* object, const char* provider, const char* name,
                                const char* types) {
  static std::vector<long> values;
  return {object,  provider, name, types, reinterpret_cast<pinprick_point_untyped_*>(append),
          &values, 0};
}

TEST(Tracepoint, is_another_one_if_a_name_has_other_types_or_is_in_another_object) {
  const Pointed library;
  for (const auto& other :
       {named(nullptr, "pointed", "nothing", "long"), named(nullptr, "pointed", "hit", "int"),
        named("library_test", "pointed", "hit", "long")}) {
    EXPECT_EQ(pinprick_points_attach_named(&other, 1), -1);
    EXPECT_EQ(errno, ENOENT);
  }
  const auto wrong = named(nullptr, "pointed", "hit", "int");
  ASSERT_EQ(pinprick_points_attach_named(&wrong, 1), -1);
  EXPECT_THAT(pinprick_points_error(), HasSubstr("pointed:hit has the types (long), not (int)"));
  const auto incomplete = named(nullptr, "pointed", "hit", nullptr);
  EXPECT_EQ(pinprick_points_attach_named(&incomplete, 1), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Tracepoint, has_types_that_are_compared_without_regard_to_spaces) {
  const auto one =
      named("library_test", "test", "mixed", " double,const std::string &,float , uint8_t");
  ASSERT_EQ(pinprick_points_attach_named(&one, 1), 0) << pinprick_points_error();
  EXPECT_EQ(pinprick_points_detach_named(&one, 1), 0);
  const auto other =
      named("library_test", "test", "mixed", "double, conststd::string&, float, uint8_t");
  EXPECT_EQ(pinprick_points_attach_named(&other, 1), -1);
  EXPECT_EQ(errno, ENOENT);
}

// What is told of objects, in order.
struct Told {
  std::vector<std::string> events;
  std::vector<long> values;
};

void note_event(void* data, const pinprick_points_event* event) {
  auto& told = *static_cast<Told*>(data);
  const std::string path = event->object;
  told.events.push_back((event->comes ? "+" : "-") + path.substr(path.rfind('/') + 1) + " " +
                        std::to_string(event->points));
}

void attach_to_new(void* data, const pinprick_points_event* event) {
  auto& told = *static_cast<Told*>(data);
  const pinprick_named_attachment one =
      PINPRICK_NAMED_ATTACHMENT(event->object, pointed, hit, append, &told.values, 0);
  EXPECT_EQ(
      event->comes ? pinprick_points_attach_named(&one, 1) : pinprick_points_detach_named(&one, 1),
      0)
      << pinprick_points_error();
}

TEST(Tracepoint, has_notifiers_that_are_told_when_its_library_comes_and_goes) {
  Told told;
  ASSERT_EQ(pinprick_points_notify(note_event, &told), 0);
  EXPECT_EQ(pinprick_points_notify(note_event, &told), -1);
  EXPECT_EQ(errno, EEXIST);
  ASSERT_EQ(pinprick_points_notify(attach_to_new, &told), 0);
  for (long round = 0; round < 2; ++round) {
    const Pointed library;
    library.run(round);
  }
  ASSERT_EQ(pinprick_points_stop_notifying(note_event, &told), 0);
  EXPECT_EQ(pinprick_points_stop_notifying(note_event, &told), -1);
  EXPECT_EQ(errno, ENOENT);
  ASSERT_EQ(pinprick_points_stop_notifying(attach_to_new, &told), 0);
  { const Pointed library; }
  const std::string path = POINTED_LIBRARY;
  const std::string file = path.substr(path.rfind('/') + 1) + " 2";
  EXPECT_THAT(told.events, ElementsAre("+" + file, "-" + file, "+" + file, "-" + file));
  EXPECT_THAT(told.values, ElementsAre(0, 1));
}

// Threads that reach a point all the time, and count how often.
class Firing {
 public:
  explicit Firing(size_t threads) : begun_(threads), ended_(threads) {
    for (size_t i = 0; i < threads; ++i)
      threads_.emplace_back([this, i] {
        while (!stop_) {
          begun_[i].value.fetch_add(1);
          reach(1);
          ended_[i].value.fetch_add(1);
        }
      });
  }
  Firing(const Firing&) = delete;
  Firing& operator=(const Firing&) = delete;
  ~Firing() { stop(); }

  void stop() {
    stop_ = true;
    for (std::thread& one : threads_)
      if (one.joinable()) one.join();
  }
  uint64_t begun() const { return sum(begun_); }
  uint64_t ended() const { return sum(ended_); }
  // Returns when `hits` more hits have begun and ended.
  void go_on_for(uint64_t hits) const {
    for (const uint64_t from = begun(); ended() < from + hits;) std::this_thread::yield();
  }

 private:
  struct alignas(64) Count {
    std::atomic<uint64_t> value{0};
  };
  static uint64_t sum(const std::vector<Count>& all) {
    return std::accumulate(all.begin(), all.end(), uint64_t{0},
                           [](uint64_t sum, const Count& one) { return sum + one.value.load(); });
  }
  std::atomic<bool> stop_{false};
  std::vector<Count> begun_, ended_;
  std::vector<std::thread> threads_;
};

void count(void* data, long value) {
  static_cast<std::atomic<uint64_t>*>(data)->fetch_add(static_cast<uint64_t>(value));
}

TEST(Tracepoint, counts_every_hit_while_functions_and_libraries_come_and_go) {
  constexpr int kRounds = 100;
  std::atomic<uint64_t> all{0};
  Firing firing(8);
  const auto before = firing.ended();
  ASSERT_EQ(attach(count, &all), 0) << pinprick_points_error();
  const auto from = firing.begun();
  std::thread loader([] {
    for (int round = 0; round < kRounds / 2; ++round) {
      const Pointed library;
      std::atomic<uint64_t> hits{0};
      ASSERT_EQ(library.attach(count, &hits), 0) << pinprick_points_error();
      library.run(1);
      ASSERT_EQ(library.detach(count, &hits), 0);
      library.run(1);
      EXPECT_EQ(hits, 1U);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    auto some = std::make_unique<std::atomic<uint64_t>>(0);
    const uint64_t earliest = firing.ended();
    ASSERT_EQ(attach(count, some.get()), 0) << pinprick_points_error();
    const uint64_t certain_from = firing.begun();
    firing.go_on_for(20);
    const uint64_t certain_to = firing.ended();
    ASSERT_EQ(detach(count, some.get()), 0);
    ASSERT_EQ(pinprick_points_synchronize(), 0);
    const uint64_t counted = *some;
    EXPECT_GE(counted, certain_to - certain_from);
    EXPECT_LE(counted, firing.begun() - earliest);
    firing.go_on_for(20);
    EXPECT_EQ(*some, counted) << "called after synchronize()";
  }
  loader.join();
  firing.stop();
  EXPECT_GE(all, firing.ended() - from);
  EXPECT_LE(all, firing.ended() - before);
  EXPECT_EQ(detach(count, &all), 0);
}

TEST(Tracepoint, is_turned_on_and_off_under_threads_that_reach_it) {
  constexpr int kRounds = 200;
  Firing firing(8);
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<uint64_t> hits{0};
    const Attached attached(count, &hits);
    firing.go_on_for(10);  // these have begun after the function was attached
    EXPECT_GE(hits, 10U);
  }
}

}  // namespace
}  // namespace pinprick
