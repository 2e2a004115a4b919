#include "planner/costs/capacity_bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "planner/costs/device_room.h"
#include "planner/costs/least_program.h"
#include "planner/costs/queues.h"
#include "planner/costs/step_order.h"

namespace ferry {
namespace {

using Variable = LeastProgram::Variable;

// All that is updated, and what comes with each byte of its W + S, the least of any block.
struct States {
  double bytes = 0;  // W + S
  double weights = std::numeric_limits<double>::infinity();
  double sums = weights;           // bytes of them that come down
  double host_update = weights;    // seconds
  double device_update = weights;  // likewise
};

States states_of(const Chain& chain) {
  States states;
  for (const ChainBlock& block : chain.blocks) {
    const double bytes = as_double(block.weights + block.states);
    if (!block.trainable || bytes <= 0) continue;
    const auto meet = [&](double& least, double value) { least = std::min(least, value / bytes); };
    states.bytes += bytes;
    meet(states.weights, as_double(block.weights));
    meet(states.sums, as_double(landing_sum(block)));
    meet(states.host_update, block.host_update.seconds());
    meet(states.device_update, block.device_update.seconds());
  }
  return states;
}

// Seconds of a step's computation, on all devices together.
struct Computation {
  double all = 0;
  double backward = 0;  // of the first trainable block and those behind it
  double again = 0;     // of backwards that run again
};

Computation computation_of(const PlanQuestion& question, const Chain& chain,
                           const AgainFrom& again) {
  Micros all, twice;
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    all += least_backwards(chain, b, again) + (has_forward(block) ? block.forward : Micros{});
    if (b.number() >= again.most) twice += block.backward;
  }
  const double batches = question.micro_batches;
  return {all.seconds() * batches, backward_with_sums(chain).seconds() * batches,
          twice.seconds() * batches};
}

// W + S of blocks whose sums need not be there when the norm is known, at most.
double states_again(const Chain& chain, const AgainFrom& again) {
  Bytes bytes;
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    if (block.trainable && b.number() >= again.least) bytes += block.weights + block.states;
  }
  return as_double(bytes);
}

// What neither devices nor DRAM hold when a step's first backward begins, the head's: beside W and
// S of all blocks every input is somewhere that this micro-batch's backwards read.
struct Turn {
  double bytes = 0;
  double for_backward = 0;  // of them, at least
  double inputs = 0;        // likewise
};

// The head's device has its sum, the gradient that it writes, and its workspace; a device alone has
// room for the workspace of any block. The first block's backward may read no W.
Turn turn_of(const PlanQuestion& question, const Chain& chain, const States& states) {
  const ChainBlock& head = chain.blocks.back();
  const auto devices = static_cast<int>(question.machine.devices.size());
  Bytes workspace = least_backward_workspace(head);
  Bytes for_updates = chain.blocks.front().weights;
  for (const ChainBlock& block : chain.blocks) {
    if (devices == 1) workspace = std::max(workspace, least_backward_workspace(block));
    for_updates += block.states;
  }
  const Bytes inputs = chain.activation * static_cast<std::int64_t>(chain.size() - 1);
  Bytes room = host_limit(question) - head.gradients - chain.activation - workspace;
  for (int d = 0; d < devices; ++d) room += device_limit(question, d);
  const double beyond = std::max(0.0, states.bytes + as_double(inputs - room));
  return {.bytes = beyond,
          .for_backward = std::max(0.0, beyond - as_double(for_updates)),
          .inputs = std::max(0.0, beyond - states.bytes)};
}

// Values that pass: `bytes` of W + S, and what there must be room for at once when one of them
// does.
struct PassingPart {
  double bytes;
  double room;
};

// Parts that add up to `bytes` need that much room, whichever they are.
double least_room(std::vector<PassingPart> parts, double bytes) {
  if (bytes <= 0) return 0;
  std::ranges::sort(parts, {}, &PassingPart::room);
  for (const PassingPart& part : parts) {
    bytes -= part.bytes;
    if (bytes <= 0) return part.room;
  }
  return 0;  // there are not so many
}

// What is taken of places by values that pass, beside all that rests there: the host's update of a
// block whose W or S comes from drives finds that and the sum in DRAM, and the backward of a block
// that the host updates finds W (but of the first block) and the sum on its device.
struct Passing {
  double on_devices = 0;
  double in_dram = 0;
};

Passing passing_of(const PlanQuestion& question, const Chain& chain, double all, double devices) {
  std::vector<PassingPart> on_devices, in_dram;
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    if (!block.trainable) continue;
    const double weights = as_double(block.weights), states = as_double(block.states);
    const double sum = as_double(landing_sum(block));
    on_devices.push_back({weights + states, sum + (b.index() > 0 ? weights : 0)});
    in_dram.push_back({weights, weights + sum});
    in_dram.push_back({states, sum});  // in pieces, however small
  }
  const double dram = as_double(host_limit(question));
  Passing passing;
  passing.on_devices = std::min(least_room(std::move(on_devices), all - devices), devices);
  const double on_drives = all - (devices - passing.on_devices) - dram;
  passing.in_dram = std::min(least_room(std::move(in_dram), on_drives), dram);
  return passing;
}

