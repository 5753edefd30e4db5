// arrays/buffer_view.h: describe an XLA buffer without including XLA's headers.
#pragma once

#include <cstdint>

namespace bellhop {

// A dense row-major XLA buffer. The view owns neither the data nor the dimensions.
struct BufferView {
  int dtype;            // XLA_FFI_DataType
  const int64_t* dims;  // the size of each axis
  int64_t rank;         // number of axes
  void* data;           // the first element
  // Whether elements narrower than a byte are packed: XLA packs them, the first element
  // in the lowest bits; NumPy stores one per byte.
  bool shares_bytes = false;
};

}  // namespace bellhop
