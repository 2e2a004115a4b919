#include "cli/phase_lines.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "base/steady_time.h"
#include "cli/print.h"
#include "cli/standard_streams.h"

namespace ferry {
namespace {

constexpr Micros kBetweenDraws{200'000};     // on a terminal
constexpr Micros kBetweenLines{10'000'000};  // elsewhere
constexpr Micros kWorthALine{1'000'000};     // what was shorter ends without one
constexpr Micros kWorthWatching{2'000'000};  // what passes and is shorter is not seen
constexpr int kLeastOfName = 12;             // columns that a name keeps when its line is cut
constexpr int kUsualColumns = 80;            // where a terminal does not say
constexpr const char* kEraseLine = "\r\033[K";

bool begins_character(char byte) { return (byte & 0xC0) != 0x80; }

int columns_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, begins_character));
}

/// Whether there are parts to be counted; one thing is done or not.
bool counts(const Progress& progress) { return progress.unit.empty() || progress.total > 1; }

std::string amount(std::int64_t count, const Progress& progress) {
  return progress.unit.empty() ? to_string(Bytes{count}) : std::to_string(count);
}

/// Behind an amount that is not of bytes.
std::string unit_text(const Progress& progress) {
  return progress.unit.empty() ? "" : " " + progress.unit;
}

/// "loading out/base  4.5 GiB"
std::string title(const Progress& progress) {
  if (!counts(progress)) return progress.what;
  return progress.what + "  " + amount(progress.total, progress) + unit_text(progress);
}

std::string rate_text(double per_second, const Progress& progress) {
  if (progress.unit.empty()) return to_string(Bytes{static_cast<std::int64_t>(per_second)}) + "/s";
  return print("%.3g", per_second) + unit_text(progress) + "/s";
}

/// What stands behind the name of a phase: "  1.0 GiB of 4.5 GiB  310.0 MiB/s  left 11s".
/// `gained`: so much was done in the time `taken`.
std::string state_text(const Progress& progress, std::int64_t gained, Micros taken) {
  std::string text;
  if (counts(progress)) {
    text = "  " + amount(progress.done, progress) + " of " + amount(progress.total, progress) +
           unit_text(progress);
  }
  if (gained > 0 && taken.count > 0) {
    const double per_second = static_cast<double>(gained) / taken.seconds();
    text += "  " + rate_text(per_second, progress) + "  left " +
            duration(static_cast<double>(progress.total - progress.done) / per_second);
  }
  if (!progress.part.empty()) text += "  " + progress.part;
  return text;
}

/// Standard error for whom nobody may wait: lines are held until they are read, what is drawn in
/// place is left out.
class PatientLines {
 public:
  PatientLines() = default;
  PatientLines(const PatientLines&) = delete;
  PatientLines& operator=(const PatientLines&) = delete;
  /// Now there is nothing left to hold up.
  ~PatientLines() { put(held_.size()); }

  void write(const std::string& text) {
    if (text.ends_with('\n') || (held_.empty() && takes_a_line(STDERR_FILENO))) hold(text);
    while (!held_.empty() && takes_a_line(STDERR_FILENO)) put(kTakenAtOnce);
  }

 private:
  static constexpr std::size_t kMostHeld = 65'536;
  static constexpr std::size_t kTakenAtOnce = 4096;  // by a pipe that has room: a page

  void hold(const std::string& text) {
    if (held_.size() < kMostHeld) {
      held_ += text;
    } else if (!std::exchange(is_cut_, true)) {
      held_ += "more was said, which nobody read in time\n";
    }
  }

  void put(std::size_t most) {
    const std::size_t bytes = std::min(most, held_.size());
    std::fwrite(held_.data(), 1, bytes, stderr);
    std::fflush(stderr);
    held_.erase(0, bytes);
    is_cut_ = is_cut_ && !held_.empty();
  }

  std::string held_;
  bool is_cut_ = false;
};

}  // namespace

std::optional<int> terminal_columns(int descriptor) {
  const char* const terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb" || isatty(descriptor) == 0) {
    return std::nullopt;
  }
  winsize size{};
  const bool told = ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return told ? size.ws_col : kUsualColumns;
}

Screen standard_error() {
  return {.write = [lines = std::make_shared<PatientLines>()](
                       const std::string& text) { lines->write(text); },
          .columns = [] { return terminal_columns(STDERR_FILENO); },
          .now = [] { return since(SteadyTime{}); }};
}

std::string cut_to(const std::string& text, std::optional<int> columns) {
  if (!columns || columns_of(text) <= *columns) return text;
  int kept = std::max(*columns - 1, 0);  // the last column is for the sign
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_character(text[end]) && kept-- == 0) break;
  }
  return text.substr(0, end) + "…";
}

void PhaseLines::phase(const std::string& what) {
  what_.clear();
  write_line(what);
}

void PhaseLines::progress(const Progress& progress) {
  const Micros now = screen_.now();
  const std::optional<int> columns = screen_.columns();
  if (progress.what != what_) {
    begin(progress, now, columns ? now - kBetweenDraws : now);
    if (!columns) write_line(title(progress));
  }
  if (progress.done >= progress.total) {
    end(progress, now);
    return;
  }
  if (now - shown_ < (columns ? kBetweenDraws : kBetweenLines)) return;
  if (columns) {
    draw(progress, now, *columns);
  } else {
    shown_ = now;
    write_line(what_ + state_text(progress, progress.done - begin_, now - begun_));
  }
}

void PhaseLines::passing(const Progress& progress) {
  const Micros now = screen_.now();
  if (progress.what != what_) begin(progress, now, now + kWorthWatching - kBetweenDraws);
  if (progress.done >= progress.total) {
    clear();
    what_.clear();
  } else if (now - shown_ >= kBetweenDraws) {
    if (const std::optional<int> columns = screen_.columns()) draw(progress, now, *columns);
  }
}

void PhaseLines::begin(const Progress& progress, Micros now, Micros shown) {
  what_ = progress.what;
  begin_ = progress.done;
  begun_ = now;
  shown_ = shown;
}

void PhaseLines::draw(const Progress& progress, Micros now, int columns) {
  const std::string state = state_text(progress, progress.done - begin_, now - begun_);
  const int most = columns - 1;  // a line that fills its last column may wrap
  const int room = std::max(most - columns_of(state), kLeastOfName);
  screen_.write(kEraseLine + cut_to(cut_to(what_, room) + state, most));
  shown_ = now;
  in_place_ = true;
}

void PhaseLines::end(const Progress& progress, Micros now) {
  const Micros taken = now - begun_;
  clear();
  if (taken >= kWorthALine) {
    std::string line = title(progress) + " in " + duration(taken.seconds());
    const double gained = static_cast<double>(progress.done - begin_);
    if (counts(progress)) line += "  " + rate_text(gained / taken.seconds(), progress);
    write_line(line);
  }
  what_.clear();
}

void PhaseLines::write_line(const std::string& line) {
  clear();
  screen_.write(line + "\n");
}

void PhaseLines::clear() {
  if (in_place_) screen_.write(kEraseLine);
  in_place_ = false;
}

}  // namespace ferry
