// bellhop/quantum_device.h: the C++ interface of PennyLane device plugins.
//
// A plugin (lightning.qubit, lightning.kokkos, lightning.gpu, third parties) is a
// shared object with a factory `extern "C" QuantumDevice* <Name>Factory(const char*
// kwargs)`. Bellhop and the plugins are compiled separately, so the order of the
// virtual functions, the layout of DataView and the values of ObsId are a binary
// interface: a change of any of them increments BELLHOP_DEVICE_INTERFACE and updates
// kTestedPlugins.
//
// Each plugin that includes this header exports `bellhop_device_interface`, and Bellhop
// loads a plugin only if the number is its own. A plugin without the function was
// compiled with another header, and Bellhop assumes the layout of Catalyst 0.15, which
// this header has too. For plugins in the package of Lightning, Python checks the
// version of the package.
#pragma once

#define BELLHOP_DEVICE_INTERFACE 1

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace bellhop {
inline constexpr const char* kTestedPlugins = "pennylane_lightning 0.45";
}  // namespace bellhop

// The interface's version that this plugin was compiled for. `weak` merges the copies
// of a plugin's files, `used` keeps a function that nothing calls, and `visibility`
// exports it from plugins that hide their symbols.
extern "C" [[gnu::weak, gnu::used, gnu::visibility("default")]] int
bellhop_device_interface() {
  return BELLHOP_DEVICE_INTERFACE;
}

// A strided view of the caller's memory: element i is data[offset + i * strides].
template <typename T, std::size_t Rank>
struct DataView {
  T* data = nullptr;
  std::size_t offset = 0;
  std::size_t sizes[Rank] = {};
  std::size_t strides[Rank] = {};
};

// Returns a view of a contiguous vector, which the device borrows for one call.
template <typename T>
DataView<T, 1> view_of(T* data, std::size_t size) {
  return DataView<T, 1>{data, 0, {size}, {1}};
}

enum ObsId : std::int8_t {
  Identity = 0,
  PauliX,
  PauliY,
  PauliZ,
  Hadamard,
  Hermitian,
};

using QubitIdType = std::intptr_t;
using ObsIdType = std::intptr_t;
using Result = bool*;

namespace Catalyst::Runtime {

// A simulator. Calls on one object must not overlap in time; different objects are
// independent. Every function may throw a std::exception, after which the object's
// state is undefined.
struct QuantumDevice {
  QuantumDevice() = default;
  QuantumDevice(const QuantumDevice&) = delete;
  QuantumDevice& operator=(const QuantumDevice&) = delete;
  virtual ~QuantumDevice() = default;

  // Allocates `count` qubits in the state |0...0> and returns their ids, in the order
  // of the circuit's wires.
  virtual std::vector<QubitIdType> AllocateQubits(std::size_t count) = 0;
  // Frees qubits. Bellhop frees all qubits of a device at once, and allocates again.
  virtual void ReleaseQubits(const std::vector<QubitIdType>& qubits) = 0;
  // Bellhop does not call the next three functions.
  virtual std::size_t GetNumQubits() const = 0;
  virtual QubitIdType AllocateQubit() = 0;
  virtual void ReleaseQubit(QubitIdType qubit) = 0;

  // Sets the number of samples that measurements draw; 0 for exact results.
  virtual void SetDeviceShots(std::size_t shots) = 0;
  // Bellhop does not call this function.
  virtual std::size_t GetDeviceShots() const = 0;
  // Sets the generator of all random numbers. Bellhop owns it, and it outlives the
  // device.
  virtual void SetDevicePRNG(std::mt19937* generator) = 0;

