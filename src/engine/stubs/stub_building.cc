#include "engine/stubs/stub_building.h"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <utility>

#include "base/parallel.h"
#include "base/task.h"

namespace pinprick::engine {

std::vector<Address> StubBuilding::starts_of_pieces() const {
  std::vector<Address> ends, starts;
  for (const ArenaHead& head : heads_) ends.push_back(head.stubs);
  for (const StubPiece& piece : parts_.layout.pieces) {
    starts.push_back(ends[piece.arena]);
    ends[piece.arena] += piece.room;
  }
  for (size_t i = 0; i < ends.size(); ++i) assert(ends[i] <= parts_.layout.end_of_stubs(i));
  return starts;
}

Result<BuiltStubs, SystemError> StubBuilding::build() && {
  const auto starts = starts_of_pieces();
  begin_step("building", parts_.plan.set.patches.size(), "stubs");
  built_.stubs_of_puns.resize(parts_.plan.puns.size());
  for (const ArenaHead& head : heads_) built_.arenas.push_back({head.stubs, 0, {}});
  // Room for all, so that they need not move; what is not used takes no memory.
  constexpr size_t kBoundaries = 2;  // of a patch, on average
  built_.boundaries.reserve(kBoundaries * parts_.plan.set.patches.size());
  emit_all(starts);
  if (refused_ != 0) return fail(SystemError{refused_});
  const auto by_address = [](const auto& a, const auto& b) { return a.address < b.address; };
  if (!std::is_sorted(built_.boundaries.begin(), built_.boundaries.end(), by_address))
    std::sort(built_.boundaries.begin(), built_.boundaries.end(), by_address);
  return std::move(built_);
}

// What there is to say of a piece's stubs is taken over as soon as those before it were, so that
// there is never much.
void StubBuilding::emit_all(const std::vector<Address>& starts) {
  const auto& pieces = parts_.layout.pieces;
  const PieceEmitter::Parts parts = {parts_.plan, parts_.stubs, parts_.journal,
                                     built_.stubs_of_puns, parts_.memory};
  std::mutex mutex;
  std::vector<std::optional<EmittedPiece>> emitted(pieces.size());
  size_t taken = 0;
  // A few stubs take less time than a thread for them.
  constexpr size_t kFewPatches = 64;
  const size_t threads = parts_.plan.set.patches.size() <= kFewPatches ? 1 : usable_threads();
  for_each_piece(pieces.size(), threads, [&](size_t number) {
    const StubPiece& piece = pieces[number];
    advance(piece.patches.size());
    auto done = PieceEmitter(parts, piece, heads_[piece.arena].entries, starts[number]).emit();
    const std::lock_guard lock(mutex);
    emitted[number] = std::move(done);
    for (; taken < pieces.size() && emitted[taken]; ++taken)
      take_over(pieces[taken], *std::exchange(emitted[taken], std::nullopt));
  });
}

// A room without a shape may be larger than one entry can say.
void StubBuilding::add_stub(arch::StubArena& arena, const std::string& shape, uint64_t room) {
  if (!shape.empty()) return arena.shapes.push_back(built_.shapes.add(shape, room));
  for (uint64_t part = 0; room > 0; room -= part) {
    part = std::min(room, kGap);
    arena.shapes.push_back(built_.shapes.add({}, part));
  }
}

// What lies between pieces is no stub, and no thread is there.
void StubBuilding::fill_gap(arch::StubArena& arena, Address to) {
  add_stub(arena, {}, to - std::min(to, arena.begin + arena.size));
}

// For one piece after the other, by one thread at a time. Others emit meanwhile: they change
// nothing that this looks at, and look at nothing that it changes.
void StubBuilding::take_over(const StubPiece& piece, EmittedPiece emitted) {
  arch::StubArena& arena = built_.arenas[piece.arena];
  fill_gap(arena, emitted.stubs.begin);
  for (size_t i = 0; i < piece.patches.size(); ++i) {
    if (emitted.room_of[i] == 0)
      parts_.plan.drop(piece.patches[i], plan::Reason::out_of_reach);
    else
      add_stub(arena, emitted.shapes[emitted.shape_of[i]], emitted.room_of[i]);
  }
  arena.size = emitted.stubs.end - arena.begin;
  built_.boundaries.insert(built_.boundaries.end(), emitted.boundaries.begin(),
                           emitted.boundaries.end());
  built_.bytes += emitted.bytes;
  if (refused_ == 0) refused_ = emitted.refused;
}

}  // namespace pinprick::engine
