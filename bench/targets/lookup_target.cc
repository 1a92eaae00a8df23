// Looks up breakpoints by their address, in tables of 40,000, of which 20,000 are hit:
//
//     kernel      a list for each value of the hash, an allocation for each entry; 4096 lists, as
//                 in the kernel when its probe cache was proposed
//     hash        the same with 65,536 lists: more than there are entries
//     flat        open addressing (runtime/trap_table.h)
//     ...-cache   with a per-thread cache in front, of 4096 sets of 4, like that probe cache
//
// Each lookup includes the rest of a hit: an access to the probe's stub, and its counter.
//
// Without arguments it prints the time of a lookup in the lines of timing.h: for all 20,000 at
// random (lookup-NAME), and for 64 of them (lookup-NAME-hot). `lookup_target NAME LOOKUPS` makes
// that many lookups in one table, for counting cache misses (scripts/lookup-misses), and prints how
// many the table's cache has answered.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/trap_table.h"
#include "timing.h"

namespace {

using pinprick::Address;

constexpr size_t kRegistered = 40'000, kEnabled = 20'000, kHot = 64;

uint64_t hash(Address key, size_t bits) {
  constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
  return (key * kGoldenRatio) >> (64 - bits);
}

template <size_t kBits>
class HashLists {
 public:
  void set(Address key, Address continuation) {
    auto entry = std::make_unique<Entry>();
    std::atomic<Entry*>& head = heads_[hash(key, kBits)];
    entry->key = key;
    entry->continuation = continuation;
    entry->next = head.load();
    head.store(entry.get(), std::memory_order_release);
    entries_.push_back(std::move(entry));
  }
  Address get(Address key) const {
    for (const Entry* entry = heads_[hash(key, kBits)].load(std::memory_order_acquire);
         entry != nullptr; entry = entry->next.load(std::memory_order_acquire))
      if (entry->key == key) return entry->continuation;
    return 0;
  }

 private:
  struct Entry {
    std::atomic<Entry*> next;
    Address key, continuation;
    char probe[64];  // the entry is part of the probe
  };
  std::vector<std::atomic<Entry*>> heads_{size_t{1} << kBits};
  std::vector<std::unique_ptr<Entry>> entries_;
};

class Flat {
 public:
  void set(Address key, Address continuation) { table_.set(key, continuation); }
  Address get(Address key) const { return table_.get(key); }

 private:
  static constexpr size_t kBits = 17;  // less than half full
  pinprick::runtime::TrapTable table_{kBits};
};

// A cache in each thread of the table's results. A change of the table makes a new generation,
// which invalidates all cached results. So if a breakpoint leads elsewhere, it does so for all
// threads.
struct Cache {
  static constexpr size_t kSets = 4096, kWays = 4;
  struct Entry {
    Address key = 0, continuation = 0;
  };
  struct alignas(64) Set {
    std::array<Entry, kWays> ways;
  };
  std::vector<Set> sets{kSets};
  uint64_t generation = 0;
  uint64_t next_way = 0;  // not on a line of its own for each set
};

thread_local uint64_t cache_hits = 0, cache_misses = 0;

template <class Table>
class Cached {
 public:
  void set(Address key, Address continuation) {
    table_.set(key, continuation);
    generation_.fetch_add(1, std::memory_order_release);
  }
  Address get(Address key) const {
    thread_local Cache cache;
    const uint64_t now = generation_.load(std::memory_order_acquire);
    if (cache.generation != now) {
      std::fill(cache.sets.begin(), cache.sets.end(), Cache::Set{});
      cache.generation = now;
    }
    auto& ways = cache.sets[hash(key, 12)].ways;
    for (const Cache::Entry& entry : ways)
      if (entry.key == key) {
        ++cache_hits;
        return entry.continuation;
      }
    ++cache_misses;
    const Address continuation = table_.get(key);
    ways[cache.next_way++ % Cache::kWays] = {key, continuation};
    return continuation;
  }

