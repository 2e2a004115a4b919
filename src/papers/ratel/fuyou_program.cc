#include "papers/ratel/fuyou_program.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exec/simulator.h"
#include "papers/timing/timing_plan.h"

namespace ferry {
namespace {

constexpr int kBlocksPerLayer = 3;    // qkv and projection, fc1, fc2: 4 hidden^2 weights each
constexpr double kUpdatedBytes = 12;  // P32, m, v
constexpr double kWeightBytes = 2;    // P16 and G16

CalibratedStep calibrated(const FuyouProblem& question) {
  RatelConstants constants = question.constants;
  if (!question.artifact) constants.host_work = 0;  // it hides behind the drives
  return question.units ? calibrated_at(constants, question.model, *question.units)
                        : calibrated_step(constants, question.model);
}

// Whole bytes of some blocks that add up to the whole of the total.
Bytes share_of_blocks(double total, int first, int end, int blocks) {
  const auto before = [&](int block) { return std::llround(total * block / blocks); };
  return {before(end) - before(first)};
}

class FuyouWriter {
 public:
  explicit FuyouWriter(const FuyouProblem& question);

  Plan write();

 private:
  struct Group {
    int first = 0;  // blocks [first, end)
    int end = 0;
    TaskId read = -1;
    TaskId update = -1;
    TaskId write_states = -1;
    TaskId write_weights = -1;
  };

  double seconds_per_parameter() const;
  Bytes bytes(double per_parameter, int first, int end) const {
    return share_of_blocks(per_parameter * parameters_, first, end, blocks_);
  }
  Bytes block_bytes(double total, int block) const {
    return share_of_blocks(total, block, block + 1, blocks_);
  }
  TaskId copy(const std::string& name, int block, ResourceId queue, Bytes size,
              std::vector<TaskId> after);
  void compute(TaskKind kind, const std::string& name, int block, double seconds,
               std::vector<TaskId> after);
  std::vector<TaskId> room_for(int ahead) const;
  TaskId upload_weights(const std::string& pass, int block);
  void forward(int block);
  void backward(int block);
  void handle(std::size_t g);
  void connect_steps();

