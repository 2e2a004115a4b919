// Phases and how far they are, as text on standard error. On a terminal one line is drawn again in
// place, cut to the terminal's width; elsewhere a phase has a line when it begins, one every ten
// seconds and one when it ends, and nothing is cut.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/progress.h"
#include "base/units.h"

namespace ferry {

/// Where text goes. Tests have screens of their own.
struct Screen {
  std::function<void(const std::string&)> write;
  std::function<std::optional<int>()> columns;  // of the terminal, now; none: it is not one
  std::function<Micros()> now;                  // of a clock that never goes back
};

/// Standard error and the clock.
Screen standard_error();

/// The columns of the terminal behind a descriptor, now; none: it is not one that can draw.
std::optional<int> terminal_columns(int descriptor);

/// The characters of `text` (UTF-8) that fit into `columns`, the last one "…" when some do not.
std::string cut_to(const std::string& text, std::optional<int> columns);

class PhaseLines final : public PhaseListener {
 public:
  explicit PhaseLines(Screen screen = standard_error()) : screen_(std::move(screen)) {}

  /// Takes the line that is drawn in place away: an error message may follow.
  ~PhaseLines() override { clear(); }
  PhaseLines(const PhaseLines&) = delete;
  PhaseLines& operator=(const PhaseLines&) = delete;

  /// A line of its own.
  void phase(const std::string& what) override;

  void progress(const Progress& progress) override;

  /// Progress of what comes again and again, such as a step: drawn in place once it has taken two
  /// seconds, and taken away at its end. Nothing where lines cannot be drawn in place.
  void passing(const Progress& progress);

  /// Takes the line that is drawn in place away, before others print on the same terminal. The next
  /// report draws it again.
  void clear();

 private:
  void begin(const Progress& progress, Micros now, Micros shown);
  void draw(const Progress& progress, Micros now, int columns);
  void end(const Progress& progress, Micros now);
  void write_line(const std::string& line);

  const Screen screen_;
  std::string what_;        // the phase that is under way; empty: none
  std::int64_t begin_ = 0;  // what was done when it began
  Micros begun_;            // when it began
  Micros shown_;            // when its state was shown last
  bool in_place_ = false;   // its line stands on the terminal
};

}  // namespace ferry
