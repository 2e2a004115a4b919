// What `ferry doctor` finds on a box, as a machine and as a list of findings that say where every
// figure comes from. The box is asked through Probes, so tests examine boxes that are not here.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/precision_choice.h"
#include "spec/host_limits.h"
#include "spec/machine.h"
#include "store/rates.h"
#include "train/copy_rates.h"

namespace ferry {

/// A folder on a drive that is to be measured.
struct DriveFacts {
  std::filesystem::path folder;  // absolute
  Bytes free;
  unsigned major_number = 0, minor_number = 0;  // of its file system
  std::optional<DriveRates> rates;              // nothing: O_DIRECT is refused
};

/// How the box is asked. The functions may take seconds and throw ResourceError or UserError.
struct Probes {
  std::filesystem::path root = "/";  // of proc and sys
  int cores = 1;                     // that affinity allows
  std::vector<FoundGpu> gpus = {};
  std::function<double(Bytes, int)> memory_bandwidth;  // working set, threads
  std::function<double(Bytes, int)> update_rate;       // working set, threads
  std::function<CopyRates(std::span<const std::string>)> copies;
  std::function<std::vector<PeerRate>(std::span<const std::string>)> peers;
  std::function<PrecisionChoice(const MachineDevice&)> precision;  // what `auto` means there
  std::function<DriveFacts(const std::string&)> drive;             // folder, as the user wrote it
  std::function<void(const std::string&)> say;                     // hears what takes time
};

/// One figure. `part` and `key` are those of the machine file ("host", "memory"; "gpu0", "up");
/// keys that a machine file does not have are for the report only.
struct Finding {
  std::string part;
  std::string key;
  std::string value;
  std::string source;  // "measured: ...", what limits it, or where it is written
};

struct Examination {
  Machine machine;
  std::vector<Finding> findings;  // in the order of the report
  std::vector<std::string> warnings;
};

/// Examines the box and measures the given folders' drives. Roots are listed where at least two
/// devices or drives hang on one. Measured rates are rounded to three digits.
Examination examine(const Probes& probes, const std::string& name,
                    std::span<const std::string> folders);

}  // namespace ferry
