// Measured figures, kept in `measured` of the cache folder and found again by everything that they
// depend on: a second model with equal blocks measures nothing.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

struct Measurement {
  std::map<std::string, double> figures;
  std::string remark = {};  // how it was measured, where that needs a word
  double others = 0;        // cores that other processes took meanwhile (other_load.h)
};

/// How long figures are kept that were measured while others took of the cores.
inline constexpr std::chrono::minutes kBusyMachineKept{10};

/// What was measured for an equal key, or nothing. A damaged file is no answer, nor is one that
/// lacks a figure of `names`, or that is no longer kept.
std::optional<Measurement> find_measurement(const std::string& key,
                                            const std::vector<std::string>& names);

/// Keeps a measurement. A cache that cannot be written is done without.
void keep_measurement(const std::string& key, const Measurement& measurement);

}  // namespace ferry
