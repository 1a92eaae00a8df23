#include "image/scan/language_runtime.h"

#include <cstring>
#include <span>

namespace pinprick::image {
namespace {

struct Mark {
  enum class Kind : uint8_t {
    defines,   // a symbol that the object defines; a trailing * stands for anything
    mentions,  // a symbol that it defines or imports
    contains,  // a text in its read-only data; only checked if functions have lost their names
  } kind;
  std::string_view text;
};

struct Runtime {
  std::string_view name;
  std::span<const Mark> marks;
};

using enum Mark::Kind;

// Native code, and the runtime of such programs. Bytecode has a separate stack, and is run by C
// code.
constexpr Mark kOcaml[] = {
    {defines, "caml_frametable"},
    {mentions, "caml_system__frametable"},
    {mentions, "caml_call_gc"},  // plugins
    {mentions, "caml_allocN"},
    {contains, "Fatal error: exception Invalid_argument(\"index out of bounds\")"},
};
constexpr Mark kHotSpot[] = {
    {defines, "gHotSpotVMStructs"},
    {defines, "JNI_CreateJavaVM"},
};
constexpr Mark kGraal[] = {
    {defines, "graal_create_isolate"},
};
// Programs that embed it may define its headers' inline functions.
constexpr Mark kV8[] = {
    {defines, "_ZN2v87Isolate3New*"},
    {defines, "v8_Default_embedded_blob*"},
    {contains, "V8.GCLowMemoryNotification"},
};
// The second and third are in code that Mono has compiled ahead of time.
constexpr Mark kMono[] = {
    {defines, "mono_jit_init"},
    {defines, "mono_aot_file_info"},
    {defines, "mono_aot_module_*"},
};
// Debuggers find these: in libcoreclr, in a program of one file, into which it is linked, and in a
// program that was compiled ahead of time (NativeAOT).
constexpr Mark kDotNet[] = {
    {defines, "coreclr_initialize"},
    {defines, "g_dacTable"},
    {defines, "DotNetRuntimeInfo"},
    {defines, "DotNetRuntimeDebugHeader"},
};
constexpr Mark kHaskell[] = {
    {mentions, "stg_upd_frame_info"},
    {mentions, "stg_gc_noregs"},
};
constexpr Mark kSbcl[] = {
    {defines, "call_into_lisp"},
};

constexpr Runtime kRuntimes[] = {
    {"OCaml", kOcaml},   {"the Java virtual machine", kHotSpot},
    {"GraalVM", kGraal}, {"V8", kV8},
    {"Mono", kMono},     {".NET", kDotNet},
    {"GHC", kHaskell},   {"SBCL", kSbcl},
};

bool matches(std::string_view mark, std::string_view name) {
  if (!mark.ends_with('*')) return mark == name;
  return name.starts_with(mark.substr(0, mark.size() - 1));
}

bool is_marked_by(const Mark& mark, const SymbolName& symbol) {
  return mark.kind != contains && (symbol.defined || mark.kind == mentions) &&
         matches(mark.text, symbol.name);
}

std::optional<std::string_view> find_by_symbols(const ElfFile& file) {
  for (const SymbolName& symbol : file.symbol_names())
    for (const Runtime& runtime : kRuntimes)
      for (const Mark& mark : runtime.marks)
        if (is_marked_by(mark, symbol)) return runtime.name;
  return std::nullopt;
}

std::optional<std::string_view> find_by_texts(const ElfFile& file) {
  for (const Segment& segment : file.segments()) {
    if (segment.writable || segment.file_size == 0) continue;
    const auto data = file.read(segment.range);
    for (const Runtime& runtime : kRuntimes)
      for (const Mark& mark : runtime.marks)
        if (mark.kind == contains &&
            ::memmem(data.data(), data.size(), mark.text.data(), mark.text.size()) != nullptr)
          return runtime.name;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> stack_reading_runtime(const ElfFile& object, const ElfFile* debug,
                                                      Names names) {
  if (auto found = find_by_symbols(object)) return found;
  if (debug != nullptr)
    if (auto found = find_by_symbols(*debug)) return found;
  return names == Names::stripped ? find_by_texts(object) : std::nullopt;
}

}  // namespace pinprick::image
