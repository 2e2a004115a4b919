#include "papers/ratel/fuyou_strategy.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "papers/ratel/tiered_bounds.h"
#include "planner/costs/chain.h"
#include "planner/costs/queues.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

constexpr double kStateBytes = 14;  // P32, m, v, P16
constexpr double kWeightBytes = 2;
constexpr double kLayerActivations = 34;  // bytes per token and unit of width

Bytes whole(double bytes) { return {static_cast<std::int64_t>(bytes)}; }

struct ChainSums {
  double parameters = 0;
  double forward = 0;  // seconds, one micro-batch
};

ChainSums sums_of(const Profile& profile) {
  ChainSums sums;
  for (const int index : profile.chain) {
    const BlockProfile& block = profile.blocks[static_cast<std::size_t>(index)];
    sums.parameters += static_cast<double>(block.parameters);
    sums.forward += block.forward.seconds();
  }
  return sums;
}

double swapped_bytes(const FuyouProblem& question) {
  return swapped_units(question) * interblock_bytes(question.model);
}

double spilled_bytes(const FuyouProblem& question) {
  return std::max(0.0, swapped_bytes(question) - question.model.host_available);
}

TieredProblem bound_problem(const FuyouProblem& question) {
  TieredProblem problem;
  problem.parameters = question.model.parameters;
  problem.tokens = question.model.tokens;
  problem.recomputed = 0;
  problem.flops = question.constants.flops;
  problem.traffic = kRatelTraffic;
  problem.swapped = swapped_bytes(question);
  problem.swapped_to_drives = spilled_bytes(question);
  problem.read_rate = question.constants.rates.read;
  problem.write_rate = question.constants.rates.write;
  problem.up_rate = problem.down_rate = question.constants.rates.link;
  problem.adam_rate = 1 / question.constants.host_work;
  return problem;
}

PlanReport report_of(const FuyouProblem& question) {
  PlanReport report;
  report.figures["swapped_units"] = swapped_units(question);
  report.figures["swapped_bytes"] = swapped_bytes(question);
  report.figures["spilled_bytes"] = spilled_bytes(question);
  report.figures["group_blocks"] = fuyou_group_blocks(question);
  return report;
}

ProgramAnswer answer(const PlanQuestion& asked, HandlerOrder order) {
  const FuyouProblem question = fuyou_problem(asked, order);
  const FuyouMemory memory = fuyou_memory(question);
  const std::string& device = asked.machine.devices.front().name;
  if (memory.device > device_limit(asked, 0)) {
    return Shortage{device, PlaceKind::device, memory.device, device_limit(asked, 0), {}};
  }
  if (memory.host > host_limit(asked)) {
    return Shortage{"host", PlaceKind::host, memory.host, host_limit(asked), {}};
  }
  const DriveArray drives = drive_array(asked.machine);
  if (memory.drives > drives.capacity) {
    return Shortage{"drives", PlaceKind::drive, memory.drives, drives.capacity, {}};
  }
  Program result;
  result.plan = fuyou_program(question);
  result.prediction = simulate(result.plan);
  result.report = report_of(question);
  result.remark = "swaps " + to_string(whole(swapped_bytes(question))) + ", of these " +
                  to_string(whole(spilled_bytes(question))) + " to the drives";
  result.lower_bound = from_seconds(tiered_lower_bound(bound_problem(question)).seconds());
  return result;
}

