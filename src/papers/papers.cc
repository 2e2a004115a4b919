#include "papers/papers.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "papers/ftpipe/pipeline_programs.h"
#include "papers/harmony/harmony.h"
#include "papers/mobius/mobius_program.h"
#include "papers/mobius/zero_program.h"
#include "papers/ratel/fuyou_strategy.h"
#include "papers/roundpipe/roundpipe_program.h"
#include "papers/timing/program.h"
#include "plan/verify.h"
#include "planner/costs/estimate.h"
#include "planner/remedies.h"
#include "spec/strategy_names.h"

namespace ferry::papers {
namespace {

struct NamedProgram {
  const char* strategy;
  ProgramAnswer (*write)(const PlanQuestion&);
};

constexpr std::array kPrograms = {
    NamedProgram{strategy_name::kOneFOneB, one_f_one_b_program},
    NamedProgram{strategy_name::kGpipe, gpipe_program},
    NamedProgram{strategy_name::kInterleaved, interleaved_program},
    NamedProgram{strategy_name::kMobius, mobius_program},
    NamedProgram{strategy_name::kRoundPipe, roundpipe_program},
    NamedProgram{strategy_name::kHarmonyPp, program_harmony_pp},
    NamedProgram{strategy_name::kFuyou, plan_fuyou_program},
    NamedProgram{strategy_name::kFuyouNaive, plan_fuyou_naive_program},
    NamedProgram{strategy_name::kFuyouSerial, plan_fuyou_serial_program},
    NamedProgram{strategy_name::kHarmonyDp, program_harmony_dp},
    NamedProgram{strategy_name::kZero, zero_program},
    NamedProgram{strategy_name::kAsyncOneFOneB, async_one_f_one_b_program},
};

const NamedProgram& program_of(const PlanQuestion& question) {
  std::string names;
  for (const NamedProgram& program : kPrograms) {
    if (question.strategy == program.strategy) return program;
    names += std::string(names.empty() ? "" : ", ") + program.strategy;
  }
  if (question.strategy == strategy_name::kAuto) {
    throw JobKeyError(
        "papers.pure",
        "papers' programs have cost models of their own and do not compete; expected strategy to "
        "be one of " +
            names);
  }
  throw JobKeyError("strategy",
                    "'" + question.strategy + "' has no pure program; expected one of " + names);
}

AnswerWithoutRemedies answer_without_remedies(const PlanQuestion& question) {
  const NamedProgram& named = program_of(question);
  ProgramAnswer answer = named.write(question);
  if (auto* lacking = std::get_if<Shortage>(&answer)) return std::move(*lacking);
  Program program = std::get<Program>(std::move(answer));
  // Programs know micro-batches, not what is in them.
  program.plan.micro_batch_size = question.micro_batch_size;
  program.plan.sequence = question.sequence;
  program.plan.precision = question.precision;
  Candidate candidate{named.strategy,
                      true,
                      program.prediction.step,
                      program.lower_bound,
                      program.prediction.busiest_name,
                      program.remark};
  const Micros step = program.prediction.step;
  return Planned{.plan = std::move(program.plan),
                 .report = std::move(program.report),
                 .prediction = std::move(program.prediction),
                 .lower_bound = program.lower_bound,
                 .candidates = {std::move(candidate)},
                 .expected = step};
}

}  // namespace

PlanAnswer answer(const PlanQuestion& asked) {
  program_of(asked);
  check_question(asked);
  const PlanQuestion question = with_estimated_profile(asked);
  AnswerWithoutRemedies found = answer_without_remedies(question);
  if (auto* lacking = std::get_if<Shortage>(&found)) {
    std::vector<FittingChange> changes =
        find_changes_of_size(question, *lacking, answer_without_remedies);
    return does_not_fit(question, std::move(*lacking), std::move(changes));
  }
  Planned planned = std::get<Planned>(std::move(found));
  const std::optional<Violation> violation = verify(planned.plan);
  FERRY_CHECK(!violation, violation ? violation->message : std::string());
  return planned;
}

}  // namespace ferry::papers
