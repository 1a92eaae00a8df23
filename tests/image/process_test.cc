#include "image/process.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "image/match.h"
#include "image/programs.h"
#include "image/stepped_program.h"

namespace pinprick::image {
namespace {

// A program at its entry: all its libraries are loaded, and none of its code has run.
class Started {
 public:
  explicit Started(const std::vector<std::string>& command) : program_(command) {
    program_.run_to(AuxiliaryVector::read(pid()).value(AT_ENTRY));
  }
  pid_t pid() const { return program_.pid(); }
  MemoryReader reader() const {
    return [this](Address address, std::span<uint8_t> out) { return program_.read(address, out); };
  }

 private:
  SteppedProgram program_;
};

ProcessImage load(const Started& started) {
  auto image = load_process(started.pid(), started.reader());
  if (image) return *std::move(image);
  ADD_FAILURE() << "errno " << image.error().number;
  return {};
}

std::vector<std::string> names_of(const ProcessImage& image) {
  std::vector<std::string> names;
  for (const auto& object : image.objects) names.push_back(object->name());
  return names;
}

std::string copy_of(const std::string& name, const std::string& to) {
  std::filesystem::copy_file(program(name), to);
  return to;
}

const Match* only(const Matches& matches) {
  EXPECT_EQ(matches.matches.size(), 1u);
  return matches.matches.size() == 1 ? &matches.matches[0] : nullptr;
}

std::vector<Pattern> pattern(const std::string& text) {
  return {*Pattern::parse(text, PatternSyntax::glob)};
}

class LoadProcess : public testing::TestWithParam<const char*> {};

TEST_P(LoadProcess, PutsTheExecutableFirstAtItsLoadAddress) {
  const Started started({program(GetParam())});
  ProcessImage image = load(started);
  ASSERT_FALSE(image.objects.empty());
  Object& object = *image.objects[0];
  EXPECT_EQ(object.name(), GetParam());
  EXPECT_EQ(object.entry(), AuxiliaryVector::read(started.pid()).value(AT_ENTRY))
      << "the kernel's own word";
  EXPECT_EQ(image.object_at(object.entry()), &object);
  EXPECT_TRUE(image.unreadable.empty());
  EXPECT_TRUE(image.replaced.empty());
  EXPECT_FALSE(image.maps_unwinder);
}

TEST_P(LoadProcess, ReadsTheCodeThatTheFileHas) {
  const Started started({program(GetParam())});
  ProcessImage image = load(started);
  auto file = load_file(program(GetParam()));
  ASSERT_TRUE(file);
  const auto found = match_patterns(image, pattern(std::string(GetParam()) + ":run"), {});
  const auto in_file = match_patterns(*file, pattern("run"), {});
  ASSERT_NE(only(found), nullptr);
  ASSERT_NE(only(in_file), nullptr);
  const Match& match = found.matches[0];
  EXPECT_EQ(match.site - match.object->bias(), in_file.matches[0].site);
  const auto in_memory = match.object->code(*match.function);
  EXPECT_FALSE(in_memory.empty());
  EXPECT_TRUE(
      std::ranges::equal(in_memory, in_file.matches[0].object->code(*in_file.matches[0].function)));
}

INSTANTIATE_TEST_SUITE_P(Programs, LoadProcess,
                         testing::Values("basic_pie", "basic_nopie", "basic_static"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST(LoadProcess, FindsLibrariesWhereTheLoaderPutThem) {
  // For this process the loader says where objects are.
  auto image = load_process(::getpid(), [](Address address, std::span<uint8_t> out) {
    std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
    return true;
  });
  ASSERT_TRUE(image);
  size_t checked = 0;
  std::tuple<ProcessImage*, size_t*> both(&*image, &checked);
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto [process, count] = *static_cast<std::tuple<ProcessImage*, size_t*>*>(data);
        for (const auto& object : process->objects)
          if (object->bias() == info->dlpi_addr) ++*count;
        return 0;
      },
      &both);
  EXPECT_EQ(checked, image->objects.size());
  EXPECT_TRUE(image->maps_unwinder) << "this is a C++ program";
  EXPECT_EQ(image->object_at(reinterpret_cast<Address>(&::dlsym))->name(), "libc.so.6");
  EXPECT_EQ(image->object_at(0x10), nullptr);
}

TEST(LoadProcess, NamesTheExecutableAsItWasStarted) {
  const Scratch scratch;
  copy_of("basic_pie", scratch / "multi");
  std::filesystem::create_symlink("multi", scratch / "applet");
  const Started started({scratch / "applet"});
  ProcessImage image = load(started);
  ASSERT_FALSE(image.objects.empty());
  EXPECT_EQ(image.objects[0]->names(), (std::vector<std::string>{"applet", "multi"}));
  EXPECT_EQ(executable_name(AuxiliaryVector::read(started.pid()), started.reader()), "applet");
}

TEST(LoadProcess, SeesAProgramWhoseFileIsDeleted) {
  const Scratch scratch;
  const std::string path = copy_of("basic_pie", scratch / "gone");
  const Started started({path});
  std::filesystem::remove(path);
  ProcessImage image = load(started);
  ASSERT_FALSE(image.objects.empty());
  // By its symbols if map_files may be used, else by what is in memory.
  const bool from_memory = !image.replaced.empty();
  EXPECT_EQ(image.objects[0]->entry(), AuxiliaryVector::read(started.pid()).value(AT_ENTRY));
  if (!from_memory) {
    EXPECT_NE(only(match_patterns(image, pattern("gone:run"), {})), nullptr);
  }
}

TEST(LoadProcess, ReadsTheFileThatRunsNotTheOneThatReplacedIt) {
  const Scratch scratch;
  const std::string path = copy_of("basic_pie", scratch / "replaced");
  const Started started({path});
  copy_of("switches_gcc_pie", scratch / "new");
  std::filesystem::rename(scratch / "new", path);
  ProcessImage image = load(started);
  ASSERT_FALSE(image.objects.empty());
  Object& object = *image.objects[0];
  EXPECT_EQ(object.entry(), AuxiliaryVector::read(started.pid()).value(AT_ENTRY));
  auto original = load_file(program("basic_pie"));
  ASSERT_TRUE(original);
  EXPECT_EQ(object.elf().build_id(), original->objects[0]->elf().build_id());
  EXPECT_TRUE(match_patterns(image, pattern("replaced:one_switch"), {}).matches.empty());
}

// What is left without privileges: no map_files, and the file has been unlinked. Runs in a child;
// returns 0 on success.
int load_own_deleted_library_unprivileged(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr || ::unlink(path.c_str()) != 0) return 1;
  if (::setresuid(65534, 65534, 65534) != 0 || ::prctl(PR_SET_DUMPABLE, 1) != 0) return 2;
  const Fd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  auto image = load_process(::getpid(), [&](Address address, std::span<uint8_t> out) {
    return ::pread(memory.get(), out.data(), out.size(), static_cast<off_t>(address)) ==
           static_cast<ssize_t>(out.size());
  });
  if (!image) return 3;
  // The test itself may lie where other users may not read.
  const auto& replaced = image->replaced;
  if (std::find(replaced.begin(), replaced.end(), "libbasic.so.1") == replaced.end()) return 4;
  const auto found = match_patterns(*image, pattern("libbasic:run"), {});
  if (found.matches.size() != 1) return 5;
  return found.matches[0].site == reinterpret_cast<Address>(::dlsym(library, "run")) ? 0 : 6;
}

TEST(LoadProcess, ReadsALibraryFromMemoryIfItsFileIsNotAvailable) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  const Scratch scratch;
  const std::string path = copy_of("libbasic.so.1", scratch / "libbasic.so.1");
  const pid_t child = ::fork();
  if (child == 0) ::_exit(load_own_deleted_library_unprivileged(path));
  int status = -1;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LoadProcess, FailsForAProcessThatDoesNotExist) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const auto image = load_process(child, [](Address, std::span<uint8_t>) { return false; });
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().number, ENOENT);
  EXPECT_EQ(AuxiliaryVector::read(child).value(AT_ENTRY), 0u);
}

