#include "papers/mobius/zero_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "papers/timing/block_costs.h"
#include "papers/timing/host_updates.h"
#include "papers/timing/machine_queues.h"
#include "papers/timing/timing_plan.h"
#include "planner/costs/queues.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

constexpr std::size_t kBuffers = 2;  // layers whose weights a device holds
constexpr Bytes kStateBytes{12};     // per parameter: fp32 master and moments

Bytes whole(double bytes) { return {static_cast<std::int64_t>(bytes)}; }

// The part of `bytes` that falls to one of `parts`: parts differ by a byte at most.
Bytes part_of(double bytes, std::size_t part, std::size_t parts) {
  const std::int64_t total = whole(bytes).count;
  const auto n = static_cast<std::int64_t>(parts);
  return {total / n + (static_cast<std::int64_t>(part) < total % n ? 1 : 0)};
}

// The drives of papers.states: drives, which serve one access at a time unless they are duplex.
struct DriveQueues {
  ResourceId weights_read = -1;
  ResourceId states_read = -1;
  ResourceId states_write = -1;
};

DriveQueues drive_queues(TimingPlan& plan, const PlanQuestion& question) {
  const DriveArray drives = drive_array(question.machine);
  if (!drives.read.limited() || !drives.write.limited()) {
    throw UserError("machine '" + question.machine.name +
                    "': papers.states: drives needs a drive with 'read' and 'write'");
  }
  const PlaceId place = plan.place("drives", PlaceKind::drive);
  const std::vector<Draw> reads{{plan.pool("drives", 1), 1}};
  const std::vector<Draw> writes =
      drives.duplex ? std::vector<Draw>{{plan.pool("drives_write", 1), 1}} : reads;
  const double read = drives.read.bytes_per_second;
  const double write = drives.write.bytes_per_second;
  return {plan.link("weights_read", place, read, reads),
          plan.link("states_read", place, read, reads),
          plan.link("states_write", place, write, writes)};
}

