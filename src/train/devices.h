// Opens a machine's devices for a run: simulated ones with their caps and links, or real GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/job.h"
#include "spec/machine.h"

namespace ferry {

/// How simulated devices are opened; real ones take no notice.
struct SimulationChoices {
  // What each of the machine's devices may take; logical devices that share a simulated one share
  // the sum. Empty: the machine file's memory.
  std::vector<Bytes> memory = {};
  int threads = 0;                     // per kernel; 0: the machine file's
  bool poison = false;                 // freed memory becomes NaN
  bool hazards = false;                // missing waits are recorded
  bool strict = false;                 // an operator that would make the host wait is an error
  std::optional<Bytes> lockable = {};  // of host memory; nothing: all counts as page-locked
  std::size_t launch_queue = 0;        // what may wait on a stream; 0: any number
  std::string pci_address = {};        // where all of them say that they hang; empty: nowhere
};

/// Keeps the devices of one machine open. One at a time; everything on them must be gone before it
/// is. Throws UserError where some are simulated and some are not.
class OpenDevices {
 public:
  OpenDevices(const Machine& machine, const SimulationChoices& choices);
  ~OpenDevices();
  OpenDevices(const OpenDevices&) = delete;
  OpenDevices& operator=(const OpenDevices&) = delete;

  /// "sim:0" or "cuda:1", one per machine device, in order; logical devices of one accelerator have
  /// one name.
  const std::vector<std::string>& names() const { return names_; }

  /// What the simulated devices hold now of this box's own DRAM, in which their memory is: lent and
  /// kept for reuse. From any thread.
  Bytes host_memory() const;

 private:
  int simulated_ = 0;  // accelerators
  std::vector<std::string> names_;
};

/// What the machine's devices compute with, as far as it moves numbers: "AMD EPYC 9654, AVX512".
std::string processors_of(const Machine& machine);

/// The GPUs of this box, for this_machine().
std::vector<FoundGpu> find_gpus();

/// Holds this process to the job's budgets on GPUs, and to the machine's memory on those that no
/// budget limits; without a machine to what is free but for left_for_cuda(). To be called before
/// the first use of a GPU: device/memory_limit.h.
void hold_gpus_to(const Job& job, const Machine* machine);

/// Whether the matrix units of GPU cuda:`index` take bf16; those of unknown GPUs do.
bool multiplies_bf16(int index);

}  // namespace ferry
