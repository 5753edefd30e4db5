// interpreter/interrupts.h: Ctrl-C, where the main thread cannot say that it came.
//
// Python's C handler only notes a signal, for the main thread to see to, and nobody
// else can ask for the note. A main thread that waits in XLA does not get to it while
// XLA's own threads run the program. So another C handler stands in front of Python's.
#pragma once

namespace bellhop {

// Whether SIGINT came and Python has not run in the main thread since. Needs no GIL.
bool has_pending_interrupt();

// Whether SIGINT goes to Python, and nobody stands in front of it. Needs no GIL.
bool has_python_handler();

// Stands in front of Python's handler, until another is set. Needs the GIL.
void observe_interrupts();

// In the child of a fork.
void forget_interrupts();

}  // namespace bellhop
