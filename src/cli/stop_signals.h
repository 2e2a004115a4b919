// What ends a run before its last step: SIGINT, SIGTERM, SIGHUP, SIGQUIT, and a standard output
// that nobody reads any more.
//
// Until the steps begin there is nothing to lose, and one signal ends the program. From then on the
// first one asks for a stop. A second one ends the program at once, unless it comes within a second
// (whoever closes a terminal or sends to a process group may send several) or is SIGHUP. That is
// said when the first one comes, on standard error: the steps that have begun may take minutes.
#pragma once

namespace ferry {

/// Takes the signals over for the rest of the program, but those that it was started to ignore
/// (nohup, jobs in the background of a script). A broken pipe becomes an error of the call that
/// meets it. At most one object.
class StopSignals {
 public:
  StopSignals();

  /// From now on there is work to lose. `says_so`: of the first signal, at once.
  void steps_begin(bool says_so);

  /// Whether something asked for a stop since. From any thread.
  bool is_wanted() const;
};

}  // namespace ferry