  // Applies the gate with PennyLane's name `name`, or its inverse, where each
  // controlled wire has its controlled value. `optional_params` is empty, or has the
  // Pauli word of a PauliRot, without I.
  virtual void NamedOperation(const std::string& name,
                              const std::vector<double>& params,
                              const std::vector<QubitIdType>& wires, bool inverse,
                              const std::vector<QubitIdType>& controlled_wires,
                              const std::vector<bool>& controlled_values,
                              const std::vector<std::string>& optional_params) = 0;
  // Measures a wire and collapses the state. `postselect` is the outcome to collapse
  // to, or nothing for a random outcome. Returns a pointer to the outcome, which the
  // device owns; Bellhop reads it before its next call.
  virtual Result Measure(QubitIdType wire, std::optional<std::int32_t> postselect) = 0;
  // Applies a row-major matrix of 2^n rows on n wires, or its adjoint if `inverse`,
  // where each controlled wire has its controlled value.
  virtual void MatrixOperation(const std::vector<std::complex<double>>& matrix,
                               const std::vector<QubitIdType>& wires, bool inverse,
                               const std::vector<QubitIdType>& controlled_wires,
                               const std::vector<bool>& controlled_values) = 0;
  // Set the wires to a basis state, with a bit for each wire, or to a state of 2^n
  // amplitudes on n wires. SetBasisState and SetState require that all other qubits are
  // in |0>: plugins do not clear them.
  virtual void SetBasisState(DataView<std::int8_t, 1>& bits,
                             std::vector<QubitIdType>& wires) = 0;
  virtual void SetState(DataView<std::complex<double>, 1>& state,
                        std::vector<QubitIdType>& wires) = 0;

  // Make an observable, and return its id for Expval, Var and for observables that
  // contain it. `matrix` is row-major for Hermitian, and empty for all other ids.
  virtual ObsIdType Observable(ObsId id,
                               const std::vector<std::complex<double>>& matrix,
                               const std::vector<QubitIdType>& wires) = 0;
  virtual ObsIdType TensorObservable(const std::vector<ObsIdType>& factors) = 0;
  virtual ObsIdType HamiltonianObservable(const std::vector<double>& coefficients,
                                          const std::vector<ObsIdType>& terms) = 0;

  // Writes a row for each shot, with 0 or 1 for each qubit in the order of allocation.
  virtual void Sample(DataView<double, 2>& samples) = 0;
  // Bellhop does not call the next three functions.
  virtual void PartialSample(DataView<double, 2>& samples,
                             const std::vector<QubitIdType>& wires) = 0;
  virtual void Counts(DataView<double, 1>& eigenvalues,
                      DataView<std::int64_t, 1>& counts) = 0;
  virtual void PartialCounts(DataView<double, 1>& eigenvalues,
                             DataView<std::int64_t, 1>& counts,
                             const std::vector<QubitIdType>& wires) = 0;
  // Write the probabilities of the basis states of all qubits, or of some wires. The
  // first wire is the most significant bit of the index.
  virtual void Probs(DataView<double, 1>& probabilities) = 0;
  virtual void PartialProbs(DataView<double, 1>& probabilities,
                            const std::vector<QubitIdType>& wires) = 0;
  // Return the expectation value, or the variance, of an observable.
  virtual double Expval(ObsIdType observable) = 0;
  virtual double Var(ObsIdType observable) = 0;
  // Writes the amplitudes of all qubits.
  virtual void State(DataView<std::complex<double>, 1>& state) = 0;
  // Bellhop does not call this function.
  virtual Result PauliMeasure(const std::string& word,
                              const std::vector<QubitIdType>& wires) = 0;

  // Computes a row of `gradients` for each expectation value taken while recording,
  // with a column for each entry of `trainable`: the ascending indices of recorded
  // operations, counting only operations with parameters. An empty `trainable` means
  // all.
  virtual void Gradient(std::vector<DataView<double, 1>>& gradients,
                        const std::vector<std::size_t>& trainable) = 0;
  // Start and stop recording operations and expectation values for Gradient.
  virtual void StartTapeRecording() = 0;
  virtual void StopTapeRecording() = 0;
};

}  // namespace Catalyst::Runtime
