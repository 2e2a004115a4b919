#include <charconv>

#include "plan/plan.h"
#include "plan/words.h"

namespace ferry {
namespace {

// The text under construction. Every line is a word, a name and fields " key=value".
class PlanText {
 public:
  void line(std::string_view entity, std::string_view name) {
    text_ += entity;
    if (!name.empty()) text_ += ' ';
    text_ += name;
  }
  void end() { text_ += '\n'; }

  void flag(std::string_view name) { (text_ += ' ') += name; }
  void field(std::string_view key, std::string_view value) {
    start(key);
    text_ += value;
  }
  void field(std::string_view key, double value) { field(key, number_text(value)); }
  void field(std::string_view key, std::int64_t value) { field(key, std::to_string(value)); }
  void field(std::string_view key, int value) { field(key, std::int64_t{value}); }
  void field(std::string_view key, Bytes value) { field(key, value.count); }

  // Writes "key=a,b,c", or nothing for an empty list.
  template <typename IdType, typename NameOf>
  void list(std::string_view key, const FewIds<IdType>& ids, NameOf name_of) {
    if (ids.empty()) return;
    start(key);
    for (const IdType id : ids) {
      text_ += name_of(id);
      text_ += ',';
    }
    text_.pop_back();
  }

  std::string take() { return std::move(text_); }

 private:
  void start(std::string_view key) {
    text_ += ' ';
    text_ += key;
    text_ += '=';
  }

  std::string text_;
};

void print_step(const Plan& plan, PlanText& text) {
  text.line(kPlanHeader, "1");
  text.end();
  text.line("strategy", plan.strategy);
  text.end();
  text.line("step", to_string(plan.mode));
  text.field("micro_batches", plan.micro_batches);
  text.field("micro_batch_size", plan.micro_batch_size);
  text.field("sequence", plan.sequence);
  text.field("precision", to_string(plan.precision));
  text.field("staleness", plan.staleness);
  if (plan.gradients != Precision::fp32) text.field("gradients", to_string(plan.gradients));
  if (plan.clips) text.flag("clips");
  if (plan.norm_first) text.flag("norm_first");
  if (plan.again_from > 0) text.field("again_from", plan.again_from);
  if (plan.timing_only) text.flag("timing_only");
  text.end();
}

void print_blocks(const Plan& plan, PlanText& text) {
  for (const BlockId b : plan.blocks.ids()) {
    const PlanBlock& block = plan.blocks[b];
    text.line("block", to_string(b));
    text.field("kind", block.kind);
    text.field("stage", block.stage);
    if (block.trainable) text.flag("trainable");
    if (block.fused) text.flag("fused");
    if (block.reads_weight.valid()) text.field("reads_weight", block.reads_weight.number());
    text.end();
  }
}

void print_machine(const Plan& plan, PlanText& text) {
  for (const Pool& pool : plan.pools) {
    text.line("pool", pool.name);
    text.field("capacity", pool.capacity);
    if (pool.in_turn) text.flag("in_turn");
    text.end();
  }
  for (const Place& place : plan.places) {
    text.line("place", place.name);
    text.field("kind", to_string(place.kind));
    text.field("budget", place.budget);
    text.field("workspace", place.workspace);
    text.end();
  }
  for (const Resource& resource : plan.resources) {
    text.line("resource", resource.name);
    text.field("kind", to_string(resource.kind));
    text.field("place", plan.places[resource.place].name);
    if (resource.rate != 0) text.field("rate", resource.rate);
    if (resource.latency.count != 0) text.field("latency", resource.latency.count);
    for (const Draw& draw : resource.draws) {
      text.field("draw", plan.pools[draw.pool].name + ":" + number_text(draw.rate));
    }
    text.end();
  }
}

void print_memory(const Plan& plan, const IdVector<InstanceId, std::string>& instances,
                  PlanText& text) {
  for (const Value& value : plan.values) {
    text.line("value", value_name(value));
    text.field("bytes", value.bytes);
    text.end();
  }
  for (const InstanceId id : plan.instances.ids()) {
    text.line("instance", instances[id]);
    text.field("offset", plan.instances[id].offset);
    if (plan.instances[id].home) text.flag("home");
    text.end();
  }
}

void print_task(const Plan& plan, const IdVector<InstanceId, std::string>& instances,
                const Task& task, PlanText& text) {
  const auto instance = [&](InstanceId id) -> const std::string& { return instances[id]; };
  const auto task_name = [&](TaskId id) -> const std::string& { return plan.tasks[id].name; };
  text.line("task", task.name);
  text.field("kind", to_string(task.kind));
  text.field("on", plan.resources[task.resource].name);
  if (task.block.valid()) text.field("block", task.block.number());
  if (task.micro_batch >= 0) text.field("micro_batch", task.micro_batch);
  if (task.piece >= 0) text.field("piece", task.piece);
  if (task.micros.count != 0) text.field("micros", task.micros.count);
  if (task.bytes.count != 0) text.field("bytes", task.bytes);
  if (task.refreshes) text.flag("refreshes");
  if (task.workspace.count != 0) text.field("workspace", task.workspace);
  text.list("reads", task.reads, instance);
  text.list("writes", task.writes, instance);
  text.list("after", task.after, task_name);
  text.list("after_previous", task.after_previous, task_name);
  text.end();
}

}  // namespace

std::string to_text(const Plan& plan) {
  const auto instances = instance_names(plan);
  PlanText text;
  print_step(plan, text);
  print_blocks(plan, text);
  print_machine(plan, text);
  print_memory(plan, instances, text);
  for (const Task& task : plan.tasks) print_task(plan, instances, task, text);
  return text.take();
}

}  // namespace ferry
