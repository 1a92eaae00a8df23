#include "survive/runtime_folder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "survive/program.h"

namespace pinprick::survive {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = "/dev/shm/survive-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
    ::setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

const std::string& runtime_folder() {
  static const Folder folder;
  return folder.path();
}

std::vector<std::string> session_files() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(runtime_folder() + "/pinprick", ignored))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void detach_everything() {
  for (const std::string& name : session_files())
    static_cast<void>(run(pinprick({"detach", "-p", name.substr(0, name.find('-'))})));
}

}  // namespace pinprick::survive
