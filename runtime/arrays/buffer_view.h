// arrays/buffer_view.h: a buffer of XLA, without XLA's headers.
#pragma once

#include <cstdint>

namespace bellhop {

// A dense row-major buffer of XLA.
struct BufferView {
  int dtype;  // XLA_FFI_DataType
  const int64_t* dims;
  int64_t rank;
  void* data;
  // Whether elements narrower than a byte share one: XLA packs them, the first in the
  // lowest bits, and NumPy does not.
  bool shares_bytes = false;
};

}  // namespace bellhop
