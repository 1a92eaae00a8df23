// Rare<T>: like std::optional<T>, but an empty one takes only the space of a pointer. It is meant
// for a member that only a few of millions of elements have. A value lies on the heap; a copy has a
// value of its own.
#pragma once

#include <memory>
#include <optional>
#include <utility>

namespace pinprick {

template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Rare(std::optional<T> value) {
    if (value) value_ = std::make_unique<T>(*std::move(value));
  }
  Rare(const Rare& other) : value_(other ? std::make_unique<T>(*other) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  ~Rare() = default;

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
};
static_assert(sizeof(Rare<char[64]>) == sizeof(void*));

}  // namespace pinprick
