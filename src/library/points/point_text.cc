#include "library/points/point_text.h"

#include <algorithm>
#include <vector>

#include "arch/jump.h"
#include "library/api/error.h"
#include "library/probes/text_access.h"
#include "library/probes/text_change.h"
#include "patch/live_edit.h"
#include "runtime/traps.h"

namespace pinprick::library {
namespace {

// A site has the two forms of a link: a nop, and a jump.
std::vector<patch::LiveEdit> link_edits(const target::Memory& memory,
                                        std::span<const PointSite> sites, SiteState from) {
  std::vector<patch::LiveEdit> edits;
  SiteStates state_of(memory);
  for (const PointSite& site : sites) {
    if (state_of(site) != from) continue;
    const auto nop = arch::encode_link(site.nop, 0), jump = arch::encode_link(site.nop, site.block);
    if (!nop || !jump) continue;
    patch::LiveEdit edit;
    edit.site = site.nop;
    std::copy(nop->begin(), nop->end(), edit.original.begin());
    std::copy(jump->begin(), jump->end(), edit.jump.begin());
    edits.push_back(edit);
    runtime::set_continuation(site.nop, site.block);
  }
  return edits;
}

using Write = Result<void, SystemError> (*)(const target::SelfTarget&,
                                            std::span<const patch::LiveEdit>, patch::Order);

Result<void, Error> write_pieces(const target::SelfTarget& self,
                                 std::span<const patch::LiveEdit> edits, Write write) {
  return in_pieces(edits, [&](std::span<const patch::LiveEdit> piece) -> Result<void, Error> {
    const auto turn = turn_to_write(no_breakpoints);
    if (!turn) return fail(turn.error());
    if (auto written = write(self, piece, turn->order); !written)
      return fail(system_error(written.error()));
    return {};
  });
}

}  // namespace

bool SiteStates::read(Address at, std::span<uint8_t> out) {
  constexpr size_t kReadAtOnce = 16384;
  const auto has = [&] {
    return at >= begin_ && at - begin_ <= bytes_.size() &&
           bytes_.size() - (at - begin_) >= out.size();
  };
  if (!has()) {
    begin_ = at;
    bytes_.resize(kReadAtOnce);
    // Near the end of the mapping.
    if (!memory_.read(begin_, bytes_)) bytes_.clear();
  }
  if (!has()) return memory_.read(at, out);
  std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(at - begin_), out.size(), out.begin());
  return true;
}

SiteState SiteStates::operator()(const PointSite& site) {
  arch::LinkBytes bytes;
  if (!read(site.nop, bytes)) return SiteState::foreign;
  const auto target = arch::link_target(site.nop, bytes);
  if (target == Address{0}) return SiteState::off;
  return target == site.block ? SiteState::on : SiteState::foreign;
}

std::optional<Address> foreign_site(const target::Memory& memory,
                                    std::span<const PointSite> sites) {
  SiteStates state_of(memory);
  for (const PointSite& site : sites)
    if (state_of(site) == SiteState::foreign) return site.nop;
  return std::nullopt;
}

Result<void, Error> turn_on(const target::SelfTarget& self, std::span<const PointSite> sites) {
  const auto edits = link_edits(self.memory(), sites, SiteState::off);
  return write_pieces(self, edits, patch::place_live);
}

Result<void, Error> turn_off(const target::SelfTarget& self, std::span<const PointSite> sites) {
  const auto edits = link_edits(self.memory(), sites, SiteState::on);
  return write_pieces(self, edits, patch::remove_live);
}

}  // namespace pinprick::library
