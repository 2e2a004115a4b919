#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "base/error.h"
#include "cli/drive_rates.h"
#include "cli/measurements.h"
#include "cli/print.h"
#include "spec/host_limits.h"
#include "spec/topology.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMeasured = 256_MiB;  // some seconds on a hard disk, and more than its own cache

// "nvme0n1", or the number of a file system that is on no drive of its own.
std::string drive_of(const fs::path& folder) {
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0) {
    throw system_error("cannot look at " + folder.string(), errno);
  }
  const unsigned major_number = major(status.st_dev);
  const unsigned minor_number = minor(status.st_dev);
  const BlockDevice block = find_block_device("/", major_number, minor_number);
  return block.name.empty() ? print("%u:%u", major_number, minor_number) : block.name;
}

// Numbers of devices change from boot to boot, file systems keep theirs.
std::string key_of(const fs::path& folder) {
  struct statvfs system = {};
  if (statvfs(folder.c_str(), &system) != 0) {
    throw system_error("cannot look at " + folder.string(), errno);
  }
  return print("drive %s, file system %lx, %s, both ways at once", drive_of(folder).c_str(),
               system.f_fsid, to_string(kMeasured).c_str());
}

std::optional<DriveRates> kept_rates(const std::string& key) {
  const auto kept = find_measurement(key, {"read", "write", "cores", "duplex"});
  if (!kept) return std::nullopt;
  return DriveRates{.read = kept->figures.at("read"),
                    .write = kept->figures.at("write"),
                    .cores = kept->figures.at("cores"),
                    .duplex = kept->figures.at("duplex") != 0};
}

std::optional<DriveRates> measured(const fs::path& folder, PhaseListener& listener) {
  const std::string key = key_of(folder);
  if (const auto kept = kept_rates(key)) return kept;
  listener.phase("measuring the drive of " + folder.string() + ": " + to_string(kMeasured) +
                 " written and read, up to 4 times");
  const auto rates = measure_drive(folder, kMeasured, cores_by_affinity());
  if (!rates) return std::nullopt;
  keep_measurement(key, {.figures = {{"read", rates->read},
                                     {"write", rates->write},
                                     {"cores", rates->cores},
                                     {"duplex", rates->duplex ? 1.0 : 0.0}}});
  listener.phase(
      print("the drive of %s reads %.3g GB/s and writes %.3g GB/s%s (kept); rates may fall "
            "once a cache of the drive is full",
            folder.c_str(), rates->read / 1e9, rates->write / 1e9,
            rates->duplex ? ", both at once" : ""));
  return rates;
}

}  // namespace

DriveProbe drives_of_this_box(PhaseListener& listener) {
  return {.drive_of = drive_of,
          .measure = [&listener](const fs::path& folder) { return measured(folder, listener); }};
}

std::optional<DriveRates> known_rates(const fs::path& folder) {
  return kept_rates(key_of(nearest_folder(folder)));
}

}  // namespace ferry
