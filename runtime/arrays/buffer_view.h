// arrays/buffer_view.h: describe an XLA buffer without including XLA's headers.
#pragma once

#include <cstdint>

namespace bellhop {

// A dense row-major XLA buffer, which the view does not own.
struct BufferView {
  int dtype;  // XLA_FFI_DataType
  const int64_t* dims;
  int64_t rank;
  void* data;
  // Whether elements narrower than a byte are packed: XLA packs them, the first element
  // in the lowest bits; NumPy stores one per byte.
  bool shares_bytes = false;
};

}  // namespace bellhop
