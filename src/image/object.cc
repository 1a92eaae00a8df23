#include "image/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "arch/vfork_hook.h"
#include "base/task.h"
#include "image/elf/debug_file.h"
#include "image/elf/go_table.h"
#include "image/names/demangle.h"
#include "image/scan/code_scan.h"
#include "image/scan/known_functions.h"
#include "image/scan/language_runtime.h"

namespace pinprick::image {
namespace {

// In place of a function's start.
constexpr Address kNoFunction = ~Address{0};

std::vector<FrameEntry> frames_of(const ElfFile& elf) {
  const auto section = elf.eh_frame();
  return section ? parse_eh_frame(section->data, section->address) : std::vector<FrameEntry>();
}

// Returns the functions of Go's table that have no symbol. Its names are shorter than those of
// symbols, which have type arguments.
std::vector<Symbol> without_names(std::span<const Symbol> of_go, std::span<const Symbol> symbols) {
  if (of_go.empty()) return {};
  std::vector<Address> named;
  for (const Symbol& symbol : symbols)
    if (symbol.is_function()) named.push_back(symbol.address);
  std::sort(named.begin(), named.end());
  std::vector<Symbol> others(of_go.begin(), of_go.end());
  std::erase_if(others, [&](const Symbol& symbol) {
    return std::binary_search(named.begin(), named.end(), symbol.address);
  });
  return others;
}

// `debug` is the separate debug file, or null. Each table may lack what another one has: strippers
// can keep some symbols.
FunctionTable functions_of(const ElfFile& elf, const ElfFile* debug,
                           std::span<const FrameEntry> frames) {
  std::optional<ElfFile> embedded;
  if (debug == nullptr && (embedded = embedded_debug_file(elf))) debug = &*embedded;
  std::vector<Symbol> symbols = elf.symtab();
  const auto add = [&](const std::vector<Symbol>& more) {
    symbols.insert(symbols.end(), more.begin(), more.end());
  };
  if (debug != nullptr) add(debug->symtab());
  add(elf.dynamic_symbols());
  const GoFunctions go(elf);
  add(without_names(go.symbols(), symbols));
  return FunctionTable::build(elf, code_layout(elf, debug, frames), symbols, frames);
}

// Millions of entries may name one table, or tables that overlap: each table is read once, and all
// of them have no more pads than the text has bytes.
std::vector<Address> landing_pads_in(const ObjectBytes& object,
                                     std::span<const FrameEntry> frames) {
  std::vector<Address> landing_pads;
  std::set<std::pair<Address, Address>> seen;  // a table, and what its offsets count from
  std::set<Address> without_pads;              // tables that need not be read for another function
  size_t most = 0;
  for (const CodeBytes& part : object.text) most += part.bytes.size();
  const auto add = [&](const FrameEntry& frame, const CodeBytes& part) {
    if (!part.range().contains(frame.lsda)) return;
    const auto table = part.bytes.subspan(frame.lsda - part.address);
    const auto pads = parse_landing_pads(table, frame.lsda, frame.code, most - landing_pads.size());
    landing_pads.insert(landing_pads.end(), pads.begin(), pads.end());
    if (pads.empty()) without_pads.insert(frame.lsda);
  };
  for (const FrameEntry& frame : frames) {
    check_cancelled();
    if (frame.lsda == 0 || without_pads.contains(frame.lsda) ||
        !seen.emplace(frame.lsda, frame.code.begin).second)
      continue;
    for (const CodeBytes& part : object.data) add(frame, part);
    for (const CodeBytes& part : object.text) add(frame, part);
  }
  return landing_pads;
}

ObjectCode code_in(const ElfFile& elf, const ObjectBytes& object, const FunctionTable& functions,
                   std::span<const Relocation> relocations, std::span<const FrameEntry> frames) {
  ObjectCode code{
      find_branch_targets(object, functions, relocations, landing_pads_in(object, frames)),
      find_restartable_sequences(object, relocations),
      {}};
  for (const CodeBytes& part : object.text) {
    for (const size_t offset : arch::find_vforks(part.bytes))
      code.vforks.push_back(part.address + offset);
  }
  const auto known = find_known_functions(elf, object.text, functions);
  code.reserved.insert(code.reserved.end(), known.begin(), known.end());
  return code;
}

// Adds everything that is ever read of the file. Returns false if it cannot be read.
bool add_file(ContentHasher& hasher, const ElfFile& elf) {
  constexpr uint64_t kAtOnce = 128 << 10;  // fits into a cache of the processor
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kAtOnce);
  hasher.add(elf.file_size());
  for (const ElfFile::Part& part : elf.parts()) {
    hasher.add(part.offset);
    hasher.add(part.size);
    for (uint64_t at = 0; at < part.size; at += kAtOnce) {
      check_cancelled();
      const uint64_t size = std::min(kAtOnce, part.size - at);
      const std::span<uint8_t> bytes(buffer.get(), size);
      if (!elf.read({part.offset + at, size}, bytes)) return false;
      hasher.add(bytes);
    }
  }
  return true;
}

bool add_files(ContentHasher& hasher, const ElfFile& elf, const ElfFile* debug) {
  hasher.add(uint64_t{debug != nullptr});
  return add_file(hasher, elf) && (debug == nullptr || add_file(hasher, *debug));
}

// Returns nullopt if a file is not proved to be unchanged.
std::optional<ObjectStore::Versions> versions_of(const ElfFile& elf, const ElfFile* debug) {
  const auto own = elf.unchanged_version();
  if (!own) return std::nullopt;
  ObjectStore::Versions versions = {*own, {}};
  if (debug != nullptr && !(versions.second = debug->unchanged_version())) return std::nullopt;
  return versions;
}

}  // namespace

