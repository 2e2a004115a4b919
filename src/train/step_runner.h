// Runs a plan's tasks on real memory: the trainer's TaskRunner.
//
// Device tasks are launched on one stream per resource, by one thread per physical device, and
// ordered by events, so the thread that drives the plan waits for no device and for no launch; host
// tasks run in order on one thread per resource. Copies between DRAM and drives begin when what
// they wait for is done, and end when the drive says so; of one resource several are under way
// where none touches what another does.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/device_clock.h"
#include "device/device_event.h"
#include "device/straight_copy.h"
#include "exec/timeline.h"
#include "plan/plan.h"
#include "train/block_math.h"
#include "train/drive_copies.h"
#include "train/host_math.h"
#include "train/host_queue.h"
#include "train/launch_threads.h"
#include "train/places.h"

namespace ferry {

/// Makes a step's numbers. Called once per step, in order, from one thread at a time.
using StepFeed = std::function<StepNumbers(int step)>;

class StepRunner final : public TaskRunner {
 public:
  /// What may wait on a stream, as OperatorCount counts. CUDA stops whoever launches more than
  /// about 1000 kernels ahead; then the device's other streams would wait too.
  static constexpr long kMostLaunches = 700;

  struct Setup {
    const ModelSpec& model;
    const Plan& plan;
    Places& places;
    double clip = 0;
    int update_threads = 1;
    StepFeed feed;
    Micros clock_life = DeviceClock::kLife;
    long most_launches = kMostLaunches;  // tests set others
  };

  explicit StepRunner(Setup setup);
  ~StepRunner() override;

  bool can_start(const Task& task) const override;
  void start(TaskRun run, const Task& task) override;
  TaskRun wait_any() override;
  void drain() override;
  bool orders(const Task& earlier, const Task& later) const override;

  const Binding& binding() const { return binding_; }

  /// True when a device computes on the host's cores: then the driving thread should give way.
  bool gives_way() const;

  /// The result of a step whose clip task is finished; kept until step + 2.
  StepResult result(int step) const { return results_[step % 2]; }

  /// The step's numbers; kept until step + 2.
  const StepNumbers& numbers(int step) const;

  /// The last step in which each task began to run; -1: in none. What was started behind a host
  /// task or a launch that failed did not run. Only while nothing is in flight.
  const IdVector<TaskId, int>& last_runs() const { return last_runs_; }

  /// Puts back what updates of the step ahead of its norm found, where the norm was not reached;
  /// such updates then count as not run. Only while nothing is in flight.
  void take_back(int step);

  /// Another plan ran in the same places before the step, of which devices hold what is at home
  /// there and nothing else. Only while nothing is in flight.
  void disturbed(int step) { disturbed_ = step; }

  /// How often a device's clock was renewed, all together.
  int clock_renewals() const;

  /// Spans of everything that finished since the last call, on the host's clock. A device task ends
  /// when its event says, and starts when its launch began and its queue and what it waits for were
  /// done.
  std::vector<Span> take_spans();

 private:
  /// A started task of a device.
  struct Launch {
    TaskRun run;
    bool counts = false;          // its thread counts its operators
    long operators = 0;           // that it has, or is taken to have until they are counted
    long counted = 0;             // written by its thread
    std::optional<Micros> begun;  // once its thread is done with it
  };

  /// What is in flight on one resource, in order.
  struct Queue {
    std::optional<c10::Stream> stream;       // of device resources
    std::optional<StraightCopies> straight;  // of those that copy to another device
    std::unique_ptr<HostQueue> host;         // of host resources
    std::unique_ptr<DriveCopies> drive;      // of drives' resources
    const DeviceClock* clock = nullptr;      // of device resources: their device's
    int thread = -1;                         // of device resources: that launches
    std::deque<Launch> in_flight;            // of device resources
    long launches = 0;                       // operators of those in flight
    long most_launches = 1;                  // of a task, so far
    int depth = 0;                           // started and not reported
    Micros last_end;
  };

  /// Returns what `work` does for the task. Torch's errors become ours; both name it.
  template <typename Work>
  auto named(const Task& task, const Work& work) const;
  void set_clocks(Micros life);
  int launching_thread(const Device& device);
  void start_on_device(TaskRun run, const Task& task, Queue& queue);
  void carry_out(Launch& launch, const Task& task, const HazardClock& seen);
  void enqueue(Launch& launch, const Task& task);
  void start_on_host(TaskRun run, const Task& task, Queue& queue);
  void start_on_drive(TaskRun run, const Task& task, Queue& queue);
  void wait_for_device_tasks(TaskRun run, const Task& task);
  void run_host_task(TaskRun run, const Task& task);
  void copy(const Task& task);
  bool is_refreshed(TaskRun run, const Task& task) const;
  void open_straight_ways();
  std::optional<TaskRun> take_device_completion();
  std::optional<TaskRun> take_if_done(Queue& queue);
  std::optional<TaskRun> take_drive_completion();
  Micros end_of(TaskRun run);
  Micros end_on_device(TaskRun run);
  TaskRun finish(TaskRun run, Micros start, Micros end);
  bool is_busy(const Queue& queue) const;
  void forget(Queue& queue);
  void note(Queue& queue, const HostCompletion& completion);
  void note_launch(Queue& queue, const HostCompletion& completion);
  void prepare(int step, const Task& task);
  DeviceEvent& event(TaskRun run);
  HazardClock& drive_clock(TaskRun run) { return drive_clocks_[run.step % 3][run.task]; }
  Micros& seen_end(TaskRun run) { return ends_[run.step % 3][run.task]; }
  Queue& queue_of(TaskRun run) { return queues_[plan_.tasks[run.task].resource]; }
  PlaceKind place_of(const Task& task) const;
  bool on_device(const Task& task) const { return place_of(task) == PlaceKind::device; }
  bool on_drive(const Task& task) const { return place_of(task) == PlaceKind::drive; }
  void for_each_dependency(TaskRun run, const Task& task,
                           const std::function<void(TaskRun)>& visit) const;
  Micros now() const;

  const Plan& plan_;
  Places& places_;
  StepFeed feed_;
  const long most_launches_;
  Binding binding_;
  BlockMath block_math_;
  HostMath host_math_;
  std::array<std::optional<StepNumbers>, 2> numbers_;  // by step parity
  std::array<StepResult, 2> results_;                  // by step parity
  // By step modulo 3, of tasks on devices: the step after the next may record its own while tasks
  // of the next still ask for this one. Likewise those of drives' tasks.
  std::array<IdVector<TaskId, std::optional<DeviceEvent>>, 3> events_;
  std::array<IdVector<TaskId, HazardClock>, 3> drive_clocks_;
  // By step modulo 3: of the two steps in flight and the one before them.
  std::array<IdVector<TaskId, Micros>, 3> ends_;
  int disturbed_ = -1;                                // the step before which another plan ran last
  int first_step_ = std::numeric_limits<int>::max();  // that was started
  IdVector<TaskId, int> last_runs_;  // of host and device tasks written by the thread that runs
                                     // or launches them
  std::map<PlaceId, DeviceClock> clocks_;  // per device
  IdVector<TaskId, long> operators_;  // of tasks on devices, when last counted; 0: they never were
  std::vector<Span> spans_;
  Completions completions_;
  std::vector<c10::Device> launching_;  // by number of the thread
  // Last, so that their threads end first: those that launch look at queues.
  IdVector<ResourceId, Queue> queues_;
  LaunchThreads launch_threads_;
};

}  // namespace ferry