class ZeroWriter {
 public:
  ZeroWriter(const PlanQuestion& question, std::vector<BlockCosts> blocks)
      : blocks_(std::move(blocks)),
        plan_("zero", question.micro_batches, static_cast<int>(blocks_.size())),
        queues_(plan_, question),
        updates_(plan_, question),
        profile_(question.profile),
        devices_(question.machine.devices.size()),
        micro_batches_(question.micro_batches),
        computed_(devices_) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      plan_.set_stage(static_cast<int>(b), static_cast<int>(b));
    }
    for (std::size_t d = 0; d < devices_; ++d) {
      const int id = static_cast<int>(d);
      gather_up_.push_back(queues_.up(id, "gather_up"));
      gather_down_.push_back(queues_.down(id, "gather_down"));
      reduce_up_.push_back(queues_.up(id, "reduce_up"));
      reduce_down_.push_back(queues_.down(id, "reduce_down"));
    }
    if (question.papers.states == StatesRule::drives) drives_ = drive_queues(plan_, question);
  }

  Plan write() {
    for (std::size_t b = 0; b < blocks_.size(); ++b) pass(false, b);
    for (std::size_t b = blocks_.size(); b-- > 0;) {
      pass(true, b);
      reduce_scatter(b);
    }
    // No update before the whole backward; the next step gathers new weights.
    std::vector<TaskId> ends = scattered_;
    for (std::size_t b = 0; b < blocks_.size(); ++b) ends = update(b, std::move(ends));
    for (const TaskId start : step_starts_) {
      for (const TaskId end : ends) plan_.wait_for_previous(start, end);
    }
    return plan_.finish();
  }

 private:
  // The update of a layer behind `after`; on drives its states are read before and written behind
  // it, and no two layers overlap: the optimizer is a stage of its own. Returns what ends it.
  std::vector<TaskId> update(std::size_t b, std::vector<TaskId> after) {
    const std::string name = std::to_string(b);
    const int first = static_cast<int>(b);
    const int block = profile_.chain[b];
    const Bytes states = kStateBytes * profile_.blocks[block].parameters;  // master, moments
    if (drives_) {
      after = {plan_.copy("read.S." + name, drives_->states_read, states, std::move(after))};
    }
    if (const auto updated = updates_.add("U." + name, first, first + 1, after)) {
      after = {*updated};
    }
    if (drives_) {
      const Bytes written = states + whole(blocks_[b].forward_upload);
      after = {plan_.copy("write.S." + name, drives_->states_write, written, std::move(after))};
    }
    return after;
  }

  // The read of a layer's weights into DRAM, where two layers' wait for their upload; nothing when
  // they rest there.
  std::vector<TaskId> read_weights(const std::string& name, double bytes) {
    if (!drives_) return {};
    std::vector<TaskId> after;
    if (uploaded_.size() >= kBuffers) after = uploaded_[uploaded_.size() - kBuffers];
    const TaskId read =
        plan_.copy("read." + name, drives_->weights_read, whole(bytes), std::move(after));
    if (uploaded_.empty()) step_starts_.push_back(read);
    return {read};
  }

  // A ring through the host passes N - 1 of N parts on, down one link and up the next, in pieces so
  // small that both directions run at once. Returns when each device has sent and received.
  std::vector<std::vector<TaskId>> ring(const std::string& name, double bytes,
                                        const std::vector<ResourceId>& down,
                                        const std::vector<ResourceId>& up,
                                        const std::vector<TaskId>& after) {
    std::vector<std::vector<TaskId>> done(devices_);
    for (std::size_t d = 0; d < devices_ && devices_ > 1; ++d) {
      // Device d keeps part d; what it sends and receives are all parts but one.
      const std::string number = std::to_string(d);
      const Bytes sent = whole(bytes) - part_of(bytes, (d + 1) % devices_, devices_);
      const Bytes received = whole(bytes) - part_of(bytes, d, devices_);
      done[d].push_back(plan_.copy(name + "<" + number, down[d], sent, after));
      done[d].push_back(plan_.copy(name + ">" + number, up[d], received, after));
    }
    return done;
  }

  // What each device waits for until it has all of the layer's weights.
  std::vector<std::vector<TaskId>> gather(bool backward, std::size_t b) {
    const double weights = backward ? blocks_[b].backward_upload : blocks_[b].forward_upload;
    const std::string name = (backward ? "WB." : "WF.") + std::to_string(b);
    const std::vector<TaskId> read = read_weights(name, weights);
    std::vector<TaskId> shards;
    for (std::size_t d = 0; d < devices_; ++d) {
      // A buffer is free when the layer two before has been computed.
      std::vector<TaskId> after = read;
      if (computed_[d].size() >= kBuffers) {
        after.push_back(computed_[d][computed_[d].size() - kBuffers]);
      }
      shards.push_back(plan_.copy(name + "." + std::to_string(d), gather_up_[d],
                                  part_of(weights, d, devices_), std::move(after)));
      if (!backward && b == 0) step_starts_.push_back(shards.back());
    }
    uploaded_.push_back(shards);
    auto gathered = ring(name, weights, gather_down_, gather_up_, shards);
    if (devices_ == 1) gathered.front() = shards;
    return gathered;
  }

  void pass(bool backward, std::size_t b) {
    const std::vector<std::vector<TaskId>> gathered = gather(backward, b);
    for (std::size_t d = 0; d < devices_; ++d) {
      TaskId last = gathered[d].back();
      for (int m = static_cast<int>(d); m < micro_batches_; m += static_cast<int>(devices_)) {
        const std::string name =
            (backward ? "B." : "F.") + std::to_string(b) + "." + std::to_string(m);
        const double time = backward ? blocks_[b].backward_time : blocks_[b].forward_time;
        last = plan_.add(backward ? TaskKind::backward : TaskKind::forward, name,
                         queues_.compute(static_cast<int>(d)), {time}, gathered[d]);
        plan_.about(last, static_cast<int>(b), m);
      }
      computed_[d].push_back(last);
    }
  }

  // Every device ends with the sum of its shard, which goes to the host.
  void reduce_scatter(std::size_t b) {
    const double gradients = blocks_[b].gradient_download;
    const std::string name = "G." + std::to_string(b);
    std::vector<TaskId> computed;
    for (std::size_t d = 0; d < devices_; ++d) computed.push_back(computed_[d].back());
    const auto reduced = ring(name, gradients, reduce_down_, reduce_up_, computed);
    for (std::size_t d = 0; d < devices_; ++d) {
      scattered_.push_back(plan_.copy(name + "." + std::to_string(d), reduce_down_[d],
                                      part_of(gradients, d, devices_),
                                      devices_ == 1 ? computed : reduced[d]));
    }
  }

  const std::vector<BlockCosts> blocks_;
  TimingPlan plan_;
  MachineQueues queues_;
  HostUpdates updates_;
  const Profile& profile_;
  const std::size_t devices_;
  const int micro_batches_;
  std::vector<ResourceId> gather_up_;
  std::vector<ResourceId> gather_down_;
  std::vector<ResourceId> reduce_up_;
  std::vector<ResourceId> reduce_down_;
  std::vector<std::vector<TaskId>> computed_;  // by device: the last task of every layer's pass
  std::optional<DriveQueues> drives_;
  std::vector<std::vector<TaskId>> uploaded_;  // the shards of every gather
  std::vector<TaskId> scattered_;
  std::vector<TaskId> step_starts_;
};