Object::Object(ElfFile elf, uint64_t bias, std::vector<std::string> names, std::string path,
               std::string root, MemoryReader reader, ObjectStore* store, OwnPages own_pages)
    : elf_(std::move(elf)),
      bias_(bias),
      names_(std::move(names)),
      path_(std::move(path)),
      root_(std::move(root)),
      reader_(std::move(reader)),
      store_(store),
      own_pages_(std::move(own_pages)) {}

Range Object::extent() const {
  const Range own = elf_.extent();
  return {own.begin + bias_, own.end + bias_};
}

std::vector<Range> Object::executable_ranges() const {
  std::vector<Range> ranges;
  for (const Segment& segment : elf_.segments())
    if (segment.executable)
      ranges.push_back({segment.range.begin + bias_, segment.range.end + bias_});
  return ranges;
}

// Where several begin at one address, such as a structure and its first member in assembly, the
// largest comes first.
std::optional<Symbol> Object::variable_at(Address address) {
  if (!variables_) {
    variables_ = elf_.symtab();
    std::erase_if(*variables_, [](const Symbol& symbol) {
      return symbol.kind != Symbol::Kind::data || symbol.size == 0;
    });
    std::ranges::stable_sort(*variables_, [](const Symbol& a, const Symbol& b) {
      return std::pair(a.address, b.size) < std::pair(b.address, a.size);
    });
  }
  const auto after = std::ranges::upper_bound(*variables_, address, {}, &Symbol::address);
  if (after == variables_->begin()) return std::nullopt;
  const auto found =
      std::ranges::lower_bound(*variables_, std::prev(after)->address, {}, &Symbol::address);
  if (address - found->address >= found->size) return std::nullopt;
  return *found;
}

const std::vector<FrameEntry>& Object::frames() {
  if (!frames_) frames_ = frames_of(elf_);
  return *frames_;
}

// Returns null if there is none.
const ElfFile* Object::debug_file() {
  if (!debug_) {
    debug_.emplace();
    if (auto found = find_debug_file(elf_, root_, path_))
      *debug_ = std::make_unique<ElfFile>(*std::move(found));
  }
  return debug_->get();
}

const ElfFile* Object::file_with_debug_information() {
  if (elf_.is_open_file() && elf_.has_debug_information()) return &elf_;
  const ElfFile* const separate = debug_file();
  const bool has = separate != nullptr && separate->is_open_file();
  return has && separate->has_debug_information() ? separate : nullptr;
}