  const FuyouProblem& question_;
  const CalibratedStep step_;
  const int blocks_;
  const double parameters_;
  const double spilled_;
  TimingPlan plan_;
  ResourceId gpu_, up_, down_, update_;
  ResourceId weights_read_, states_read_, states_write_, activations_read_, activations_write_;
  std::vector<Group> groups_;
  std::vector<TaskId> computed_;        // forward and backward tasks, as they follow each other
  std::vector<TaskId> weights_in_;      // by block: read of the forward weights
  std::vector<TaskId> activation_out_;  // by block: the last copy of what was swapped
  std::vector<TaskId> gradient_out_;    // by block
};

FuyouWriter::FuyouWriter(const FuyouProblem& question)
    : question_(question),
      step_(calibrated(question)),
      blocks_(fuyou_blocks(question)),
      parameters_(question.model.parameters),
      spilled_(std::max(0.0, step_.swapped - question.model.host_available)),
      plan_("fuyou", 1, fuyou_blocks(question)) {
  const StreamRates& rates = question.constants.rates;
  for (int block = 0; block < blocks_; ++block) plan_.set_stage(block, block / kBlocksPerLayer);
  const PlaceId gpu = plan_.place("gpu0", PlaceKind::device);
  const PlaceId drives = plan_.place("drives", PlaceKind::drive);
  // Simplex drives: what runs at the same time shares one second per second.
  const std::vector<Draw> shared{{plan_.pool("drives", 1), 1}};
  const bool naive = question.order == HandlerOrder::naive;
  const double stretch = naive ? question.constants.overlap_stretch : 1;
  gpu_ = plan_.compute("gpu0.compute", gpu);
  up_ = plan_.link("gpu0.up", gpu, rates.link);
  down_ = plan_.link("gpu0.down", gpu, rates.link);
  update_ = plan_.worker("host.update", question.artifact ? shared : std::vector<Draw>{});
  weights_read_ = plan_.link("weights_read", drives, rates.read, shared);
  states_read_ = plan_.link("states_read", drives, rates.read / stretch, shared);
  states_write_ = plan_.link("states_write", drives, rates.write / stretch, shared);
  activations_read_ = plan_.link("activations_read", drives, rates.read, shared);
  activations_write_ = plan_.link("activations_write", drives, rates.write, shared);

  const int group_blocks = fuyou_group_blocks(question);
  for (int first = 0; first < blocks_; first += group_blocks) {
    groups_.push_back({.first = first, .end = std::min(first + group_blocks, blocks_)});
  }
  weights_in_.resize(blocks_);
  activation_out_.resize(blocks_);
  gradient_out_.resize(blocks_);
}

double FuyouWriter::seconds_per_parameter() const {
  const RatelConstants& constants = question_.constants;
  switch (question_.order) {
    case HandlerOrder::serial:
      return constants.stage_host_work;
    case HandlerOrder::naive:
      return constants.stage_host_work * constants.overlap_stretch;
    case HandlerOrder::delayed:
      return constants.host_work;
  }
  FERRY_UNREACHABLE("an order of handlers");
}

TaskId FuyouWriter::copy(const std::string& name, int block, ResourceId queue, Bytes size,
                         std::vector<TaskId> after) {
  const TaskId task = plan_.copy(name, queue, size, std::move(after));
  plan_.about(task, block, 0);
  return task;
}

void FuyouWriter::compute(TaskKind kind, const std::string& name, int block, double seconds,
                          std::vector<TaskId> after) {
  computed_.push_back(plan_.add(kind, name, gpu_, from_seconds(seconds), std::move(after)));
  plan_.about(computed_.back(), block, 0);
}

// What frees room for the next block, of which `ahead` may wait while one computes.
std::vector<TaskId> FuyouWriter::room_for(int ahead) const {
  const auto held = static_cast<std::size_t>(ahead) + 1;
  if (computed_.size() < held) return {};
  return {computed_[computed_.size() - held]};
}

TaskId FuyouWriter::upload_weights(const std::string& pass, int block) {
  const std::string name = pass + "." + std::to_string(block);
  const Bytes size = bytes(kWeightBytes, block, block + 1);
  const TaskId read =
      copy("read.W." + name, block, weights_read_, size, room_for(question_.read_ahead));
  if (pass == "F") weights_in_[block] = read;
  std::vector<TaskId> after = room_for(question_.upload_ahead);
  after.push_back(read);
  return copy("up.W." + name, block, up_, size, std::move(after));
}

void FuyouWriter::forward(int block) {
  const std::string name = std::to_string(block);
  const TaskId weights = upload_weights("F", block);
  compute(TaskKind::forward, "F." + name, block, step_.gpu_forward / blocks_, {weights});
  const TaskId down =
      copy("down.A." + name, block, down_, block_bytes(step_.swapped, block), {computed_.back()});
  activation_out_[block] = down;
  if (spilled_ > 0) {
    activation_out_[block] =
        copy("write.A." + name, block, activations_write_, block_bytes(spilled_, block), {down});
  }
}

void FuyouWriter::backward(int block) {
  const std::string name = std::to_string(block);
  const TaskId weights = upload_weights("B", block);
  TaskId activation = activation_out_[block];
  if (spilled_ > 0) {
    std::vector<TaskId> after = room_for(question_.read_ahead);
    after.push_back(activation);
    activation = copy("read.A." + name, block, activations_read_, block_bytes(spilled_, block),
                      std::move(after));
  }
  std::vector<TaskId> after = room_for(question_.upload_ahead);
  after.push_back(activation);
  activation =
      copy("up.A." + name, block, up_, block_bytes(step_.swapped, block), std::move(after));
  compute(TaskKind::backward, "B." + name, block, step_.gpu_backward / blocks_,
          {weights, activation});
  gradient_out_[block] = copy("down.G." + name, block, down_, bytes(kWeightBytes, block, block + 1),
                              {computed_.back()});
}

// The handler of one group; groups come in falling order.
void FuyouWriter::handle(std::size_t g) {
  Group& group = groups_[g];
  const std::string name = std::to_string(group.first);
  const double parameters = parameters_ * (group.end - group.first) / blocks_;
  std::vector<TaskId> gradients(gradient_out_.begin() + group.first,
                                gradient_out_.begin() + group.end);
  const bool delayed = question_.order == HandlerOrder::delayed;
  std::vector<TaskId> before_read;
  if (delayed) {
    if (g + 2 < groups_.size()) before_read = {groups_[g + 2].write_states};  // two slots
  } else {
    before_read = question_.order == HandlerOrder::serial
                      ? std::vector<TaskId>{gradient_out_.front()}
                      : gradients;
    if (g + 1 < groups_.size()) before_read.push_back(groups_[g + 1].write_weights);
  }
  group.read = copy("read.S." + name, group.first, states_read_,
                    bytes(kUpdatedBytes, group.first, group.end), std::move(before_read));
  std::vector<TaskId> before_update = std::move(gradients);
  before_update.push_back(group.read);
  group.update = plan_.add(TaskKind::update, "U." + name, update_,
                           from_seconds(seconds_per_parameter() * parameters), before_update);
  plan_.about(group.update, group.first, -1);
  group.write_states = copy("write.S." + name, group.first, states_write_,
                            bytes(kUpdatedBytes, group.first, group.end), {group.update});
  group.write_weights = copy("write.W." + name, group.first, states_write_,
                             bytes(kWeightBytes, group.first, group.end), {group.update});
  if (delayed && g + 1 < groups_.size()) {
    for (const TaskId write : {groups_[g + 1].write_states, groups_[g + 1].write_weights}) {
      plan_.wait_for(write, group.read);
    }
  }
}

void FuyouWriter::connect_steps() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    for (int block = group.first; block < group.end; ++block) {
      plan_.wait_for_previous(weights_in_[block], group.write_weights);
    }
    plan_.wait_for_previous(group.read, group.write_states);
  }
  // The first two groups take the slots that the last two of the step before leave.
  if (question_.order == HandlerOrder::delayed && groups_.size() >= 2) {
    plan_.wait_for_previous(groups_[groups_.size() - 1].read, groups_[1].write_states);
    plan_.wait_for_previous(groups_[groups_.size() - 2].read, groups_[0].write_states);
  }
}

