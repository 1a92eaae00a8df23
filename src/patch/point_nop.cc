#include "patch/point_nop.h"

#include <algorithm>

#include "arch/code.h"
#include "arch/jump.h"

namespace pinprick::patch {

PointNop look_at_nop(const target::Memory& memory, Address nop, Address block) {
  arch::LinkBytes bytes;
  if (!memory.read(nop, bytes)) return PointNop::other;
  if (bytes[0] == arch::kBreakpoint) return PointNop::changing;
  const auto target = arch::link_target(nop, bytes);
  if (target == Address{0}) return PointNop::off;
  return target == block ? PointNop::on : PointNop::other;
}

layout::SiteEntry site_of(const layout::PointSiteEntry& point) {
  layout::SiteEntry site;
  site.address = point.address;
  site.length = site.own = arch::kLinkLength & 15;
  site.displaced = arch::kLinkLength;
  site.jump = point.block - int32_t{arch::kLinkLength};
  if (const auto nop = arch::encode_link(point.address, 0))
    std::copy(nop->begin(), nop->end(), site.original);
  return site;
}

}  // namespace pinprick::patch