const std::optional<ContentHash>& Object::contents() {
  if (contents_) return *contents_;
  contents_.emplace();
  if (store_ == nullptr || !elf_.is_open_file() || elf_.file_size() > kLargestCopied)
    return *contents_;
  const ElfFile* const debug = debug_file();
  if (debug != nullptr && debug->file_size() > kLargestCopied) return *contents_;
  hashed_ = versions_of(elf_, debug);
  if (hashed_ && (*contents_ = store_->recall(*hashed_))) return *contents_;
  ContentHasher hasher = store_->hasher();
  if (add_files(hasher, elf_, debug)) *contents_ = hasher.finish();
  if (hashed_ && *contents_) store_->remember(*hashed_, **contents_);
  return *contents_;
}

// Returns the hash of everything that its code depends on; nullopt if code may differ from the
// file's.
std::optional<ContentHash> Object::contents_of_code() {
  if (!contents() || !has_text_of_file()) return std::nullopt;
  if (is_text_of_file()) return *contents();
  ContentHasher hasher = store_->hasher();
  hasher.add(*contents());
  for (const SegmentBytes& segment : text()) {
    hasher.add(segment.address);
    hasher.add(segment.bytes.size());
    hasher.add(segment.bytes);
  }
  return hasher.finish();
}

// Are the files proved to be those that were hashed?
bool Object::are_files_unchanged() const {
  const ElfFile* const debug = debug_ ? debug_->get() : nullptr;
  return hashed_ && versions_of(elf_, debug) == hashed_;
}

// Returns null if the files are not those that contents() hashed; from then on no value is stored.
Object::Copy* Object::copy() {
  if (copy_) return copy_->get();
  copy_.emplace();
  if (!contents()) return nullptr;
  const auto make = [&]() -> std::unique_ptr<Copy> {
    auto copy = std::make_unique<Copy>();
    if (hashed_) {
      copy->elf = &elf_;
      copy->debug = debug_file();
      copy->frames = frames();
      return copy;
    }
    auto elf = ElfFile::copy_of(elf_);
    if (!elf) return nullptr;
    copy->elf = &copy->own_elf.emplace(*std::move(elf));
    if (const ElfFile* const debug = debug_file()) {
      auto debug_copy = ElfFile::copy_of(*debug);
      if (!debug_copy) return nullptr;
      copy->debug = &copy->own_debug.emplace(*std::move(debug_copy));
    }
    ContentHasher hasher = store_->hasher();
    if (!add_files(hasher, *copy->elf, copy->debug) || hasher.finish() != *contents())
      return nullptr;
    copy->frames = frames_of(*copy->elf);
    return copy;
  };
  *copy_ = make();
  if (*copy_ == nullptr) contents_->reset();
  return copy_->get();
}

// What was made from the files themselves is only stored if they are still unchanged; if not, no
// value is from then on.
bool Object::may_be_stored(const Copy& copy) {
  if (copy.own_elf || are_files_unchanged()) return true;
  contents_->reset();
  return false;
}

bool Object::text_is_of(const Copy& copy) {
  const ObjectText& all = text();
  if (is_text_of_file()) return true;  // still, after it was read
  return std::all_of(all.begin(), all.end(), [&](const SegmentBytes& segment) {
    const auto& segments = copy.elf->segments();
    const auto one = std::find_if(segments.begin(), segments.end(), [&](const Segment& other) {
      return other.executable && other.range.begin == segment.address;
    });
    if (one == segments.end() || one->file_size != segment.bytes.size()) return false;
    constexpr uint64_t kAtOnce = 128 << 10;
    const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kAtOnce);
    for (uint64_t at = 0; at < one->file_size; at += kAtOnce) {
      const std::span<uint8_t> bytes(buffer.get(), std::min(kAtOnce, one->file_size - at));
      if (!copy.elf->read({one->offset + at, bytes.size()}, bytes) ||
          std::memcmp(bytes.data(), segment.bytes.data() + at, bytes.size()) != 0)
        return false;
    }
    return true;
  });
}

