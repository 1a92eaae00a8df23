#include "engine/arming.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "action/event_form.h"
#include "arch/assembler.h"
#include "arch/native.h"
#include "arch/syscall.h"
#include "arch/system_calls.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/task.h"
#include "engine/failures.h"
#include "engine/journal/journal_file.h"
#include "engine/journal/journal_tables.h"
#include "engine/memory/area_sizes.h"
#include "engine/memory/kept_memory.h"
#include "engine/memory/memory_mapping.h"
#include "engine/memory/remote_calls.h"
#include "engine/memory/rseq_areas.h"
#include "engine/owners/ownership.h"
#include "engine/owners/site_sharing.h"
#include "engine/plan/span_points.h"
#include "engine/stubs/islands.h"
#include "engine/stubs/known_stubs.h"
#include "engine/text/point_sites.h"
#include "ledger/runtime_directory.h"
#include "patch/text_owner.h"
#include "select/expression.h"
#include "target/address_space.h"

namespace pinprick::engine {

using layout::MappingEntry;
using target::AttachCause;

Failure<ledger::SessionError> Arming::failed(AttachCause cause) const {
  return attach_failure(target().pid(), cause);
}

Result<void, ledger::SessionError> Arming::run() {
  for (auto step : {&Arming::lay_out, &Arming::create_file, &Arming::map_memory,
                    &Arming::write_stubs, &Arming::write_text})
    if (auto done = (this->*step)(); !done) return done;
  hand_over();
  return {};
}

// --- What there will be

Result<void, ledger::SessionError> Arming::lay_out() {
  facts_.switches = options_.has_switches ? Switches::for_each_probe : Switches::none;
  if (plan_.times()) facts_.hook.slot_code = {0, 1};  // not known yet, but that there is some
  put_known_first(plan_.set);
  plan_.note_cells();
  auto maps = image::read_maps(target().pid());
  if (!maps) return failed(AttachCause::exited);
  maps_ = *std::move(maps);
  others_ = OtherSites::find(target().pid(), target().memory(), maps_);
  share_sites(plan_, others_, target().memory());
  leave_out_held_points(plan_, others_, target().memory());
  lead_through_kept();
  plan_.choose_slots_or_exits();
  plan_.note_dependencies();
  lay_out_memory();
  return {};
}

void Arming::lead_through_kept() {
  if (!may_any_be_known(plan_.set)) return;
  lead_through_kept_stubs(plan_, kept_stubs(target().pid(), target().memory(), maps_),
                          target().memory());
}

void Arming::lay_out_memory() {
  layout_ = lay_out_arenas(plan_, stubs_, children());
  const UnwindRoom room = room_for_unwind_tables(plan_, layout_, slots());
  facts_.hook.range_count = room.ranges;
  layout_.unwind_room = room.bytes;
  layout_.arenas.front().size += room.bytes;
  for (Arena& arena : layout_.arenas) arena.size = align_up(arena.size, kPageSize);
}

static Session::FieldForm form_of(const action::Field& field, bool is_signed) {
  using Form = Session::FieldForm;
  const select::Expression& value = field.value.expression;
  if (select::is_text(value)) return Form::text;
  if (select::is_caller(value)) return Form::return_address;
  if (select::is_stack(value)) return Form::stack;
  switch (field.shown) {
    case action::Field::Shown::hexadecimal:
      return Form::hexadecimal;
    case action::Field::Shown::symbol:
      return Form::symbol;
    case action::Field::Shown::error:
      return Form::error;
    case action::Field::Shown::character:
      return Form::character;
    case action::Field::Shown::command:
      return Form::command;
    case action::Field::Shown::not_at_all:
      return Form::stack_pointer;
    case action::Field::Shown::part:
    case action::Field::Shown::raw:
    case action::Field::Shown::as_it_is:
      break;
  }
  return is_signed ? Form::signed_number : Form::number;
}

static std::vector<Session::FieldForm> forms_of(const placement::ProbeSet& set,
                                                const placement::Probe& probe) {
  std::vector<Session::FieldForm> forms;
  for (const action::Field& field : set.action_of(probe).fields)
    forms.push_back(form_of(field, set.is_signed(probe, field.value)));
  return forms;
}

// --- The session file

// Rings that keep the newest events outlive a controller that is killed, and so does what they say.
static std::string text_of_newest(const placement::ProbeSet& set, const placement::Probe& probe) {
  action::EventForm form = {.action = set.action_of(probe)};
  for (const Session::FieldForm one : forms_of(set, probe))
    form.shown.push_back(static_cast<uint8_t>(one));
  return action::text_of(form);
}

Result<void, ledger::SessionError> Arming::create_file() {
  const auto folder = ledger::runtime_directory();
  if (!folder) return fail(ledger::SessionError(ledger::NoRuntimeDirectory{folder.error().number}));
  const EventText text_of_events = [&](const placement::Probe& probe) {
    return options_.rings == layout::EventRings::oldest ? std::string()
                                                        : text_of_newest(plan_.set, probe);
  };
  const uint32_t statistic = fill_tables(plan_, layout_.arenas, facts_.switches, options_.statistic,
                                         text_of_events, journal());
  auto counts = count_tables(
      plan_, journal(),
      3 + layout_.arenas.size() + layout_.islands.size() + (plan_.needs_runtime() ? 2 : 0));
  counts.fraction_bits = options_.fraction_bits;
  const action::Actions& actions = plan_.set.actions;
  counts.has_key_times = actions.records_by_keys();
  if (actions.uses_keys()) counts.key_log2 = key_log2(options_.keys, counts.has_key_times);
  counts.has_sums = actions.has_sums();
  counts.has_extremes = actions.have_extremes();
  counts.has_unread = actions.follows_pointers();
  if (actions.reads_texts())
    counts.text_log2 = plan_.records_events()
                           ? kTextLog2OfEvents
                           : text_log2(options_.keys, counts.has_key_times, actions.has_lists());
  counts.rings = options_.rings;
  if (plan_.records_events())
    choose_ring_size(counts, options_.ring_bytes, usable_cpus(), space_for_areas(*folder));
  choose_area_sizes(counts, usable_cpus(), space_for_areas(*folder));
  journal().header =
      session_header(counts, target(),
                     plan_.times() || plan_.has_spans() || plan_.records_events() ? Clock::measured
                                                                                  : Clock::rough);
  journal().header.statistic = statistic;
  sizes_ =
      runtime_sizes(plan_, options_.slots, plan_.times() ? caller_code() : std::vector<Range>());
  if (actions.tell_stacks()) {
    frames_.emplace(*session_.image_);
    sizes_.unwind_size = frames_->room();
  }
  if (auto chosen = choose(maps_); !chosen) return chosen;
  auto created = create_session_file(*folder, target(), maps_, journal());
  if (!created) return fail(created.error());
  session_.file_ = *std::move(created);
  return {};
}

// Other addresses than an earlier session's: nongnu's libunwind keeps in a cache, as long as the
// process lives, where in our tables it has found the rules for an address.
Result<void, ledger::SessionError> Arming::choose(const std::vector<image::Mapping>& maps) {
  std::optional<runtime::RuntimeExtent> extent;
  if (plan_.needs_runtime())
    extent = runtime::runtime_extent(sizes_.capacity, usable_cpus(), sizes_.callers_size,
                                     plan_.thread_words(), plan_.times_by_exits,
                                     plan_.keeps_values(), sizes_.unwind_size);
  ChosenAddresses chosen = choose_addresses(
      target::AddressSpace(maps, target::lowest_mappable_address(), monotonic_ns()),
      memory_needs(layout_, journal().header, extent));
  journal().mappings = std::move(chosen.mappings);
  runtime_address_ = chosen.runtime;
  for (size_t i = 0; i < layout_.arenas.size(); ++i) layout_.arenas[i].address = chosen.arenas[i];
  if (!chosen.is_complete) return failed(AttachCause::no_address_space);
  return {};
}

// It went on since the addresses were chosen, and may have mapped something there.
Result<void, ledger::SessionError> Arming::choose_again() {
  const auto maps = image::read_maps(target().pid());
  if (!maps) return failed(AttachCause::exited);
  if (!is_any_taken(journal().mappings, *maps)) return {};
  if (auto chosen = choose(*maps); !chosen) return chosen;
  return noted(file().write_tables(journal()));
}

// --- Memory

Result<void, ledger::SessionError> Arming::map_memory() {
  const Task::Scope to_the_end(nullptr);
  auto mapped =
      with_hijacked_thread(target(), *session_.image_, file(), journal(),
                           [&](target::HijackedThread& thread) { return map_somewhere(thread); });
  if (!mapped) return mapped;
  note_rseq();
  return check_what_is_mapped();
}

// The other threads go on, and may map something where ours was to be: then the kernel refuses ours
// (MAP_FIXED_NOREPLACE), and other addresses are chosen.
Result<void, ledger::SessionError> Arming::map_somewhere(target::HijackedThread& thread) {
  if (possible_cpus() <= layout::kMaxCpus && !kernel_checks_rseq() && plan_.set.marks_children)
    facts_.rseq = rseq_of(thread.tid(), thread.registers());
  constexpr int kAttempts = 4;
  MemoryMapping mapping({target(), file(), journal(), thread}, children());
  for (int attempt = 1;; ++attempt) {
    auto mapped = mapping.map_all();
    if (!mapping.is_address_taken() || attempt == kAttempts) return mapped;
    mapping.unmap_all();
    if (auto chosen = choose_again(); !chosen) return chosen;
  }
}

// A process that opens the session's file itself might find another one by that name. A program
// that does not share its text looks for the file, which is mapped now. So this is the time to look
// for such a program. For others, the text writer looks.
Result<void, ledger::SessionError> Arming::check_what_is_mapped() {
  const auto maps = image::read_maps(target().pid());
  if (!maps) return failed(AttachCause::exited);
  if (!is_in_target(target().memory(), journal(), *maps, file()))
    return attach_failure(target().pid(), AttachCause::handover_failed, 0, "open");
  if (patch::OwnProbes::read(target().memory(), *maps).is_closed())
    return failed(AttachCause::probes_itself);
  return {};
}

void Arming::note_rseq() {
  session_.report_.locked = !spec().has_area_per_cpu();
  // Counting stubs have no other use for it.
  if (session_.report_.locked && !plan_.needs_runtime()) facts_.rseq.reset();
}

// --- Stubs

Result<void, ledger::SessionError> Arming::write_stubs() {
  plan_.left_out.clear();
  if (plan_.needs_runtime())
    if (auto written = write_runtime(); !written) return written;
  arm_what_fits();
  return build_stubs();
}

Result<void, ledger::SessionError> Arming::write_runtime() {
  const runtime::RuntimeSpec spec = this->spec();
  const auto image = engine::write_runtime(target(), runtime_address_, spec);
  if (!image) return fail(image.error());
  routines_ = {image->enter,    image->add,        image->span,         image->key,
               image->key_sum,  image->add_by_key, image->load,         image->text,
               image->compare,  image->event,      image->pair,         image->stack,
               image->thread,   image->every,      image->key_extremes, image->accounted,
               image->self_time};
  facts_.reads = image->reads;
  facts_.regions = image->regions;
  first_reading_ = image->first_reading;
  last_reading_ = image->last_reading;
  if (plan_.times()) {
    facts_.hook.slot_code = image->slot_code;
    facts_.hook.slots = image->data_address;
    facts_.hook.personality = image->personality;
    facts_.hook.unwound = image->unwound;
    facts_.kept.slot = image->data_address;
    facts_.kept.code = image->slot_code.begin;
    facts_.kept.entries = image->kept_values;
  }
  runtime_frames_ = runtime::image_frames(image->code_address);
  session_.runtime_.emplace(Session::Runtime{
      runtime_address_, spec, ledger::SessionFile::first_blocks(journal().header),
      runtime::CallerTable(runtime::callers_in(runtime_address_, spec), sizes_.callers_size)});
  if (frames_) {
    frames_->place(image->unwind, image->unwind_list);
    if (auto written = write_pieces(target(), frames_->pieces()); !written) return written;
    session_.runtime_->frames = std::move(frames_);
  }
  const auto callers = plan_.times() ? caller_code() : std::vector<Range>();
  return write_pieces(target(), session_.runtime_->callers.update(callers));
}

// All but those that are in the way of others', and hooks that are not needed: where all threads
// lock, a child can damage nothing, and the kernel reads what pointers lead to.
void Arming::arm_what_fits() {
  plan_.arm_all();
  for (const auto& [patch, reason] : plan_.in_the_way) plan_.drop(patch, reason);
  if (facts_.rseq) return;
  for (size_t i = 0; i < plan_.set.patches.size(); ++i)
    if (plan_.is_hook(i, placement::Hook::Kind::vfork) ||
        plan_.is_hook(i, placement::Hook::Kind::unmap))
      plan_.leave_out(i);
}

Result<void, ledger::SessionError> Arming::build_stubs() {
  const layout::FileHeader& header = journal().header;
  facts_.hook.ranges = layout_.unwind_tables() + sizeof(arch::UnwindTablesHeader);
  facts_.hook.changes = monotonic_ns() | uint64_t{1} << 63;  // no loader has counted that far
  facts_.loader_handshake =
      journal().mappings[mapping_of(journal(), MappingEntry::Kind::areas)].address +
      (header.loader_handshake_offset - header.areas_offset);
  if (auto prepared = prepare_exec_handshake(); !prepared) return prepared;
  const auto heads = write_heads();
  if (!heads) return fail(heads.error());
  auto built = StubBuilding({plan_, layout_, stubs_, journal(), target().memory()}, *heads).build();
  if (!built) return memory_failure(target().pid(), built.error());
  built_ = *std::move(built);
  session_.report_.stub_bytes = built_.bytes;
  if (auto written = write_islands(); !written) return written;
  return write_unwind_tables(*heads);
}

Result<void, ledger::SessionError> Arming::prepare_exec_handshake() {
  const layout::FileHeader& header = journal().header;
  if (header.exec_handshake_offset == 0) return {};
  facts_.exec_handshake =
      journal().mappings[mapping_of(journal(), MappingEntry::Kind::areas)].address +
      (header.exec_handshake_offset - header.areas_offset);
  uint64_t tid_offset = 0;  // one process has one C library
  for (const placement::SitePatch& patch : plan_.set.patches)
    if (patch.hook && patch.hook->kind == placement::Hook::Kind::exec)
      tid_offset = patch.hook->tid_offset;
  const Address at = facts_.exec_handshake + offsetof(layout::ExecHandshake, tid_offset);
  if (auto written = target().memory().write_value(at, tid_offset); !written)
    return memory_failure(target().pid(), written.error());
  return {};
}

Result<std::vector<ArenaHead>, ledger::SessionError> Arming::write_heads() {
  const auto cpus = runtime::cpu_areas(spec());
  std::vector<ArenaHead> heads;
  for (const Arena& arena : layout_.arenas) {
    arch::Assembler head(arena.address);
    auto entries = arch::emit_arena_header(head, arena_spec(arena, cpus));
    head.align(kStubAlignment, arch::kBreakpoint);
    const bool settled = head.settle();
    assert(settled);
    heads.push_back({std::move(entries), head.here()});
    if (auto written = target().memory().write(arena.address, head.bytes()); !written)
      return memory_failure(target().pid(), written.error());
  }
  return heads;
}

arch::ArenaSpec Arming::arena_spec(const Arena& arena, const std::vector<Address>& cpus) const {
  arch::ArenaSpec spec;
  spec.size = arena.size;
  spec.routines = routines_;
  spec.unwind_tables = layout_.unwind_tables();
  spec.locked_areas = runtime::locked_areas(this->spec());
  spec.cpu_areas = cpus;
  spec.tables_apart = children() == Children::forget;
  spec.has_switches = options_.has_switches;
  return spec;
}

Result<void, ledger::SessionError> Arming::write_islands() {
  for (const MappingEntry& entry : journal().mappings) {
    if (entry.kind != MappingEntry::Kind::islands || entry.address == 0) continue;
    const auto bytes = island_bytes(plan_, journal(), entry, built_.stubs_of_puns);
    if (auto written = target().memory().write(entry.address, bytes); !written)
      return memory_failure(target().pid(), written.error());
  }
  return {};
}

Result<void, ledger::SessionError> Arming::write_unwind_tables(
    const std::vector<ArenaHead>& heads) {
  EmittedFrames frames = {runtime_frames_, {}, std::exchange(built_.arenas, {})};
  for (const ArenaHead& head : heads) frames.routines.push_back(head.entries.frames);
  arch::Assembler tables(layout_.unwind_tables());
  const auto header = arch::emit_unwind_tables(
      tables, unwind_spec(plan_, journal(), frames, slots(), built_.shapes));
  assert(header.size <= layout_.unwind_room && header.range_count == facts_.hook.range_count);
  if (auto written = target().memory().write(layout_.unwind_tables(), *tables.finish()); !written)
    return memory_failure(target().pid(), written.error());
  return {};
}

std::vector<Range> Arming::caller_code() const {
  std::vector<Range> code = session_.image_->calling_code();
  for (const auto& probes : {session_.code(), options_.callers, others_.code()})
    code.insert(code.end(), probes.begin(), probes.end());
  return code;
}

// --- Text

Result<void, ledger::SessionError> Arming::write_text() {
  check_cancelled();
  const Task::Scope to_the_end(nullptr);
  const bool follows_pointers = plan_.set.actions.follows_pointers() && !plan_.set.probes.empty();
  std::optional<TidOffset> tid_offset;
  const bool tells_apart = plan_.thread_words() != 0 || plan_.set.actions.tell_threads();
  const bool tells_errors = plan_.set.actions.tell_errors();
  if (tells_apart || plan_.records_events() || follows_pointers || tells_errors)
    tid_offset = {session_.runtime_->context() + offsetof(layout::RuntimeContext, tid_offset),
                  tells_apart ? TidOffset::Use::to_tell_apart : TidOffset::Use::to_tell};
  std::optional<Address> reads;
  if (follows_pointers)
    reads = session_.runtime_->context() + offsetof(layout::RuntimeContext, reads);
  TextWriter writer({target(), *session_.image_, file(), journal(), plan_}, tid_offset, reads);
  if (auto announced = announce(writer); !announced) return announced;
  writer.prepare_edits();
  writer.prepare_stop();
  // A thread in a hook leaves it when it has run, which takes longer the busier this machine is.
  // One that starts threads all the time is in the hook of clone() for half of its time.
  constexpr int kAttempts = 20;
  constexpr uint64_t kLongestPauseNs = 100'000'000;
  uint64_t pause_ns = 1'000'000;
  for (int attempt = 1;; ++attempt) {
    const auto stop =
        writer.try_to_write(attempt >= kAttempts ? Attempt::last : Attempt::another_follows);
    if (!stop) return fail(stop.error());
    switch (*stop) {
      case TextStop::written:
        session_.report_.stopped_ns = writer.stopped_ns();
        session_.report_.obstacle_to_reads = writer.obstacle_to_reads();
        return writer.note_left_out();
      case TextStop::thread_in_hook:
        sleep_ns(pause_ns);
        pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
        break;
      case TextStop::other_rseq:
        if (auto built = build_locked(writer); !built) return built;
        writer.prepare_edits();
        break;
    }
  }
}

Result<void, ledger::SessionError> Arming::announce(TextWriter& writer) {
  return writer.announce(std::move(built_.boundaries), facts_.rseq);
}

// Stubs that lock, in place of those that rely on a restartable sequence: no thread has come
// to one yet, as no jump leads there.
Result<void, ledger::SessionError> Arming::build_locked(TextWriter& writer) {
  facts_.rseq.reset();
  note_rseq();
  if (auto written = write_stubs(); !written) return written;
  return announce(writer);
}

// --- What outlives arming

// Whether hits may ever read without the kernel.
std::optional<DirectReads> Arming::direct_reads() const {
  using placement::Hook;
  if (!facts_.rseq || facts_.regions == 0 || !plan_.set.watches_unmaps) return std::nullopt;
  DirectReads to;
  to.regions = facts_.regions;
  to.first_reading = first_reading_;
  to.last_reading = last_reading_;
  to.reads = facts_.reads;
  to.calls = session_.runtime_->context() + sizeof(layout::RuntimeContext);
  to.rseq = *facts_.rseq;
  to.own_code = session_.code();
  for (const auto& object : session_.image_->objects)
    to.watched.insert(session_.image_->file_of(*object));
  for (size_t i = 0; i < plan_.set.patches.size(); ++i) {
    const placement::SitePatch& patch = plan_.set.patches[i];
    const bool is_syscall =
        plan_.is_hook(i, Hook::Kind::filter) && patch.hook->call == Hook::Call::syscall;
    if (!plan_.is_hook(i, Hook::Kind::unmap) && !is_syscall) continue;
    if (!plan_.is_armed(i)) return std::nullopt;
    // The routines lie in front of what calls them, and the copies come after that.
    constexpr uint64_t kRest = 2048;
    const Address copy = session_.journal_.sites[plan_.states[i].site].copy();
    UnmapHook hook = {.code = {copy - 2 * runtime::before_call_code().size() - kRest, copy + kRest},
                      .original = {}};
    if (is_syscall)
      hook.original = function_at(patch);
    else if (patch.hook->number != 0)
      hook.original = {patch.site(), patch.site() + arch::kNumberLength + arch::kSyscallLength};
    else
      hook.after_call = copy + arch::kSyscallLength;
    to.hooks.push_back(hook);
  }
  return to;
}

void Arming::hand_over() {
  session_.direct_ = direct_reads();
  const bool asks_kernel = journal().header.has_unread != 0 && !session_.direct_ &&
                           session_.report_.obstacle_to_reads == ReadObstacle::none;
  if (asks_kernel)
    session_.report_.slow_reads = facts_.rseq ? SlowReads::unwatched : SlowReads::no_rseq;
  session_.sites_of_objects_ = sites_of_objects();
  for (size_t i = 0; i < plan_.set.patches.size(); ++i)
    if (plan_.is_hook(i, placement::Hook::Kind::loader) && plan_.is_armed(i))
      session_.loader_ = LoaderWatch::start(file().descriptor(), journal());
  for (size_t i = 0; i < plan_.set.patches.size(); ++i)
    if (plan_.is_hook(i, placement::Hook::Kind::exec) && plan_.is_armed(i) &&
        session_.exec_ == nullptr)
      session_.exec_ =
          ExecWatch::start(file().descriptor(), journal(), facts_.exec_handshake, session_.code());
  auto& skipped = session_.report_.skipped;
  skipped.insert(skipped.end(), std::make_move_iterator(plan_.left_out.begin()),
                 std::make_move_iterator(plan_.left_out.end()));
  hand_over_probes();
  session_.matches_ = std::move(plan_.set.matches);
  session_.cells_ = plan_.cells();
  session_.report_.armed = session_.probes_.size();
}

std::vector<ObjectSites> Arming::sites_of_objects() const {
  std::vector<ObjectSites> all;
  for (const Arena& arena : layout_.arenas) {
    ObjectSites sites;
    sites.begin = plan_.states[arena.patches.first].site;
    if (!all.empty()) all.back().end = sites.begin;
    size_t probe = SIZE_MAX, hook = SIZE_MAX;
    for (size_t i : arena.patches) {
      const bool is_hook = plan_.set.patches[i].hook.has_value();
      size_t& first = is_hook ? hook : probe;
      if (plan_.is_armed(i)) first = std::min<size_t>(first, plan_.states[i].site);
      sites.has_probes = sites.has_probes || !is_hook;
    }
    // Other batches have hooks at the same sites, so that the text there changes with them.
    sites.armed = probe != SIZE_MAX ? probe : hook;
    all.push_back(sites);
  }
  all.back().end = session_.journal_.sites.size();
  for (ObjectSites& sites : all) sites.armed = std::min(sites.armed, sites.end);
  return all;
}

// Most probes have the same.
void Arming::note_fields() {
  if (!plan_.records_events()) return;
  using Form = Session::FieldForm;
  const auto& probes = plan_.set.probes;
  session_.events_.resize(probes.size());
  std::map<std::vector<Form>, uint32_t> known;
  for (const placement::Probe& probe : probes) {
    std::vector<Form> forms = forms_of(plan_.set, probe);
    const auto [one, is_new] =
        known.emplace(forms, static_cast<uint32_t>(session_.forms_of_fields_.size()));
    if (is_new) session_.forms_of_fields_.push_back(std::move(forms));
    session_.form_of_probe_.push_back(one->second);
  }
}

// What was planned is not needed any more, and goes before what is armed comes.
void Arming::hand_over_probes() {
  const auto& probes = plan_.set.probes;
  plan_.set.patches = std::vector<placement::SitePatch>();  // `= {}` would keep the memory
  note_fields();
  session_.probes_.reserve(probes.size());
  for (uint32_t i = 0; i < probes.size(); ++i)
    if (plan_.is_armed(probes[i].patch) && plan_.set.kind_of(probes[i]) != placement::Kind::span)
      session_.probes_.push_back({static_cast<uint32_t>(probes[i].match), i});
  const auto spans = armed_spans(plan_);
  session_.probes_.insert(session_.probes_.end(), spans.begin(), spans.end());
}

}  // namespace pinprick::engine
