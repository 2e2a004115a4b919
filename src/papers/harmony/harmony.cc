#include "papers/harmony/harmony.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "papers/harmony/harmony_search.h"
#include "planner/cuts/asked_stages.h"

namespace ferry {
namespace {

constexpr std::size_t kRanks = 10;  // of the search's best, in the report

HarmonyProfile profile_of(const PlanQuestion& question) {
  if (question.harmony) return *question.harmony;
  if (question.profile.chain.empty()) {
    throw UserError("profile '" + question.profile.name + "' has no chain of blocks");
  }
  return harmony_profile_of(question.profile, question.machine.host.update_rate);
}

HarmonyProblem problem_of(const PlanQuestion& question, HarmonyMode mode) {
  HarmonyProblem problem;
  problem.profile = profile_of(question);
  problem.mode = mode;
  problem.server = harmony_server(question.machine);
  for (HarmonyGpu& gpu : problem.server.gpus) {
    if (question.profile.up.limited()) gpu.swap_in = question.profile.up.bytes_per_second;
    if (question.profile.down.limited()) gpu.swap_out = question.profile.down.bytes_per_second;
  }
  const std::int64_t samples =
      std::int64_t{question.micro_batches} * std::int64_t{question.micro_batch_size};
  constexpr std::int64_t kMostSamples = 100'000;
  if (samples > kMostSamples) {
    throw JobKeyError("train.micro_batches", "harmony: a step of " + std::to_string(samples) +
                                                 " samples; expected at most 100000");
  }
  problem.minibatch = static_cast<int>(samples);
  return problem;
}

// The packs of plan.stages or plan.backward_stages, which make up `layers`.
HarmonyPacks asked_packs(const std::vector<int>& counts, int layers, const std::string& key) {
  ends_of(counts, layers, key);
  return packs_of(counts);
}

// plan.stages and plan.backward_stages as packs; forward ends where the fused pack begins. Without
// the latter, stages of all layers are the packs of both passes.
void set_packs(HarmonySearch& search, const PlanJob& options, int layers) {
  if (options.backward_stages) {
    search.backward = asked_packs(*options.backward_stages, layers, "plan.backward_stages");
  }
  if (!options.stages) return;
  if (search.backward) {
    search.forward = asked_packs(*options.stages, search.backward->back().first, "plan.stages");
    return;
  }
  search.backward = search.forward = asked_packs(*options.stages, layers, "plan.stages");
  search.forward->pop_back();
}

HarmonySearch search_of(const PlanQuestion& question, const HarmonyProblem& problem) {
  HarmonySearch search;
  set_methods(search, question.papers.packing);
  search.capacity = device_budget(question, least_device(question)).bytes;
  search.prefetch = question.papers.prefetch;
  search.forward_batch = question.papers.forward_batch;
  search.backward_batch = question.papers.backward_batch;
  set_packs(search, question.options, static_cast<int>(problem.profile.layers.size()));
  return search;
}

// What the packing of least memory, every layer a pack of its own, needs.
Bytes least_capacity(const HarmonyProblem& problem, const HarmonySearch& search) {
  const std::vector<int> batches = backward_batches(problem, search);
  Bytes least;
  for (const int batch : batches) {
    Bytes largest;
    for (const HarmonyCost& cost : costs_at(problem.profile, HarmonyPass::backward, batch)) {
      largest = std::max(largest, cost.memory);
    }
    if (batch == batches.front() || largest < least) least = largest;
  }
  return least;
}

ProgramAnswer nothing_found(const PlanQuestion& question, const HarmonyProblem& problem,
                            const HarmonySearch& search, const HarmonyFound& found) {
  if (found.candidates > 0) throw UserError("harmony: every candidate of the search deadlocks");
  if (backward_batches(problem, search).empty()) {
    throw JobKeyError("train.micro_batches", "harmony: no micro-batch size that " +
                                                 problem.profile.source + " measures divides " +
                                                 std::to_string(problem.samples()) + " samples");
  }
  const Bytes least = least_capacity(problem, search);
  if (least >= search.capacity) {
    return Shortage{question.machine.devices[static_cast<std::size_t>(least_device(question))].name,
                    PlaceKind::device,
                    least + 1_B,
                    search.capacity,
                    {{"the largest layer in backward", least}}};
  }
  throw JobKeyError("papers.packing", "'" + question.papers.packing + "' finds no packs within " +
                                          to_string(search.capacity) +
                                          "\n  try: papers.packing: greedy");
}

// What the largest of the packs that the job gives takes of a GPU. The search's own are within the
// capacity by their packing method, as Harmony counts; packs that are given are checked here.
Bytes given_memory(const HarmonyProblem& problem, const HarmonySearch& search,
                   const HarmonyTuple& tuple) {
  Bytes most;
  const auto add = [&](HarmonyPass pass, int batch, const HarmonyPacks& packs) {
    const auto costs = costs_at(problem.profile, pass, batch);
    for (const HarmonyPack pack : packs) most = std::max(most, pack_memory(costs, pack));
  };
  if (search.forward) add(HarmonyPass::forward, tuple.forward_batch, tuple.forward);
  if (search.backward) add(HarmonyPass::backward, tuple.backward_batch, tuple.backward);
  return most;
}

// The packs that the job gives are beyond a GPU's memory at every size of micro-batches.
Shortage too_large(const PlanQuestion& question, const HarmonyProblem& problem,
                   const HarmonySearch& search, const HarmonyFound& found) {
  Bytes least = given_memory(problem, search, found.ranked.front().tuple);
  for (const HarmonyCandidate& candidate : found.ranked) {
    least = std::min(least, given_memory(problem, search, candidate.tuple));
  }
  return {question.machine.devices.front().name,
          PlaceKind::device,
          least,
          search.capacity,
          {{"the largest pack of plan.stages or plan.backward_stages", least}}};
}

void report_packs(const HarmonyProblem& problem, const HarmonyTuple& tuple, PlanReport& report) {
  const bool rotates = problem.mode == HarmonyMode::pipeline;
  const auto add = [&](Direction pass, HarmonyPack pack) {
    const std::size_t gpu = report.stages.size() % problem.server.gpus.size();
    if (rotates) report.mapping.push_back(static_cast<int>(gpu));
    report.stages.push_back(
        {pass, rotates ? problem.server.gpus[gpu].name : "all", pack.first, pack.end});
  };
  for (const HarmonyPack pack : tuple.forward) add(Direction::forward, pack);
  for (std::size_t p = tuple.backward.size(); p-- > 0;) {
    const bool fused = p + 1 == tuple.backward.size();
    add(fused ? Direction::fused : Direction::backward, tuple.backward[p]);
  }
}

void report_search(const HarmonyFound& found, PlanReport& report) {
  report.figures["candidates"] = found.candidates;
  for (std::size_t r = 0; r < std::min(kRanks, found.ranked.size()); ++r) {
    const HarmonyCandidate& candidate = found.ranked[r];
    report.series["ranked_step_s"].push_back(candidate.step.seconds());
    report.series["ranked_u_fwd"].push_back(candidate.tuple.forward_batch);
    report.series["ranked_packs_fwd"].push_back(
        static_cast<double>(candidate.tuple.forward.size()));
    report.series["ranked_u_bwd"].push_back(candidate.tuple.backward_batch);
    report.series["ranked_packs_bwd"].push_back(
        static_cast<double>(candidate.tuple.backward.size()));
  }
}

void report_variant(const HarmonyEstimate& estimated, bool prefetch, PlanReport& report) {
  const std::string ending = prefetch ? "_prefetch" : "_no_prefetch";
  report.figures["step_s" + ending] = estimated.step.seconds();
  report.figures["compute_share" + ending] = estimated.compute_share;
  report.figures["mean_end_idle" + ending] = estimated.end_idle;
}

// "8, 12, 8, 13 by reuse / time; best of 42".
std::string remark_of(const HarmonyFound& found, const HarmonyCandidate& best) {
  std::string text = std::to_string(best.tuple.forward_batch);
  for (const std::size_t number :
       {best.tuple.forward.size(), static_cast<std::size_t>(best.tuple.backward_batch),
        best.tuple.backward.size()}) {
    text.append(", ").append(std::to_string(number));
  }
  return text.append(" by ")
      .append(best.packing)
      .append("; best of ")
      .append(std::to_string(found.candidates));
}

ProgramAnswer program(const PlanQuestion& question, HarmonyMode mode) {
  const HarmonyProblem problem = problem_of(question, mode);
  const HarmonySearch search = search_of(question, problem);
  const HarmonyFound found = search_harmony(problem, search);
  if (found.ranked.empty()) return nothing_found(question, problem, search, found);
  const auto best = std::ranges::find_if(found.ranked, [&](const HarmonyCandidate& candidate) {
    return given_memory(problem, search, candidate.tuple) <= search.capacity;
  });
  if (best == found.ranked.end()) return too_large(question, problem, search, found);
  const HarmonyTuple& tuple = best->tuple;

  HarmonyProgram chosen = write_harmony_program(problem, tuple, search.prefetch);
  HarmonyEstimate estimated = estimate(chosen);
  const HarmonyProgram other = write_harmony_program(problem, tuple, !search.prefetch);

  Program result;
  PlanReport& report = result.report;
  report_packs(problem, tuple, report);
  report_search(found, report);
  report_variant(estimated, search.prefetch, report);
  if (can_run(other)) report_variant(estimate(other), !search.prefetch, report);
  report.figures["compute_share"] = estimated.compute_share;
  report.figures["mean_end_idle"] = estimated.end_idle;
  report.figures["samples_per_s"] = problem.minibatch / estimated.step.seconds();
  report.figures["peak_bytes"] = static_cast<double>(chosen.peak.count);
  report.figures["u_fwd"] = tuple.forward_batch;
  report.figures["u_bwd"] = tuple.backward_batch;
  for (const auto& [name, bytes] : chosen.volumes) report.figures[name + "_bytes"] = bytes;

  result.plan = std::move(chosen.plan);
  result.prediction = std::move(estimated.simulation);
  result.remark = remark_of(found, *best);
  result.lower_bound = harmony_lower_bound(problem, search);
  return result;
}

}  // namespace

ProgramAnswer program_harmony_dp(const PlanQuestion& question) {
  return program(question, HarmonyMode::data_parallel);
}

ProgramAnswer program_harmony_pp(const PlanQuestion& question) {
  return program(question, HarmonyMode::pipeline);
}

}  // namespace ferry
