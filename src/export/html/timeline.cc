#include "export/html/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "export/html/json_text.h"

namespace pinprick::exports {

uint32_t Timeline::add_track(std::string_view process, std::string_view name) {
  if (tracks_.size() < limits_.tracks)
    tracks_.push_back({std::string(process), std::string(name)});
  else if (tracks_.size() == limits_.tracks)
    tracks_.push_back({"(other)", "(other)"});
  return static_cast<uint32_t>(tracks_.size() - 1);
}

void Timeline::rename_track(uint32_t track, std::string_view name) {
  if (track < limits_.tracks) tracks_[track].name = name;
}

uint32_t Timeline::number_of(std::string_view told) {
  if (told.empty()) return 0;
  if (const auto known = numbers_.find(told); known != numbers_.end()) return known->second;
  if (bytes_ + told.size() > limits_.bytes) {
    ++untold_;
    return 0;
  }
  bytes_ += told.size();
  texts_.emplace_back(told);
  return numbers_.emplace(texts_.back(), texts_.size()).first->second;
}

void Timeline::add(Slice slice, std::string_view told) {
  ++all_;
  begin_ns_ = std::min(begin_ns_, slice.start_ns);
  end_ns_ = std::max(end_ns_, slice.start_ns + slice.duration_ns);
  slice.text = number_of(told);
  slices_.push_back(slice);
  if (slices_.size() >= 2 * limits_.slices) keep_longest();
}

void Timeline::keep_longest() {
  if (slices_.size() <= limits_.slices) return;
  const auto limit = slices_.begin() + static_cast<ptrdiff_t>(limits_.slices);
  std::nth_element(slices_.begin(), limit, slices_.end(), [](const Slice& a, const Slice& b) {
    return std::tuple(b.duration_ns, a.start_ns) < std::tuple(a.duration_ns, b.start_ns);
  });
  slices_.erase(limit, slices_.end());
}

// Returns the texts that slices have, and numbers them anew.
std::string Timeline::json_of_texts() {
  std::vector<uint32_t> numbers(texts_.size() + 1);
  std::string json = "\"\"";
  uint32_t last = 0;
  for (Slice& one : slices_) {
    if (one.text != 0 && numbers[one.text] == 0) {
      numbers[one.text] = ++last;
      json += "," + json_text(texts_[one.text - 1]);
    }
    one.text = numbers[one.text];
  }
  return json;
}

// Starts are differences to the one before, as those have fewer digits. A duration of -1 is that of
// an instant.
std::string Timeline::json_of_track(const Track& track, std::span<const Slice> slices) const {
  std::string starts, durations, functions, texts, unreturned;
  uint64_t before_ns = begin_ns_;
  for (const Slice& one : slices) {
    const char* comma = &one == &slices.front() ? "" : ",";
    const auto put = [&](std::string& column, auto number) {
      fmt::format_to(std::back_inserter(column), "{}{}", comma, number);
    };
    put(starts, one.start_ns - before_ns);
    put(durations,
        one.of == Slice::Of::instant ? int64_t{-1} : static_cast<int64_t>(one.duration_ns));
    put(functions, one.function);
    put(texts, one.text);
    before_ns = one.start_ns;
    if (one.of == Slice::Of::unreturned)
      fmt::format_to(std::back_inserter(unreturned), "{}{}", unreturned.empty() ? "" : ",",
                     &one - slices.data());
  }
  return fmt::format(
      R"({{"process":{},"name":{},"start":[{}],"duration":[{}],"function":[{}],"text":[{}],"unreturned":[{}]}})",
      json_text(track.process), json_text(track.name), starts, durations, functions, texts,
      unreturned);
}

std::string Timeline::json() {
  keep_longest();
  std::sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) {
    return std::tuple(a.track, a.start_ns, b.duration_ns) <
           std::tuple(b.track, b.start_ns, a.duration_ns);
  });
  const std::string texts = json_of_texts();
  std::string tracks;
  for (auto first = slices_.begin(); first != slices_.end();) {
    const auto next = std::find_if(first, slices_.end(),
                                   [&](const Slice& one) { return one.track != first->track; });
    if (!tracks.empty()) tracks += ",\n";
    tracks += json_of_track(tracks_[first->track], {first, next});
    first = next;
  }
  return fmt::format(R"("all":{},"kept":{},"untold":{},"length":{},"texts":[{}],"tracks":[{}])",
                     all_, slices_.size(), untold_, end_ns_ - std::min(begin_ns_, end_ns_), texts,
                     tracks);
}

}  // namespace pinprick::exports
