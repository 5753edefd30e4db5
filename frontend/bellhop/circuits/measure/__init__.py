"""Measurement processes and observables of PennyLane: the results of circuits.

``measure_results`` (``measurement_registry.py``) takes what a quantum function returns and an
object that answers questions about the circuit (``Answers`` in ``circuits/ir/answers.py``).  It
returns a ``Statistic`` for each measurement; no code here sees a circuit.

The files::

    measurement_base, measurement_registry      the class of each kind of PennyLane's processes
    samples, shadows                            processes that return a value for each shot
    sampling                                    which samples processes share, with shots
    device_values                               exact values that a device measures, without shots
    observables, pauli_words, dynamic_wires     observables as sums of products that devices take
    result_types                                the results that PennyLane's own devices return
"""
