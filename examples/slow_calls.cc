// Which calls of a function are slow? The entry handler hands the time of the call to the return
// handler.
#include <pinprick/probe.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

__attribute__((noinline)) int handle_request(int n) {
  if (n % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return n * 2;
}

}  // namespace

int main() {
  struct Call {
    Clock::time_point begin;
    int request;
  };
  std::vector<std::pair<double, int>> slow;
  {
    const auto probe = pinprick::ReturnProbe::place(
        {.where = handle_request,
         .on_entry =
             [](pinprick::Registers& registers, void* data) {
               *static_cast<Call*>(data) = {Clock::now(), static_cast<int>(registers.argument(0))};
             },
         .on_return =
             [&](pinprick::Registers&, void* data) {
               const auto& call = *static_cast<const Call*>(data);
               const std::chrono::duration<double, std::milli> ms = Clock::now() - call.begin;
               if (ms.count() > 1) slow.emplace_back(ms.count(), call.request);
             },
         .data_size = sizeof(Call)});
    if (!probe) {
      std::fprintf(stderr, "%s\n", probe.error().message().c_str());
      return 1;
    }
    for (int i = 1; i <= 50; ++i) handle_request(i);
  }
  for (const auto& [ms, request] : slow) std::printf("request %2d took %.1f ms\n", request, ms);
}