// papers.swapped, else what plan.activations says, in units of the blocks' inputs; nothing: chosen.
std::optional<double> asked_units(const PlanQuestion& asked, const RatelCase& model) {
  constexpr double kAllUnits = kLayerActivations / 2;
  const ActivationRule rule = asked.options.activations;
  if (rule == ActivationRule::keep) {
    throw JobKeyError(
        "plan.activations",
        "'keep' is none of the program of strategy '" + asked.strategy +
            "', where blocks' inputs always leave the GPU; expected auto, recompute, swap or "
            "swap-to-drive");
  }
  if (asked.papers.swapped) {
    const double inputs = interblock_bytes(model);
    const double units = static_cast<double>(asked.papers.swapped->count) / inputs;
    if (units >= 1 && units <= kAllUnits) return units;
    throw JobKeyError("papers.swapped", to_string(*asked.papers.swapped) + "; expected " +
                                            to_string(whole(inputs)) +
                                            " (the inputs of all blocks) to " +
                                            to_string(whole(kAllUnits * inputs)) + " (everything)");
  }
  if (rule == ActivationRule::recompute) return 1;  // blocks' inputs
  if (rule == ActivationRule::automatic) return std::nullopt;
  return kAllUnits;
}

RatelConstants constants_of(const PlanQuestion& asked, const DriveArray& drives,
                            const RatelCase& model) {
  const ChainSums sums = sums_of(asked.profile);
  RatelConstants constants;
  // The rate at which 2 P FLOPs per token take the profile's time.
  constants.flops = 2 * sums.parameters * model.tokens / (sums.forward * asked.micro_batches);
  constants.elementwise = 1e12 * asked.papers.elementwise.seconds() * asked.micro_batches /
                          (model.tokens * model.hidden);
  constants.rates = {std::min(upload_rate(asked, 0), download_rate(asked, 0)),
                     drives.read.bytes_per_second, drives.write.bytes_per_second};
  constants.host_work = constants.stage_host_work = 1 / update_rate(asked);
  constants.launch_stall = asked.papers.launch_stall;
  constants.overlap_stretch = asked.papers.overlap_stretch;
  return constants;
}

}  // namespace

FuyouProblem fuyou_problem(const PlanQuestion& asked, HandlerOrder order) {
  if (asked.model.layers < 1) {
    throw JobKeyError("strategy",
                      "'fuyou' needs a model: its program works with layers and their width");
  }
  const DriveArray drives = drive_array(asked.machine);
  if (!drives.read.limited() || !drives.write.limited()) {
    throw UserError("machine '" + asked.machine.name +
                    "': strategy 'fuyou' needs a drive with 'read' and 'write'");
  }
  FuyouProblem question;
  question.order = order;
  question.artifact = asked.papers.update_on_drives;
  question.model.parameters = sums_of(asked.profile).parameters;
  question.model.layers = static_cast<int>(asked.model.layers);
  question.model.hidden = static_cast<double>(asked.model.hidden);
  question.model.tokens =
      static_cast<double>(asked.micro_batches) * asked.micro_batch_size * asked.sequence;
  question.constants = constants_of(asked, drives, question.model);
  question.units = asked_units(asked, question.model);
  if (asked.options.activations == ActivationRule::swap_to_drive) {
    question.model.host_available = 0;
    return question;
  }
  const Bytes staging = fuyou_memory(question).host;
  question.model.host_available =
      std::max(0.0, static_cast<double>((host_limit(asked) - staging).count));
  return question;
}

FuyouMemory fuyou_memory(const FuyouProblem& question) {
  const double per_block = question.model.parameters / fuyou_blocks(question);
  const double group = per_block * fuyou_group_blocks(question);
  FuyouMemory memory;
  memory.device = whole((question.upload_ahead + 2) * kWeightBytes * per_block +
                        kLayerActivations * question.model.tokens * question.model.hidden);
  memory.host = whole((question.read_ahead + 1) * kWeightBytes * per_block +
                      (2 * kStateBytes + kWeightBytes) * group);
  memory.drives = whole(kStateBytes * question.model.parameters + spilled_bytes(question));
  return memory;
}

ProgramAnswer plan_fuyou_program(const PlanQuestion& question) {
  return answer(question, HandlerOrder::delayed);
}

ProgramAnswer plan_fuyou_naive_program(const PlanQuestion& question) {
  return answer(question, HandlerOrder::naive);
}

ProgramAnswer plan_fuyou_serial_program(const PlanQuestion& question) {
  return answer(question, HandlerOrder::serial);
}

}  // namespace ferry
