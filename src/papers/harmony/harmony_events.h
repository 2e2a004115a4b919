// Writes the events of a Harmony step, queue by queue. Used by harmony_program.cc only.
//
// Words, as in Harmony's estimator: W weights, X input, S stashed input, Y output, dX and dY
// gradients of input and output, dW of weights, FWD / REC / BWD forward, recompute, backward, MSG a
// message from host process to host process, ARD all-reduce, DEL freeing a pack's memory, UPD its
// update. Micro-batches count from 0.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "papers/harmony/harmony_program.h"
#include "papers/timing/timing_plan.h"

namespace ferry {

class HarmonyEvents {
 public:
  /// Requires: check_tuple() passed. The references must outlive this.
  HarmonyEvents(const HarmonyProblem& problem, const HarmonyTuple& tuple, bool prefetch);

  /// Once.
  HarmonyProgram write();

 private:
  enum Stream { kSwapIn, kSwapOut, kPeerIn, kPeerOut, kCompute, kHost, kStreams };

  struct Queue {
    ResourceId resource = -1;
    TaskId first = -1;
    TaskId last = -1;
  };

  /// One pack of one pass on one GPU, with the events that later ones refer to, by micro-batch.
  struct PackVisit {
    bool backward = false;
    bool loss = false;  // the last backward pack: its forward too
    int k = 0;          // position in visits_
    int gpu = 0;
    int previous = -1;      // the visit before on the same GPU; negative: none
    std::string name = {};  // ".f2": forward pack 2; in data parallel with the GPU
    HarmonyPack pack = {};
    std::vector<int> sizes = {};           // samples of each micro-batch
    std::vector<TaskId> recompute = {};    // REC
    std::vector<TaskId> done = {};         // what ends the computation: the last FWD, or BWD
    std::vector<TaskId> output = {};       // Y or dX leaves; -1: nothing does
    std::vector<TaskId> handed_over = {};  // MSG_Y, by backward micro-batch
    TaskId freed = -1;                     // DEL
  };

  /// All layers at one size; times[l] is of the layers before l.
  struct Measured {
    std::vector<HarmonyCost> costs;
    std::vector<Micros> times;
  };

  void add_queues();
  void list_visits(int gpu);
  void append_visit(bool backward, int pack, int gpu);
  void close_step();

  void write_visit(PackVisit& visit);
  void write_forward(PackVisit& visit, int i, TaskId input, TaskId weights);
  void write_backward(PackVisit& visit, int i, TaskId gradient);
  void write_end(PackVisit& visit);
  TaskId write_weights(const PackVisit& visit);
  TaskId write_input(const PackVisit& visit, int i, TaskId weights);
  TaskId write_output_gradient(const PackVisit& visit, int i);
  TaskId write_stash(const PackVisit& visit, int i, int layer, TaskId forward, TaskId input);
  void write_messages(const PackVisit& visit, const std::string& event, int i, int layer,
                      int receiver, TaskId after, std::vector<TaskId>& messages);
  std::vector<TaskId> input_gate(const PackVisit& visit, int i, TaskId weights) const;

  TaskId add(const PackVisit& visit, Stream stream, TaskKind kind, const std::string& event, int i,
             Micros micros, const std::vector<TaskId>& after);
  TaskId swap_in(const PackVisit& visit, const std::string& event, int i, Bytes bytes,
                 const std::vector<TaskId>& after);
  TaskId swap_out(const PackVisit& visit, const std::string& event, int i, Bytes bytes,
                  const std::vector<TaskId>& after);
  TaskId pass_on(const PackVisit& visit, const std::string& event, int i, Bytes bytes,
                 TaskId after);
  TaskId receive(const PackVisit& visit, const std::string& event, int i, Bytes bytes, TaskId sent,
                 std::vector<TaskId> after);
  TaskId copy(const PackVisit& visit, Stream stream, const std::string& event, int i, Bytes bytes,
              const std::vector<TaskId>& after);
  TaskId enqueue(const PackVisit& visit, Stream stream, int i, TaskId task);

  const PackVisit* previous(const PackVisit& visit) const;
  int gpu_of(int k) const { return k % problem_.gpus(); }
  bool hands_over(const PackVisit& visit) const;
  Bytes x(int layer, int samples) const { return input_bytes(problem_.profile, layer, samples); }
  Bytes weight_bytes(HarmonyPack pack) const;
  Bytes gradient_bytes(HarmonyPack pack) const;
  Bytes held_memory(const PackVisit& visit);
  const Measured& measured(HarmonyPass pass, int samples);
  Micros time(HarmonyPass pass, int samples, HarmonyPack layers);

  const HarmonyProblem& problem_;
  const HarmonyTuple& tuple_;
  const bool prefetch_;
  const bool peers_;
  const int active_;                // N': GPUs with at least one pack
  std::vector<int> forward_sizes_;  // samples of each micro-batch
  std::vector<int> backward_sizes_;
  std::vector<int> completes_;        // c(j): the forward micro-batch that completes backward's j
  std::map<int, int> stash_readers_;  // layers stashed in forward -> the visit that reads them
  TimingPlan plan_;
  std::vector<std::vector<Queue>> queues_;  // by GPU and stream
  std::vector<TaskId> queue_before_;        // by task; -1: the first of its queue
  std::vector<PackVisit> visits_;           // of the step; in data parallel of one GPU at a time
  std::map<int, std::vector<TaskId>> stashed_;  // MSG_S, by layer, then by backward micro-batch
  std::map<std::pair<HarmonyPass, int>, Measured> measured_;
  HarmonyProgram program_;
};

}  // namespace ferry