const CodeLayout& Object::layout() {
  if (!layout_) {
    const bool needs_frames = !elf_.has_section_headers();
    layout_ =
        code_layout(elf_, debug_file(), needs_frames ? frames() : std::span<const FrameEntry>());
  }
  return *layout_;
}

const FunctionTable& Object::functions() {
  if (functions_) return *functions_;
  if (const auto& key = contents()) functions_ = store_->find_functions(*key, elf_.segments());
  if (functions_) return *functions_;
  if (const Copy* const from = copy()) {
    FunctionTable table = functions_of(*from->elf, from->debug, from->frames);
    if (may_be_stored(*from))
      functions_ = store_->keep(*contents(), std::move(table));
    else
      functions_ = std::make_shared<const FunctionTable>(std::move(table));
  } else {
    functions_ = std::make_shared<const FunctionTable>(functions_of(elf_, debug_file(), frames()));
  }
  return *functions_;
}

// Asks the store first, as looking at all names takes long. `find` returns starts of functions.
std::vector<const Function*> Object::recall_functions(
    const std::string& question, const std::function<std::vector<Address>()>& find) {
  const auto& key = contents();
  auto starts = key ? store_->recall_matches(*key, question) : nullptr;
  if (starts == nullptr) {
    starts = std::make_shared<const std::vector<Address>>(find());
    if (key) store_->remember_matches(*key, question, starts);
  }
  std::vector<const Function*> found;
  found.reserve(starts->size());
  for (const Address start : *starts)
    found.push_back(start == kNoFunction ? nullptr : functions().find(start));
  return found;
}

std::vector<const Function*> Object::functions_named(const Pattern& pattern) {
  const FunctionTable& table = functions();
  return recall_functions((pattern.is_regex() ? "regex " : "glob ") + pattern.text(), [&] {
    std::vector<Address> starts;
    for (const Function& function : table.functions()) {
      check_cancelled();
      const auto names = table.names(function);
      if (std::any_of(names.begin(), names.end(),
                      [&](std::string_view name) { return pattern.matches_function(name); }))
        starts.push_back(function.range.begin);
    }
    return starts;
  });
}

std::vector<const Function*> Object::functions_named(std::span<const std::string_view> names) {
  const FunctionTable& table = functions();
  std::string question = "names";
  for (const std::string_view name : names) (question += ' ') += name;
  return recall_functions(question, [&] {
    std::vector<Address> starts(names.size(), kNoFunction);
    for (const Function& function : table.functions())
      for (const std::string_view name : table.names(function))
        for (size_t i = 0; i < names.size(); ++i)
          if (name == names[i]) starts[i] = function.range.begin;
    return starts;
  });
}

bool Object::is_at_hand() {
  const auto versions =
      store_ != nullptr ? versions_of(elf_, debug_file()) : std::optional<ObjectStore::Versions>();
  return versions && store_->recall_text(*versions);
}

bool Object::may_name_any(std::span<const std::string_view> names) {
  const auto versions =
      store_ != nullptr ? versions_of(elf_, debug_file()) : std::optional<ObjectStore::Versions>();
  if (!versions) return file_may_name_any(names);
  if (const auto known = store_->recall_names(*versions, names)) return *known;
  const bool are_there = file_may_name_any(names);
  if (versions_of(elf_, debug_file()) == versions)
    store_->remember_names(*versions, names, are_there);
  return are_there;
}

bool Object::file_may_name_any(std::span<const std::string_view> names) {
  if (elf_.may_name_any(names) || (elf_.is_go() && functions().may_name_any(names))) return true;
  const ElfFile* const debug = debug_file();
  return debug != nullptr ? debug->may_name_any(names) : !elf_.compressed_debug_file().empty();
}

const std::vector<Relocation>& Object::relocations() {
  if (!relocations_) relocations_ = elf_.relocations();
  return *relocations_;
}

std::string_view Object::imported_at(Address address) {
  const Relocation* const link = linked_at(address);
  return link != nullptr ? link->symbol : std::string_view();
}

