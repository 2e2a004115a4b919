// A machine as a plan sees it: places, pools and in-order queues.
#pragma once

#include <optional>
#include <vector>

#include "plan/plan.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "spec/drive_array.h"

namespace ferry {

struct DeviceQueues {
  PlaceId place;
  ResourceId compute;
  ResourceId weights_up;  // W, a tied head's G, C
  ResourceId acts_up;     // X, A, dA
  ResourceId acts_down;   // A, dA, N, L: what another device or the clip waits for
  ResourceId sums_down;   // G, K, a shared W: large, and waited for later
};

/// The machine's drives with known rates, as one place (spec/drive_array.h).
struct DriveQueues {
  PlaceId place;
  ResourceId weights_read;  // W and activations: what a device waits for
  ResourceId states_read;   // S and G: what an update waits for
  ResourceId write;         // W, S and G: behind updates and sums
  ResourceId acts_write;    // activations: what forward's slots wait for
};

struct Queues {
  std::vector<DeviceQueues> devices;
  PlaceId host;
  ResourceId load;
  ResourceId update;  // updates and clip
  std::optional<DriveQueues> drives;
};

/// Adds places, pools and resources for the machine's first `devices` devices, its host and,
/// unless null, its drives.
Queues add_queues(Plan& plan, const PlanQuestion& question, int devices, const DriveArray* drives);

/// Whether the one device's copies to the other may go straight: both have p2p.
bool may_send(const PlanQuestion& question, int from, int to);

/// Whether that holds of any two.
bool may_send(const PlanQuestion& question);

/// What goes straight from one device to another. Either kind has a queue of its own, as on the way
/// through the host.
enum class Cargo {
  activations,  // A, dA: what the other device waits for
  sums,         // G, a shared W: large, and waited for later
};

/// Adds the queue of what goes straight between two devices: one of the sender's, which draws on
/// what that sends and the other receives, on no link to the host and on no root. Requires:
/// may_send().
ResourceId add_queue_between(Plan& plan, const PlanQuestion& question, const Queues& queues,
                             int from, int to, Cargo cargo);

/// The machine's drives as plans use them: the fastest array that holds all that the model has of
/// weights, states and gradient sums.
DriveArray drive_array(const PlanQuestion& question, const Chain& chain);

/// In which the drives read and write so many bytes: one after the other, or, duplex, at once.
Micros read_and_written(const DriveArray& drives, double bytes);

/// Bytes of DRAM traffic per parameter of an update: reads G (fp32) or R (bf16), hi, lo, m, v,
/// writes all but the sum.
inline double update_traffic(Precision gradients) { return gradients == Precision::bf16 ? 26 : 28; }

/// And of one ahead of the norm, beside: writes hi, lo, m, v as they were where a cache line has to
/// be read before it is written.
inline double keeping_traffic() { return 24; }

/// Bytes per second that DRAM moves; nothing where the machine does not say. That is its
/// memory_bandwidth or, where that is more, what its update_rate draws, also of DRAM (a profile's
/// may be of caches): an Intel guest moved 168 GB/s by updates where a stream had 125.
std::optional<double> dram_rate(const PlanQuestion& question);

/// What a plan may use of a device: its budget, as far as allocators can hand it out.
Bytes device_limit(const PlanQuestion& question, int device);
Bytes host_limit(const PlanQuestion& question);

/// Bytes per second of a copy that is alone on its link.
double upload_rate(const PlanQuestion& question, int device);
double download_rate(const PlanQuestion& question, int device);

/// Bytes per second of all devices' copies in one direction, below root complexes as those let.
struct JointRates {
  double up = 0;
  double down = 0;
};

JointRates joint_rates(const PlanQuestion& question);

/// What one compute task of a device takes of the host's cores, with the thread that enqueues its
/// work; 0 for a GPU.
double compute_cores(const PlanQuestion& question, int device);

}  // namespace ferry
