#include "engine/stubs/stub_piece.h"

#include <algorithm>
#include <utility>

#include "arch/native.h"
#include "arch/unwind_tables.h"
#include "engine/stubs/site_jumps.h"

namespace pinprick::engine {

EmittedPiece PieceEmitter::emit() && {
  emitted_.shape_of.resize(piece_.patches.size());
  emitted_.room_of.resize(piece_.patches.size());
  for (size_t i : piece_.patches) emit_stub(i);
  take_shapes();
  emitted_.stubs.end = code_.here();
  if (auto written = parts_.memory.write(emitted_.stubs.begin, code_.bytes()); !written)
    emitted_.refused = written.error().number;
  return std::move(emitted_);
}

// After as much padding as it takes for its edits to lie in one page each.
std::optional<arch::Stub> PieceEmitter::assemble(size_t patch) {
  const size_t before = code_.size();
  auto stub = parts_.stubs.assemble(patch, code_, entries_, actions_);
  for (uint64_t padding = kStubAlignment;
       stub && code_.size() <= piece_.room && parts_.stubs.has_edit_across_pages(patch, *stub);
       padding += kStubAlignment) {
    code_.take_back(before);
    for (uint64_t j = 0; j < padding; ++j) code_.u8(arch::kBreakpoint);
    stub = parts_.stubs.assemble(patch, code_, entries_, actions_);
  }
  return stub;
}

void PieceEmitter::emit_stub(size_t patch) {
  const size_t before = code_.size();
  const Address at = code_.here();
  const auto stub = assemble(patch);
  const size_t size = code_.size() - before;
  code_.align(kStubAlignment, arch::kBreakpoint);
  if (!stub || code_.size() > piece_.room ||
      !note_jumps(parts_.plan, parts_.journal, patch, *stub)) {
    forget_jumps(parts_.plan, parts_.journal, patch);
    code_.take_back(before);
    return;
  }
  emitted_.room_of[patch - piece_.patches.first] = static_cast<uint32_t>(code_.size() - before);
  emitted_.bytes += size;
  note_shape(patch, *stub, at);
  note_stub(patch, *stub);
}

void PieceEmitter::note_shape(size_t patch, const arch::Stub& stub, Address at) {
  const size_t index = patch - piece_.patches.first;
  const auto hidden = parts_.plan.hidden.find(patch);
  const std::span<const uint8_t> trampolines =
      hidden == parts_.plan.hidden.end() ? std::span<const uint8_t>() : std::span(hidden->second);
  auto shape = arch::StubShapes::shape_of(stub.frames, at, emitted_.room_of[index], trampolines);
  emitted_.shape_of[index] =
      shapes_.try_emplace(std::move(shape), static_cast<uint16_t>(shapes_.size())).first->second;
}

void PieceEmitter::note_stub(size_t patch, const arch::Stub& stub) {
  keep_boundaries(patch, stub);
  note_probes(parts_.plan, parts_.journal, patch, stub);
  if (!parts_.plan.set.patches[patch].plan.island) return;
  const auto& puns = parts_.plan.puns;
  const auto pun = std::lower_bound(puns.begin(), puns.end(), patch);
  parts_.stubs_of_puns[static_cast<size_t>(pun - puns.begin())] = stub.begin;
}

void PieceEmitter::keep_boundaries(size_t patch, const arch::Stub& stub) {
  const placement::SitePatch& planned = parts_.plan.set.patches[patch];
  for (const arch::Copy& copy : stub.copies)
    if (copy.window_offset != 0 && copy.window_offset < planned.plan.boundaries_end)
      emitted_.boundaries.push_back({planned.site() + copy.window_offset, stub.copy + copy.offset,
                                     static_cast<uint32_t>(patch)});
}

// By their numbers in this piece.
void PieceEmitter::take_shapes() {
  emitted_.shapes.resize(shapes_.size());
  while (!shapes_.empty()) {
    auto shape = shapes_.extract(shapes_.begin());
    emitted_.shapes[shape.mapped()] = std::move(shape.key());
  }
}

}  // namespace pinprick::engine
