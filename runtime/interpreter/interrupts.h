// interpreter/interrupts.h: notice Ctrl-C while the main thread waits in XLA.
//
// Python's C handler of SIGINT only sets a flag, which the main thread reads between
// Python instructions; other threads cannot read it. While the main thread waits in XLA
// and XLA's threads run the program, nothing handles the signal. So Bellhop installs a
// C handler that calls Python's handler and sets a flag that all threads can read.
#pragma once

namespace bellhop {

// Returns whether SIGINT has arrived and the main thread has not run Python since.
// Needs no GIL.
bool has_pending_interrupt();

// Returns whether Python's own C handler of SIGINT is installed, so that interrupts are
// not observed. Needs no GIL.
bool has_python_handler();

// Installs the observing handler if Python's own handler is installed. Needs the GIL.
void observe_interrupts();

// Restores Python's handler and discards the state of the parent process. Called in the
// child of a fork.
void forget_interrupts();

}  // namespace bellhop
