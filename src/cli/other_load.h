// What other processes take of the cores while something is measured here: figures of a busy
// machine are not those of a quiet one.
#pragma once

#include <filesystem>
#include <optional>

namespace ferry {

/// Seconds of the cores that this process may run on.
struct CoreSeconds {
  double passed = 0;  // on any clock
  double worked = 0;  // by whoever it was, all cores together
  double own = 0;     // by this process
  int cores = 1;
};

/// Until now, by <root>/proc/stat; where there is none, nobody else works.
CoreSeconds core_seconds(const std::filesystem::path& root);

/// Cores that others took between two readings, on the average; 0 where it was too little to
/// matter, nothing where the time was too short to tell.
std::optional<double> taken_by_others(const CoreSeconds& before, const CoreSeconds& after);

/// The same from when it is made.
class OtherLoad {
 public:
  OtherLoad() : before_(core_seconds("/")) {}

  std::optional<double> cores() const { return taken_by_others(before_, core_seconds("/")); }

 private:
  CoreSeconds before_;
};

}  // namespace ferry
