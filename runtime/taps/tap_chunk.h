// taps/tap_chunk.h: a sequence of tapped calls in one block of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arrays/buffer_view.h"
#include "callbacks/callback.h"

namespace bellhop {

// A sequence of records. Each record is a word and the arguments' data. The word points
// to a layout, which holds the properties that all calls of one tap share: the
// callback, the types and the shapes. A layout is written before the first record that
// uses it. So a loop writes little more than its data, and changes a callback's
// reference count once a chunk.
class TapChunk {
 public:
  // Makes an empty chunk with memory for `capacity` bytes, which the caller frees with
  // `destroy`. May throw std::bad_alloc. `destroy` accepts null; the chunk must be
  // empty.
  static TapChunk* make(size_t capacity);
  static void destroy(TapChunk* chunk);

  // Returns the most bytes that one call may take, including a new layout.
  static size_t max_bytes(std::span<const BufferView> arguments);

  bool has_room(size_t bytes) const { return capacity_ - used_ >= bytes; }
  // Appends a call with a copy of its arguments; the caller has checked that it fits.
  // Returns the number of bytes written.
  size_t write(const std::shared_ptr<Callback>& callback,
               std::span<const BufferView> arguments);

  // Calls `visit(callback, arguments)` and then `count(bytes)` for each record in
  // order. When the last record is counted, the chunk no longer shares any callback.
  template <typename Visitor, typename Counter>
  void consume(Visitor&& visit, Counter&& count);

  // Makes the chunk empty. Called after `consume`.
  void clear() { used_ = 0; }

  size_t capacity() const { return capacity_; }

  TapChunk* next = nullptr;

 private:
  // Followed in memory by the argument views and their dimensions. While a record is
  // visited, the views point to its data.
  struct Layout {
    std::shared_ptr<Callback> callback;
    Layout* previous;
    size_t bytes;         // of the layout, with its views and dimensions
    size_t record_bytes;  // of each of its records
    size_t arity;

    BufferView* views() { return reinterpret_cast<BufferView*>(this + 1); }
    // Returns whether the layout describes this callback with arguments of these types
    // and shapes.
    bool has_types_of(const Callback* other, std::span<const BufferView> arguments);
    // Makes the views point to the data of a record.
    void point_to(std::byte* data);
  };
  // A null word is followed by a layout instead of a record.
  using Word = Layout*;

  explicit TapChunk(size_t capacity) : capacity_(capacity) {}

  static size_t layout_bytes(std::span<const BufferView> arguments);
  Layout* find_or_add_layout(const std::shared_ptr<Callback>& callback,
                             std::span<const BufferView> arguments);
  void release_layouts();

  std::byte* memory() { return reinterpret_cast<std::byte*>(this + 1); }
  Word& word_at(size_t place) { return *reinterpret_cast<Word*>(memory() + place); }

  size_t capacity_;
  size_t used_ = 0;
  Layout* last_ = nullptr;
};

template <typename Visitor, typename Counter>
void TapChunk::consume(Visitor&& visit, Counter&& count) {
  size_t counted = 0;
  for (size_t place = 0; place != used_;) {
    Layout* layout = word_at(place);
    std::byte* data = memory() + place + sizeof(Word);
    if (layout == nullptr) {
      place += reinterpret_cast<Layout*>(data)->bytes;
      continue;
    }
    layout->point_to(data);
    visit(*layout->callback,
          std::span<const BufferView>(layout->views(), layout->arity));
    place += layout->record_bytes;
    if (place == used_) release_layouts();
    count(place - counted);
    counted = place;
  }
}

}  // namespace bellhop
