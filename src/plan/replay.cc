#include "plan/replay.h"

#include <algorithm>
#include <string>
#include <vector>

#include "plan/byte_map.h"
#include "plan/task_signature.h"
#include "plan/words.h"

namespace ferry {
namespace {

class Replay {
 public:
  Replay(const Plan& plan, const StepOrder& order, Findings& findings);

  void run();

 private:
  struct Range {
    ByteMap& bytes;
    std::int64_t begin;
    std::int64_t end;
  };

  // What a task has seen of gradient sums when it comes to write its own.
  struct Sums {
    bool own = false;   // reads the sum that it adds to
    bool head = false;  // reads a tied head's sum
  };

  void bring_home();
  void run_task(int step, TaskId id);
  Content read(InstanceId id);
  void write(InstanceId id, const Content& content);
  void check_read(const Value& value, InstanceId id, const Content& found, Sums& sums);
  void check_weights(const Value& value, InstanceId id, const Content& found);
  void check_sum(const Value& value, InstanceId id, const Content& found, Sums& sums);
  void check_sum_written(const Sums& sums);
  void check_overwrite(InstanceId id, std::int64_t begin, const Interval& over);
  void check_refreshed(const Range& range, InstanceId id, const Content& content);
  Content made(InstanceId id, const Content& copied) const;

  const Task& task() const { return plan_.tasks[task_]; }
  const Value& value_of(InstanceId id) const { return plan_.values[plan_.instances[id].value]; }
  Range range_of(InstanceId id);
  RunId run_id() const { return runs_.of(step_, task_); }

  template <typename Message>
  void report(Rule rule, Message message) {
    findings_.report(rule, {step_, task_}, [&] { return named(run_id()) + message(); });
  }
  std::string named(RunId run) const;
  const std::string& name(InstanceId id);
  std::string slot_name(InstanceId id);
  std::string text(const Content& content) const;

  const Plan& plan_;
  const StepOrder& order_;
  Findings& findings_;
  const int steps_;
  const Clocks clocks_;
  const TaskSignatures signatures_;
  const RunIds runs_;
  IdVector<BlockId, BlockId> head_of_;  // the tied head that adds to its gradient, or none
  IdVector<PlaceId, ByteMap> places_;
  IdVector<InstanceId, std::string> names_;  // filled when the first is needed

