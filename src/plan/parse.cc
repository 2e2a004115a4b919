#include <functional>
#include <unordered_map>

#include "base/error.h"
#include "plan/line.h"
#include "plan/plan.h"
#include "plan/words.h"

namespace ferry {
namespace {

// The ids of one kind of entity by name. Keys are views into the text that is parsed.
template <typename IdType>
class Names {
 public:
  explicit Names(std::string_view entity) : entity_(entity) {}

  void add(const LineOrigin& at, std::string_view name) {
    if (!ids_.emplace(name, next_).second) {
      refuse(at, entity_, "a name that is not taken", name);
    }
    ++next_;
  }

  IdType find(const LineOrigin& at, std::string_view name) const {
    const auto found = ids_.find(name);
    if (found == ids_.end()) refuse(at, entity_, "the name of one in this plan", name);
    return found->second;
  }

 private:
  std::string_view entity_;
  std::unordered_map<std::string_view, IdType> ids_;
  IdType next_{0};
};

// Names of tasks that may stand further down, resolved at the end.
struct TaskReferences {
  LineOrigin at;
  TaskId task;
  std::string_view after;
  std::string_view after_previous;
};

class PlanParser {
 public:
  explicit PlanParser(std::string_view origin) : origin_(origin) {}

  Plan parse(std::string_view text);

 private:
  void parse_line(PlanLine& line);
  void parse_strategy(PlanLine& line);
  void parse_step(PlanLine& line);
  void parse_block(PlanLine& line);
  void parse_pool(PlanLine& line);
  void parse_place(PlanLine& line);
  void parse_resource(PlanLine& line);
  void parse_value(PlanLine& line);
  void parse_instance(PlanLine& line);
  void parse_task(PlanLine& line);
  void resolve_references();

  template <typename IdType>
  std::string_view new_name(const PlanLine& line, Names<IdType>& names);
  template <typename IdType>
  FewIds<IdType> list(const LineOrigin& at, std::string_view key, std::string_view names,
                      const Names<IdType>& known) const;
  static PlanLine::Limits indices(std::size_t count) {
    return {0, static_cast<std::int64_t>(count) - 1};
  }

