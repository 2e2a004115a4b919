#include "train/evaluation.h"

#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "exec/driver.h"
#include "plan/at_home.h"
#include "train/driving_thread.h"
#include "train/job_rows.h"

namespace ferry {
namespace {

/// A plan from a file may have been made with other options than this job's.
void require_same_homes(const Plan& training, const Plan& evaluation) {
  const auto trained = homes_of(training);
  for (const auto& [name, home] : homes_of(evaluation)) {
    const auto other = trained.find(name);
    if (other != trained.end() && other->second == home) continue;
    throw UserError("the training plan keeps " + name +
                    " elsewhere than this job's evaluation would; make the plan again with the "
                    "same job, or set train.eval_every: 0");
  }
}

/// Adds up what the steps of one evaluation found.
class Sum final : public Observer {
 public:
  Sum(const StepRunner& runner, const std::function<bool()>& wants_to_stop, ProgressCount& count)
      : runner_(runner), wants_to_stop_(wants_to_stop), count_(count) {}

  bool wants_step(int /*step*/) override { return !wants_to_stop_(); }

  void step_finished(int step) override {
    count_.advance(1);
    const std::int64_t learned = runner_.numbers(step).learned;
    loss_ += runner_.result(step).loss * static_cast<double>(learned);
    learned_ += learned;
  }

  double mean() const { return learned_ > 0 ? loss_ / static_cast<double>(learned_) : 0; }

 private:
  const StepRunner& runner_;
  const std::function<bool()>& wants_to_stop_;
  ProgressCount& count_;
  double loss_ = 0;
  std::int64_t learned_ = 0;
};

Batches rows_of(const TrainSetup& setup) {
  const TokenFile& file = setup.eval_tokens ? *setup.eval_tokens : *setup.train_tokens;
  const std::int64_t samples = setup.eval_tokens ? file.size() : setup.held_out_samples;
  return Batches(file, evaluation_rows(setup.job, file, samples));
}

}  // namespace

Evaluation::Evaluation(const TrainSetup& setup, Places& places)
    : plan_(*setup.evaluation),
      batches_(rows_of(setup)),
      runner_({.model = setup.model,
               .plan = plan_,
               .places = places,
               .clip = 0,
               .update_threads = 1,
               .feed = [this](int step) { return make_numbers(step); }}) {
  require_same_homes(setup.plan, plan_);
  if (setup.eval_tokens) setup.eval_tokens->require_vocabulary(setup.model.vocab);
}

StepNumbers Evaluation::make_numbers(int step) const {
  StepNumbers numbers;
  numbers.step = step;
  for (int m = 0; m < plan_.micro_batches; ++m) {
    const std::int64_t first =
        (static_cast<std::int64_t>(step) * plan_.micro_batches + m) * plan_.micro_batch_size;
    numbers.batches.push_back(batches_.consecutive(first, plan_.micro_batch_size));
    numbers.learned += numbers.batches.back().learned;
  }
  if (numbers.learned > 0) numbers.loss_scale = 1.0 / static_cast<double>(numbers.learned);
  return numbers;
}

std::optional<double> Evaluation::loss(PhaseListener& listener,
                                       const std::function<bool()>& wants_to_stop) {
  const std::int64_t per_step =
      static_cast<std::int64_t>(plan_.micro_batches) * plan_.micro_batch_size;
  const auto steps = static_cast<int>((batches_.rows() + per_step - 1) / per_step);
  ProgressCount count(listener, "evaluating", steps, "steps");
  Sum sum(runner_, wants_to_stop, count);
  int done = 0;
  on_driving_thread(runner_.gives_way(), [&] { done = drive(plan_, {0, steps}, runner_, sum); });
  runner_.take_spans();  // only training's timeline is kept
  return done == steps ? std::optional(sum.mean()) : std::nullopt;
}

}  // namespace ferry
