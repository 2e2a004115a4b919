// What the drives behind a run's places have moved, as they have counted it.
#pragma once

#include <map>
#include <string>

#include "train/drive_bytes.h"
#include "train/places.h"

namespace ferry {

class DriveMeter {
 public:
  /// `places` must outlive it.
  explicit DriveMeter(Places& places) : places_(places) {}

  /// What was moved since the last call or restart().
  DriveBytesByPlace take();

  /// What was moved until now is nobody's: it was loading, saving or evaluating.
  void restart() { take(); }

  /// How each place's drives are reached: "io_uring, direct".
  std::map<std::string, std::string> io() const;

 private:
  Places& places_;
  DriveBytesByPlace seen_;
};

}  // namespace ferry
