#include "planner/mixed/coarsen.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>

#include "base/check.h"
#include "planner/cuts/contiguous.h"

namespace ferry {
namespace {

// A protected run: what is never cut.
struct Atom {
  std::vector<BlockId> blocks;
  double weight = 0;
  std::string kind;
  BlockRole role = BlockRole::body;
};

// Consecutive atoms that are cut as one chain.
using Class = std::vector<Atom>;

// At most this many openings and closings are tried alone and joined in every combination; of more
// than these the later ones join.
constexpr int kFreeEnds = 4;

std::vector<Atom> atoms_of(const BlockGraph& graph) {
  std::vector<Atom> atoms;
  for (std::vector<BlockId>& run : protected_runs(graph)) {
    Atom atom;
    const GraphBlock& first = graph.blocks[run.front()];
    atom.kind = first.kind;
    atom.role = first.role;
    for (const BlockId block : run) atom.weight += least_seconds(graph, block);
    atom.blocks = std::move(run);
    atoms.push_back(std::move(atom));
  }
  return atoms;
}

double weight_of(const Class& atoms) {
  double weight = 0;
  for (const Atom& atom : atoms) weight += atom.weight;
  return weight;
}

// Bit i of `alone`: the i-th opening or closing is a class of its own.
std::vector<Class> classes_of(const std::vector<Atom>& atoms, unsigned alone) {
  std::vector<Class> classes;
  int ends_seen = 0;
  bool opening_waits = false;  // the last class is a joined opening that takes the next kind
  for (const Atom& atom : atoms) {
    const bool is_end = atom.role != BlockRole::body;
    const bool stands_alone = is_end && ((alone >> static_cast<unsigned>(ends_seen)) & 1U) != 0;
    if (is_end) ++ends_seen;
    const bool same_kind = !classes.empty() && classes.back().back().kind == atom.kind &&
                           classes.back().back().role == BlockRole::body &&
                           atom.role == BlockRole::body;
    const bool closes = atom.role == BlockRole::closing && !classes.empty();
    const bool joins = !stands_alone && (opening_waits || same_kind || closes);
    if (!joins) classes.emplace_back();
    classes.back().push_back(atom);
    opening_waits = atom.role == BlockRole::opening && !stands_alone;
  }
  return classes;
}

void merge_lightest(std::vector<Class>& classes, int most) {
  while (std::ssize(classes) > most) {
    std::size_t lightest = 0;
    for (std::size_t c = 1; c + 1 < classes.size(); ++c) {
      if (weight_of(classes[c]) + weight_of(classes[c + 1]) <
          weight_of(classes[lightest]) + weight_of(classes[lightest + 1])) {
        lightest = c;
      }
    }
    Class& kept = classes[lightest];
    const Class& joined = classes[lightest + 1];
    kept.insert(kept.end(), joined.begin(), joined.end());
    classes.erase(classes.begin() + static_cast<std::ptrdiff_t>(lightest) + 1);
  }
}

struct Coarse {
  Items groups;
  double heaviest = 0;
};

Coarse cut_classes(std::vector<Class> classes, int groups) {
  merge_lightest(classes, groups);
  std::vector<double> weights;
  std::vector<int> capacity;
  for (const Class& atoms : classes) {
    weights.push_back(weight_of(atoms));
    capacity.push_back(static_cast<int>(atoms.size()));
  }
  const std::vector<int> parts = quotas(weights, capacity, groups);
  Coarse coarse;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::vector<double> chain;
    for (const Atom& atom : classes[c]) chain.push_back(atom.weight);
    int first = 0;
    for (const int end : min_max_cuts(chain, parts[c])) {
      std::vector<BlockId> group;
      double weight = 0;
      for (const Atom& atom : std::span(classes[c]).subspan(first, end - first)) {
        group.insert(group.end(), atom.blocks.begin(), atom.blocks.end());
        weight += atom.weight;
      }
      coarse.heaviest = std::max(coarse.heaviest, weight);
      coarse.groups.push_back(std::move(group));
      first = end;
    }
  }
  return coarse;
}

}  // namespace

std::vector<int> quotas(const std::vector<double>& weights, const std::vector<int>& capacity,
                        int seats) {
  const std::size_t classes = weights.size();
  FERRY_CHECK(capacity.size() == classes && static_cast<int>(classes) <= seats,
              "every class needs a seat");
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> fair(classes);
  std::vector<int> quota(classes);
  int dealt = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    fair[c] = total > 0 ? seats * weights[c] / total
                        : static_cast<double>(seats) / static_cast<double>(classes);
    quota[c] = std::clamp(static_cast<int>(std::floor(fair[c])), 1, capacity[c]);
    dealt += quota[c];
  }
  // One seat at a time: to the class that lacks most, or from the one that has most to spare.
  while (dealt < seats) {
    std::size_t best = classes;
    for (std::size_t c = 0; c < classes; ++c) {
      if (quota[c] == capacity[c]) continue;
      if (best == classes || fair[c] - quota[c] > fair[best] - quota[best]) best = c;
    }
    if (best == classes) break;
    ++quota[best];
    ++dealt;
  }
  while (dealt > seats) {
    std::size_t best = classes;
    for (std::size_t c = 0; c < classes; ++c) {
      if (quota[c] == 1) continue;
      if (best == classes || fair[c] - quota[c] < fair[best] - quota[best]) best = c;
    }
    --quota[best];
    --dealt;
  }
  return quota;
}

Items coarsen(const BlockGraph& graph, int groups) {
  FERRY_CHECK(groups >= 1, "blocks need a group");
  const std::vector<Atom> atoms = atoms_of(graph);
  const auto ends =
      std::ranges::count_if(atoms, [](const Atom& atom) { return atom.role != BlockRole::body; });
  const unsigned choices = 1U << static_cast<unsigned>(std::min<std::ptrdiff_t>(ends, kFreeEnds));
  Coarse best;
  for (unsigned alone = 0; alone < choices; ++alone) {
    Coarse coarse = cut_classes(classes_of(atoms, alone), groups);
    if (alone == 0 || coarse.heaviest < best.heaviest) best = std::move(coarse);
  }
  return best.groups;
}

}  // namespace ferry
