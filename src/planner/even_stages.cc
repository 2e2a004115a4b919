#include "planner/even_stages.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class EvenStages {
 public:
  EvenStages(const std::vector<double>& times, int stages)
      : count_(times.size()), stages_(static_cast<std::size_t>(stages)), sums_(1, 0.0) {
    for (const double time : times) sums_.push_back(sums_.back() + time);
  }

  std::vector<int> run() {
    const double longest = shortest_longest_stage();
    best(longest, [](double so_far, double stage) { return so_far + stage * stage; });
    std::vector<int> ends;
    for (std::size_t s = stages_, end = count_; s > 0; end = from_[s--][end]) {
      ends.push_back(static_cast<int>(end));
    }
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

 private:
  double shortest_longest_stage() {
    return best(kNever, [](double so_far, double stage) { return std::max(so_far, stage); });
  }

  // The least of `add` over cuts whose stages take at most `longest`; from_ leads back through it.
  template <typename Add>
  double best(double longest, Add add) {
    std::vector<double> before(count_ + 1, kNever);
    before[0] = 0;
    from_.assign(stages_ + 1, std::vector<std::size_t>(count_ + 1, 0));
    for (std::size_t s = 1; s <= stages_; ++s) {
      std::vector<double> now(count_ + 1, kNever);
      for (std::size_t end = s; end <= count_; ++end) {
        for (std::size_t first = s - 1; first < end; ++first) {
          const double stage = sums_[end] - sums_[first];
          if (stage > longest || before[first] == kNever) continue;
          const double value = add(before[first], stage);
          if (value >= now[end]) continue;
          now[end] = value;
          from_[s][end] = first;
        }
      }
      before = std::move(now);
    }
    return before[count_];
  }

  const std::size_t count_;
  const std::size_t stages_;
  std::vector<double> sums_;
  std::vector<std::vector<std::size_t>> from_;  // [stages][end]: where the last stage begins
};

}  // namespace

std::vector<int> even_stages(const std::vector<double>& times, int stages) {
  FERRY_CHECK(stages >= 1 && static_cast<std::size_t>(stages) <= times.size(),
              "as many stages as blocks at most");
  return EvenStages(times, stages).run();
}

}  // namespace ferry