 private:
  Table table_;
  std::atomic<uint64_t> generation_{1};
};

// Functions of 16 to 256 bytes, one after the other.
std::vector<Address> make_sites() {
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same order each time
  std::vector<Address> sites;
  Address at = 0x5555'5555'4000;
  while (sites.size() < kRegistered) sites.push_back(at += 16 + random() % 16 * 16);
  return sites;
}

Address continuation_of(Address site) {
  return site ^ 0x7fff'0000'0000;
}

// The breakpoints that are hit.
std::vector<Address> every(size_t nth, const std::vector<Address>& sites) {
  std::vector<Address> some;
  for (size_t i = 0; i < sites.size(); i += nth) some.push_back(sites[i]);
  return some;
}

template <class Table>
std::unique_ptr<Table> fill(const std::vector<Address>& sites) {
  auto table = std::make_unique<Table>();
  for (Address site : sites) table->set(site, continuation_of(site));
  return table;
}

// What a hit accesses besides the table, one of each for a probe.
struct alignas(64) Stub {
  uint64_t code[8] = {};
};
struct Touched {
  std::vector<Stub> stubs = std::vector<Stub>(kRegistered);
  std::vector<uint64_t> counters = std::vector<uint64_t>(kRegistered);
};

// At random. Each lookup depends on the result of the one before, as code after a breakpoint does.
template <class Table>
void look_up(const Table& table, const std::vector<Address>& sites, uint64_t lookups) {
  thread_local Touched touched;
  uint64_t random = 1, wrong = 0;
  for (uint64_t i = 0; i < lookups; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407 + wrong;
    const size_t which = ((random >> 32) * sites.size()) >> 32;
    const Address site = sites[which];
    wrong |= table.get(site) ^ continuation_of(site);
    const size_t probe = which * (kRegistered / sites.size()) + wrong;
    wrong |= touched.stubs[probe].code[0];
    ++touched.counters[probe];
  }
  if (wrong == 0) return;
  std::cerr << "lookup_target: a wrong answer\n";
  std::exit(1);
}

// Without a table, for the time of the loop itself.
struct Nothing {
  static Address get(Address key) {
    asm volatile("" : "+r"(key));
    return continuation_of(key);
  }
};

struct Contender {
  std::string name;
  std::function<void(const std::vector<Address>& sites, uint64_t lookups)> look_up;
};

template <class Table>
Contender contender(const std::string& name, const std::vector<Address>& all) {
  return {name, [table = std::shared_ptr<Table>(fill<Table>(all))](const auto& sites, uint64_t n) {
            look_up(*table, sites, n);
          }};
}

Contender make(const std::string& name, const std::vector<Address>& all) {
  if (name == "kernel") return contender<HashLists<12>>(name, all);
  if (name == "kernel-cache") return contender<Cached<HashLists<12>>>(name, all);
  if (name == "hash") return contender<HashLists<16>>(name, all);
  if (name == "hash-cache") return contender<Cached<HashLists<16>>>(name, all);
  if (name == "flat") return contender<Flat>(name, all);
  if (name == "flat-cache") return contender<Cached<Flat>>(name, all);
  return {"nothing", [](const auto& sites, uint64_t n) { look_up(Nothing(), sites, n); }};
}

constexpr const char* kNames[] = {"nothing",    "kernel", "kernel-cache", "hash",
                                  "hash-cache", "flat",   "flat-cache"};

// One round, in which all tables take turns. Adds what a lookup takes in the first thread.
void take_turns(const std::vector<Contender>& contenders, const std::vector<Address>& sites,
                int threads, std::vector<std::vector<double>>& ns) {
  constexpr uint64_t kWarm = 2 * kEnabled, kLookups = 5 * kEnabled;
  std::barrier begin(threads);
  const auto work = [&](bool first) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      contenders[i].look_up(sites, kWarm);
      begin.arrive_and_wait();
      const double taken = ns_of([&] { contenders[i].look_up(sites, kLookups); });
      if (first) ns[i].push_back(taken / double{kLookups});
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, false);
  work(true);
  for (std::thread& other : others) other.join();
}

void measure_all(const std::vector<Address>& all) {
  constexpr int kRounds = 41;
  std::vector<Contender> contenders;
  for (const char* name : kNames) contenders.push_back(make(name, all));
  for (const auto& [suffix, met] : {std::pair("", kEnabled), std::pair("-hot", kHot)}) {
    const auto sites = every(kRegistered / met, all);
    std::array<std::vector<std::vector<double>>, 2> ns;  // by the number of other threads
    for (auto& one : ns) one.resize(contenders.size());
    for (int round = 0; round < kRounds; ++round)
      for (size_t others = 0; others < ns.size(); ++others)
        take_turns(contenders, sites, static_cast<int>(others) + 1, ns[others]);
    for (size_t others = 0; others < ns.size(); ++others)
      for (size_t i = 1; i < contenders.size(); ++i)
        report(std::string("lookup-") + kNames[i] + suffix, "pinprick",
               static_cast<int>(others) + 1, std::string("lookups") + suffix,
               {ns[others][0], ns[others][i]});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto all = make_sites();
  if (argc > 2) {
    make(argv[1], all)
        .look_up(every(kRegistered / kEnabled, all), std::strtoull(argv[2], nullptr, 10));
    std::cout << cache_hits << " " << cache_misses << std::endl;
    return 0;
  }
  measure_all(all);
  std::cout << "done" << std::endl;
}
