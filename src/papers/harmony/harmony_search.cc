#include "papers/harmony/harmony_search.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ferry {
namespace {

constexpr const char* kGiven = "given";

// One way to pack a pass.
struct Packing {
  HarmonyPacks packs;
  std::string method;
};

class Searcher {
 public:
  Searcher(const HarmonyProblem& problem, const HarmonySearch& search)
      : problem_(problem), search_(search) {}

  HarmonyFound run() {
    for (const int backward : backward_batches(problem_, search_)) try_backward(backward);
    std::stable_sort(found_.ranked.begin(), found_.ranked.end(),
                     [](const auto& a, const auto& b) { return a.step < b.step; });
    return std::move(found_);
  }

 private:
  std::vector<int> forward_batches(int least) const {
    if (search_.forward_batch >= least) return {search_.forward_batch};
    if (search_.forward_batch > 0) return {};
    std::vector<int> sizes;
    for (int size = least; size <= problem_.samples(); ++size) {
      if (problem_.samples() % size == 0 &&
          is_measured(problem_.profile, HarmonyPass::forward, size)) {
        sizes.push_back(size);
      }
    }
    return sizes;
  }

  void try_backward(int batch) {
    for (const Packing& backward : backward_packings(batch)) {
      if (backward.packs.size() == 1) {
        // Nothing is left for forward; the size it would have has no meaning.
        try_tuple({batch, {}, batch, backward.packs}, "none / " + backward.method);
        continue;
      }
      for (const int forward_batch : forward_batches(batch)) {
        for (const Packing& forward : forward_packings(forward_batch, backward.packs)) {
          try_tuple({forward_batch, forward.packs, batch, backward.packs},
                    forward.method + " / " + backward.method);
        }
      }
    }
  }

  std::vector<Packing> backward_packings(int batch) const {
    if (search_.backward) return {{*search_.backward, kGiven}};
    const auto costs = costs_at(problem_.profile, HarmonyPass::backward, batch);
    std::vector<Packing> result;
    for (const PackingMethod method : search_.backward_methods) {
      if (auto packs = pack_layers(method, costs, search_.capacity)) {
        result.push_back({std::move(*packs), to_string(method)});
      }
    }
    return result;
  }

  std::vector<Packing> forward_packings(int batch, const HarmonyPacks& backward) const {
    if (search_.forward) return {{*search_.forward, kGiven}};
    auto costs = costs_at(problem_.profile, HarmonyPass::forward, batch);
    costs.resize(static_cast<std::size_t>(backward.back().first));
    std::vector<Packing> result;
    for (const PackingMethod method : search_.forward_methods) {
      auto packs = method == PackingMethod::reuse ? reuse_packs(backward, costs, search_.capacity)
                                                  : pack_layers(method, costs, search_.capacity);
      if (packs) result.push_back({std::move(*packs), to_string(method)});
    }
    return result;
  }

  void try_tuple(HarmonyTuple tuple, const std::string& packing) {
    ++found_.candidates;
    const auto same = [&](const HarmonyCandidate& other) { return other.tuple == tuple; };
    if (std::any_of(found_.ranked.begin(), found_.ranked.end(), same)) return;
    check_tuple(problem_, tuple);
    const HarmonyProgram program = write_harmony_program(problem_, tuple, search_.prefetch);
    if (!can_run(program)) return;  // costs infinity
    found_.ranked.push_back({std::move(tuple), packing, simulate(program.plan, 1).step});
  }

  const HarmonyProblem& problem_;
  const HarmonySearch& search_;
  HarmonyFound found_;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<PackingMethod> read_methods(std::string_view list) {
  std::vector<PackingMethod> methods;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view word = trimmed(list.substr(0, end));
    bool known = false;
    for (const PackingMethod method : {PackingMethod::time, PackingMethod::memory,
                                       PackingMethod::greedy, PackingMethod::reuse}) {
      if (word != to_string(method)) continue;
      known = true;
      if (std::find(methods.begin(), methods.end(), method) == methods.end()) {
        methods.push_back(method);
      }
    }
    if (!known) {
      throw JobKeyError("papers.packing", "'" + std::string(word) +
                                              "' is not known; expected time, memory, greedy or "
                                              "reuse");
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return methods;
}

}  // namespace

std::vector<int> backward_batches(const HarmonyProblem& problem, const HarmonySearch& search) {
  if (search.backward_batch > 0) return {search.backward_batch};
  std::vector<int> sizes;
  for (int size = 1; size <= problem.samples(); ++size) {
    if (problem.samples() % size == 0 && is_measured(problem.profile, HarmonyPass::forward, size) &&
        is_measured(problem.profile, HarmonyPass::backward, size)) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

HarmonyFound search_harmony(const HarmonyProblem& problem, const HarmonySearch& search) {
  check_problem(problem);
  if (search.backward) {
    check_cover(*search.backward, static_cast<int>(problem.profile.layers.size()), "backward");
  }
  if (search.forward) check_cover(*search.forward, search.backward->back().first, "forward");
  if (search.forward_batch > 0 && search.forward_batch < search.backward_batch) {
    throw JobKeyError("papers.forward_batch", "expected at least papers.backward_batch, " +
                                                  std::to_string(search.backward_batch) +
                                                  ", found " +
                                                  std::to_string(search.forward_batch));
  }
  return Searcher(problem, search).run();
}

Micros harmony_lower_bound(const HarmonyProblem& problem, const HarmonySearch& search) {
  Micros least{std::numeric_limits<double>::infinity()};
  for (const int batch : backward_batches(problem, search)) {
    Micros step;
    const auto add = [&](int samples, double times) {
      for (const auto& cost : costs_at(problem.profile, HarmonyPass::backward, samples)) {
        step += cost.time * times;
      }
    };
    add(batch, problem.samples() / batch);
    if (const int rest = problem.samples() % batch; rest > 0) add(rest, 1);
    least = std::min(least, step);
  }
  const int gpus = problem.mode == HarmonyMode::pipeline ? problem.gpus() : 1;
  return least * (1.0 / gpus);
}

void set_methods(HarmonySearch& search, const std::string& text) {
  const std::size_t slash = text.find('/');
  search.forward_methods = read_methods(text.substr(0, slash));
  search.backward_methods =
      slash == std::string::npos ? search.forward_methods : read_methods(text.substr(slash + 1));
  std::erase(search.backward_methods, PackingMethod::reuse);
  if (search.backward_methods.empty() || search.forward_methods.empty()) {
    throw JobKeyError("papers.packing",
                      "'" + text +
                          "' has no method for a pass; expected for instance 'time, reuse / "
                          "time'");
  }
}

}  // namespace ferry
