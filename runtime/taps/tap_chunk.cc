// taps/tap_chunk.cc: write tapped calls into a chunk.
#include "taps/tap_chunk.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "arrays/numpy_arrays.h"

namespace bellhop {
namespace {

// NumPy arrays are copies of the data, so the data need only the alignment of a word.
constexpr size_t kAlignment = alignof(void*);

// How many recent layouts are searched. A loop with more taps than this writes layouts
// repeatedly.
constexpr int kLooksAtChunks = 8;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

size_t data_bytes(std::span<const BufferView> arguments) {
  size_t bytes = 0;
  for (const BufferView& view : arguments) bytes += aligned(memory_bytes(view));
  return bytes;
}

}  // namespace

TapChunk* TapChunk::make(size_t capacity) {
  static_assert(sizeof(TapChunk) % kAlignment == 0 && alignof(Layout) <= kAlignment &&
                sizeof(Layout) % alignof(BufferView) == 0 &&
                sizeof(BufferView) % alignof(int64_t) == 0);
  return new (::operator new(sizeof(TapChunk) + capacity)) TapChunk(capacity);
}

void TapChunk::destroy(TapChunk* chunk) {
  if (chunk != nullptr) ::operator delete(chunk);
}

size_t TapChunk::layout_bytes(std::span<const BufferView> arguments) {
  size_t bytes = sizeof(Word) + sizeof(Layout) + arguments.size_bytes();
  for (const BufferView& view : arguments) bytes += view.rank * sizeof(int64_t);
  return bytes;
}

size_t TapChunk::max_bytes(std::span<const BufferView> arguments) {
  return layout_bytes(arguments) + sizeof(Word) + data_bytes(arguments);
}

bool TapChunk::Layout::has_types_of(const Callback* other,
                                    std::span<const BufferView> arguments) {
  if (callback.get() != other || arity != arguments.size()) return false;
  return std::equal(arguments.begin(), arguments.end(), views(),
                    [](const BufferView& one, const BufferView& two) {
                      return one.dtype == two.dtype && one.rank == two.rank &&
                             one.shares_bytes == two.shares_bytes &&
                             std::equal(one.dims, one.dims + one.rank, two.dims);
                    });
}

void TapChunk::Layout::point_to(std::byte* data) {
  for (BufferView& view : std::span(views(), arity)) {
    view.data = data;
    data += aligned(memory_bytes(view));
  }
}

TapChunk::Layout* TapChunk::find_or_add_layout(
    const std::shared_ptr<Callback>& callback, std::span<const BufferView> arguments) {
  Layout* found = last_;
  for (int look = 0; found != nullptr && look < kLooksAtChunks; ++look) {
    if (found->has_types_of(callback.get(), arguments)) return found;
    found = found->previous;
  }
  const size_t bytes = layout_bytes(arguments);
  word_at(used_) = nullptr;
  auto* layout = new (memory() + used_ + sizeof(Word)) Layout{
      callback, last_, bytes, sizeof(Word) + data_bytes(arguments), arguments.size()};
  auto* dims = reinterpret_cast<int64_t*>(layout->views() + arguments.size());
  BufferView* views = layout->views();
  for (const BufferView& view : arguments) {
    new (views++) BufferView{view.dtype, dims, view.rank, nullptr, view.shares_bytes};
    dims = std::copy_n(view.dims, view.rank, dims);
  }
  used_ += bytes;
  return last_ = layout;
}

size_t TapChunk::write(const std::shared_ptr<Callback>& callback,
                       std::span<const BufferView> arguments) {
  const size_t before = used_;
  Layout* layout = find_or_add_layout(callback, arguments);
  word_at(used_) = layout;
  std::byte* data = memory() + used_ + sizeof(Word);
  for (const BufferView& view : arguments) {
    const size_t bytes = memory_bytes(view);
    if (bytes != 0) std::memcpy(data, view.data, bytes);
    data += aligned(bytes);
  }
  used_ += layout->record_bytes;
  return used_ - before;
}

void TapChunk::release_layouts() {
  while (last_ != nullptr) {
    Layout* layout = last_;
    last_ = layout->previous;
    layout->~Layout();
  }
}

}  // namespace bellhop