// The program whose least step no plan is faster than. Its variables are means over many steps.
class StepProgram {
 public:
  /// `waits`: with what it takes that sums wait for the norm.
  StepProgram(const PlanQuestion& question, const Chain& chain, const AgainFrom& again, bool waits)
      : question_(question),
        chain_(chain),
        waits_(waits),
        states_(states_of(chain)),
        states_again_(states_again(chain, again)),
        computation_(computation_of(question, chain, again)),
        links_(joint_rates(question)),
        drives_(drive_array(question, chain)),
        dram_rate_(dram_rate(question)),
        devices_(static_cast<double>(question.machine.devices.size())),
        room_(room_on_devices(question, chain)),
        turn_(turn_of(question, chain, states_)),
        dram_(as_double(host_limit(question))) {
    const ChainBlock& head = chain.blocks.back();
    const int one_by_one = head.gradients > Bytes{} ? question.micro_batches : 1;
    first_sum_ = least_backward(head).seconds() * one_by_one;
    all_backwards_ = (backward_with_sums(chain) + sum_order_delay(question, chain)).seconds();
  }

  Micros least_step(Homes homes) {
    if (states_.bytes <= 0) return {};
    step_ = add_time();
    for (Variable* bytes : {&home_, &host_, &returning_, &waiting_, &ahead_, &on_drives_, &read_,
                            &written_, &missing_here_, &missing_on_host_}) {
      *bytes = program_.add(states_.bytes);
    }
    program_.at_least(states_.bytes, {{1, home_}, {1, host_}});
    if (homes == Homes::off_devices) program_.at_least(0, {{-1, home_}});
    demand_rates();
    demand_places(homes);
    demand_drives();
    if (waits_) demand_phases();
    return from_seconds(program_.least_of(step_));
  }

 private:
  Variable add_time() {
    constexpr double kLeast = 1e-6;  // a microsecond, where nothing is computed
    return program_.add(std::max(kLeast, computation_.all / devices_));
  }

  // How much longer an update ahead of the norm takes than another.
  double longer_ahead() const { return keeping_traffic() / update_traffic(question_.gradients); }

  bool has_drives() const { return drives_.count > 0; }

  // What devices, the host's cores, links and DRAM do in a step.
  void demand_rates() {
    program_.at_least(computation_.all, {{devices_, step_}, {-states_.device_update, home_}});
    const double update = states_.host_update;
    program_.at_least(0, {{1, step_}, {-update, host_}, {-update * longer_ahead(), ahead_}});
    program_.at_least(0, {{links_.up, step_}, {-states_.weights, host_}, {-1, returning_}});
    program_.at_least(0, {{links_.down, step_}, {-states_.sums, host_}, {-1, returning_}});
    if (!dram_rate_) return;
    program_.at_least(0, {{*dram_rate_, step_},
                          {-drawn() - states_.weights - states_.sums, host_},
                          {-drawn() * longer_ahead(), ahead_},
                          {-2, returning_},
                          {-1, read_},
                          {-1, written_}});
  }

  // What rests on devices, in DRAM and on drives; with clipping, when the norm is known.
  void demand_places(Homes homes) {
    const double sums = states_.sums;
    if (!waits_) {
      const double devices = homes == Homes::off_devices ? 0 : room_;
      const Passing passing = passing_of(question_, chain_, states_.bytes, devices);
      program_.at_least(passing.on_devices - devices, {{-1, home_}});
      program_.at_least(passing.in_dram - dram_, {{-1, host_}, {1, on_drives_}});
      return;
    }
    program_.at_least(0, {{sums, home_}, {-1, returning_}});
    program_.at_least(0, {{sums, host_}, {-1, waiting_}});
    program_.at_least(-sums * states_again_, {{-1, missing_here_}, {-1, missing_on_host_}});
    program_.at_least(-room_,
                      {{-1 - sums, home_}, {1, returning_}, {-1, waiting_}, {1, missing_here_}});
    program_.at_least(-dram_, {{-1 - sums, host_},
                               {1, waiting_},
                               {-1, returning_},
                               {-1, ahead_},
                               {1, on_drives_},
                               {1, missing_on_host_}});
    program_.at_least(-dram_, {{-2, ahead_}});
  }

