"""Measurements and observables: what the runtime is asked for, and what is made of its answers.

Of its files::

    process, processes, samples, shadows        a class for each kind of PennyLane's processes
    measurements, sampling                      what these ask for, without shots and with
    statistics                                  what they make of the answers
    observables, pauli_words, computed_wires    observables, in the form that is asked for
    device_measurements, observable_code        what a device measures, and the runtime's code
    process_results                             arrays of what PennyLane's own devices return
    returned_measurements                       measurements among what Python's functions return
"""
