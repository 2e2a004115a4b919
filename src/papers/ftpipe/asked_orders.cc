#include "papers/ftpipe/asked_orders.h"

#include <charconv>
#include <cstddef>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ferry {
namespace {

constexpr const char* kOrder = "papers.order";
constexpr const char* kOffsets = "papers.offsets";

// A whole number that is all of `text`.
std::optional<int> whole(const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) return std::nullopt;
  return value;
}

// "B3.1", or "B3" where tasks have no micro-batch (which is 0 then).
std::optional<PipelineTask> task_of(const std::string& word, bool has_micro_batch) {
  const std::size_t dot = word.find('.');
  if (word.size() < 2 || (word[0] != 'F' && word[0] != 'B')) return std::nullopt;
  if ((dot != std::string::npos) != has_micro_batch) return std::nullopt;
  const auto stage = whole(word.substr(1, dot == std::string::npos ? dot : dot - 1));
  const auto micro_batch = has_micro_batch ? whole(word.substr(dot + 1)) : 0;
  if (!stage || !micro_batch) return std::nullopt;
  return PipelineTask{word[0] == 'B', *stage, *micro_batch};
}

void check_devices(std::size_t found, const Pipeline& pipeline, const std::string& key) {
  if (found == static_cast<std::size_t>(pipeline.devices)) return;
  throw JobKeyError(key, "of " + std::to_string(found) +
                             " devices; expected one entry for each of " +
                             std::to_string(pipeline.devices));
}

// Tasks by device: each of `micro_batches` forwards and backwards of every stage once, in its
// place.
DeviceOrders read_orders(const PlanQuestion& question, const Pipeline& pipeline,
                         bool has_micro_batch) {
  const std::vector<std::string>& lists = *question.papers.order;
  check_devices(lists.size(), pipeline, kOrder);
  const int micro_batches = has_micro_batch ? pipeline.micro_batches : 1;
  DeviceOrders orders(lists.size());
  std::set<PipelineTask> seen;
  for (std::size_t d = 0; d < lists.size(); ++d) {
    std::istringstream words(lists[d]);
    for (std::string word; words >> word;) {
      const auto task = task_of(word, has_micro_batch);
      if (!task || task->stage >= pipeline.stages() || task->micro_batch >= micro_batches) {
        throw JobKeyError(kOrder, "'" + word + "' is no task; expected for instance " +
                                      (has_micro_batch ? "F0.0, B0.0" : "F0, B0") + " of " +
                                      std::to_string(pipeline.stages()) + " stages" +
                                      (has_micro_batch ? " and " + std::to_string(micro_batches) +
                                                             " micro-batches"
                                                       : std::string()));
      }
      if (pipeline.device[task->stage] != static_cast<int>(d)) {
        throw JobKeyError(kOrder, "'" + word + "' stands at device " + std::to_string(d) +
                                      "; its stage is on device " +
                                      std::to_string(pipeline.device[task->stage]));
      }
      if (!seen.insert(*task).second) {
        throw JobKeyError(kOrder, "'" + word + "' stands twice");
      }
      orders[d].push_back(*task);
    }
  }
  const std::size_t expected = 2 * pipeline.stages() * micro_batches;
  if (seen.size() != expected) {
    throw JobKeyError(kOrder, std::to_string(seen.size()) + " tasks; expected " +
                                  std::to_string(expected) + ", every forward and backward once");
  }
  return orders;
}

}  // namespace

DeviceOrders asked_orders(const PlanQuestion& question, const Pipeline& pipeline) {
  if (question.papers.offsets) {
    throw JobKeyError(kOffsets, "strategy '" + question.strategy +
                                    "' has no period; expected them with async-1f1b");
  }
  DeviceOrders orders = read_orders(question, pipeline, true);
  std::size_t tasks = 0;
  for (const auto& list : orders) tasks += list.size();
  if (sequence_of(pipeline, orders).size() < tasks) {
    throw JobKeyError(kOrder, "devices wait for each other for ever");
  }
  return orders;
}

PeriodicOrder asked_period(const PlanQuestion& question, const Pipeline& pipeline) {
  const DeviceOrders lists = read_orders(question, pipeline, false);
  PeriodicOrder order;
  for (const auto& list : lists) {
    std::vector<PeriodicTask> tasks;
    for (const PipelineTask& task : list) tasks.push_back({task.backward, task.stage});
    order.tasks.push_back(std::move(tasks));
  }
  order.offset.assign(lists.size(), 0.0);
  if (const auto& offsets = question.papers.offsets) {
    check_devices(offsets->size(), pipeline, kOffsets);
    order.offset.assign(offsets->begin(), offsets->end());
  }
  return order;
}

}  // namespace ferry
