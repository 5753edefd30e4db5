// measurements/measurement_parser.cc: parse the measurement code of contract.toml.
#include <algorithm>

#include "circuit/code_reader.h"
#include "devices/checked_size.h"
#include "devices/wires.h"
#include "measurements/measurement_list.h"

namespace bellhop {
namespace {

using StepKind = ObservableStep::Kind;

// Deeper than any program nests observables, and safe for the stack.
constexpr int kMaxDepth = 200;

constexpr std::int64_t kMostNumbers = std::int64_t{1} << 40;

std::vector<std::int64_t> read_wires(CodeReader& reader, std::size_t count) {
  std::vector<std::int64_t> wires = reader.take(count);
  for (std::int64_t wire : wires) {
    if (wire < 0) reader.fail("wire: expected 0 or more, got " + std::to_string(wire));
  }
  check_distinct(wires);
  return wires;
}

std::size_t read_data_index(CodeReader& reader, std::size_t count, std::size_t& used) {
  const std::int64_t first = reader.next_below(kMostNumbers, "a data index");
  used = std::max(used, checked_sum(static_cast<std::size_t>(first), count, "data"));
  return static_cast<std::size_t>(first);
}

std::vector<std::size_t> read_groups(CodeReader& reader) {
  std::vector<std::size_t> groups;
  std::size_t all = 0;
  for (std::int64_t shots : reader.take(reader.next_count("the number of groups"))) {
    if (shots <= 0)
      reader.fail("shots of a group: expected 1 or more, got " + std::to_string(shots));
    groups.push_back(static_cast<std::size_t>(shots));
    all = checked_sum(all, groups.back(), "shots of groups");
  }
  return groups;
}

// Reads the wires of snapshots, and the index in the data of their bases.
void read_snapshots(CodeReader& reader, Measurement& measurement, std::size_t& used) {
  measurement.wires = read_wires(reader, reader.next_count("the number of wires"));
  if (measurement.wires.empty())
    reader.fail("wires of snapshots: expected 1 or more, got 0");
  const auto numbers =
      static_cast<std::size_t>(reader.next_below(kMostNumbers, "the number of bases"));
  if (numbers == 0) return;
  measurement.bases = numbers;
  measurement.recipes =
      static_cast<std::int64_t>(read_data_index(reader, numbers, used));
}

std::vector<std::int64_t> read_words(CodeReader& reader, std::size_t wires) {
  const std::size_t count = reader.next_count("the number of words");
  return reader.take(checked_product(count, wires, "words of snapshots"));
}

// Reads an observable in prefix order and appends its steps in postfix order.
void read_observable(CodeReader& reader, std::vector<ObservableStep>& steps,
                     std::size_t& used, int depth = 0) {
  if (depth > kMaxDepth)
    reader.fail("nesting of an observable: expected at most " +
                std::to_string(kMaxDepth) + " levels, got more");
  ObservableStep step;
  const std::int64_t code = reader.next_below(8, "an observable");
  switch (code) {
    case 5: {
      step.kind = StepKind::kHermitian;
      step.wires = read_wires(reader, reader.next_count("the number of wires"));
      if (step.wires.size() > 24) {
        reader.fail("wires of a Hermitian observable: expected at most 24, got " +
                    std::to_string(step.wires.size()));
      }
      step.data =
          read_data_index(reader, std::size_t{2} << (2 * step.wires.size()), used);
      break;
    }
    case 6:
    case 7: {
      step.kind = code == 6 ? StepKind::kTensor : StepKind::kCombination;
      step.operands = reader.next_count("the number of operands");
      if (step.operands == 0)
        reader.fail("operands of an observable: expected 1 or more, got 0");
      if (code == 7) step.data = read_data_index(reader, step.operands, used);
      for (std::size_t i = 0; i < step.operands; ++i) {
        read_observable(reader, steps, used, depth + 1);
      }
      // Plugins do not support a product of one factor.
      if (step.kind == StepKind::kTensor && step.operands == 1) return;
      break;
    }
    default:
      step.id = static_cast<ObsId>(code);
      step.wires = read_wires(reader, 1);
  }
  steps.push_back(std::move(step));
}

// Returns the observable as a sum of Pauli words, or an empty list if it is not one.
std::vector<PauliTerm> as_pauli_sum(const std::vector<ObservableStep>& steps) {
  std::vector<PauliTerm> terms;
  for (const ObservableStep& step : steps) {
    switch (step.kind) {
      case StepKind::kNamed:
        if (step.id == ObsId::Hadamard) return {};
        terms.push_back({PauliTerm::kOne, step.wires, {step.id}});
        break;
      case StepKind::kTensor: {
        PauliTerm product;
        for (auto term = terms.end() - static_cast<std::ptrdiff_t>(step.operands);
             term != terms.end(); ++term) {
          product.wires.insert(product.wires.end(), term->wires.begin(),
                               term->wires.end());
          product.factors.insert(product.factors.end(), term->factors.begin(),
                                 term->factors.end());
        }
        // Repeated wires: the device reports the error.
        std::vector<std::int64_t> sorted = product.wires;
        std::ranges::sort(sorted);
        if (std::ranges::adjacent_find(sorted) != sorted.end()) return {};
        terms.resize(terms.size() - step.operands);
        terms.push_back(std::move(product));
        break;
      }
      case StepKind::kCombination:
        if (&step != &steps.back()) return {};
        for (std::size_t i = 0; i < step.operands; ++i) {
          terms[i].coefficient = static_cast<std::int64_t>(step.data + i);
        }
        break;
      case StepKind::kHermitian:
        return {};
    }
  }
  return terms;
}

}  // namespace

MeasurementList::MeasurementList(std::span<const std::int64_t> code) {
  CodeReader reader("measurements", code);
  while (!reader.done()) {
    Measurement& measurement = measurements_.emplace_back();
    measurement.kind =
        static_cast<Measurement::Kind>(reader.next_below(9, "a measurement"));
    switch (measurement.kind) {
      case Measurement::Kind::kExpval:
      case Measurement::Kind::kVar:
        read_observable(reader, measurement.observable, data_);
        measurement.terms = as_pauli_sum(measurement.observable);
        break;
      case Measurement::Kind::kProbs:
      case Measurement::Kind::kSample:
        measurement.wires =
            read_wires(reader, reader.next_count("the number of wires"));
        break;
      case Measurement::Kind::kFrequencies:
        measurement.wires =
            read_wires(reader, reader.next_count("the number of wires"));
        measurement.signs =
            read_wires(reader, reader.next_count("the number of wires of signs"));
        measurement.groups = read_groups(reader);
        break;
      case Measurement::Kind::kSnapshots:
        read_snapshots(reader, measurement, data_);
        break;
      case Measurement::Kind::kSnapshotMeans:
        read_snapshots(reader, measurement, data_);
        measurement.groups = read_groups(reader);
        measurement.words = read_words(reader, measurement.wires.size());
        break;
      case Measurement::Kind::kState:
      case Measurement::Kind::kRun:
        break;
    }
  }
}

}  // namespace bellhop
