// taps/tap_chunk.h: a run of tapped calls in one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arrays/buffer_view.h"
#include "callbacks/callback.h"

namespace bellhop {

// Records one after another. Each is a word and the arguments' data; the word leads to
// a layout, which says what is the same in all calls of one tap: the callback, the
// types and the shapes. A layout is written before the first record that needs it, so
// a loop writes little more than its data, and counts references once a chunk.
class TapChunk {
 public:
  static TapChunk* make(size_t capacity);
  static void destroy(TapChunk* chunk);

  // The most bytes that one call takes.
  static size_t max_bytes(std::span<const BufferView> arguments);

  bool has_room(size_t bytes) const { return capacity_ - used_ >= bytes; }
  // Copies the arguments, for which there is room. Returns the bytes it took.
  size_t write(const std::shared_ptr<Callback>& callback,
               std::span<const BufferView> arguments);

  // Calls `visit(callback, arguments)` and then `count(bytes)` for each record in
  // order, once. None of the callbacks is shared any more when the last one is counted.
  template <typename Visitor, typename Counter>
  void consume(Visitor&& visit, Counter&& count);

  // When all was consumed.
  void clear() { used_ = 0; }

  size_t capacity() const { return capacity_; }

  TapChunk* next = nullptr;

 private:
  // Followed by the views, whose data are those of the record that is being visited,
  // and the dimensions.
  struct Layout {
    std::shared_ptr<Callback> callback;
    Layout* previous;
    size_t bytes;         // of the layout
    size_t record_bytes;  // of each of its records
    size_t arity;

    BufferView* views() { return reinterpret_cast<BufferView*>(this + 1); }
    bool has_types_of(const Callback* other, std::span<const BufferView> arguments);
    void point_to(std::byte* data);
  };
  // A null word says that a layout follows.
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