  // What rests there is read and written once. Of what is there at the turn backwards read W, too,
  // and inputs were written.
  void demand_drives() {
    if (!has_drives()) {
      program_.at_least(0, {{-1, on_drives_}});
      return;
    }
    program_.at_least(turn_.bytes, {{1, read_}});
    program_.at_least(turn_.bytes, {{1, written_}});
    program_.at_least(turn_.for_backward, {{1, read_}, {-1, on_drives_}});
    program_.at_least(turn_.inputs, {{1, written_}, {-1, on_drives_}});
    const double read = 1 / drives_.read.bytes_per_second;
    const double write = 1 / drives_.write.bytes_per_second;
    if (drives_.duplex) {
      program_.at_least(0, {{1, step_}, {-read, read_}});
      program_.at_least(0, {{1, step_}, {-write, written_}});
    } else {
      program_.at_least(0, {{1, step_}, {-read, read_}, {-write, written_}});
    }
  }

  // P, from a norm until all is renewed, and Q, from there to the next norm.
  void demand_phases() {
    const Variable renewing = add_time();
    const Variable behind = add_time();
    program_.at_least(0, {{1, step_}, {-1, renewing}, {-1, behind}});
    demand_renewal(renewing);
    demand_backwards(behind);
  }

  void demand_renewal(Variable renewing) {
    const double update = states_.host_update;
    program_.at_least(computation_.again, {{devices_, renewing}, {-states_.device_update, home_}});
    program_.at_least(0, {{1, renewing}, {-update, host_}, {update, ahead_}});
    program_.at_least(0, {{links_.up, renewing},
                          {-states_.weights, host_},
                          {states_.weights, ahead_},
                          {-1, returning_}});
    program_.at_least(0, {{links_.down, renewing}, {-1, waiting_}, {-1, missing_on_host_}});
    if (has_drives()) {
      program_.at_least(0, {{drives_.read.bytes_per_second, renewing}, {-1, on_drives_}});
    }
    if (!dram_rate_) return;
    program_.at_least(0, {{*dram_rate_, renewing},
                          {-drawn() - states_.weights, host_},
                          {drawn() + states_.weights, ahead_},
                          {-1, returning_},
                          {-1, waiting_},
                          {-1, missing_on_host_},
                          {-1, on_drives_}});
  }

  // No sum is whole, and no update ahead of the norm begins, before the head's backwards are done.
  void demand_backwards(Variable behind) {
    const double ahead = 1 + longer_ahead();
    program_.at_least(all_backwards_, {{1, behind}});
    program_.at_least(computation_.backward, {{devices_, behind}});
    program_.at_least(first_sum_, {{1, behind}, {-states_.host_update * ahead, ahead_}});
    program_.at_least(first_sum_ * links_.down, {{links_.down, behind},
                                                 {-states_.sums, host_},
                                                 {1, waiting_},
                                                 {-1, returning_},
                                                 {1, missing_on_host_}});
    if (!dram_rate_) return;
    program_.at_least(first_sum_ * *dram_rate_, {{*dram_rate_, behind},
                                                 {-drawn() * ahead, ahead_},
                                                 {-states_.sums, host_},
                                                 {1, waiting_},
                                                 {-1, returning_},
                                                 {1, missing_on_host_}});
  }

  // What the host's update of a byte of W + S draws of DRAM.
  double drawn() const {
    const double rate = update_rate(question_) * update_traffic(question_.gradients);
    return states_.host_update * rate;
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const bool waits_;
  const States states_;
  const double states_again_;  // bytes
  const Computation computation_;
  const JointRates links_;
  const DriveArray drives_;
  const std::optional<double> dram_rate_;
  const double devices_;
  const double room_;  // bytes
  const Turn turn_;
  const double dram_;     // bytes
  double first_sum_;      // seconds from the last renewal until a sum can be whole
  double all_backwards_;  // seconds, of all that wait for one another
  LeastProgram program_;
  Variable step_ = 0;       // T of docs/planner.md, seconds
  Variable home_ = 0;       // d: bytes of W + S that devices update
  Variable host_ = 0;       // h: that the host updates
  Variable returning_ = 0;  // x: bytes of sums for devices' updates that come back up
  Variable waiting_ = 0;    // w: of sums for the host's that come down behind the norm
  Variable ahead_ = 0;      // z: of `host_`, updated ahead of the norm
  Variable on_drives_ = 0;  // X
  Variable read_ = 0;       // R: bytes of a step
  Variable written_ = 0;    // Y: likewise
  // g, j: bytes of sums, for the devices' updates and the host's, that are not there when the norm
  // is known, since they are computed again.
  Variable missing_here_ = 0;
  Variable missing_on_host_ = 0;
};

}  // namespace

// Where the norm is first sums may wait all the same, so plans meet either program's demands.
Micros capacity_bound(const PlanQuestion& question, const Chain& chain, Homes homes,
                      const AgainFrom& again) {
  Micros bound;
  if (!sums_wait(question)) bound = StepProgram(question, chain, again, false).least_step(homes);
  if (!question.clips) return bound;
  return std::max(bound, StepProgram(question, chain, again, true).least_step(homes));
}

}  // namespace ferry
