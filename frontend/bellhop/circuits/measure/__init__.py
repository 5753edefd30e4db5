"""Turn PennyLane's measurement processes into the results of a circuit.

``measure_results`` (``measurement_registry.py``) takes the return values of a quantum function and
an object that queries the backend (``Answers`` in ``circuits/ir/answers.py``).  It returns a
``Statistic`` for each return value.  Code in this package never accesses a circuit directly.

The files::

    measurement_base, measurement_registry      a class for each kind of measurement process
    samples, shadows                            processes that return a value for each shot
    sampling                                    sampling rounds that several processes share
    device_values                               exact values measured by a device, without shots
    observables, pauli_words, dynamic_wires     observables as sums of products
    result_types                                shapes and types that PennyLane's devices return
"""