double moved(const Plan& plan, const std::string& suffix) {
  double bytes = 0;
  for (const Task& task : plan.tasks) {
    const Resource& resource = plan.resources[task.resource];
    if (resource.kind != ResourceKind::copy || !resource.name.ends_with(suffix)) continue;
    bytes += static_cast<double>(task.bytes.count);
  }
  return bytes;
}

}  // namespace

ProgramAnswer zero_program(const PlanQuestion& question) {
  const std::vector<BlockCosts> blocks = profile_costs(question.profile);
  Program answer;
  answer.plan = ZeroWriter(question, blocks).write();
  answer.prediction = simulate(answer.plan, 2);
  answer.remark = std::to_string(question.machine.devices.size()) + " devices";
  // The schedule's own: its busiest link or device.
  answer.lower_bound = answer.prediction.busiest;

  PlanReport& report = answer.report;
  const double step = answer.prediction.step.count;
  double chain = 0;
  for (const BlockCosts& block : blocks) chain += block.forward_time + block.backward_time;
  const auto devices = static_cast<double>(question.machine.devices.size());
  report.figures["step"] = report.figures["makespan"] = step;
  report.figures["bubble"] = 1 - chain * question.micro_batches / (devices * step);
  report.figures["traffic_up_bytes"] = moved(answer.plan, "_up");
  report.figures["traffic_down_bytes"] = moved(answer.plan, "_down");
  if (question.papers.states == StatesRule::drives) {
    report.figures["drive_read_bytes"] = moved(answer.plan, "s_read");
    report.figures["drive_written_bytes"] = moved(answer.plan, "s_write");
  }
  report.figures["link_floor"] = answer.prediction.busiest.count;
  for (const char* name : {"staleness_min", "staleness_max", "staleness_mean"}) {
    report.figures[name] = 0;
  }
  const double share = std::ceil(question.micro_batches / devices);
  report.series["in_flight"].assign(blocks.size(), share);
  for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
    report.stages.push_back(
        {Direction::both, question.machine.devices[d].name, 0, static_cast<int>(blocks.size())});
    report.mapping.push_back(static_cast<int>(d));
  }
  return answer;
}

}  // namespace ferry
