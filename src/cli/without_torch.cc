// The part of the program `ferry` that the program `ferry-torch` has in its place.
#include "cli/commands.h"
#include "cli/torch_part.h"

namespace ferry {

int train_from(const Job& /*job*/, const Start& /*start*/, const TrainCommand& /*command*/) {
  throw TorchNeeded{.watched = true};
}

int run_verify(const VerifyCommand& /*command*/) { throw TorchNeeded{.watched = true}; }

int run_doctor(const DoctorCommand& /*command*/) { throw TorchNeeded(); }

void hold_gpus_to_budgets(const Job& /*job*/, const Machine* /*machine*/) {}  // it uses none

std::vector<FoundGpu> gpus_here() { throw TorchNeeded(); }

Machine machine_here(const HostLimits&, PhaseListener&) { throw TorchNeeded(); }

MeasuredProfile measured_profile(const Question& /*question*/, PhaseListener& /*listener*/) {
  throw TorchNeeded();
}

PrecisionChoice precision_here(const Question& /*question*/, PhaseListener& /*listener*/) {
  throw TorchNeeded();
}

}  // namespace ferry
