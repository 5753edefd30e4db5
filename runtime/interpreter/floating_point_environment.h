// interpreter/floating_point_environment.h: run Python and plugins in the default
// floating-point environment.
//
// XLA's threads, and the caller's thread while XLA runs a program on it, replace
// subnormal numbers by zero (FTZ and DAZ of MXCSR on x86, FZ of FPCR on AArch64), so
// that kernels never take the slow path of the processor. np.exp(-740.) is 0 in that
// mode, and a thread inherits the mode of the thread that starts it. Python functions
// and plugins must give the same results as outside of programs. So each scope that
// takes Python's lock (interpreter/gil.h) or calls a plugin (devices/plugin.h) enters
// the default environment and restores the thread's own mode afterwards. Functions that
// JAX's callbacks call use the module's call_in_default_environment. The kernels of the
// engine stay in XLA's mode: doc/architecture/engine.md explains why.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace bellhop {

// The control bits of this thread's floating-point arithmetic. Does not include the
// registers of x87, which XLA does not change.
class FloatingPointMode {
 public:
#if defined(__x86_64__) || defined(_M_X64)
  using Bits = std::uint32_t;
  static Bits read() { return _mm_getcsr(); }
  static void write(const Bits& bits) { _mm_setcsr(bits); }
  static void write_default() { _mm_setcsr(kDefault); }
  // Bits 0 to 5 are flags of past exceptions, which are not part of the mode.
  static bool is_default(const Bits& bits) { return (bits & ~Bits{0x3F}) == kDefault; }

 private:
  // All exceptions masked, rounding to nearest, subnormal numbers preserved.
  static constexpr Bits kDefault = 0x1F80;
#elif defined(__aarch64__)
  using Bits = std::uint64_t;
  static Bits read() {
    Bits bits;
    asm volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
  }
  static void write(const Bits& bits) { asm volatile("msr fpcr, %0" : : "r"(bits)); }
  static void write_default() { write(0); }
  static bool is_default(const Bits& bits) { return bits == 0; }
#else
  using Bits = std::fenv_t;
  static Bits read() {
    Bits bits;
    std::fegetenv(&bits);
    return bits;
  }
  static void write(const Bits& bits) { std::fesetenv(&bits); }
  static void write_default() { std::fesetenv(FE_DFL_ENV); }
  static bool is_default(const Bits&) { return false; }
#endif
};

// Keeps this thread in the default floating-point environment during its lifetime.
// Scopes may be nested: a thread that is in that environment already only reads its
// mode.
class DefaultFloatingPointEnvironment {
 public:
  DefaultFloatingPointEnvironment() : own_(FloatingPointMode::read()) {
    if (!FloatingPointMode::is_default(own_)) {
      FloatingPointMode::write_default();
      is_changed_ = true;
    }
  }
  ~DefaultFloatingPointEnvironment() {
    if (is_changed_) FloatingPointMode::write(own_);
  }
  DefaultFloatingPointEnvironment(const DefaultFloatingPointEnvironment&) = delete;
  DefaultFloatingPointEnvironment& operator=(const DefaultFloatingPointEnvironment&) =
      delete;

 private:
  const FloatingPointMode::Bits own_;
  bool is_changed_ = false;
};

// Keeps this thread in the mode of another thread for its lifetime.
class FloatingPointModeScope {
 public:
  explicit FloatingPointModeScope(const FloatingPointMode::Bits& mode)
      : own_(FloatingPointMode::read()) {
    FloatingPointMode::write(mode);
  }
  ~FloatingPointModeScope() { FloatingPointMode::write(own_); }
  FloatingPointModeScope(const FloatingPointModeScope&) = delete;
  FloatingPointModeScope& operator=(const FloatingPointModeScope&) = delete;

 private:
  const FloatingPointMode::Bits own_;
};

}  // namespace bellhop