  std::string_view origin_;
  Plan plan_;
  bool has_strategy_ = false;
  bool has_step_ = false;
  Names<PoolId> pools_{"pool"};
  Names<PlaceId> places_{"place"};
  Names<ResourceId> resources_{"resource"};
  Names<ValueId> values_{"value"};
  Names<InstanceId> instances_{"instance"};
  Names<TaskId> tasks_{"task"};
  std::unordered_map<std::string, int> repeats_;  // "W.3@gpu0" -> instances of that name so far
  std::vector<TaskReferences> references_;
};

template <typename IdType>
std::string_view PlanParser::new_name(const PlanLine& line, Names<IdType>& names) {
  const auto name = line.name();
  if (!is_name(name)) {
    refuse(line.origin(), line.entity(), "a name of printable ASCII without any of ,=@", name);
  }
  names.add(line.origin(), name);
  return name;
}

template <typename IdType>
FewIds<IdType> PlanParser::list(const LineOrigin& at, std::string_view key, std::string_view names,
                                const Names<IdType>& known) const {
  FewIds<IdType> ids;
  if (names.empty()) refuse(at, key, "at least one name", names);
  if (names.back() == ',') refuse(at, key, "a name behind the last comma", names);
  while (!names.empty()) ids.push_back(known.find(at, take_until(names, ',')));
  return ids;
}

void PlanParser::parse_strategy(PlanLine& line) {
  if (has_strategy_) refuse(line.origin(), "strategy", "a single line", line.name());
  has_strategy_ = true;
  if (!is_name(line.name())) {
    refuse(line.origin(), "strategy", "a name of printable ASCII without any of ,=@", line.name());
  }
  plan_.strategy = line.name();
}

void PlanParser::parse_step(PlanLine& line) {
  if (has_step_) refuse(line.origin(), "step", "a single line", line.name());
  has_step_ = true;
  plan_.mode = static_cast<PlanMode>(line.name_choice(kModeWords));
  plan_.micro_batches = line.integer("micro_batches", {1});
  plan_.micro_batch_size = line.integer("micro_batch_size", {1});
  plan_.sequence = line.integer("sequence", {1});
  plan_.precision = static_cast<Precision>(line.choice("precision", kPrecisionWords));
  plan_.gradients = static_cast<Precision>(
      line.choice_or("gradients", kPrecisionWords, to_index(Precision::fp32)));
  plan_.staleness = line.integer_or("staleness", 0, {});
  plan_.clips = line.flag("clips");
  plan_.norm_first = line.flag("norm_first");
  plan_.again_from = line.integer_or("again_from", 0, {});
  plan_.timing_only = line.flag("timing_only");
}

void PlanParser::parse_block(PlanLine& line) {
  const auto index = std::to_string(plan_.blocks.size());
  if (line.name() != index) refuse(line.origin(), "block", index, line.name());
  PlanBlock block;
  block.kind = line.text("kind");
  if (!is_name(block.kind)) refuse(line.origin(), "kind", "a name", block.kind);
  block.stage = line.integer("stage", {});
  block.trainable = line.flag("trainable");
  block.fused = line.flag("fused");
  block.reads_weight = BlockId(line.integer_or("reads_weight", -1, indices(plan_.blocks.size())));
  plan_.blocks.push_back(std::move(block));
}

void PlanParser::parse_pool(PlanLine& line) {
  Pool pool;
  pool.name = new_name(line, pools_);
  pool.capacity = number_from(line.origin(), "capacity", line.text("capacity"));
  pool.in_turn = line.flag("in_turn");
  plan_.pools.push_back(std::move(pool));
}

void PlanParser::parse_place(PlanLine& line) {
  Place place;
  place.name = new_name(line, places_);
  if (!is_place_name(place.name)) refuse(line.origin(), "place", "a name without #", place.name);
  place.kind = static_cast<PlaceKind>(line.choice("kind", kPlaceWords));
  place.budget = line.bytes("budget");
  place.workspace = line.bytes("workspace");
  plan_.places.push_back(std::move(place));
}

void PlanParser::parse_resource(PlanLine& line) {
  Resource resource;
  resource.name = new_name(line, resources_);
  resource.kind = static_cast<ResourceKind>(line.choice("kind", kResourceWords));
  resource.place = places_.find(line.origin(), line.text("place"));
  resource.rate = line.number_or_zero("rate");
  resource.latency = {line.number_or_zero("latency")};
  while (const auto draw = line.optional_text("draw")) {
    const auto colon = draw->rfind(':');
    if (colon == std::string_view::npos) refuse(line.origin(), "draw", "POOL:RATE", *draw);
    resource.draws.push_back({pools_.find(line.origin(), draw->substr(0, colon)),
                              number_from(line.origin(), "draw", draw->substr(colon + 1))});
  }
  plan_.resources.push_back(std::move(resource));
}

void PlanParser::parse_value(PlanLine& line) {
  const auto name = line.name();
  auto value = value_from_name(name);
  if (!value) refuse(line.origin(), "value", "a name such as W.0, A.1.0, X.0 or C", name);
  if (value->block.valid() && !plan_.blocks.has(value->block)) {
    refuse(line.origin(), "value", "a block of this plan", name);
  }
  if (value->micro_batch >= plan_.micro_batches) {
    refuse(line.origin(), "value", "a micro-batch of this plan", name);
  }
  values_.add(line.origin(), name);
  value->bytes = line.bytes("bytes");
  plan_.values.push_back(*value);
}

void PlanParser::parse_instance(PlanLine& line) {
  const auto name = line.name();
  auto rest = name;
  Instance instance;
  instance.value = values_.find(line.origin(), take_until(rest, '@'));
  instance.place = places_.find(line.origin(), take_until(rest, '#'));
  std::string expected(name.substr(0, name.find('#')));
  const int repeat = repeats_[expected]++;
  if (repeat > 0) expected += '#' + std::to_string(repeat);
  if (name != expected) refuse(line.origin(), "instance", "'" + expected + "'", name);
  instances_.add(line.origin(), name);
  instance.offset = line.bytes("offset");
  instance.home = line.flag("home");
  plan_.instances.push_back(instance);
}

void PlanParser::parse_task(PlanLine& line) {
  Task task;
  task.name = new_name(line, tasks_);
  task.kind = static_cast<TaskKind>(line.choice("kind", kTaskWords));
  task.resource = resources_.find(line.origin(), line.text("on"));
  task.block = BlockId(line.integer_or("block", -1, indices(plan_.blocks.size())));
  task.micro_batch = line.integer_or("micro_batch", -1, {0, plan_.micro_batches - 1});
  task.piece = line.integer_or("piece", -1, {0});
  task.micros = {line.number_or_zero("micros")};
  task.bytes = line.bytes_or_zero("bytes");
  task.refreshes = line.flag("refreshes");
  task.workspace = line.bytes_or_zero("workspace");
  if (const auto names = line.optional_text("reads")) {
    task.reads = list(line.origin(), "reads", *names, instances_);
  }
  if (const auto names = line.optional_text("writes")) {
    task.writes = list(line.origin(), "writes", *names, instances_);
  }
  TaskReferences references{line.origin(), plan_.tasks.end_id(), {}, {}};
  if (const auto names = line.optional_text("after")) {
    if (names->empty()) refuse(line.origin(), "after", "at least one name", *names);
    references.after = *names;
  }
  if (const auto names = line.optional_text("after_previous")) {
    if (names->empty()) refuse(line.origin(), "after_previous", "at least one name", *names);
    references.after_previous = *names;
  }
  references_.push_back(references);
  plan_.tasks.push_back(std::move(task));
}

void PlanParser::resolve_references() {
  for (const TaskReferences& references : references_) {
    Task& task = plan_.tasks[references.task];
    if (!references.after.empty()) {
      task.after = list(references.at, "after", references.after, tasks_);
    }
    if (!references.after_previous.empty()) {
      task.after_previous =
          list(references.at, "after_previous", references.after_previous, tasks_);
    }
  }
}

void PlanParser::parse_line(PlanLine& line) {
  using ParseEntity = void (PlanParser::*)(PlanLine&);
  static constexpr std::pair<std::string_view, ParseEntity> kEntities[] = {
      {"task", &PlanParser::parse_task},         {"instance", &PlanParser::parse_instance},
      {"value", &PlanParser::parse_value},       {"block", &PlanParser::parse_block},
      {"resource", &PlanParser::parse_resource}, {"pool", &PlanParser::parse_pool},
      {"place", &PlanParser::parse_place},       {"strategy", &PlanParser::parse_strategy},
      {"step", &PlanParser::parse_step}};
  for (const auto& [entity, parse_entity] : kEntities) {
    if (line.entity() != entity) continue;
    if (!has_step_ && entity != "step" && entity != "strategy") {
      refuse(line.origin(), "order of lines", "'strategy' and 'step' before all others", entity);
    }
    std::invoke(parse_entity, this, line);
    line.check_all_read();
    return;
  }
  refuse(line.origin(), "line",
         "strategy, step, block, pool, place, resource, value, instance or task", line.entity());
}

Plan PlanParser::parse(std::string_view text) {
  LineOrigin at{origin_, 0};
  bool has_version = false;
  while (!text.empty()) {
    ++at.line;
    PlanLine line(at, take_until(text, '\n'));
    if (line.empty()) continue;
    if (has_version) {
      parse_line(line);
      continue;
    }
    if (line.entity() != kPlanHeader) {
      refuse(at, "first line", "'ferry-plan 1'", line.entity());
    }
    if (line.name() != "1") refuse(at, "version of the plan format", "1", line.name());
    line.check_all_read();
    has_version = true;
  }
  ++at.line;
  if (!has_version) refuse(at, "first line", "'ferry-plan 1'", "the end of the file");
  if (!has_strategy_) refuse(at, "plan", "a line 'strategy'", "the end of the file");
  if (!has_step_) refuse(at, "plan", "a line 'step'", "the end of the file");
  resolve_references();
  return std::move(plan_);
}

}  // namespace

Plan parse_plan(std::string_view text, const std::string& origin) {
  return PlanParser(origin).parse(text);
}

}  // namespace ferry
