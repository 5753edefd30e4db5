"""Count how narrow the seams of `bellhop.circuits` are.

    python -m tests.seams              print the counts, and fail where one is above its limit
    python -m tests.seams --verbose    print each package and each wide pair too

A package is a folder directly below `circuits`, or below `circuits/backends` or
`circuits/backends/compiled`; outside of `circuits` it is a top-level folder or module of `bellhop`.
A use is a pair (importing package, name), counted where at least one of the two packages is in
`circuits`. Names are resolved to the module that defines them, so a facade hides nothing;
attributes of imported modules count as names. Uses of PennyLane and of QNodes are found in the
syntax tree.
"""
# ruff: noqa: E501, SIM905

import ast
import collections
import pathlib
import sys

ROOT, C = pathlib.Path("frontend"), "bellhop.circuits"
WAIST = "circuits.ir"
#: Packages of circuits; a new one is added here with a reason in review.
PACKAGES = {
    f"circuits.{r}"
    for r in (
        "measure gates ir front passes backends.choose backends.compiled.record backends.compiled.differentiable backends.compiled.outcomes "
        "backends.compiled.lowering backends.arrays backends.stim backends.tapes backends.null"
    ).split()
}
#: Former packages, which are gone.
FORMER = {
    f"circuits.{r}"
    for r in (
        "qnode clifford in_program pennylane python_devices recording circuit derivatives operations vectorize "
        "memory parameters precision"
    ).split()
}
SHOWS = collections.defaultdict(
    lambda: 12, {WAIST: 60, "circuits.gates": 20, "circuits.measure": 20}
)

paths = {}
for path in (ROOT / "bellhop").rglob("*.py"):
    parts = path.relative_to(ROOT).with_suffix("").parts
    paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
trees = {m: ast.parse(p.read_text()) for m, p in paths.items()}


def package(module):
    parts = module.split(".")[1:]
    if not parts:
        return "bellhop"
    if parts[0] != "circuits":
        return parts[0]
    depth = 2
    while depth < len(parts) and ".".join(parts[1:depth]) in ("backends", "backends.compiled"):
        depth += 1
    return ".".join(parts[:depth])


def imports(module):
    """Yield (module, name) for each use of another module of bellhop; name is None for the module alone."""
    is_package, aliases = paths[module].name == "__init__.py", {}
    for node in ast.walk(trees[module]):
        if isinstance(node, ast.Import):
            for a in node.names:
                if a.name in trees:
                    aliases[a.asname or a.name] = a.name
                    yield a.name, None
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                up = node.level - (1 if is_package else 0)
                base = ".".join(
                    (parts[: len(parts) - up] if up else parts)
                    + ([node.module] if node.module else [])
                )
            for a in node.names:
                if f"{base}.{a.name}" in trees:
                    aliases[a.asname or a.name] = f"{base}.{a.name}"
                    yield f"{base}.{a.name}", None
                elif base in trees:
                    yield base, a.name
    for node in ast.walk(trees[module]):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in aliases:
            yield aliases[ast.unparse(node.value)], node.attr


def defined_in(module, name, seen=()):
    """Follow re-exports to the module that defines a name."""
    if name is None or module not in trees or (module, name) in seen:
        return module
    own = {n.name for n in trees[module].body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    if name not in own:
        for node in trees[module].body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == name for t in node.targets
            ):
                return module
        for base, n in imports(module):
            if n == name and (base, n) != (module, name):
                return defined_in(base, name, (*seen, (module, name)))
    return module


uses, shown = collections.defaultdict(set), collections.defaultdict(set)
for m in trees:
    for base, name in imports(m):
        where = defined_in(base, name)
        a, b = package(m), package(where)
        if a != b and name is not None and ("circuits" in a or "circuits" in b):
            uses[a, b].add((where, name))
            if b.startswith("circuits"):
                shown[b].add((where, name))
