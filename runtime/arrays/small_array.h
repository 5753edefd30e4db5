// arrays/small_array.h: a fixed-size array without a heap allocation for few values.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace bellhop {

// An array whose size is set at run time and does not change. Up to kInline values are
// stored in the object itself, more on the heap.
template <typename T, size_t kInline>
class SmallArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Makes an array of `size` uninitialised values.
  explicit SmallArray(size_t size) : size_(size) {
    if (size > kInline) heap_ = std::make_unique_for_overwrite<T[]>(size);
  }
  SmallArray(const SmallArray&) = delete;
  SmallArray& operator=(const SmallArray&) = delete;

  T* data() { return heap_ ? heap_.get() : inline_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  size_t size() const { return size_; }

 private:
  std::array<T, kInline> inline_;
  std::unique_ptr<T[]> heap_;
  size_t size_;
};

}  // namespace bellhop
