#include "export/pprof.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <protozero/pbf_builder.hpp>

#include "export/format.h"

namespace pinprick::exports {
namespace {

using protozero::pbf_builder;

// Numbers of fields, by message.
enum class OfProfile : protozero::pbf_tag_type {
  sample_type = 1,
  sample = 2,
  mapping = 3,
  location = 4,
  function = 5,
  string_table = 6,
  time = 9,
  duration = 10
};
enum class OfType : protozero::pbf_tag_type { type = 1, unit = 2 };
enum class OfSample : protozero::pbf_tag_type { locations = 1, values = 2, labels = 3 };
enum class OfLabel : protozero::pbf_tag_type { key = 1, text = 2 };
enum class OfMapping : protozero::pbf_tag_type {
  id = 1,
  start = 2,
  limit = 3,
  file = 5,
  build_id = 6,
  has_functions = 7
};
enum class OfLocation : protozero::pbf_tag_type { id = 1, mapping = 2, address = 3, lines = 4 };
enum class OfLine : protozero::pbf_tag_type { function = 1 };
enum class OfFunction : protozero::pbf_tag_type { id = 1, name = 2, system_name = 3, file = 4 };

// Objects get addresses apart from each other, as a profile may be of several processes. A mapping
// takes its object's addresses in the file up to this.
constexpr uint64_t kObjectBytes = uint64_t{1} << 40;

std::string gzip(const std::string& bytes) {
  constexpr int kWindowBits = 15, kWithGzipHeader = 16, kMemoryLevel = 8;
  z_stream stream = {};
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits + kWithGzipHeader,
                     kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string compressed;
  std::string part(1 << 16, '\0');
  size_t read = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    const size_t next = std::min(bytes.size() - read, size_t{1} << 30);
    if (stream.avail_in == 0) {
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib only reads it
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + read));
      stream.avail_in = static_cast<uInt>(next);
      read += next;
    }
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    result = ::deflate(&stream, read == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    compressed.append(part.data(), part.size() - stream.avail_out);
  }
  ::deflateEnd(&stream);
  return compressed;
}

}  // namespace

Profile::Profile(const std::vector<ValueType>& types) {
  for (const auto& [type, unit] : types) {
    pbf_builder<OfProfile> profile(types_);
    pbf_builder<OfType> one(profile, OfProfile::sample_type);
    one.add_int64(OfType::type, number_of(type));
    one.add_int64(OfType::unit, number_of(unit));
  }
}

int64_t Profile::number_of(std::string_view text) {
  if (text.empty()) return 0;
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<int64_t>(strings_.size());
  strings_.push_back(as_utf8(text));
  numbers_.emplace(text, number);
  return number;
}

uint64_t Profile::mapping_of(const Frame& frame) {
  if (frame.object.empty()) return 0;
  const auto [known, is_new] =
      known_mappings_.try_emplace({frame.object, frame.build_id}, known_mappings_.size() + 1);
  if (!is_new) return known->second;
  pbf_builder<OfProfile> profile(mappings_);
  pbf_builder<OfMapping> mapping(profile, OfProfile::mapping);
  mapping.add_uint64(OfMapping::id, known->second);
  mapping.add_uint64(OfMapping::start, known->second * kObjectBytes);
  mapping.add_uint64(OfMapping::limit, (known->second + 1) * kObjectBytes);
  mapping.add_int64(OfMapping::file, number_of(frame.object));
  mapping.add_int64(OfMapping::build_id, number_of(frame.build_id));
  mapping.add_bool(OfMapping::has_functions, true);
  return known->second;
}

// A location is known by its name, as callers have no addresses here.
uint64_t Profile::location_of(const Frame& frame) {
  const uint64_t mapping = mapping_of(frame);
  const auto [known, is_new] = known_locations_.try_emplace(
      {frame.function, frame.object, frame.address}, known_locations_.size() + 1);
  const uint64_t id = known->second;
  if (!is_new) return id;
  {
    pbf_builder<OfProfile> profile(functions_);
    pbf_builder<OfFunction> function(profile, OfProfile::function);
    function.add_uint64(OfFunction::id, id);
    function.add_int64(OfFunction::name, number_of(frame.function));
    function.add_int64(OfFunction::system_name, number_of(frame.function));
  }
  pbf_builder<OfProfile> profile(locations_);
  pbf_builder<OfLocation> location(profile, OfProfile::location);
  location.add_uint64(OfLocation::id, id);
  if (mapping != 0) {
    location.add_uint64(OfLocation::mapping, mapping);
    location.add_uint64(OfLocation::address,
                        mapping * kObjectBytes + std::min(frame.address, kObjectBytes - 1));
  }
  pbf_builder<OfLine> line(location, OfLocation::lines);
  line.add_uint64(OfLine::function, id);
  return id;
}

void Profile::add(const std::vector<Frame>& frames, const std::vector<int64_t>& values,
                  const std::vector<Label>& labels) {
  std::vector<uint64_t> locations;
  for (const Frame& frame : frames) locations.push_back(location_of(frame));
  pbf_builder<OfProfile> profile(samples_);
  pbf_builder<OfSample> sample(profile, OfProfile::sample);
  sample.add_packed_uint64(OfSample::locations, locations.begin(), locations.end());
  sample.add_packed_int64(OfSample::values, values.begin(), values.end());
  for (const auto& [key, text] : labels) {
    pbf_builder<OfLabel> label(sample, OfSample::labels);
    label.add_int64(OfLabel::key, number_of(key));
    label.add_int64(OfLabel::text, number_of(text));
  }
}

std::string Profile::compressed(uint64_t started_ns, uint64_t duration_ns) {
  std::string bytes = types_ + samples_ + mappings_ + locations_ + functions_;
  pbf_builder<OfProfile> profile(bytes);
  for (const std::string& text : strings_) profile.add_string(OfProfile::string_table, text);
  profile.add_int64(OfProfile::time, static_cast<int64_t>(started_ns));
  profile.add_int64(OfProfile::duration, static_cast<int64_t>(duration_ns));
  return gzip(bytes);
}

}  // namespace pinprick::exports