Plan FuyouWriter::write() {
  for (int block = 0; block < blocks_; ++block) forward(block);
  for (std::size_t g = groups_.size(); g-- > 0;) {
    for (int block = groups_[g].end; block-- > groups_[g].first;) backward(block);
    if (question_.order == HandlerOrder::serial) continue;
    handle(g);
    const double stall = question_.constants.launch_stall;
    if (question_.order == HandlerOrder::naive && stall > 0) {
      const double share = (groups_[g].end - groups_[g].first) / static_cast<double>(blocks_);
      const double seconds = stall * share * optimizer_stage(question_.constants, parameters_);
      const TaskId task = plan_.add(TaskKind::work, "stall." + std::to_string(groups_[g].first),
                                    gpu_, from_seconds(seconds));
      plan_.about(task, groups_[g].first, -1);
    }
  }
  if (question_.order == HandlerOrder::serial) {
    for (std::size_t g = groups_.size(); g-- > 0;) handle(g);
  }
  connect_steps();
  return plan_.finish();
}

}  // namespace

int fuyou_blocks(const FuyouProblem& question) { return question.model.layers * kBlocksPerLayer; }

int fuyou_group_blocks(const FuyouProblem& question) {
  const int blocks = fuyou_blocks(question);
  const double filled = question.group_parameters * blocks / question.model.parameters;
  return static_cast<int>(std::clamp(std::ceil(filled), 1.0, static_cast<double>(blocks)));
}

double swapped_units(const FuyouProblem& question) { return calibrated(question).units; }

Plan fuyou_program(const FuyouProblem& question) {
  FERRY_CHECK(question.model.layers > 0 && question.model.parameters > 0, "a model has layers");
  FERRY_CHECK(question.upload_ahead >= 0 && question.read_ahead >= question.upload_ahead,
              "what is uploaded ahead was read ahead");
  return FuyouWriter(question).write();
}

double simulated_step(const FuyouProblem& question) {
  return simulate(fuyou_program(question)).step.seconds() + question.model.parallel_wait;
}

}  // namespace ferry
