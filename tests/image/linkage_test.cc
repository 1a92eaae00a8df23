// Where the pointers of this process lead.
#include "image/linkage.h"

#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "image/process.h"

namespace pinprick::image {
namespace {

bool read_own(Address at, std::span<uint8_t> out) {
  const iovec to = {out.data(), out.size()};
  const iovec from = {reinterpret_cast<void*>(at), out.size()};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(out.size());
}

class OwnLinkage : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = load_process(::getpid(), read_own);
    ASSERT_TRUE(loaded);
    image_ = *std::move(loaded);
    for (const auto& object : image_.objects) objects_.push_back(object.get());
  }

  uint64_t held_by(const Object& object, Address pointer) {
    uint64_t word = 0;
    EXPECT_TRUE(
        read_own(pointer + object.bias(), {reinterpret_cast<uint8_t*>(&word), sizeof word}));
    return word;
  }

  // Calls visit(object, relocation, target) for each import that leads to another object.
  template <class F>
  size_t for_each_import(F&& visit) {
    size_t count = 0;
    for (Object* const object : objects_)
      for (const Relocation& link : object->relocations()) {
        if (link.kind != Relocation::Kind::symbol || link.symbol.empty()) continue;
        const uint64_t held = held_by(*object, link.address);
        Object* const there = image_.object_at(held);
        if (there == nullptr || there == object) continue;
        visit(*object, link, CodeAddress{there, held - there->bias()});
        ++count;
      }
    return count;
  }

  static bool contains(const LinkTargets& targets, CodeAddress one) {
    return std::find(targets.known.begin(), targets.known.end(), one) != targets.known.end();
  }

  ProcessImage image_;
  std::vector<Object*> objects_;
};

TEST_F(OwnLinkage, IsReadFromThePointersThatTheLoaderHasFilledIn) {
  Linkage linkage(image_);
  const size_t imports =
      for_each_import([&](Object& object, const Relocation& link, CodeAddress target) {
        const LinkTargets& targets = linkage.targets(object, link.address);
        EXPECT_EQ(targets.known, std::vector{target}) << object.name() << ' ' << link.symbol;
        EXPECT_FALSE(targets.may_lead_elsewhere);
      });
  EXPECT_GT(imports, 100u);
}

// IFUNCs, of which libc has many, included.
TEST_F(OwnLinkage, IsForetoldByNames) {
  Linkage linkage(objects_);
  for_each_import([&](Object& object, const Relocation& link, CodeAddress target) {
    const LinkTargets& targets = linkage.targets(object, link.address);
    EXPECT_TRUE(contains(targets, target)) << object.name() << ' ' << link.symbol;
  });
}

TEST_F(OwnLinkage, OfIfuncsOfTheirOwnIsForetoldByTheirResolvers) {
  Linkage linkage(objects_);
  size_t resolved = 0;
  for (Object* const object : objects_)
    for (const Relocation& link : object->relocations()) {
      if (link.kind != Relocation::Kind::irelative) continue;
      const Address target = held_by(*object, link.address) - object->bias();
      if (!object->contains_code(target + object->bias())) continue;
      EXPECT_TRUE(contains(linkage.targets(*object, link.address), {object, target}))
          << object->name() << std::hex << ' ' << link.addend;
      ++resolved;
    }
  EXPECT_GT(resolved, 5u);
}

long twice(long value) {
  return 2 * value;
}
long (*volatile changing)(long) = nullptr;

TEST_F(OwnLinkage, OfAVariableIsItsPresentValue) {
  Object* const object = image_.object_at(reinterpret_cast<Address>(&twice));
  ASSERT_NE(object, nullptr);
  const Address pointer = reinterpret_cast<Address>(&changing) - object->bias();
  EXPECT_TRUE(Linkage(image_).targets(*object, pointer).known.empty());
  EXPECT_FALSE(Linkage(image_).targets(*object, pointer).may_lead_elsewhere);
  changing = &twice;
  Linkage linkage(image_);
  const CodeAddress there = {object, reinterpret_cast<Address>(&twice) - object->bias()};
  EXPECT_EQ(linkage.targets(*object, pointer).known, std::vector{there});
  changing = nullptr;
}

}  // namespace
}  // namespace pinprick::image