TEST(LoadProcess, WithoutReadableMemoryReadsFilesButHasNoExecutableName) {
  const Started started({program("basic_pie")});
  auto image = load_process(started.pid(), [](Address, std::span<uint8_t>) { return false; });
  ASSERT_TRUE(image);
  ASSERT_FALSE(image->objects.empty());
  Object& object = *image->objects[0];
  EXPECT_EQ(object.name(), "basic_pie");
  ASSERT_FALSE(object.functions().functions().empty());
  EXPECT_TRUE(object.code(object.functions().functions()[0]).empty());
}

TEST(LoadProcess, DoesNotCopyAHugeBss) {
  const Started started({program("basic_huge_bss")});
  size_t largest = 0;
  auto image = load_process(started.pid(), [&](Address address, std::span<uint8_t> out) {
    largest = std::max(largest, out.size());
    return started.reader()(address, out);
  });
  ASSERT_TRUE(image);
  ASSERT_FALSE(image->objects.empty());
  Object& object = *image->objects[0];
  ASSERT_GT(object.extent().size(), uint64_t{2} << 30);
  EXPECT_TRUE(object.targets().contains(address_of(program("basic_huge_bss"), "run").value()));
  EXPECT_LT(largest, uint64_t{300} << 20);
}

TEST(AuxiliaryValue, IsTheKernelsValue) {
  EXPECT_EQ(AuxiliaryVector::read(::getpid()).value(AT_PHDR), ::getauxval(AT_PHDR));
  EXPECT_EQ(AuxiliaryVector::read(::getpid()).value(AT_PAGESZ), ::getauxval(AT_PAGESZ));
  EXPECT_EQ(AuxiliaryVector::read(::getpid()).value(0x7fffffff), 0u);
}

TEST(LoadFile, HasOneObjectAtItsOwnAddresses) {
  auto file = load_file(program("libbasic.so.1"));
  ASSERT_TRUE(file);
  ASSERT_EQ(names_of(*file), std::vector<std::string>{"libbasic.so.1"});
  EXPECT_EQ(file->objects[0]->bias(), 0u);
  EXPECT_EQ(file->objects[0]->path(), program("libbasic.so.1"));
}

TEST(LoadFile, SaysWhyItFails) {
  const auto missing = load_file(program("no_such_file"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().cause, ElfCause::unreadable);
  EXPECT_EQ(missing.error().system_error, ENOENT);
  const auto object_file = load_file(program("basic.o"));
  ASSERT_FALSE(object_file);
  EXPECT_EQ(object_file.error().cause, ElfCause::not_loadable);
}

}  // namespace
}  // namespace pinprick::image