const Relocation* Object::linked_at(Address address) {
  if (!links_) {
    links_.emplace();
    for (const Relocation& relocation : relocations())
      if (relocation.kind == Relocation::Kind::irelative ||
          (relocation.kind == Relocation::Kind::symbol && !relocation.symbol.empty()))
        links_->push_back(relocation);
    std::stable_sort(links_->begin(), links_->end(), [](const Relocation& a, const Relocation& b) {
      return a.address < b.address;
    });
  }
  const auto found =
      std::lower_bound(links_->begin(), links_->end(), address,
                       [](const Relocation& link, Address at) { return link.address < at; });
  return found != links_->end() && found->address == address ? &*found : nullptr;
}

std::optional<Address> Object::relocated_at(Address address) {
  if (!relocated_) {
    relocated_.emplace();
    for (const Relocation& relocation : relocations())
      if (relocation.kind == Relocation::Kind::relative)
        relocated_->emplace_back(relocation.address, static_cast<Address>(relocation.addend));
    std::sort(relocated_->begin(), relocated_->end());
  }
  const auto found =
      std::lower_bound(relocated_->begin(), relocated_->end(), std::pair(address, Address{0}));
  if (found == relocated_->end() || found->first != address) return std::nullopt;
  return found->second;
}

const Exports& Object::exports() {
  if (!exports_) exports_.emplace(elf_);
  return *exports_;
}

std::optional<std::string_view> Object::stack_reading_runtime() {
  if (!stack_reading_runtime_) {
    const ElfFile* debug = debug_file();
    std::optional<ElfFile> embedded;
    if (debug == nullptr && (embedded = embedded_debug_file(elf_))) debug = &*embedded;
    const auto& all = functions().functions();
    const auto unnamed = std::count_if(
        all.begin(), all.end(), [](const Function& function) { return function.name_count == 0; });
    const bool is_stripped = 2 * static_cast<size_t>(unnamed) >= all.size();
    stack_reading_runtime_ =
        image::stack_reading_runtime(elf_, debug, is_stripped ? Names::stripped : Names::whole);
  }
  return *stack_reading_runtime_;
}

const ManagedCode& Object::managed_code() {
  if (!managed_code_)
    managed_code_ =
        find_managed_code(elf_, [&] { return std::span<const Relocation>(relocations()); });
  return *managed_code_;
}

std::vector<Range> Object::calling_code() {
  return without_methods(executable_ranges(), managed_code(), bias_);
}

std::vector<Address> Object::landing_pads(size_t most) {
  constexpr uint64_t kLongest = 1024;  // of a table; longer ones are not worth reading
  std::vector<Address> all;
  for (const FrameEntry& frame : frames()) {
    if (frame.lsda == 0) continue;
    if (most-- == 0) break;
    for (const Segment& segment : elf_.segments()) {
      if (!segment.range.contains(frame.lsda)) continue;
      std::vector<uint8_t> table(std::min(kLongest, segment.range.end - frame.lsda));
      if (!read(frame.lsda + bias_, table)) break;
      const auto pads = parse_landing_pads(table, frame.lsda, frame.code, kLongest);
      all.insert(all.end(), pads.begin(), pads.end());
    }
  }
  return all;
}

const std::vector<SdtSite>& Object::sdt_sites() {
  if (!sdt_sites_) {
    sdt_sites_ = image::sdt_sites(elf_, elf_.sdt_notes().empty() ? debug_file() : nullptr);
    name_points_of_sites();
  }
  return *sdt_sites_;
}

// An object has one tracepoint of a name. A site with a semaphore is of the other form, and is
// reached while that is raised.
void Object::name_points_of_sites() {
  std::vector<Address> points;
  for (const PointRecord& record : point_records()) points.push_back(record.point);
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  if (points.empty()) return;
  const auto labels = point_labels(elf_, points, relocations());
  std::unordered_map<std::string_view, Address> point_of;
  for (size_t i = 0; i < points.size(); ++i) point_of.emplace(labels[i], points[i]);
  for (SdtSite& site : *sdt_sites_) {
    if (site.semaphore != 0) continue;
    if (const auto found = point_of.find(site.label); found != point_of.end())
      site.point = found->second;
  }
}

