// How far something that takes long is, told to whoever watches.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace ferry {

/// One report. A phase begins with the first report of its name and ends with done == total, or
/// when another one begins.
struct Progress {
  std::string what;        // the phase: "loading out/base"; the same in all its reports
  std::int64_t done = 0;   // <= total
  std::int64_t total = 0;  // 0: there is nothing to do
  std::string unit = {};   // "blocks"; empty: bytes
  std::string part = {};   // what comes next: "llama-mlp"; may be empty
};

/// Hears what takes long, cheaply enough for a report per tensor. Calls come one at a time.
class PhaseListener {
 public:
  virtual ~PhaseListener() = default;
  /// A phase that cannot tell how far it is, or a word about something.
  virtual void phase(const std::string& /*what*/) {}
  virtual void progress(const Progress& /*progress*/) {}
};

/// A listener that does nothing, for whom nobody watches.
inline PhaseListener& nobody() {
  static PhaseListener silent;
  return silent;
}

/// Counts one phase up to its total and reports every advance. The listener must outlive it.
class ProgressCount {
 public:
  ProgressCount(PhaseListener& listener, std::string what, std::int64_t total,
                std::string unit = {})
      : listener_(listener), progress_{std::move(what), 0, total, std::move(unit)} {
    listener_.progress(progress_);
  }

  /// `part`: what comes next.
  void advance(std::int64_t count, std::string part = {}) {
    progress_.done += count;
    progress_.part = std::move(part);
    listener_.progress(progress_);
  }

 private:
  PhaseListener& listener_;
  Progress progress_;
};

}  // namespace ferry
