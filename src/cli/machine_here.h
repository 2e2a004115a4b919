// The machine of a job that names none: this box, and how fast its GPUs' links and its memory are.
#pragma once

#include <filesystem>

#include "base/progress.h"
#include "cli/examination.h"
#include "spec/machine.h"

namespace ferry {

/// What a box's rates depend on, in one line: its GPUs with their names, PCI addresses and driver,
/// and how many cores may be used.
std::string box_key(const Probes& probes);

/// `machine`, which is this_machine() of the probes' GPUs, with the rates of host and links and
/// with the root complexes that GPUs share. They come from `file`, a machine file, where it was
/// written for an equal box_key(); else the box is examined, which takes seconds, and the file is
/// written, unless its folder is read-only. `listener` hears which, and what the examination warns
/// of. A machine of simulated devices stays as it is: their copies are the processor's own.
Machine with_rates_of_box(Machine machine, const Probes& probes, const std::filesystem::path& file,
                          PhaseListener& listener);

}  // namespace ferry
