// A device for circuits that only permute basis states: its state is one bit for
// each qubit, so thousands of them are simulated in no time.
//
// It applies PauliX, CNOT, SWAP and Toffoli, and says by name what it does not
// do: Bellhop makes an error of the program out of what is thrown here.
#include <bellhop/quantum_device.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace {

using Complex = std::complex<double>;

class Reversible final : public Catalyst::Runtime::QuantumDevice {
 public:
  std::vector<QubitIdType> AllocateQubits(std::size_t count) override {
    std::vector<QubitIdType> added(count);
    std::iota(added.begin(), added.end(), QubitIdType(bits_.size()));
    bits_.resize(bits_.size() + count);
    is_possible_ = true;
    return added;
  }
  void ReleaseQubits(const std::vector<QubitIdType>&) override { bits_.clear(); }
  std::size_t GetNumQubits() const override { return bits_.size(); }
  QubitIdType AllocateQubit() override { return AllocateQubits(1)[0]; }
  void ReleaseQubit(QubitIdType) override { refuse("releasing single qubits"); }

  void SetDeviceShots(std::size_t shots) override { shots_ = shots; }
  std::size_t GetDeviceShots() const override { return shots_; }
  void SetDevicePRNG(std::mt19937*) override {}  // nothing here is random

  void NamedOperation(const std::string& name, const std::vector<double>&,
                      const std::vector<QubitIdType>& wires, bool,
                      const std::vector<QubitIdType>& controls,
                      const std::vector<bool>& values,
                      const std::vector<std::string>&) override {
    for (std::size_t i = 0; i < controls.size(); ++i) {
      if (bits_.at(controls[i]) != values[i]) return;
    }
    if (name == "SWAP") {
      const bool first = bits_.at(wires[0]);
      bits_[wires[0]] = bits_.at(wires[1]);
      bits_[wires[1]] = first;
    } else if (name == "PauliX" || name == "CNOT" || name == "Toffoli") {
      // All wires but the last are controls.
      bool flips = true;
      for (std::size_t i = 0; i + 1 < wires.size(); ++i) flips &= bits_.at(wires[i]);
      if (flips) bits_.at(wires.back()).flip();
    } else if (name != "Identity") {
      refuse("the gate " + name);
    }
  }

  // The interface wants a pointer that the device owns.
  Result Measure(QubitIdType wire, std::optional<std::int32_t> postselect) override {
    outcome_ = bits_.at(wire);
    if (postselect && *postselect != int(outcome_)) refuse("an outcome that cannot be");
    return &outcome_;
  }

  ObsIdType Observable(ObsId id, const std::vector<Complex>&,
                       const std::vector<QubitIdType>& wires) override {
    if (id != ObsId::PauliZ && id != ObsId::Identity) refuse("observables but Z");
    observables_.push_back(id == ObsId::PauliZ ? wires : std::vector<QubitIdType>{});
    return ObsIdType(observables_.size()) - 1;
  }
  ObsIdType TensorObservable(const std::vector<ObsIdType>& factors) override {
    std::vector<QubitIdType> wires;
    for (ObsIdType factor : factors) {
      const auto& more = observables_.at(factor);
      wires.insert(wires.end(), more.begin(), more.end());
    }
    observables_.push_back(std::move(wires));
    return ObsIdType(observables_.size()) - 1;
  }
  double Expval(ObsIdType observable) override {
    double sign = is_possible_ ? 1 : 0;
    for (QubitIdType wire : observables_.at(observable))
      sign *= bits_.at(wire) ? -1 : 1;
    return sign;
  }
  double Var(ObsIdType) override { return 0; }

  // Bellhop asks here whether an outcome that is to be postselected can be.
  void PartialProbs(DataView<double, 1>& probabilities,
                    const std::vector<QubitIdType>& wires) override {
    std::size_t certain = 0;
    for (QubitIdType wire : wires) certain = 2 * certain + bits_.at(wire);
    for (std::size_t i = 0; i < probabilities.sizes[0]; ++i) {
      probabilities.data[probabilities.offset + i * probabilities.strides[0]] =
          i == certain && is_possible_ ? 1 : 0;
    }
  }
  void Probs(DataView<double, 1>& probabilities) override {
    PartialProbs(probabilities, all());
  }

  void Sample(DataView<double, 2>& samples) override { PartialSample(samples, all()); }
  void PartialSample(DataView<double, 2>& samples,
                     const std::vector<QubitIdType>& wires) override {
    for (std::size_t shot = 0; shot < samples.sizes[0]; ++shot) {
      for (std::size_t i = 0; i < wires.size(); ++i) {
        samples
            .data[samples.offset + shot * samples.strides[0] + i * samples.strides[1]] =
            bits_.at(wires[i]);
      }
    }
  }

  // Of matrices only those by which Bellhop projects a qubit on an outcome: one 1,
  // from the basis state of its column to that of its row, and else 0.
  void MatrixOperation(const std::vector<Complex>& matrix,
                       const std::vector<QubitIdType>& wires, bool,
                       const std::vector<QubitIdType>&,
                       const std::vector<bool>&) override {
    const auto ones = std::count(matrix.begin(), matrix.end(), Complex(1));
    const auto zeros = std::count(matrix.begin(), matrix.end(), Complex(0));
    if (wires.size() != 1 || ones != 1 || zeros != 3) refuse("matrices");
    const auto at =
        std::find(matrix.begin(), matrix.end(), Complex(1)) - matrix.begin();
    is_possible_ &= bits_.at(wires[0]) == (at % 2 != 0);
    bits_[wires[0]] = at / 2 != 0;
  }
  void SetBasisState(DataView<std::int8_t, 1>& bits,
                     std::vector<QubitIdType>& wires) override {
    for (std::size_t i = 0; i < wires.size(); ++i) {
      bits_.at(wires[i]) = bits.data[bits.offset + i * bits.strides[0]] != 0;
    }
  }
  void SetState(DataView<Complex, 1>&, std::vector<QubitIdType>&) override {
    refuse("state vectors");
  }
  ObsIdType HamiltonianObservable(const std::vector<double>&,
                                  const std::vector<ObsIdType>&) override {
    refuse("sums of observables");
  }
  void Counts(DataView<double, 1>&, DataView<std::int64_t, 1>&) override {
    refuse("counts");
  }
  void PartialCounts(DataView<double, 1>&, DataView<std::int64_t, 1>&,
                     const std::vector<QubitIdType>&) override {
    refuse("counts");
  }
  void State(DataView<Complex, 1>&) override { refuse("state vectors"); }
  Result PauliMeasure(const std::string&, const std::vector<QubitIdType>&) override {
    refuse("measurements of Pauli words");
  }
  void Gradient(std::vector<DataView<double, 1>>&,
                const std::vector<std::size_t>&) override {
    refuse("derivatives");
  }
  void StartTapeRecording() override {}
  void StopTapeRecording() override {}

 private:
  std::vector<QubitIdType> all() const {
    std::vector<QubitIdType> wires(bits_.size());
    std::iota(wires.begin(), wires.end(), 0);
    return wires;
  }

  [[noreturn]] static void refuse(const std::string& what) {
    throw std::invalid_argument("example.reversible does not have " + what);
  }

  std::vector<bool> bits_;
  std::vector<std::vector<QubitIdType>> observables_;
  bool is_possible_ = true;  // whether the outcomes so far are
  std::size_t shots_ = 0;
  bool outcome_ = false;
};

}  // namespace

extern "C" Catalyst::Runtime::QuantumDevice* ReversibleFactory(const char*) {
  return new Reversible;
}