  int step_ = 0;
  TaskId task_;
};

Replay::Replay(const Plan& plan, const StepOrder& order, Findings& findings)
    : plan_(plan),
      order_(order),
      findings_(findings),
      steps_(2 + plan.staleness),
      clocks_(plan, order, steps_),
      signatures_(plan),
      runs_(plan),
      head_of_(plan.blocks.size()),
      places_(plan.places.size()) {
  for (const BlockId b : plan.blocks.ids()) {
    const BlockId weight = plan.blocks[b].reads_weight;
    if (weight.valid()) head_of_[weight] = b;
  }
}

Replay::Range Replay::range_of(InstanceId id) {
  const Instance& instance = plan_.instances[id];
  const std::int64_t begin = instance.offset.count;
  ByteMap& bytes = places_[instance.place];
  const std::int64_t end = begin + value_of(id).bytes.count;
  bytes.cut(begin, end);
  return {bytes, begin, end};
}

std::string Replay::named(RunId run) const {
  if (!run.valid()) return "the state before the first step";
  return "'" + plan_.tasks[runs_.task(run)].name + "' of step " + std::to_string(runs_.step(run));
}

const std::string& Replay::name(InstanceId id) {
  if (names_.empty()) names_ = instance_names(plan_);
  return names_[id];
}

std::string Replay::slot_name(InstanceId id) {
  const Instance& instance = plan_.instances[id];
  const std::int64_t begin = instance.offset.count;
  return name(id) + " (bytes " + std::to_string(begin) + " to " +
         std::to_string(begin + value_of(id).bytes.count) + " of " +
         plan_.places[instance.place].name + ")";
}

std::string Replay::text(const Content& content) const {
  return value_name(plan_.values[content.value]);
}

void Replay::run() {
  bring_home();
  for (step_ = 0; step_ < steps_; ++step_) {
    for (const TaskId id : order_.tasks) run_task(step_, id);
  }
}

// Weights and states at rest hold their value before the first step.
void Replay::bring_home() {
  task_ = TaskId();
  for (const InstanceId id : plan_.instances.ids()) {
    if (!plan_.instances[id].home) continue;
    const Range range = range_of(id);
    const auto taken = range.bytes.from(range.begin);
    if (taken != range.bytes.end() && taken->first < range.end) {
      const Content& other = taken->second.content;
      findings_.report(Rule::slots_ordered, {0, TaskId()}, [&] {
        return slot_name(id) + " is at home in bytes that are also home to " + text(other);
      });
    }
    range.bytes.write(range.begin, range.end, {plan_.instances[id].value, range.begin}, RunId());
  }
}

void Replay::run_task(int step, TaskId id) {
  step_ = step;
  task_ = id;
  Sums sums;
  Content copied;
  for (const InstanceId instance : task().reads) {
    copied = read(instance);
    if (copied.trusted) check_read(value_of(instance), instance, copied, sums);
  }
  if (task().kind == TaskKind::backward) check_sum_written(sums);
  for (const InstanceId instance : task().writes) write(instance, made(instance, copied));
}

// Returns what the instance holds; not trusted when that breaks rule 2 or 3.
Content Replay::read(InstanceId id) {
  const Range range = range_of(id);
  const Instance& instance = plan_.instances[id];
  Content content{instance.value, range.begin, step_};
  bool first = true;
  std::int64_t covered = range.begin;
  for (auto at = range.bytes.from(range.begin); at != range.bytes.end() && at->first < range.end;
       ++at) {
    Interval& interval = at->second;
    const Content& found = interval.content;
    const bool is_ordered = clocks_.ordered(interval.writer, run_id());
    const bool is_value = found.value == instance.value && found.base == range.begin;
    if (!is_value && is_ordered) {
      report(Rule::reads_find, [&] {
        return " reads " + slot_name(id) + ", but finds " + text(found) + " there, from " +
               named(interval.writer);
      });
    } else if (!is_value) {
      report(Rule::slots_ordered, [&] {
        return " reads " + slot_name(id) + ", and " + named(interval.writer) + " writes " +
               text(found) + " over it; nothing orders the two";
      });
    } else if (!is_ordered) {
      report(Rule::reads_find, [&] {
        return " reads " + slot_name(id) + ", but does not come after " + named(interval.writer) +
               ", which writes it";
      });
    } else if (at->first != covered || (!first && found != content)) {
      report(Rule::reads_find,
             [&] { return " reads " + slot_name(id) + ", which is only partly there"; });
      content.trusted = false;
    }
    if (!is_value || !is_ordered) content.trusted = false;
    if (first && content.trusted) content = found;
    first = false;
    covered = interval.end;
    auto& readers = interval.readers;
    std::erase_if(readers, [&](RunId r) { return clocks_.ordered(r, run_id()); });
    readers.push_back(run_id());
  }
  if (covered < range.end) {
    report(Rule::reads_find,
           [&] { return " reads " + slot_name(id) + ", which nothing has written"; });
    content.trusted = false;
  }
  return content;
}

void Replay::check_read(const Value& value, InstanceId id, const Content& found, Sums& sums) {
  if (task().kind == TaskKind::copy) return;  // whoever uses the copy says what it has to be
  switch (value.kind) {
    case ValueKind::weight:
    case ValueKind::state:
      return check_weights(value, id, found);
    case ValueKind::gradient:
      return check_sum(value, id, found, sums);
    default:
      break;
  }
  if (found.version == step_) return;
  report(Rule::reads_find, [&] {
    return " reads " + slot_name(id) + ", but finds that of step " + std::to_string(found.version);
  });
}

void Replay::check_weights(const Value& value, InstanceId id, const Content& found) {
  int expected = 0;
  const bool redoes = task().kind == TaskKind::redo;
  if (plan_.mode == PlanMode::train && plan_.blocks[value.block].trainable) {
    const bool updates = task().kind == TaskKind::update;
    expected = redoes ? step_ + 1 : updates ? step_ : std::max(0, step_ - plan_.staleness);
  }
  if (found.ahead != redoes) {
    return report(Rule::staleness, [&] {
      return " reads " + slot_name(id) +
             (redoes ? ", which no update ahead of the norm has written"
                     : ", which 'redo' may yet take back");
    });
  }
  const int pieces = value.kind == ValueKind::weight ? std::max(0, task().piece) : 0;
  if (found.done != pieces) {
    return report(Rule::staleness, [&] {
      return " reads " + slot_name(id) + " with " + std::to_string(found.done) + " of " +
             std::to_string(signatures_.updates(value.block)) + " pieces updated; expected " +
             std::to_string(pieces);
    });
  }
  if (found.version == expected) return;
  report(Rule::staleness, [&] {
    return " reads " + slot_name(id) + " after " + std::to_string(found.version) +
           " updates; expected " + std::to_string(expected) + " with staleness " +
           std::to_string(plan_.staleness);
  });
}

void Replay::check_sum(const Value& value, InstanceId id, const Content& found, Sums& sums) {
  const bool adds = task().kind == TaskKind::backward && value.block == task().block;
  const bool is_head = task().kind == TaskKind::backward && !adds;
  sums.own = sums.own || adds;
  sums.head = sums.head || is_head;
  if (found.version != step_) {
    report(Rule::reads_find, [&] {
      return " reads " + slot_name(id) + ", but finds the sum of step " +
             std::to_string(found.version);
    });
    return;
  }
  const int expected = adds ? task().micro_batch : plan_.micro_batches;
  if (found.done == expected) return;
  report(Rule::each_once, [&] {
    return " reads " + slot_name(id) + " with " + std::to_string(found.done) +
           " micro-batches summed; expected " + std::to_string(expected) +
           ", as sums are made in ascending order";
  });
}

// A backward task adds its micro-batch to G.b behind all smaller ones, and the last completes it.
void Replay::check_sum_written(const Sums& sums) {
  if (!signatures_.sums_gradient(task().block)) return;
  const std::string block = to_string(task().block);
  const bool is_last = task().micro_batch + 1 == plan_.micro_batches;
  const BlockId head = head_of_[task().block];
  if (!sums.own && task().micro_batch > 0) {
    report(Rule::each_once, [&] {
      return " starts the sum G." + block + " with micro-batch " +
             std::to_string(task().micro_batch) + "; sums are made in ascending order from 0";
    });
  }
  if (head.valid() && sums.head != is_last) {
    report(Rule::each_once, [&] {
      return std::string(is_last ? " completes G." : " does not complete G.") + block +
             (is_last ? " without G." : " and must not add G.") + to_string(head) +
             " of the tied head";
    });
  }
  if (is_last) return;
  for (const InstanceId id : task().writes) {
    const ValueKind kind = value_of(id).kind;
    if (kind != ValueKind::norm && kind != ValueKind::rounded) continue;
    report(Rule::each_once, [&] {
      return " writes " + name(id) + " after " + std::to_string(task().micro_batch + 1) + " of " +
             std::to_string(plan_.micro_batches) + " micro-batches";
    });
  }
}

// What the task leaves in an instance that it writes. What should have been there is assumed where
// a rule is broken, so that one fault is not reported twice.
Content Replay::made(InstanceId id, const Content& copied) const {
  const Instance& instance = plan_.instances[id];
  if (task().kind == TaskKind::copy) {
    Content content = copied;
    content.base = instance.offset.count;
    return content;
  }
  const ValueKind kind = value_of(id).kind;
  Content content{instance.value, instance.offset.count, step_};
  const bool updates = task().kind == TaskKind::update || task().kind == TaskKind::redo;
  if (updates && kind != ValueKind::original) {
    const int written = task().piece + 1;  // pieces of weights, whole weights count as none
    const bool goes_on = written > 0 && written < signatures_.updates(task().block);
    if (kind == ValueKind::weight && goes_on) {
      content.done = written;
    } else {
      ++content.version;
    }
    content.ahead = task().kind == TaskKind::update && signatures_.updates_ahead(task().block);
  }
  if (kind == ValueKind::gradient) content.done = task().micro_batch + 1;
  return content;
}

void Replay::check_overwrite(InstanceId id, std::int64_t begin, const Interval& over) {
  const Content& content = over.content;
  if (over.writer == run_id() || !clocks_.ordered(over.writer, run_id())) {
    report(Rule::slots_ordered, [&] {
      return " writes " + slot_name(id) + " over " + text(content) + " from " + named(over.writer) +
             (over.writer == run_id() ? "" : "; nothing orders the two");
    });
    return;
  }
  const bool in_place = content.value == plan_.instances[id].value && content.base == begin;
  for (const RunId reader : over.readers) {
    if (reader == run_id() ? in_place : clocks_.ordered(reader, run_id())) continue;
    report(Rule::slots_ordered, [&] {
      return " writes " + slot_name(id) + " over " + text(content) + ", which " + named(reader) +
             " reads" + (reader == run_id() ? " from the same bytes" : "; nothing orders the two");
    });
    return;
  }
}

// Where the task does nothing, what it would write has to be there.
void Replay::check_refreshed(const Range& range, InstanceId id, const Content& content) {
  if (!content.trusted) return;
  std::int64_t covered = range.begin;
  for (auto at = range.bytes.from(range.begin); at != range.bytes.end() && at->first < range.end;
       ++at) {
    const Content& found = at->second.content;
    if (!found.trusted) return;
    const bool is_there = at->first == covered && found.value == content.value &&
                          found.base == content.base && found.version == content.version;
    if (!is_there) break;
    covered = at->second.end;
  }
  if (covered >= range.end) return;
  report(Rule::reads_find, [&] {
    return " refreshes " + slot_name(id) + ", which does not hold " + text(content) + " after " +
           std::to_string(content.version) + " updates";
  });
}

void Replay::write(InstanceId id, const Content& content) {
  const Range range = range_of(id);
  if (task().refreshes && step_ > 0) check_refreshed(range, id, content);
  for (auto at = range.bytes.from(range.begin); at != range.bytes.end() && at->first < range.end;
       ++at) {
    check_overwrite(id, range.begin, at->second);
  }
  range.bytes.write(range.begin, range.end, content, run_id());
}

}  // namespace

void replay(const Plan& plan, const StepOrder& order, Findings& findings) {
  Replay(plan, order, findings).run();
}

}  // namespace ferry
