// The rules by which hits walk stacks (layout/frame_rows.h), as they lie in the target's private
// memory:
//
//     list of objects, rows of objects | list, rows of objects that came later | ...
//
// A list and its rows are written before the context leads to them, and never changed, as a thread
// may read them at any time. The generation is raised last. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/address.h"
#include "image/process.h"
#include "layout/frame_rows.h"
#include "runtime/image.h"

namespace pinprick::engine {

class FrameRules {
 public:
  // Takes all objects of the image. Reads their unwind tables.
  explicit FrameRules(const image::ProcessImage& image) { update(image); }

  // Returns how many bytes they take, with room for as much again, and for libraries that are
  // loaded later. Pages to which nothing is written take no memory.
  uint64_t room() const;
  // `room` is where they lie, and `list` the word that leads to the list. The next word is the
  // generation of the list.
  void place(Range room, Address list) {
    room_ = room;
    next_ = room.begin;
    list_ = list;
  }
  // Takes the objects of the image alone, whose rows are known if they were there before. Returns
  // whether anything has changed.
  bool update(const image::ProcessImage& image);
  // Returns what is to be written, in this order. Objects for which there is no room have no rules.
  std::vector<runtime::Piece> pieces();

 private:
  struct Known {
    Range code;
    std::vector<layout::FrameRow> rows;  // empty once they are written
    uint64_t row_count = 0;
    Address at = 0;  // 0: they are not written yet
  };
  using Name = std::tuple<Address, image::FileNumber, std::string>;  // its code, file and path

  Range room_;
  Address next_ = 0;
  Address list_ = 0;
  uint64_t generation_ = 0;
  std::map<Name, Known> known_;
  std::vector<Name> present_;  // by ascending addresses
};

}  // namespace pinprick::engine
