// pinprick serve: the statistics of this machine's processes, for Prometheus.
#include "base/clock.h"
#include "cli/interrupts.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/verbs/machine_metrics.h"
#include "cli/verbs/verbs.h"
#include "http/server.h"

namespace pinprick::cli {
namespace {

constexpr const char* kMetrics = "/metrics";

constexpr const char* kFirstPage =
    "<!DOCTYPE html>\n<html><head><title>pinprick</title></head><content>\n"
    "<p>pinprick serves the statistics of this machine's processes for Prometheus: "
    "<a href=\"/metrics\">/metrics</a></p>\n</content></html>\n";

http::Response page(std::string type, std::string text) {
  return {http::Status::ok, std::move(type), std::make_shared<const std::string>(std::move(text))};
}

http::Response response_at(const std::string& path, unsigned bits) {
  if (path == kMetrics)
    return page("text/plain; version=0.0.4; charset=utf-8", machine_metrics(bits));
  if (path == "/") return page("text/html; charset=utf-8", kFirstPage);
  return http::response_of(http::Status::not_found);
}

}  // namespace

int run_serve(const Options& options, Renderer& renderer) {
  const auto address = http::parse_address(options.address);
  if (!address) return give_up(renderer, bad_address(options.address));
  Interrupts interrupts;
  const auto listener = http::Listener::listen(*address);
  if (!listener) return give_up(renderer, message(listener.error()));
  if (!http::is_of_this_machine(*address))
    renderer.warning(warning::reachable_by_others(http::to_text(listener->address())));
  renderer.serving(listener->address(), kMetrics);
  renderer.flush();
  const uint64_t until_ns = options.duration_s > 0
                                ? monotonic_ns() + static_cast<uint64_t>(options.duration_s * 1e9)
                                : UINT64_MAX;
  http::Server(*listener, [&](const std::string& path) {
    return response_at(path, options.serve_bits);
  }).serve(interrupts.descriptor(), until_ns);
  return renderer.is_broken() ? kFailed : kOk;
}

}  // namespace pinprick::cli