const std::vector<PointRecord>& Object::point_records() {
  if (!point_records_) point_records_ = image::point_records(elf_);
  return *point_records_;
}

const Function& Object::function_of(const SdtSite& site) {
  if (const Function* const function = functions().find(site.address)) return *function;
  Function alone;
  alone.range = {site.address, site.address + 1};
  alone.limit = alone.range.end;
  return outside_functions_.try_emplace(site.address, alone).first->second;
}

const Function* Object::function_starting_at(Address address) {
  const Function* const known = functions().find(address);
  if (known != nullptr) return known->range.begin == address ? known : nullptr;
  if (const auto found = outside_functions_.find(address); found != outside_functions_.end())
    return &found->second;
  const auto range = extent_of_function(code_from(address), address);
  if (!range) return nullptr;
  Function function;
  function.range = *range;
  function.limit = range->end;
  function.entered_by_call = true;
  return &outside_functions_.emplace(address, function).first->second;
}

const EntrySite* Object::entry_site(const Function& function) {
  if (!entry_sites_) entry_sites_ = find_entry_sites(*this);
  const auto found =
      std::lower_bound(entry_sites_->begin(), entry_sites_->end(), function.range.begin,
                       [](const EntrySite& site, Address begin) { return site.function < begin; });
  const bool is_there = found != entry_sites_->end() && found->function == function.range.begin;
  return is_there ? &*found : nullptr;
}

ObjectCode Object::scan_memory() {
  std::vector<SegmentBytes> data;
  for (const Segment& segment : elf_.segments())
    if (!segment.executable) data.push_back(segment_bytes(segment, From::memory));
  ObjectBytes object;
  object.bias = reader_ ? bias_ : 0;
  object.fixed_addresses = !elf_.position_independent();
  for (const SegmentBytes& segment : text())
    object.text.push_back({segment.address, segment.bytes});
  for (const SegmentBytes& segment : data) object.data.push_back({segment.address, segment.bytes});
  return code_in(elf_, object, functions(), relocations(), frames());
}

// Uses the text in memory, which equals that of the copy.
ObjectCode Object::scan_copy(const Copy& copy) {
  struct Part {
    Address address = 0;
    std::vector<uint8_t> bytes;
  };
  std::vector<Part> data;
  ObjectBytes object;
  object.fixed_addresses = !copy.elf->position_independent();
  for (const Segment& segment : copy.elf->segments()) {
    if (segment.executable) continue;
    data.push_back({segment.range.begin, copy.elf->read(segment.range)});
    if (!segment.writable) continue;
    const Range fixed = copy.elf->read_only_after_relocation();
    if (!segment.range.contains(fixed)) {
      object.changing.push_back(segment.range);
      continue;
    }
    object.changing.push_back({segment.range.begin, fixed.begin});
    object.changing.push_back({fixed.end, segment.range.end});
  }
  for (const SegmentBytes& segment : text())
    object.text.push_back({segment.address, segment.bytes});
  for (const Part& part : data) object.data.push_back({part.address, part.bytes});
  return code_in(*copy.elf, object, functions(), copy.elf->relocations(), copy.frames);
}

// Returns the writable data that the process has written to, with at least a page around it, as a
// descriptor may lie across two pages.
std::vector<SegmentBytes> Object::written_data() const {
  std::vector<SegmentBytes> data;
  for (const Segment& segment : elf_.segments()) {
    if (segment.executable || !segment.writable) continue;
    const Range memory = {segment.range.begin + bias_, segment.range.end + bias_};
    const auto own = own_pages_ ? own_pages_(memory) : std::nullopt;
    if (!own) {
      data.push_back(segment_bytes(segment, From::memory));
      continue;
    }
    Address done = memory.begin;
    for (const Range& pages : *own) {
      const Range part = {std::max(done, pages.begin - kPageSize),
                          std::min(memory.end, pages.end + kPageSize)};
      if (part.begin >= part.end) continue;
      SegmentBytes bytes = {part.begin - bias_, nullptr, {}};
      bytes.storage = std::make_unique_for_overwrite<uint8_t[]>(part.size());
      const std::span<uint8_t> room(bytes.storage.get(), part.size());
      if (!reader_(part.begin, room)) {
        data.push_back(segment_bytes(segment, From::memory));
        break;
      }
      bytes.bytes = room;
      data.push_back(std::move(bytes));
      done = part.end;
    }
  }
  return data;
}

