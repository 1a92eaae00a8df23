// Files of records, as `pinprick diff` reads them. Input: two of them, with a line `--` between.
#include "compare/change.h"
#include "compare/read_run.h"
#include "fuzzer.h"

namespace {

constexpr std::string_view kBetween = "\n--\n";

std::optional<pinprick::compare::Run> run_of(std::string_view text) {
  pinprick::compare::RunText reader;
  if (!reader.add(text)) return std::nullopt;
  auto run = reader.finish();
  return run ? std::optional(*std::move(run)) : std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pinprick;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t middle = text.find(kBetween);
  const auto before = run_of(text.substr(0, middle));
  const auto after = middle == text.npos ? before : run_of(text.substr(middle + kBetween.size()));
  if (!before || !after) return 0;
  const auto comparison = compare::compare({*before}, {*after}, std::nullopt);
  for (const compare::Change& row : comparison.rows)
    for (const compare::Finding& finding : row.findings)
      CHECK(finding.difference.p >= 0 && finding.difference.p <= 1);
  // A run does not differ from itself.
  for (const compare::Change& row : compare::compare({*before}, {*before}, std::nullopt).rows)
    CHECK(!row.is_change());
  return 0;
}

std::vector<Input> seeds() {
  std::vector<Input> all;
  for (
      const char* seed :
      {R"({"type":"count","pid":1,"seconds":1.0,"final":false,"object":"libc.so.6","function":"malloc","hits":5,"version":1}
{"type":"count","pid":1,"seconds":1.1,"final":false,"object":"libc.so.6","function":"malloc","hits":6,"version":1}
{"type":"count","pid":1,"seconds":2.1,"final":true,"object":"libc.so.6","function":"malloc","hits":11,"version":1}
--
{"type":"count","pid":2,"seconds":2.0,"final":true,"object":"libc.so.6","function":"malloc","hits":50,"version":1}
)",
       R"({"type":"latency","pid":0,"seconds":1.0,"final":true,"object":"a","function":"f","count":7,"missed":1,"sum_ns":140.0,"bits":3,"slots":[[16,6,17],[36,1,38]],"version":1}
--
{"type":"latency","pid":0,"seconds":1.0,"final":true,"object":"a","function":"f","count":7,"sum_ns":280.0,"bits":2,"slots":[[32,6,35],[64,1,70]],"version":1}
)",
       R"({"type":"hist","pid":1,"seconds":1.0,"final":true,"object":"a","function":"f","value":"$arg1","count":7,"negative":2,"sum":90.0,"bits":3,"slots":[[16,4,17],[20,1,21]],"version":1}
{"type":"statistic","pid":1,"name":"query","of":"f","count":2,"sum_ns":16.0,"bits":3,"slots":[[8,2,8]],"version":1}
)",
       R"({"type":"armed","pid":1,"command":"ls","started":true,"version":1}
{"type":"count","pid":1,"seconds":0.1,"final":true,"object":"a","function":"f","by":"stack,fd","key":[["g+0x1","main"],3],"hits":2,"sum_of":"n","sum":-5,"version":1}
{"type":"count","pid":1,"seconds":0.1,"final":true,"object":"a","function":"f","by":"fd","key":null,"other":true,"hits":2,"version":1}
{"type":"detached","pid":1,"target_gone":true,"replaced":false,"version":1}
)"})
    all.push_back(pinprick::fuzz::text(seed));
  return all;
}
