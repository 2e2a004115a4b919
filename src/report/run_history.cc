#include "report/run_history.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/check.h"

namespace ferry {
namespace {

std::string shortest(double value) {
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

std::set<std::string> places_of(const std::vector<RunStep>& steps) {
  std::set<std::string> places;
  for (const RunStep& step : steps) {
    for (const auto& [place, unused] : step.peak_bytes) places.insert(place);
  }
  return places;
}

/// Of neighbours, which are at least one.
RunStep mean_of(const RunStep* first, std::size_t count) {
  RunStep mean = first[count - 1];
  mean.loss = mean.lr = mean.seconds = mean.tokens_per_second = mean.stall = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = 1.0 / static_cast<double>(count);
    mean.loss += first[i].loss * share;
    mean.lr += first[i].lr * share;
    mean.seconds += first[i].seconds * share;
    mean.tokens_per_second += first[i].tokens_per_second * share;
    mean.stall += first[i].stall * share;
    mean.grad_norm = std::max(mean.grad_norm, first[i].grad_norm);
  }
  return mean;
}

}  // namespace

std::string to_csv(const RunHistory& history) {
  const std::set<std::string> places = places_of(history.steps);
  std::map<int, double> evaluated;
  for (const RunEvaluation& one : history.evaluations) evaluated[one.step] = one.loss;
  std::string text =
      "step,loss,eval_loss,lr,grad_norm,tokens,learned_tokens,step_seconds,tokens_per_second,stall";
  for (const std::string& place : places) text += ",peak_bytes_" + place;
  text += "\n";
  for (const RunStep& step : history.steps) {
    const auto evaluation = evaluated.find(step.step);
    text += std::to_string(step.step) + "," + shortest(step.loss) + "," +
            (evaluation == evaluated.end() ? "" : shortest(evaluation->second)) + "," +
            shortest(step.lr) + "," + shortest(step.grad_norm) + "," + std::to_string(step.tokens) +
            "," + std::to_string(step.learned) + "," + shortest(step.seconds) + "," +
            shortest(step.tokens_per_second) + "," + shortest(step.stall);
    for (const std::string& place : places) {
      const auto peak = step.peak_bytes.find(place);
      text += "," + (peak == step.peak_bytes.end() ? "" : std::to_string(peak->second.count));
    }
    text += "\n";
  }
  return text;
}

std::vector<RunStep> drawn_steps(const std::vector<RunStep>& steps, std::size_t count) {
  FERRY_CHECK(count > 0, "something is drawn");
  const std::size_t group = std::max<std::size_t>(1, (steps.size() + count - 1) / count);
  std::vector<RunStep> drawn;
  for (std::size_t first = 0; first < steps.size(); first += group) {
    drawn.push_back(mean_of(&steps[first], std::min(group, steps.size() - first)));
  }
  return drawn;
}

}  // namespace ferry