// Adds what the process has written to the object's data, which the file does not have. Where it
// has written nothing, memory has the bytes of the file, before relocation, or zeros.
void Object::add_what_memory_shows() {
  const auto data = written_data();
  if (data.empty()) return;
  std::vector<CodeBytes> words;
  words.reserve(data.size());
  for (const SegmentBytes& segment : data) words.push_back({segment.address, segment.bytes});
  std::vector<Range> text;
  for (const Segment& segment : elf_.segments())
    if (segment.executable) text.push_back(segment.range);
  targets_ = targets_->with(find_pointers_to_text(words, bias_, text));
  const auto more = find_restartable_sequences_in_data(words, bias_, text,
                                                       [&](Range range) { return code_at(range); });
  reserved_.insert(reserved_.end(), more.begin(), more.end());
  std::sort(reserved_.begin(), reserved_.end());
  reserved_.erase(std::unique(reserved_.begin(), reserved_.end()), reserved_.end());
}

// Names, which may be those of a debug file, and data say what the bytes of the code do not.
void Object::add_what_runtimes_read() {
  const auto& untouchable = managed_code().untouchable;
  reserved_.insert(reserved_.end(), untouchable.begin(), untouchable.end());
  if (!file_may_name_any(names_of_checked_code())) return;
  const ElfFile* const debug = debug_file();
  for (const auto& symbols : {elf_.symtab(), elf_.dynamic_symbols(),
                              debug != nullptr ? debug->symtab() : std::vector<Symbol>()}) {
    const auto checked = find_checked_code(symbols);
    reserved_.insert(reserved_.end(), checked.begin(), checked.end());
  }
}

void Object::scan_code() {
  functions();
  const auto key = contents_of_code();
  if (key) code_ = store_->find_code(*key, elf_.segments());
  if (code_ == nullptr && key)
    if (const Copy* const from = copy(); from != nullptr && text_is_of(*from)) {
      ObjectCode code = scan_copy(*from);
      if (may_be_stored(*from)) code_ = store_->keep(*key, std::move(code));
    }
  const bool is_of_file = code_ != nullptr;
  if (!is_of_file) code_ = std::make_shared<const ObjectCode>(scan_memory());
  if (copy_) copy_->reset();  // no longer needed
  targets_ = code_->targets;
  reserved_ = code_->reserved;
  vforks_ = code_->vforks;
  if (is_of_file && reader_) add_what_memory_shows();
  add_what_runtimes_read();
  std::vector<Address> blocks;
  for (const PointRecord& record : point_records()) blocks.push_back(record.block);
  if (!blocks.empty()) targets_ = targets_->with(blocks);
}

const BranchTargets& Object::targets() {
  if (!targets_) scan_code();
  return *targets_;
}

const std::vector<Range>& Object::reserved() {
  if (!targets_) scan_code();
  return reserved_;
}

const std::vector<Address>& Object::vforks() {
  if (!targets_) scan_code();
  return vforks_;
}

std::string_view Object::keep_name(std::string name) {
  return *kept_names_.insert(std::move(name)).first;
}

std::string_view Object::function_name(const Function& function, std::string_view symbol) {
  if (symbol.empty()) {
    const auto [known, is_new] = without_symbol_.try_emplace(function.range.begin);
    if (is_new) known->second = fmt::format("{}+{:#x}", name(), function.range.begin);
    return known->second;
  }
  if (const auto known = demangled_.find(symbol.data()); known != demangled_.end())
    return known->second;
  std::string shown = demangle(symbol);
  if (shown == symbol) return symbol;
  return demangled_.emplace(symbol.data(), std::move(shown)).first->second;
}

}  // namespace pinprick::image
