// Harmony's published configurations against ours: the data folder's profiles, and the estimates
// that Harmony's own estimator gave for the schedules it ships.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "papers/harmony/harmony_program.h"
#include "papers/published/paper_rows.h"

namespace ferry {

/// One row of expected.json: a schedule and what Harmony's estimator says of it.
struct HarmonyRow {
  std::string model;  // file stem of the profile
  std::string schedule;
  HarmonyProblem problem;
  HarmonyTuple tuple;
  bool host_handover = false;
  struct Variant {
    double step_seconds = 0;
    double compute_share = 0;
    double end_idle = 0;
  };
  Variant without_prefetch;
  Variant with_prefetch;
  Bytes peak;
  std::map<std::string, double> volumes;  // as HarmonyProgram::volumes
};

/// Reads expected.json and the profiles beside it. Throws UserError that names the file.
std::vector<HarmonyRow> read_harmony_rows(const std::filesystem::path& folder);

/// Seconds per step of all rows, without prefetch and with it, on the constants of Harmony's
/// estimator: "bert96 D=64 N=4 vPP (8, 12, 8, 13), prefetch".
std::vector<PaperRow> harmony_experiments(const std::filesystem::path& folder);

}  // namespace ferry
