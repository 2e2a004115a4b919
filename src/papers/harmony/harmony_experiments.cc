#include "papers/harmony/harmony_experiments.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "spec/document.h"

namespace ferry {
namespace {

using Json = nlohmann::json;

constexpr double kAllowed = 0.01;

HarmonyPacks read_packs(const Json& list) {
  HarmonyPacks packs;
  for (const Json& pack : list) {
    packs.push_back({pack.at(0).get<int>(), pack.at(1).get<int>() + 1});
  }
  return packs;
}

HarmonyRow::Variant read_variant(const Json& row, const std::string& name) {
  return {row.at("step_s_" + name), row.at("compute_share_" + name),
          row.at("mean_end_idle_" + name)};
}

HarmonyRow read_row(const Json& row, const HarmonyProfile& profile) {
  HarmonyRow result;
  result.model = row.at("model");
  result.schedule = row.at("schedule");
  result.problem = {profile,
                    row.at("mode") == "vDP" ? HarmonyMode::data_parallel : HarmonyMode::pipeline,
                    harmony_server(row.at("gpus").get<int>()), row.at("minibatch")};
  result.tuple = {row.at("u_fwd"), read_packs(row.at("packs_fwd")), row.at("u_bwd"),
                  read_packs(row.at("packs_bwd"))};
  result.host_handover = row.at("host_handover");
  result.without_prefetch = read_variant(row, "no_prefetch");
  result.with_prefetch = read_variant(row, "prefetch");
  result.peak = {row.at("peak_bytes")};
  row.at("volumes_bytes").get_to(result.volumes);
  return result;
}

std::string name_of(const HarmonyRow& row, bool prefetch) {
  const HarmonyTuple& tuple = row.tuple;
  return row.model + " D=" + std::to_string(row.problem.minibatch) +
         " N=" + std::to_string(row.problem.gpus()) +
         (row.problem.mode == HarmonyMode::pipeline ? " vPP (" : " vDP (") +
         std::to_string(tuple.forward_batch) + ", " + std::to_string(tuple.forward.size()) + ", " +
         std::to_string(tuple.backward_batch) + ", " + std::to_string(tuple.backward.size()) +
         (prefetch ? "), prefetch" : "), no prefetch");
}

}  // namespace

std::vector<HarmonyRow> read_harmony_rows(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "expected.json";
  std::map<std::string, HarmonyProfile> profiles;
  std::vector<HarmonyRow> rows;
  try {
    for (const Json& row : parse_json(read_text_file(file.string()), file.string())) {
      const std::string model = row.at("model");
      const auto [profile, is_new] = profiles.try_emplace(model);
      if (is_new) profile->second = read_harmony_profile((folder / (model + ".json")).string());
      rows.push_back(read_row(row, profile->second));
    }
  } catch (const Json::exception& error) {
    throw UserError(file.string() + ": " + error.what());
  }
  return rows;
}

std::vector<PaperRow> harmony_experiments(const std::filesystem::path& folder) {
  std::vector<PaperRow> experiments;
  for (const HarmonyRow& row : read_harmony_rows(folder)) {
    for (const bool prefetch : {false, true}) {
      const double ours =
          estimate(write_harmony_program(row.problem, row.tuple, prefetch)).step.seconds();
      const double published = (prefetch ? row.with_prefetch : row.without_prefetch).step_seconds;
      experiments.push_back(value_row(name_of(row, prefetch), ours, published));
    }
  }
  return rows_from(Provenance::artifact, kAllowed, std::move(experiments));
}

}  // namespace ferry
