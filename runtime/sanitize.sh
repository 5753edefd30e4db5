#!/usr/bin/env bash
# Run tests against a runtime that is built with sanitizers, in a separate build and layout.
#
#   runtime/sanitize.sh address,undefined PYTHON TEST...
#   runtime/sanitize.sh thread PYTHON TEST...
#   runtime/sanitize.sh address,undefined PYTHON -m MODULE ARGUMENT...
#
# PYTHON has the dependencies of the project.  Python, NumPy and jaxlib are not instrumented, so the
# sanitizer's library must be loaded before them, and their own memory accesses are not checked.
set -euo pipefail
sanitizers=$1 python=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/sanitize-${sanitizers%%,*}
cmake=${CMAKE:-cmake}

# Files are compiled separately, which checks that each includes what it uses.
# With -O2 and -g, instrumented code takes more than twice as long to compile.
"$cmake" -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -D_GLIBCXX_ASSERTIONS -Wno-maybe-uninitialized" \
  -DPython_EXECUTABLE="$python" -DBELLHOP_SANITIZE="$sanitizers" -DBELLHOP_UNITY=OFF > /dev/null
"$cmake" --build "$build" --parallel "$(nproc)"

# The same layout as an installation: the Python sources, with the extension module beside them.
mkdir -p "$build/python"
rm -rf "$build/python/bellhop_runtime"
cp -r "$root/runtime/python/bellhop_runtime" "$build/python/"
rm -f "$build/python/bellhop_runtime/"_runtime*.so
cp "$build/"_runtime*.so "$build/python/bellhop_runtime/"
export PYTHONPATH=$build/python:$root/frontend:$root/mlir

library() { "${CXX:-c++}" -print-file-name="$1"; }
case $sanitizers in
  address*)
    preload="$(library libasan.so) $(library libubsan.so) $(library libstdc++.so.6)"
    # Python and JAX do not free all of their memory, and plugins define symbols twice.
    # Recording the deep stacks of Python's allocations would take most of the time.
    export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:\
malloc_context_size=8
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    # Python's own allocator would hide uses after free.
    export PYTHONMALLOC=malloc
    run=()
    ;;
  thread*)
    preload="$(library libtsan.so) $(library libstdc++.so.6)"
    # Reports go to files, because pytest captures the output.
    rm -f "$build"/report.*
    export TSAN_OPTIONS="ignore_noninstrumented_modules=1 history_size=7 halt_on_error=0 \
exitcode=66 log_path=$build/report suppressions=$root/runtime/thread-suppressions.txt"
    # ThreadSanitizer's shadow memory is not compatible with address space randomisation.
    run=(setarch -R)
    ;;
esac
cd "$root"
# An editable installation finds its own module first, whatever PYTHONPATH says.
loaded=$("$python" -c 'from importlib.util import find_spec
print(find_spec("bellhop_runtime").origin)')
case $loaded in
  "$build"/*) ;;
  *)
    echo "$python would load $loaded, which has no sanitizers: name one without an editable" \
      "installation of this project" >&2
    exit 1
    ;;
esac
status=0
[ "$1" = -m ] || set -- -m pytest -p no:cacheprovider "$@"
"${run[@]}" env LD_PRELOAD="$preload" "$python" "$@" || status=$?
cat "$build"/report.* 2> /dev/null || true
exit $status
