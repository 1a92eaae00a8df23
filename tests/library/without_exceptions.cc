// The headers in a program that is compiled without exceptions.
#include <pinprick/kstats.h>
#include <pinprick/latency.h>
#include <pinprick/probe.h>
#include <pinprick/tracepoint.h>

long count_calls(void (*function)(long)) {
  static long calls = 0;
  const auto probe = pinprick::Probe::place(
      {.where = function, .pre = pinprick::on_call<void(long)>([](long) { ++calls; })});
  function(1);
  return probe ? calls : 0;
}
