#include "cli/simulation_tables.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/json.h"
#include "cli/print.h"
#include "cli/task_json.h"
#include "planner/write/activation_policy.h"
#include "report/occupancy.h"
#include "report/report.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

std::string bytes_or_nothing(Bytes bytes) { return bytes.count > 0 ? to_string(bytes) : ""; }

std::string resource_rows(const Plan& plan, const Simulation& simulation) {
  IdVector<ResourceId, int> tasks(plan.resources.size());
  for (const Task& task : plan.tasks) ++tasks[task.resource];
  std::map<ResourceId, double> idle;
  for (const Bubble& bubble : bubbles(plan, simulation)) idle[bubble.resource] = bubble.of_step;
  std::string text = print("%-20s %8s %12s %8s %8s %12s\n", "resource", "tasks", "busy", "used",
                           "bubble", "bytes");
  for (const ResourceId r : plan.resources.ids()) {
    const ResourceUse& use = simulation.use[r];
    const auto bubble = idle.find(r);
    text += print("%-20s %8d %12s %7.1f%% %8s %12s\n", plan.resources[r].name.c_str(), tasks[r],
                  to_string(use.busy).c_str(), use.utilisation * 100,
                  bubble == idle.end() ? "" : print("%.1f%%", bubble->second * 100).c_str(),
                  bytes_or_nothing(use.bytes).c_str());
  }
  return text;
}

std::string pool_rows(const Plan& plan, const Simulation& simulation) {
  const IdVector<PoolId, PoolUse> uses = pool_use(plan, simulation);
  if (uses.empty()) return "";
  std::string text =
      print("%-20s %8s %12s %8s %8s %12s\n", "shared rate", "", "", "used", "", "bytes");
  for (const PoolId p : uses.ids()) {
    text += print("%-20s %8s %12s %7.1f%% %8s %12s\n", plan.pools[p].name.c_str(), "", "",
                  uses[p].utilisation * 100, "", bytes_or_nothing(uses[p].bytes).c_str());
  }
  return text;
}

std::string drive_rows(const Plan& plan, std::optional<Bytes> endurance) {
  std::string text;
  for (const DriveUse& use : drive_use(plan)) {
    text += print("%s reads %s and writes %s per step", plan.places[use.place].name.c_str(),
                  to_string(use.read).c_str(), to_string(use.written).c_str());
    if (const auto steps = drive_life_steps(use, endurance)) {
      text += print(", lasts %.0f steps", *steps);
    }
    text += "\n";
  }
  return text;
}

std::string rate(double bytes_per_second) {
  return bytes_per_second < 1e9 ? print("%.1f MB/s", bytes_per_second / 1e6)
                                : print("%.2f GB/s", bytes_per_second / 1e9);
}

}  // namespace

std::string simulation_table(const Plan& plan, const Simulation& simulation,
                             std::optional<Bytes> endurance) {
  std::string text = resource_rows(plan, simulation) + pool_rows(plan, simulation);
  text += drive_rows(plan, endurance);
  const BandwidthCdf cdf = bandwidth_cdf(plan, simulation);
  if (cdf.total().count > 0) {
    text +=
        print("%s moved per step, a tenth of it at %s or slower, half at %s, nine tenths at %s\n",
              to_string(cdf.total()).c_str(), rate(cdf.quantile(0.1)).c_str(),
              rate(cdf.quantile(0.5)).c_str(), rate(cdf.quantile(0.9)).c_str());
  }
  text += print("step %s, first step %s, busiest %s %s, critical path %s\n",
                to_string(simulation.step).c_str(), to_string(simulation.first_step).c_str(),
                simulation.busiest_name.c_str(), to_string(simulation.busiest).c_str(),
                to_string(simulation.critical_path).c_str());
  const std::string policies = policies_text(plan);
  if (!policies.empty()) text += print("activations: %s\n", policies.c_str());
  text += print("mean bubble %.1f%%\n", mean_bubble(bubbles(plan, simulation)) * 100);
  return text;
}

std::string simulation_json(const Plan& plan, const Simulation& simulation,
                            std::optional<Bytes> endurance) {
  const std::vector<Bubble> idle = bubbles(plan, simulation);
  const BandwidthCdf cdf = bandwidth_cdf(plan, simulation);
  Json object{{"strategy", plan.strategy},
              {"step_seconds", simulation.step.seconds()},
              {"first_step_seconds", simulation.first_step.seconds()},
              {"busiest_seconds", simulation.busiest.seconds()},
              {"busiest", simulation.busiest_name},
              {"critical_path_seconds", simulation.critical_path.seconds()},
              {"bubble", mean_bubble(idle)},
              {"resources", Json::object()},
              {"pools", Json::object()},
              {"bytes_moved", cdf.total().count},
              {"bandwidth_cdf", Json::array()},
              {"peak_bytes", Json::object()},
              {"held_bytes", Json::object()},
              {"drives", Json::object()},
              {"tasks", tasks_json(plan, simulation.timeline)}};
  for (const ResourceId r : plan.resources.ids()) {
    const ResourceUse& use = simulation.use[r];
    object["resources"][plan.resources[r].name] = {{"busy_seconds", use.busy.seconds()},
                                                   {"utilisation", use.utilisation},
                                                   {"bytes", use.bytes.count}};
  }
  for (const Bubble& bubble : idle) {
    Json& row = object["resources"][plan.resources[bubble.resource].name];
    row["bubble"] = bubble.of_step;
    row["bubble_of_span"] = bubble.of_span;
  }
  const IdVector<PoolId, PoolUse> pools = pool_use(plan, simulation);
  for (const PoolId p : pools.ids()) {
    object["pools"][plan.pools[p].name] = {{"utilisation", pools[p].utilisation},
                                           {"bytes", pools[p].bytes.count}};
  }
  for (const BandwidthCdf::Point& point : cdf.points) {
    const double share =
        static_cast<double>(point.bytes.count) / static_cast<double>(cdf.total().count);
    object["bandwidth_cdf"].push_back({point.bytes_per_second, share});
  }
  const IdVector<PlaceId, PlaceLevels> levels = bytes_over_time(plan, simulation.timeline);
  for (const PlaceId p : plan.places.ids()) {
    object["peak_bytes"][plan.places[p].name] = simulation.peak[p].count;
    object["held_bytes"][plan.places[p].name] = highest(levels[p].total).count;
  }
  for (const DriveUse& use : drive_use(plan)) {
    Json row{{"read_bytes", use.read.count}, {"written_bytes", use.written.count}};
    if (const auto steps = drive_life_steps(use, endurance)) row["life_steps"] = *steps;
    object["drives"][plan.places[use.place].name] = row;
  }
  return json_text(object, 1) + "\n";
}

}  // namespace ferry