inside = {
    k: v
    for k, v in uses.items()
    if k[0].startswith("circuits.") and k[1].startswith("circuits.") and k[1] != WAIST
}
across = {k: v for k, v in uses.items() if k not in inside and k[1] != WAIST}
n_inside, n_across = (sum(map(len, u.values())) for u in (inside, across))
files = collections.Counter(package(m) for m in trees)
mine = {m: t for m, t in trees.items() if m.startswith(C)}
present = {package(m) for m in mine if m != C}
unknown = sorted(present - PACKAGES - FORMER - {"circuits.backends", "circuits.backends.compiled"})
former = sorted(present & FORMER)
large = {r: n for r, n in files.items() if r.startswith("circuits.") and n > 40}
over = {r: len(v) for r, v in shown.items() if r.startswith("circuits.") and len(v) > SHOWS[r]}
wide = {f"{a} -> {b}": len(v) for (a, b), v in inside.items() if len(v) > 15}


def without_type_checking(tree):
    """Walk a tree, but for what is imported for type checkers alone."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from without_type_checking(child)


def knows_qnode(tree):
    names = ("qnode", "_qnode")
    return any(
        (isinstance(n, ast.Attribute) and (n.attr == "QNode" or n.attr in names))
        or (isinstance(n, ast.Name) and n.id in ("QNode", *names))
        or (isinstance(n, ast.arg) and n.arg in names)
        for n in without_type_checking(tree)
    )


def imports_pennylane(tree):
    return any(
        (isinstance(n, ast.Import) and any(a.name.split(".")[0] == "pennylane" for a in n.names))
        or (isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[0] == "pennylane")
        for n in without_type_checking(tree)
    )


def untyped(tree):
    """Count arguments, fields and results named for a circuit whose type says nothing."""
    found = 0
    for n in ast.walk(tree):
        if isinstance(n, ast.arg) and "circuit" in n.arg:
            found += (
                n.annotation is not None
                and "Any" in ast.unparse(n.annotation).replace("[", " ").replace("|", " ").split()
                or (n.annotation is not None and ast.unparse(n.annotation) == "object")
            )
        elif isinstance(n, ast.AnnAssign) and "circuit" in ast.unparse(n.target):
            found += ast.unparse(n.annotation) in ("Any", "object", "Any | None")
        elif isinstance(n, ast.FunctionDef) and "circuit" in n.name and n.returns is not None:
            found += ast.unparse(n.returns) in ("Any", "object", "Any | None")
    return found


qnode = [m for m, t in mine.items() if knows_qnode(t) and package(m) != "circuits.front"]
pennylane = [
    m
    for m, t in trees.items()
    if imports_pennylane(t) and (m in mine or m.startswith("bellhop._pennylane"))
]
forbidden = [
    m
    for m in pennylane
    if package(m)
    in (WAIST, "circuits.backends.choose", "circuits.backends.compiled.differentiable")
]
circuit_any = sum(map(untyped, trees.values()))
if "--verbose" in sys.argv:
    for r, v in sorted(shown.items(), key=lambda kv: -len(kv[1])):
        print(f"{r:36} shows {len(v):3} names, {files[r]:3} files")
    for title, what in (
        ("wide pairs", wide),
        ("packages that show too much", over),
        ("unknown packages", unknown),
        ("large packages", large),
        ("PennyLane where it must not be", forbidden),
    ):
        print(title, what)
print(
    f"{n_inside} uses between packages of circuits, {n_across} across its border, {len(over)} packages show too much, {len(wide)} pairs above 15, "
    f"{circuit_any} untyped circuits, {len(qnode)} files outside front know QNodes, {len(pennylane)} import PennyLane, "
    f"{len(unknown) + len(large)} unknown or large packages, {len(former)} former ones left"
)
counts = {
    "uses between packages": n_inside,
    "uses across the border": n_across,
    "packages that show too much": len(over),
    "names shown by ir": len(shown[WAIST]),
    "wide pairs": len(wide),
    "untyped circuits": circuit_any,
    "unknown or large packages": len(unknown) + len(large),
    "forbidden imports of PennyLane": len(forbidden),
    "former packages": len(former),
    "files that know QNodes": len(qnode),
    "files that import PennyLane": len(pennylane),
}
#: The limits that the design asks for.
LIMITS = {
    "uses between packages": 180,
    "uses across the border": 290,
    "names shown by ir": 60,
    "files that know QNodes": 2,
    "files that import PennyLane": 58,
}
failed = False
for what, count in counts.items():
    limit = LIMITS.get(what, 0)
    if count > limit:
        failed = True
        print(f"{what}: {count}, expected at most {limit}")
sys.exit(failed)
