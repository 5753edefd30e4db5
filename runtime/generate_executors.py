"""Generate the C++ header of ``executors.toml``.

    python generate_executors.py executors.toml executors.h

CMake calls it.  The header has the enumerations ``Outcomes`` and ``MeasurementKind``, predicates of
outcomes, and the table of what the engine offers for each kind of measurement.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

OFFERS = ("value", "jacobian", "vjp", "jvp", "score", "any_order")


def _to_enumerator(name: str) -> str:
    """Convert a name such as ``run_per_shot`` to ``kRunPerShot``."""
    return "k" + "".join(part.capitalize() for part in name.split("_"))


def _format_predicate(name: str, key: str, outcomes: dict[str, Any]) -> str:
    """Format a C++ predicate of the enumeration ``Outcomes``.

    The predicate is true for the outcomes whose table has a true value for ``key``, and for all
    outcomes with the same number ``tree``, as C++ knows only this number.

    Args:
        name: name of the C++ function.
        key: key in the tables of outcomes, such as ``summed``.
        outcomes: the table ``outcomes`` of ``executors.toml``: a table for each name.
    """
    codes = sorted({each["tree"] for each in outcomes.values() if each.get(key)})
    tests = " || ".join(f"outcomes == static_cast<Outcomes>({code})" for code in codes)
    return f"constexpr bool {name}(Outcomes outcomes) {{\n  return {tests};\n}}\n"


def make_header(tables: dict[str, Any]) -> str:
    """Format the text of the C++ header ``executors.h``.

    ``tables`` is the content of ``executors.toml``. Measurements with a negative code, which have
    no value of their own, are left out.

    Raises:
        ValueError: for a measurement with an unknown offer, or if the remaining codes are not
            0, 1, 2, ... in the order of the file.
    """
    outcomes, kinds = tables["outcomes"], tables["measurements"]
    measured = {name: kind for name, kind in kinds.items() if kind["code"] >= 0}
    if [kind["code"] for kind in measured.values()] != list(range(len(measured))):
        raise ValueError("executors.toml: expected measurements in the order of their codes.")
    rows = []
    for name, kind in measured.items():
        offers = kind["engine"]
        if not set(offers) <= set(OFFERS):
            raise ValueError(f"executors.toml: measurement {name} has an unknown offer: {offers}.")
        shots = {True: "kWithShots", False: "kWithoutShots", None: "kAlways"}[kind.get("shots")]
        flags = ", ".join(str(offer in offers).lower() for offer in OFFERS)
        rows.append(f"    {{{flags}, Offer::Shots::{shots}}},  // {name}")
    lines = [
        "// Generated from runtime/executors.toml by generate_executors.py; do not edit.",
        "#pragma once",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        "namespace bellhop {",
        "",
        "// The treatment of random outcomes, by the attribute `tree` of the contract.",
        "enum class Outcomes : std::uint8_t {",
        *(
            f"  {_to_enumerator(name)} = {each['tree']},  // {each['summary']}"
            for name, each in outcomes.items()
        ),
        "};",
        f"constexpr std::int64_t kMostOutcomes = {max(e['tree'] for e in outcomes.values())};",
        "",
        "// Whether results are sums over runs with different mid-circuit outcomes.",
        _format_predicate("is_summed", "summed", outcomes),
        "// Whether runs whose postselections fail are repeated.",
        _format_predicate("is_repeated", "repeated", outcomes),
        "enum class MeasurementKind : std::uint8_t {",
        *(f"  {_to_enumerator(name)} = {kind['code']}," for name, kind in measured.items()),
        "};",
        "",
        "// What the engine offers for a kind of measurement.",
        "struct Offer {",
        *(f"  bool {offer};" for offer in OFFERS),
        "  enum class Shots : std::uint8_t { kAlways, kWithShots, kWithoutShots } shots;",
        "  // Whether the engine computes the value with this number of shots.",
        "  constexpr bool has_value(std::size_t n) const {",
        "    return value && (shots == Shots::kAlways || (n > 0) == (shots == Shots::kWithShots));",
        "  }",
        "  constexpr bool is_differentiable() const { return jacobian || score; }",
        "};",
        "",
        "constexpr Offer engine_offer(MeasurementKind kind) {",
        "  constexpr Offer kOffers[] = {",
        *rows,
        "  };",
        "  return kOffers[static_cast<std::size_t>(kind)];",
        "}",
        "",
        "}  // namespace bellhop",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    text = make_header(tomllib.loads(source.read_text(encoding="utf-8")))
    # An unchanged header keeps its time, so that nothing is compiled again.
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
