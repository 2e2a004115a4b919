// The program's standard input, output and error, as its caller left them.
#pragma once

namespace ferry {

/// Opens /dev/null on those of the descriptors 0 to 2 that are closed. A file opened later would
/// take their numbers, and get what is printed. Throws ResourceError.
void open_standard_streams();

/// True when nobody reads standard output any more: the program behind a pipe has ended, or the
/// terminal was closed.
bool output_has_no_reader();

/// Whether a line goes out at once. False while whoever reads does not: a pager, a terminal that
/// was stopped, a connection that hangs. May be called by a signal's handler.
bool takes_a_line(int descriptor);

/// Writes out what was printed. Throws ResourceError when any of it was lost.
void flush_output();

}  // namespace ferry
