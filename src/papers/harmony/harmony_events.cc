#include "papers/harmony/harmony_events.h"

#include <algorithm>
#include <cstddef>

namespace ferry {
namespace {

constexpr Micros kFreeing{40'000};  // DEL, as in Harmony's estimator

double as_double(Bytes bytes) { return static_cast<double>(bytes.count); }

// U, U, ..., remainder.
std::vector<int> split(int samples, int batch) {
  std::vector<int> sizes(samples / batch, batch);
  if (samples % batch > 0) sizes.push_back(samples % batch);
  return sizes;
}

// c(j) = the least i with i U_f >= j U_b, counted in samples.
std::vector<int> completing(const std::vector<int>& forward, const std::vector<int>& backward) {
  std::vector<int> result;
  int i = 0;
  int available = forward.front();
  int needed = 0;
  for (const int samples : backward) {
    needed += samples;
    while (available < needed) available += forward[++i];
    result.push_back(i);
  }
  return result;
}

std::vector<TaskId> existing(std::vector<TaskId> tasks) {
  std::erase(tasks, -1);
  return tasks;
}

// "FWD.0.f2.5": micro-batch 5 of forward pack 2.
std::string event_name(std::string event, const std::string& visit, int i) {
  event += visit;
  if (i >= 0) event.append(".").append(std::to_string(i));
  return event;
}

int packs_of(const HarmonyTuple& tuple) {
  return static_cast<int>(tuple.forward.size() + tuple.backward.size());
}

}  // namespace

HarmonyEvents::HarmonyEvents(const HarmonyProblem& problem, const HarmonyTuple& tuple,
                             bool prefetch)
    : problem_(problem),
      tuple_(tuple),
      prefetch_(prefetch),
      peers_(problem.peers()),
      active_(problem.mode == HarmonyMode::data_parallel
                  ? problem.gpus()
                  : std::min(problem.gpus(), packs_of(tuple))),
      forward_sizes_(split(problem.samples(), tuple.forward_batch)),
      backward_sizes_(split(problem.samples(), tuple.backward_batch)),
      completes_(completing(forward_sizes_, backward_sizes_)),
      plan_(problem.mode == HarmonyMode::pipeline ? "harmony-pp" : "harmony-dp",
            static_cast<int>(std::max(forward_sizes_.size(), backward_sizes_.size())),
            static_cast<int>(problem.profile.layers.size())) {
  const int last = static_cast<int>(tuple.backward.size()) - 1;
  for (int p = 0; p <= last; ++p) {
    const HarmonyPack pack = tuple.backward[p];
    for (int l = pack.first; l < pack.end; ++l) plan_.set_stage(l, p);
    if (p < last) stash_readers_[pack.first] = packs_of(tuple) - 1 - p;
  }
}

HarmonyProgram HarmonyEvents::write() {
  add_queues();
  program_.compute.resize(problem_.gpus());
  const int runs = problem_.mode == HarmonyMode::data_parallel ? problem_.gpus() : 1;
  for (int gpu = 0; gpu < runs; ++gpu) {
    list_visits(gpu);
    stashed_.clear();
    for (PackVisit& visit : visits_) write_visit(visit);
  }
  close_step();
  program_.plan = plan_.finish();
  return std::move(program_);
}

void HarmonyEvents::add_queues() {
  for (const HarmonyGpu& gpu : problem_.server.gpus) {
    const PlaceId place = plan_.place(gpu.name, PlaceKind::device);
    const auto named = [&](const char* stream) { return gpu.name + "." + stream; };
    std::vector<Queue> queues(kStreams);
    queues[kSwapIn].resource = plan_.link(named("swap_in"), place, gpu.swap_in / active_);
    queues[kSwapOut].resource = plan_.link(named("swap_out"), place, gpu.swap_out / active_);
    queues[kPeerIn].resource = plan_.link(named("peer_in"), place, problem_.server.peer);
    queues[kPeerOut].resource = plan_.link(named("peer_out"), place, problem_.server.peer);
    queues[kCompute].resource = plan_.compute(named("compute"), place);
    queues[kHost].resource = plan_.worker(named("host"));
    queues_.push_back(std::move(queues));
  }
}

// Forward packs in order, then backward packs from last to first.
void HarmonyEvents::list_visits(int gpu) {
  visits_.clear();
  for (int p = 0; p < static_cast<int>(tuple_.forward.size()); ++p) append_visit(false, p, gpu);
  for (int p = static_cast<int>(tuple_.backward.size()); p-- > 0;) append_visit(true, p, gpu);
}

void HarmonyEvents::append_visit(bool backward, int pack, int gpu) {
  const bool rotates = problem_.mode == HarmonyMode::pipeline;
  PackVisit visit;
  visit.backward = backward;
  visit.loss = backward && pack + 1 == static_cast<int>(tuple_.backward.size());
  visit.k = static_cast<int>(visits_.size());
  visit.gpu = rotates ? gpu_of(visit.k) : gpu;
  visit.previous = visit.k - (rotates ? problem_.gpus() : 1);
  visit.name = std::string(".") + (backward ? 'b' : 'f') + std::to_string(pack);
  if (!rotates) visit.name += ">" + problem_.server.gpus[gpu].name;
  visit.pack = (backward ? tuple_.backward : tuple_.forward)[pack];
  visit.sizes = backward ? backward_sizes_ : forward_sizes_;
  visit.output.assign(visit.sizes.size(), -1);
  visit.handed_over.assign(backward_sizes_.size(), -1);
  visits_.push_back(std::move(visit));
}

void HarmonyEvents::write_visit(PackVisit& visit) {
  program_.peak = std::max(program_.peak, held_memory(visit));
  // With prefetch the first inputs are asked for before the weights, where they need not wait for
  // the pack before to end.
  const bool input_first =
      prefetch_ && previous(visit) && (!peers_ || (visit.backward && !visit.loss));
  TaskId weights = input_first ? TaskId() : write_weights(visit);
  for (int i = 0; i < static_cast<int>(visit.sizes.size()); ++i) {
    const TaskId input = write_input(visit, i, weights);
    const bool needs_gradient = visit.backward && !visit.loss;
    TaskId gradient = needs_gradient && prefetch_ ? write_output_gradient(visit, i) : TaskId();
    if (i == 0 && input_first) weights = write_weights(visit);
    const TaskId first_weights = i == 0 ? weights : TaskId();
    if (!visit.backward) {
      write_forward(visit, i, input, first_weights);
      continue;
    }
    visit.recompute.push_back(add(visit, kCompute, TaskKind::forward, "REC", i,
                                  time(HarmonyPass::forward, visit.sizes[i], visit.pack),
                                  {input, first_weights}));
    if (needs_gradient && !prefetch_) gradient = write_output_gradient(visit, i);
    write_backward(visit, i, gradient);
  }
  write_end(visit);
}

// One FWD per sub-pack: a pack is cut where a stashed layer begins.
void HarmonyEvents::write_forward(PackVisit& visit, int i, TaskId input, TaskId weights) {
  const int samples = visit.sizes[i];
  TaskId forward = -1;
  for (int first = visit.pack.first; first < visit.pack.end;) {
    const auto next = stash_readers_.upper_bound(first);
    const int end =
        next == stash_readers_.end() ? visit.pack.end : std::min(next->first, visit.pack.end);
    TaskId stash = -1;
    if (stash_readers_.contains(first)) stash = write_stash(visit, i, first, forward, input);
    std::vector<TaskId> after = {prefetch_ ? TaskId() : stash};
    if (first == visit.pack.first) after.insert(after.end(), {input, weights});
    forward = add(visit, kCompute, TaskKind::forward, "FWD." + std::to_string(first), i,
                  time(HarmonyPass::forward, samples, {first, end}), after);
    first = end;
  }
  visit.done.push_back(forward);
  TaskId& output = visit.output[i];
  const Bytes bytes = x(visit.pack.end, samples);
  if (!hands_over(visit)) {
    output = pass_on(visit, "Y", i, bytes, forward);
    return;
  }
  output = swap_out(visit, "Y", i, bytes, {forward});
  write_messages(visit, "MSG_Y", i, visit.pack.end, visit.k + 1, output, visit.handed_over);
}

void HarmonyEvents::write_backward(PackVisit& visit, int i, TaskId gradient) {
  const int samples = visit.sizes[i];
  const Micros with_recompute = time(HarmonyPass::backward, samples, visit.pack);
  const Micros recompute = time(HarmonyPass::forward, samples, visit.pack);
  const TaskId done = add(visit, kCompute, TaskKind::backward, "BWD", i,
                          std::max(with_recompute - recompute, Micros{}), {gradient});
  visit.done.push_back(done);
  if (visit.pack.first == 0) return;
  visit.output[i] = pass_on(visit, "dX", i, x(visit.pack.first, samples), done);
}

void HarmonyEvents::write_end(PackVisit& visit) {
  const TaskId last_output = prefetch_ ? TaskId() : visit.output.back();
  if (!visit.backward) {
    visit.freed = add(visit, kCompute, TaskKind::work, "DEL", -1, kFreeing,
                      {peers_ ? TaskId() : last_output});
    return;
  }
  const double gpus = problem_.gpus();
  TaskId reduced = -1;
  if (!peers_ && problem_.gpus() > 1) {
    const double payload = as_double(weight_bytes(visit.pack));
    program_.volumes["allreduce_payload"] += payload;
    reduced =
        add(visit, kCompute, TaskKind::work, "ARD", -1,
            from_seconds(2 * (gpus - 1) / gpus * payload / problem_.server.peer), {last_output});
  }
  const Bytes gradients = gradient_bytes(visit.pack);
  program_.volumes["gradients_out"] += as_double(gradients);
  const TaskId last = problem_.gpus() == 1 ? last_output : TaskId();
  const TaskId out = copy(visit, kSwapOut, "dW", -1, gradients, {visit.done.back(), reduced, last});
  visit.freed = add(visit, kCompute, TaskKind::work, "DEL", -1, kFreeing, {out});
  Micros update;
  for (int l = visit.pack.first; l < visit.pack.end; ++l) {
    update += problem_.profile.layers[l].update;
  }
  add(visit, kHost, TaskKind::update, "UPD", -1, update, {out});
}

TaskId HarmonyEvents::write_weights(const PackVisit& visit) {
  const PackVisit* before = previous(visit);
  const Bytes bytes = weight_bytes(visit.pack);
  program_.volumes["weights_in"] += as_double(bytes);
  if (!before) return copy(visit, kSwapIn, "W", -1, bytes, {});
  return copy(visit, kSwapIn, "W", -1, bytes, {prefetch_ ? before->done.back() : before->freed});
}

// X of forward and of the loss pack, S of the other backward packs.
TaskId HarmonyEvents::write_input(const PackVisit& visit, int i, TaskId weights) {
  std::vector<TaskId> after = input_gate(visit, i, weights);
  const Bytes bytes = x(visit.pack.first, visit.sizes[i]);
  if (visit.backward && !visit.loss) {
    after.push_back(stashed_.at(visit.pack.first)[i]);
    return swap_in(visit, "S", i, bytes, after);
  }
  if (visit.pack.first == 0) return swap_in(visit, "X", i, bytes, after);
  const PackVisit& source = visits_[visit.k - 1];
  if (hands_over(source)) {
    after.push_back(source.handed_over[i]);
    return swap_in(visit, "X", i, bytes, after);
  }
  if (peers_) return receive(visit, "X", i, bytes, source.output[i], after);
  after.push_back(source.output[visit.loss ? completes_[i] : i]);
  return swap_in(visit, "X", i, bytes, after);
}

// dY of a backward pack without the loss.
TaskId HarmonyEvents::write_output_gradient(const PackVisit& visit, int i) {
  std::vector<TaskId> after;
  const PackVisit* before = previous(visit);
  if (!prefetch_) {
    after = {visit.recompute[i]};
  } else if (i > 0) {
    after = {visit.recompute[i - 1]};
  } else if (before && (!peers_ || (before->backward && !before->loss))) {
    after = {before->recompute.back()};
  } else {
    after = input_gate(visit, i, -1);
  }
  const TaskId sent = visits_[visit.k - 1].output[i];
  const Bytes bytes = x(visit.pack.end, visit.sizes[i]);
  if (peers_) return receive(visit, "dY", i, bytes, sent, after);
  after.push_back(sent);
  return swap_in(visit, "dY", i, bytes, after);
}

// The input of a backward pack's first layer goes to the host, and to the process that will need
// it.
TaskId HarmonyEvents::write_stash(const PackVisit& visit, int i, int layer, TaskId forward,
                                  TaskId input) {
  std::vector<TaskId> after = {forward};
  if (layer == visit.pack.first) {
    after = {input};
    const PackVisit* before = previous(visit);
    if (prefetch_ && i > 0) after.push_back(visit.done[i - 1]);
    if (prefetch_ && i == 0 && before) after.push_back(before->freed);
  }
  const std::string of = std::to_string(layer);
  const TaskId out = swap_out(visit, "S." + of, i, x(layer, visit.sizes[i]), after);
  std::vector<TaskId>& messages = stashed_[layer];
  messages.resize(backward_sizes_.size(), -1);
  write_messages(visit, "MSG_S." + of, i, layer, stash_readers_.at(layer), out, messages);
  return out;
}

// One message for every backward micro-batch that forward's i completes.
void HarmonyEvents::write_messages(const PackVisit& visit, const std::string& event, int i,
                                   int layer, int receiver, TaskId after,
                                   std::vector<TaskId>& messages) {
  const bool crosses = peers_ && gpu_of(receiver) != visit.gpu;
  for (std::size_t j = 0; j < completes_.size(); ++j) {
    if (completes_[j] != i) continue;
    const double bytes = as_double(x(layer, backward_sizes_[j]));
    const double seconds = 2 * bytes / (problem_.server.messages / active_);
    if (crosses) program_.volumes["host_message"] += bytes;
    messages[j] = add(visit, kHost, TaskKind::work, event, static_cast<int>(j),
                      crosses ? from_seconds(seconds) : Micros{}, {after});
  }
}

// When there is memory for an input. With prefetch there is for two, one of them in use.
std::vector<TaskId> HarmonyEvents::input_gate(const PackVisit& visit, int i, TaskId weights) const {
  const PackVisit* before = previous(visit);
  if (!prefetch_) {
    if (i == 0) return {weights};
    const TaskId left = visit.output[i - 1];
    return {peers_ || left < 0 ? visit.done[i - 1] : left};
  }
  if (i >= 2) return {visit.done[i - 2]};
  if (!before) return {};
  if (i == 1) return {before->freed};
  if (before->done.size() >= 2) return {before->done[before->done.size() - 2]};
  const PackVisit* earlier = previous(*before);
  return {earlier ? earlier->freed : TaskId()};
}

// A step begins when all of the one before has ended.
void HarmonyEvents::close_step() {
  std::vector<TaskId> lasts;
  for (const auto& queues : queues_) {
    for (const Queue& queue : queues) lasts.push_back(queue.last);
  }
  const TaskId end =
      plan_.add(TaskKind::work, "end", plan_.worker("step"), {}, existing(std::move(lasts)));
  program_.gpu.push_back(-1);
  for (const auto& queues : queues_) {
    for (const Queue& queue : queues) {
      if (queue.first >= 0) plan_.wait_for_previous(queue.first, end);
    }
  }
}

TaskId HarmonyEvents::swap_in(const PackVisit& visit, const std::string& event, int i, Bytes bytes,
                              const std::vector<TaskId>& after) {
  program_.volumes["activation_in"] += as_double(bytes);
  return copy(visit, kSwapIn, event, i, bytes, after);
}

TaskId HarmonyEvents::swap_out(const PackVisit& visit, const std::string& event, int i, Bytes bytes,
                               const std::vector<TaskId>& after) {
  program_.volumes["activation_out"] += as_double(bytes);
  return copy(visit, kSwapOut, event, i, bytes, after);
}

// To the GPU of the next pack, or through the host to the next pack of the same one.
TaskId HarmonyEvents::pass_on(const PackVisit& visit, const std::string& event, int i, Bytes bytes,
                              TaskId after) {
  if (!peers_) return swap_out(visit, event, i, bytes, {after});
  program_.volumes["p2p"] += as_double(bytes);
  return copy(visit, kPeerOut, event, i, bytes, {after});
}

// The other half of `sent`. The halves begin together: each waits for what the other does, the task
// before it in its queue included.
TaskId HarmonyEvents::receive(const PackVisit& visit, const std::string& event, int i, Bytes bytes,
                              TaskId sent, std::vector<TaskId> after) {
  after.push_back(queues_[visit.gpu][kPeerIn].last);
  after = existing(std::move(after));
  FewIds<TaskId> both = plan_.plan().tasks[sent].after;
  both.push_back(queue_before_[sent]);
  both.insert(both.end(), after.begin(), after.end());
  for (const TaskId earlier : after) plan_.wait_for(sent, earlier);
  return copy(visit, kPeerIn, event, i, bytes, {both.begin(), both.end()});
}

TaskId HarmonyEvents::add(const PackVisit& visit, Stream stream, TaskKind kind,
                          const std::string& event, int i, Micros micros,
                          const std::vector<TaskId>& after) {
  if (kind == TaskKind::forward || kind == TaskKind::backward) {
    program_.compute[visit.gpu] += micros;
  }
  const std::string name = event_name(event, visit.name, i);
  const ResourceId queue = queues_[visit.gpu][stream].resource;
  return enqueue(visit, stream, i, plan_.add(kind, name, queue, micros, existing(after)));
}

TaskId HarmonyEvents::copy(const PackVisit& visit, Stream stream, const std::string& event, int i,
                           Bytes bytes, const std::vector<TaskId>& after) {
  const std::string name = event_name(event, visit.name, i);
  const ResourceId queue = queues_[visit.gpu][stream].resource;
  return enqueue(visit, stream, i, plan_.copy(name, queue, bytes, existing(after)));
}

TaskId HarmonyEvents::enqueue(const PackVisit& visit, Stream stream, int i, TaskId task) {
  plan_.about(task, visit.pack.first, i);
  program_.gpu.push_back(visit.gpu);
  Queue& queue = queues_[visit.gpu][stream];
  queue_before_.push_back(queue.last);
  if (queue.first < 0) queue.first = task;
  queue.last = task;
  return task;
}

const HarmonyEvents::PackVisit* HarmonyEvents::previous(const PackVisit& visit) const {
  return visit.previous < 0 ? nullptr : &visits_[visit.previous];
}

// The last forward pack gives its output to the host, which cuts it for the first backward pack.
bool HarmonyEvents::hands_over(const PackVisit& visit) const {
  return peers_ && !visit.backward && visits_[visit.k + 1].backward &&
         tuple_.forward_batch != tuple_.backward_batch;
}

Bytes HarmonyEvents::weight_bytes(HarmonyPack pack) const {
  Bytes sum;
  for (int l = pack.first; l < pack.end; ++l) {
    sum += problem_.profile.layers[l].weights + problem_.profile.layers[l].buffers;
  }
  return sum;
}

Bytes HarmonyEvents::gradient_bytes(HarmonyPack pack) const {
  Bytes sum;
  for (int l = pack.first; l < pack.end; ++l) {
    sum += problem_.profile.layers[l].gradients + problem_.profile.layers[l].buffers;
  }
  return sum;
}

Bytes HarmonyEvents::held_memory(const PackVisit& visit) {
  const int samples = visit.sizes.front();
  const HarmonyPass pass = visit.backward ? HarmonyPass::backward : HarmonyPass::forward;
  const Bytes first = x(visit.pack.first, samples);
  Bytes held =
      first + pack_memory(measured(pass, samples).costs, visit.pack) + x(visit.pack.end, samples);
  if (visit.backward) return held + first + (visit.pack.first == 0 ? Bytes{} : first);
  for (const auto& [layer, reader] : stash_readers_) {
    if (layer >= visit.pack.first && layer < visit.pack.end) held += x(layer, samples);
  }
  return held;
}

const HarmonyEvents::Measured& HarmonyEvents::measured(HarmonyPass pass, int samples) {
  const auto [at, is_new] = measured_.try_emplace({pass, samples});
  if (!is_new) return at->second;
  Measured& result = at->second;
  result.costs = costs_at(problem_.profile, pass, samples);
  result.times.emplace_back();
  for (const HarmonyCost& cost : result.costs) {
    result.times.push_back(result.times.back() + cost.time);
  }
  return result;
}

Micros HarmonyEvents::time(HarmonyPass pass, int samples, HarmonyPack layers) {
  const std::vector<Micros>& times = measured(pass, samples).times;
  return times[layers.end] - times[layers.first];
}

}  // namespace ferry
