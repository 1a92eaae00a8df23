// The parts of a recording's file (docs/recordings.md). Pure.
//
//     magic, version | chunk | chunk | ...
//     chunk: size of what follows 4 | size of its content 4 | content, compressed by zstd
//
// The content is a row of records: a tag of one byte, and fields. Numbers are LEB128. A text is 0
// if it is empty, 1 and the text itself, 2 and the text itself, which gets the next number, or the
// number of a text plus 3. Threads and probes get their numbers in the same way, by their records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pinprick::recording {

inline constexpr std::string_view kMagic = "pinprick recording\n";
inline constexpr uint8_t kVersion = 2;

enum class Tag : uint8_t {
  header = 1,
  thread,
  probe,
  told,
  report,
  end,
  whole_program,
  event = 0x80
};

// Parts of the tag of an event, which says what it has, and what is as in the event before it.
inline constexpr uint8_t kHasLatency = 1, kHasStackPointer = 2, kSameThread = 4, kSameProbe = 8,
                         kSameCpu = 16;
inline constexpr uint8_t kEventBits = 31;

// Flags of a probe.
inline constexpr uint8_t kIsPoint = 1, kAtReturn = 2, kIsShared = 4, kHasReturnEvent = 8,
                         kTriggersEnd = 16, kHasSpan = 32, kIsStart = 64;

// How a text is told.
inline constexpr uint64_t kEmptyText = 0, kUnnumberedText = 1, kNewText = 2, kKnownTexts = 3;
// Longer texts get no number, nor do those that come when numbered ones take so many bytes.
inline constexpr size_t kLongestNumberedText = 4096, kMostNumberedTexts = 1 << 20,
                        kMostBytesOfTexts = 64 << 20;
// A recording that has more threads, probes or figures was not made by pinprick.
inline constexpr size_t kMostThreads = 1 << 20, kMostProbes = 1 << 21, kMostRows = 1 << 20;
// The kernel's names of threads and processes are shorter.
inline constexpr size_t kLongestCommand = 256;

// A chunk is written once it has so many bytes. What is larger than the most is refused.
inline constexpr size_t kFullChunk = 256 << 10, kMostChunk = 64 << 20;
// How deep values lie in values, and how many an event has together.
inline constexpr unsigned kMostDepth = 32;
inline constexpr size_t kMostValues = 1 << 16;
// In the byte of a value's kind: its is_cut.
inline constexpr uint8_t kIsCut = 0x80;
inline constexpr uint8_t kNoWords = 0, kWordsAlone = 1, kWordsAroundValue = 2;

}  // namespace pinprick::recording
