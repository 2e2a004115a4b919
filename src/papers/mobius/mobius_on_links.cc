#include "papers/mobius/mobius_on_links.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "papers/timing/host_updates.h"
#include "papers/timing/machine_queues.h"
#include "papers/timing/timing_plan.h"

namespace ferry {
namespace {

Bytes whole(double bytes) { return {static_cast<std::int64_t>(bytes)}; }

class LinksWriter {
 public:
  LinksWriter(const PlanQuestion& question, const MobiusProgram& program)
      : question_(question),
        program_(program),
        plan_("mobius", program.problem.micro_batches, program.ends.back()),
        queues_(plan_, question),
        updates_(plan_, question),
        slots_(program.problem.devices) {
    int first = 0;
    for (std::size_t j = 0; j < program.ends.size(); ++j) {
      first_block_.push_back(first);
      for (; first < program.ends[j]; ++first) plan_.set_stage(first, static_cast<int>(j));
    }
    for (int d = 0; d < program.problem.devices; ++d) {
      weights_.push_back(queues_.root_up(d, "weights_up"));
      inputs_.push_back(queues_.up(d, "acts_up"));
      outputs_.push_back(queues_.down(d, "acts_down"));
      gradients_.push_back(queues_.root_down(d, "grads_down"));
      visit_ends_.emplace_back();
      visit_starts_.emplace_back();
    }
  }

  Plan write() {
    const std::size_t stages = program_.stages.size();
    for (std::size_t j = 0; j < stages; ++j) visit(false, j);
    for (std::size_t j = stages; j-- > 0;) {
      visit(true, j);
      download(j);
    }
    for (const TaskId first : step_starts_) {
      for (const TaskId last : step_ends_) plan_.wait_for_previous(first, last);
    }
    return plan_.finish();
  }

 private:
  int device(std::size_t j) const { return program_.device_of_slot[j % slots_]; }

  std::vector<TaskId> input(bool backward, std::size_t j, std::size_t m, const std::string& name) {
    const std::size_t last = program_.stages.size() - 1;
    if (!backward && j == 0) return {};
    if (backward && j == last) return {previous_.back()};
    const StageCosts& costs = program_.stages[backward ? j + 1 : j - 1];
    const double bytes = backward ? costs.activation_gradient : costs.activation;
    const int from = device(backward ? j + 1 : j - 1);
    if (bytes <= 0 || from == device(j)) return {previous_[m]};
    const TaskId down = plan_.copy(name + "<", outputs_[from], whole(bytes), {previous_[m]});
    return {plan_.copy(name + ">", inputs_[device(j)], whole(bytes), {down})};
  }

  // The weights of the visit: beside the running stage, then behind it.
  std::vector<TaskId> loads(bool backward, std::size_t j) {
    const StageCosts& costs = program_.stages[j];
    const bool stays = backward && j + slots_ >= program_.stages.size();
    const double upload = backward ? costs.backward_upload : costs.forward_upload;
    if (stays || upload <= 0) return {};
    const std::size_t d = device(j);
    const std::string name = (backward ? "WB." : "WF.") + std::to_string(j);
    const bool first = !backward && j < slots_;
    if (first) {
      const TaskId load = plan_.copy(name, weights_[d], whole(upload));
      step_starts_.push_back(load);
      return {load};
    }
    const StageCosts& running = program_.stages[backward ? j + slots_ : j - slots_];
    const double room =
        program_.problem.memory - (backward ? running.backward_memory : running.forward_memory);
    const double prefetch = std::clamp(room, 0.0, upload);
    std::vector<TaskId> result;
    if (prefetch >= 1) {
      result.push_back(
          plan_.copy(name + ".prefetch", weights_[d], whole(prefetch), visit_starts_[d]));
    }
    if (upload - prefetch >= 1) {
      result.push_back(plan_.copy(name + ".rest", weights_[d], whole(upload - prefetch),
                                  {visit_ends_[d].back()}));
    }
    return result;
  }

  void visit(bool backward, std::size_t j) {
    const StageCosts& costs = program_.stages[j];
    const std::size_t d = device(j);
    const std::vector<TaskId> weights = loads(backward, j);
    // The next visit's prefetch may start when this one's does.
    std::vector<TaskId> starts = weights;
    starts.insert(starts.end(), visit_ends_[d].begin(), visit_ends_[d].end());
    std::vector<TaskId> tasks;
    for (int m = 0; m < program_.problem.micro_batches; ++m) {
      const std::string name =
          (backward ? "B." : "F.") + std::to_string(j) + "." + std::to_string(m);
      std::vector<TaskId> after = input(backward, j, m, name);
      if (m == 0) {
        starts.insert(starts.end(), after.begin(), after.end());
        after.insert(after.end(), weights.begin(), weights.end());
      }
      const TaskId id =
          plan_.add(backward ? TaskKind::backward : TaskKind::forward, name,
                    queues_.compute(static_cast<int>(d)),
                    {backward ? costs.backward_time : costs.forward_time}, std::move(after));
      plan_.about(id, first_block_[j], static_cast<int>(m));
      tasks.push_back(id);
    }
    visit_starts_[d] = std::move(starts);
    visit_ends_[d] = {tasks.back()};
    previous_ = std::move(tasks);
  }

  void download(std::size_t j) {
    const double bytes = program_.stages[j].gradient_download;
    TaskId landed = previous_.back();
    if (bytes >= 1) {
      landed = plan_.copy("G." + std::to_string(j), gradients_[device(j)], whole(bytes), {landed});
    }
    const int first = first_block_[j];
    const std::optional<TaskId> update =
        updates_.add("U." + std::to_string(j), first, program_.ends[j], {landed});
    step_ends_.push_back(update.value_or(landed));
  }

  const PlanQuestion& question_;
  const MobiusProgram& program_;
  TimingPlan plan_;
  MachineQueues queues_;
  HostUpdates updates_;
  const std::size_t slots_;
  std::vector<int> first_block_;  // by stage
  std::vector<ResourceId> weights_;
  std::vector<ResourceId> inputs_;
  std::vector<ResourceId> outputs_;
  std::vector<ResourceId> gradients_;
  std::vector<TaskId> previous_;                   // of the stage visited before, by micro-batch
  std::vector<std::vector<TaskId>> visit_starts_;  // by device: what its last visit waited for
  std::vector<std::vector<TaskId>> visit_ends_;
  std::vector<TaskId> step_starts_;
  std::vector<TaskId> step_ends_;
};

}  // namespace

Plan write_mobius_on_links(const PlanQuestion& question, const MobiusProgram& program) {
  return LinksWriter(question, program).write();
}

}  // namespace ferry
