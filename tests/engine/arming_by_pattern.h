// Arms probes in a process by a pattern, with switches: what the tests of sessions have in common.
#pragma once

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <utility>

#include "engine/owners/shared_sites.h"
#include "engine/session.h"
#include "image/match.h"

namespace pinprick::engine {

enum class Sites : uint8_t { entries, each_instruction };

class ArmingByPattern {
 public:
  // The session must not outlive this object, which has its image.
  Result<Session, ledger::SessionError> arm(pid_t pid, action::Actions actions, const char* pattern,
                                            Sites sites = Sites::entries) {
    auto target = target::RemoteTarget::open(pid);
    EXPECT_TRUE(target) << "a child of one's own";
    const auto others = OtherSites::find(pid, target->memory());
    auto loaded = image::load_process(
        pid, reader_without_jumps(std::make_shared<const OtherSites>(others), *target));
    EXPECT_TRUE(loaded);
    image::ProcessImage& image = images_.emplace_back(*std::move(loaded));
    auto matches = image::match_patterns(
                       image, {*image::Pattern::parse(pattern, image::PatternSyntax::glob)}, {})
                       .matches;
    if (sites == Sites::each_instruction) image::mean_each_instruction(matches);
    ArmOptions options;
    options.has_switches = true;
    return Session::arm(*std::move(target), image,
                        placement::plan_probes(image, std::move(matches), std::move(actions)),
                        options);
  }

 private:
  std::list<image::ProcessImage> images_;
};

}  // namespace pinprick::engine
