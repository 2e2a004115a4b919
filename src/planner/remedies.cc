#include "planner/remedies.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/side_by_side.h"
#include "planner/costs/chain.h"
#include "planner/costs/estimate.h"
#include "planner/write/allocate.h"
#include "spec/pass_names.h"
#include "spec/quantity.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

constexpr std::size_t kRemedies = 3;
constexpr int kShortestSequence = 16;

double micros_per_token(const FittingChange& change) {
  const PlanQuestion& question = change.question;
  return change.step.count / question.micro_batches / question.micro_batch_size / question.sequence;
}

/// The change with its prediction, when it fits.
std::optional<FittingChange> fitting(FittingChange change, const Answerer& answer) {
  AnswerWithoutRemedies found = answer(change.question);
  if (std::holds_alternative<Shortage>(found)) return std::nullopt;
  change.step = std::get<Planned>(found).expected;
  return change;
}

/// A plan that fits, however slow, or what is lacking: found in no time.
AnswerWithoutRemedies any_plan(PlanQuestion question, const Answerer& answer) {
  question.any_plan = true;
  return answer(question);
}

bool fits_at_all(const PlanQuestion& question, const Answerer& answer) {
  return std::holds_alternative<Planned>(any_plan(question, answer));
}

/// Sizes of a memory: one that does not fit, and one that does.
struct SizeRange {
  Bytes too_small;
  Bytes enough;
  Bytes unit;
};

/// What `change_of` says of the least size within the range that fits, by a hundredth about.
std::optional<FittingChange> least_that_fits(SizeRange range,
                                             const std::function<FittingChange(Bytes)>& change_of,
                                             const Answerer& answer) {
  constexpr int kMostTries = 10;
  constexpr std::int64_t kClose = 100;
  const Bytes known = range.enough;
  for (int i = 0; i < kMostTries; ++i) {
    if ((range.enough - range.too_small).count <= range.enough.count / kClose) break;
    const Bytes middle = round_up(Bytes{(range.too_small + range.enough).count / 2}, range.unit);
    if (middle >= range.enough) break;
    const bool is_enough = fits_at_all(change_of(middle).question, answer);
    (is_enough ? range.enough : range.too_small) = middle;
  }
  auto least = fitting(change_of(range.enough), answer);
  if (least || range.enough == known) return least;
  return fitting(change_of(known), answer);  // the fastest leaves evaluation too little
}

std::string mib_text(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

// Raises the limits to what is needed: of devices that are alike those of all, else of the one that
// lacks. Physical memory bounds a budget, so it is raised where the budget alone would not do, and
// the text then speaks of hardware to buy, and of the budget too where the job gave a lower one.
class MoreMemory {
 public:
  /// `answer` must outlive this.
  MoreMemory(const PlanQuestion& question, const Answerer& answer)
      : answer_(answer),
        alike_(equal_budgets(question)),
        host_is_capped_(question.host_budget < question.machine.host.memory) {
    change_.question = question;
    for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
      const MachineDevice& device = question.machine.devices[d];
      const bool is_capped = device_budget(question, static_cast<int>(d)).bytes < device.memory;
      if (is_capped) capped_.insert(device.name);
    }
  }

  /// More memory at one place may show that the other lacks some too. Where one was enough it is
  /// raised no more than it has to be.
  std::optional<FittingChange> grow(Shortage lacking) {
    constexpr int kRounds = 4;
    const MoreMemory before = *this;
    for (int round = 0; round < kRounds; ++round) {
      FittingChange change = raised(lacking);
      AnswerWithoutRemedies tried = any_plan(change.question, answer_);
      if (std::holds_alternative<Planned>(tried)) {
        return round == 0 ? before.least(lacking) : fitting(std::move(change), answer_);
      }
      lacking = std::get<Shortage>(std::move(tried));
    }
    return std::nullopt;
  }

 private:
  std::optional<FittingChange> least(const Shortage& lacking) const {
    const auto change_of = [&](Bytes size) {
      Shortage less = lacking;
      less.need = size;
      return MoreMemory(*this).raised(less);
    };
    return least_that_fits({lacking.have, round_up(lacking.need, 1_MiB), 1_MiB}, change_of,
                           answer_);
  }

  FittingChange raised(const Shortage& lacking) {
    raise(lacking);
    FittingChange change = change_;
    for (const std::string& text :
         {alike_ ? device_text_ : unequal_devices_text(), host_text_, shared_text_, drive_text_}) {
      change.text += (change.text.empty() || text.empty() ? "" : ", ") + text;
    }
    return change;
  }

  void raise(const Shortage& lacking) {
    const Bytes enough = round_up(lacking.need, 1_MiB);
    change_.memory += enough - lacking.have;
    if (lacking.shared) return raise_shared(enough);
    if (lacking.kind == PlaceKind::drive) return raise_drives(lacking);
    PlanQuestion& question = change_.question;
    bool buys = false;
    if (lacking.kind == PlaceKind::host) {
      question.host_budget = std::max(question.host_budget, enough);
      buys = std::exchange(question.machine.host.memory,
                           std::max(question.machine.host.memory, enough)) < enough;
      host_text_ = text_of("a host of ", "budget.host: ", enough, buys, host_is_capped_);
      return;
    }
    for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
      MachineDevice& device = question.machine.devices[d];
      if (!alike_ && device.name != lacking.place) continue;
      if (d < question.device_budgets.size()) {
        Bytes& budget = question.device_budgets[d].bytes;
        budget = std::max(budget, enough);
      }
      const bool buys_this = std::exchange(device.memory, std::max(device.memory, enough)) < enough;
      (buys_this ? bought_ : raised_).insert(device.name);
      buys = buys || buys_this;
    }
    device_text_ = text_of("devices of ", "budget.device: ", enough, buys, !capped_.empty());
  }

  static std::string text_of(const std::string& hardware, const std::string& budget, Bytes bytes,
                             bool buys, bool is_capped) {
    if (!buys) return budget + mib_text(bytes);
    return hardware + mib_text(bytes) + (is_capped ? ", " + budget + mib_text(bytes) : "");
  }

  /// Each drive by as much of its capacity as they lack together.
  void raise_drives(const Shortage& lacking) {
    PlanQuestion& question = change_.question;
    const double factor =
        static_cast<double>(lacking.need.count) / static_cast<double>(lacking.have.count);
    Bytes all;
    for (Drive& drive : question.machine.drives) {
      const double more = std::ceil(static_cast<double>(drive.capacity.count) * factor);
      drive.capacity = round_up(Bytes{static_cast<std::int64_t>(more)}, 1_MiB);
      all += drive.capacity;
    }
    if (!question.drive_budgets.empty()) {
      raise_drive_budgets(question);
    } else if (question.machine.drives.size() > 1) {
      drive_text_ = "drives of " + mib_text(all) + " in all";
    } else {
      drive_text_ = "a drive of " + mib_text(all);
    }
  }

  /// To what the drives have now; all else that the job says of them stays.
  void raise_drive_budgets(PlanQuestion& question) {
    const std::vector<Drive>& drives = question.machine.drives;
    DriveBudgets& budgets = question.drive_budgets;
    for (std::size_t d = 0; d < drives.size(); ++d) {
      Bytes& capacity = budgets[std::min(d, budgets.size() - 1)].capacity;  // one may be for all
      capacity = std::max(capacity, drives[d].capacity);
    }
    drive_text_ = "budget.drive: " + drives_text(budgets);
  }

  /// What has no budget of its own grows with the memory that it shares.
  void raise_shared(Bytes enough) {
    PlanQuestion& question = change_.question;
    const Bytes before = std::exchange(question.shared->bytes, enough);
    const auto grow = [&](Bytes& limit) {
      limit = limit >= before ? std::max(limit, enough) : limit;
    };
    for (MachineDevice& device : question.machine.devices) {
      if (device.kind == DeviceKind::sim) grow(device.memory);
    }
    for (Budget& budget : question.device_budgets) grow(budget.bytes);
    grow(question.machine.host.memory);
    grow(question.host_budget);
    shared_more_ += enough - before;
    shared_text_ = mib_text(shared_more_) + " more memory for ferry";
  }

  /// The devices to buy, and budget.device with its other entries when one of them is raised.
  std::string unequal_devices_text() const {
    const PlanQuestion& question = change_.question;
    std::string bought;
    std::string budgets;  // of all that have one: the key names them together
    bool is_raised = false;
    for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
      const MachineDevice& device = question.machine.devices[d];
      const Bytes budget = device_budget(question, static_cast<int>(d)).bytes;
      if (bought_.contains(device.name)) {
        bought += (bought.empty() ? "" : ", ") + device.name + " of " + bytes_text(device.memory);
      }
      if (raised_.contains(device.name) || capped_.contains(device.name)) {
        is_raised = is_raised || raised_.contains(device.name) || bought_.contains(device.name);
        budgets += (budgets.empty() ? "" : ", ") + device.name + ": " + bytes_text(budget);
      }
    }
    if (!is_raised) return bought;
    return bought + (bought.empty() ? "" : ", ") + "budget.device: {" + budgets + "}";
  }

  const Answerer& answer_;
  const bool alike_;
  const bool host_is_capped_;     // by the job, like the devices that are:
  std::set<std::string> capped_;  // by name
  std::set<std::string> bought_;  // devices by name
  std::set<std::string> raised_;
  FittingChange change_;
  std::string device_text_;
  std::string host_text_;
  std::string shared_text_;
  std::string drive_text_;
  Bytes shared_more_;
};

// Where the limit of a shared memory comes from, and which budgets are within it.
std::string shared_source(const PlanQuestion& question) {
  std::string source = question.shared->source;
  std::set<std::string> budgets;
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    budgets.insert(device_budget(question, d).source);
  }
  budgets.insert(question.host_budget_source);
  budgets.erase(question.machine.source.text);
  for (const std::string& budget : budgets) source += "; " + budget;
  return source;
}

// Where the limit of a place comes from.
std::string limit_source(const PlanQuestion& question, const Shortage& lacking) {
  if (lacking.shared) return shared_source(question);
  if (lacking.kind == PlaceKind::host) return question.host_budget_source;
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    const bool it_lacks = question.machine.devices[d].name == lacking.place;
    if (it_lacks) return device_budget(question, d).source;
  }
  const bool drives = lacking.kind == PlaceKind::drive && !question.drive_budget_source.empty();
  return drives ? question.drive_budget_source : question.machine.source.text;
}

// What a plan of the question takes of the place of that kind; 0 where nothing fits.
Bytes taken_of(PlaceKind kind, const PlanQuestion& question, const Answerer& answer) {
  const AnswerWithoutRemedies found = any_plan(question, answer);
  Bytes taken;
  if (const auto* planned = std::get_if<Planned>(&found)) {
    for (const PlaceId id : planned->plan.places.ids()) {
      if (planned->plan.places[id].kind == kind) taken = peak_bytes(*planned, id);
    }
  }
  return taken;
}

// As much more DRAM for ferry as has to be, where the host has it: states that find no room there
// crowd the devices.
std::optional<FittingChange> more_of_the_host(const PlanQuestion& question,
                                              const Answerer& answer) {
  if (question.shared || question.host_budget >= question.machine.host.memory) return std::nullopt;
  const auto change_of = [&](Bytes budget) {
    FittingChange change;
    change.question = question;
    change.question.host_budget = budget;
    change.memory = budget - question.host_budget;
    change.text = "budget.host: " + bytes_text(budget);
    return change;
  };
  const Bytes all = question.machine.host.memory;
  Bytes taken = taken_of(PlaceKind::host, change_of(all).question, answer);
  taken = std::min(round_up(taken, 1_MiB), all);
  if (taken <= question.host_budget) return std::nullopt;  // nothing fits, or another way
  if (!fits_at_all(change_of(taken).question, answer)) return std::nullopt;
  return least_that_fits({question.host_budget, taken, 1_MiB}, change_of, answer);
}

// How many micro-batches a remedy's plan has at most. With twice as many as the question it takes
// twice as long to plan; where the question has few, many more do in tens of seconds.
std::size_t most_micro_batches(const PlanQuestion& question) {
  constexpr std::size_t kQuick = 40'000;  // passes
  const std::size_t blocks = make_chain(question).size();
  const std::size_t asked = static_cast<std::size_t>(question.micro_batches) * blocks;
  return std::min(kMostPasses, std::max(kQuick, 2 * asked)) / blocks;
}

// The largest smaller micro-batch that fits, with as many more of them. With no more of them than
// before it takes no more memory, and is seen at once not to fit.
std::optional<FittingChange> smaller_micro_batches(const PlanQuestion& question,
                                                   const Answerer& answer) {
  const std::size_t most = most_micro_batches(question);
  for (int size = question.micro_batch_size - 1; size >= 1; --size) {
    if (question.micro_batch_size % size != 0) continue;
    const int times = question.micro_batch_size / size;
    if (static_cast<std::size_t>(question.micro_batches) * static_cast<std::size_t>(times) > most) {
      break;
    }
    const int count = question.micro_batches * times;
    const PlanQuestion fewer =
        with_batch(question, question.micro_batches, size, question.sequence);
    if (!fits_at_all(fewer, answer)) continue;
    FittingChange change;
    change.text = "train.micro_batch_size: " + std::to_string(size) +
                  ", train.micro_batches: " + std::to_string(count);
    change.question = with_batch(question, count, size, question.sequence);
    if (auto fits = fitting(std::move(change), answer)) return fits;
  }
  return std::nullopt;
}

std::optional<FittingChange> shorter_sequence(const PlanQuestion& question,
                                              const Answerer& answer) {
  for (int time = question.sequence / 2; time >= kShortestSequence; time /= 2) {
    FittingChange change;
    change.text = "data.sequence: " + std::to_string(time);
    change.question = with_batch(question, question.micro_batches, question.micro_batch_size, time);
    if (auto fits = fitting(std::move(change), answer)) return fits;
  }
  return std::nullopt;
}

FittingChange drive_of(const PlanQuestion& question, Bytes capacity) {
  const PossibleDrive& possible = *question.possible_drive;
  FittingChange change;
  change.question = question;
  change.question.machine.drives = {
      {.name = "drive", .capacity = capacity, .read = possible.read, .write = possible.write}};
  change.memory = capacity;
  const double read = possible.read.bytes_per_second, write = possible.write.bytes_per_second;
  DriveBudget budget{.capacity = capacity};
  if (!possible.here) {
    budget.read = read;
    budget.write = write;
  } else if (!possible.measured) {
    change.assumed = "a drive that reads " + quantity_text(read, rate_units()) + ", writes " +
                     quantity_text(write, rate_units());
  }
  change.text = "budget.drive: " + drives_text({budget});
  return change;
}

// A drive as large as has to be, found below what a plan on a roomy one takes. With less than that
// the search may take another way, on which it lacks something else; then somewhat more.
std::optional<FittingChange> with_a_drive(const PlanQuestion& question, const Answerer& answer) {
  constexpr Bytes kRoomy{std::int64_t{1} << 50};
  constexpr int kRounds = 4;
  if (!question.possible_drive || !question.machine.drives.empty()) return std::nullopt;
  Bytes taken = taken_of(PlaceKind::drive, drive_of(question, kRoomy).question, answer);
  if (taken == Bytes{}) return std::nullopt;  // nothing fits, or a longer search found another way
  Bytes too_small;
  for (int round = 0; round < kRounds; ++round) {
    const Bytes unit = taken < 10_GiB ? 1_MiB : 1_GiB;
    taken = round_up(taken, unit);
    const AnswerWithoutRemedies tried = any_plan(drive_of(question, taken).question, answer);
    if (std::holds_alternative<Planned>(tried)) {
      return least_that_fits(
          {too_small, taken, unit}, [&](Bytes capacity) { return drive_of(question, capacity); },
          answer);
    }
    too_small = taken;
    const Shortage& lacking = std::get<Shortage>(tried);
    taken = lacking.kind == PlaceKind::drive ? lacking.need : taken + Bytes{taken.count / 4};
  }
  return std::nullopt;
}

// Whether a question fits is decided by recomputing everything.
std::optional<FittingChange> any_activations(const PlanQuestion& question, const Answerer& answer) {
  const ActivationRule asked = question.options.activations;
  if (asked == ActivationRule::automatic || asked == ActivationRule::recompute) return std::nullopt;
  FittingChange change;
  change.text = "plan.activations: auto";
  change.question = question;
  change.question.options.activations = ActivationRule::automatic;
  return fitting(std::move(change), answer);
}

std::optional<FittingChange> any_strategy(const PlanQuestion& question, const Answerer& answer) {
  if (question.strategy == strategy_name::kAuto) return std::nullopt;
  FittingChange change;
  change.text = std::string("strategy: ") + strategy_name::kAuto;
  change.question = question;
  change.question.strategy = strategy_name::kAuto;
  try {
    return fitting(std::move(change), answer);
  } catch (const UserError&) {  // what the job says of its strategy is not for all
    return std::nullopt;
  }
}

bool needs_drive(const FittingChange& change) {
  return change.question.possible_drive && !change.question.machine.drives.empty();
}

void sort_by_cost(std::vector<FittingChange>& changes) {
  std::ranges::stable_sort(changes, {}, [](const FittingChange& change) {
    return std::pair(micros_per_token(change), change.memory);
  });
}

std::vector<FittingChange> cheapest(std::vector<FittingChange> changes) {
  sort_by_cost(changes);
  if (changes.size() <= kRemedies) return changes;
  // A drive is slow, and what most have.
  const auto drive = std::ranges::find_if(changes.begin() + kRemedies, changes.end(), needs_drive);
  if (drive != changes.end()) std::swap(changes[kRemedies - 1], *drive);
  changes.resize(kRemedies);
  return changes;
}

/// Looks for one kind of change.
using ChangeSearch = std::function<std::optional<FittingChange>(const PlanQuestion& question,
                                                                const Answerer& answer)>;

/// `lacking` must outlive them.
std::vector<ChangeSearch> searches_of_size(const PlanQuestion& question, const Shortage& lacking) {
  std::vector<ChangeSearch> searches;
  searches.emplace_back([&lacking](const PlanQuestion& asked, const Answerer& answer) {
    return MoreMemory(asked, answer).grow(lacking);
  });
  if (lacking.kind == PlaceKind::device) searches.emplace_back(more_of_the_host);
  searches.emplace_back(with_a_drive);
  if (!question.model.blocks.empty()) {  // a profile written by hand is of one batch shape
    searches.emplace_back(smaller_micro_batches);
    searches.emplace_back(shorter_sequence);
  }
  return searches;
}

/// `answer` without the pass that takes most of the time, which does not decide what fits.
/// `answer` must outlive it.
Answerer quick(const Answerer& answer) {
  return [&answer](PlanQuestion question) {
    std::string& without = question.options.without;
    without += (without.empty() ? "" : ",") + std::string(pass_name::kBlocks);
    return answer(question);
  };
}

/// What `find` finds for each of them, side by side; in their order.
template <typename T, typename Find>
std::vector<FittingChange> found_for(const std::vector<T>& each, Find find) {
  std::vector<std::optional<FittingChange>> found(each.size());
  std::vector<std::function<void()>> works;
  for (std::size_t i = 0; i < each.size(); ++i) {
    works.emplace_back([&, i] { found[i] = find(each[i]); });
  }
  side_by_side(works);
  std::vector<FittingChange> changes;
  for (std::optional<FittingChange>& change : found) {
    if (change) changes.push_back(std::move(*change));
  }
  return changes;
}

/// The cheapest that the searches find, with the steps that `answer` finds.
std::vector<FittingChange> cheapest_of(const std::vector<ChangeSearch>& searches,
                                       const PlanQuestion& question, const Answerer& answer) {
  const Answerer quickly = quick(answer);
  const std::vector<FittingChange> shown = cheapest(
      found_for(searches, [&](const ChangeSearch& search) { return search(question, quickly); }));
  std::vector<FittingChange> changes =
      found_for(shown, [&](const FittingChange& change) { return fitting(change, answer); });
  sort_by_cost(changes);
  return changes;
}

}  // namespace

std::vector<FittingChange> find_changes(const PlanQuestion& question, const Shortage& lacking) {
  std::vector<ChangeSearch> searches = searches_of_size(question, lacking);
  searches.emplace_back(any_strategy);
  searches.emplace_back(any_activations);
  return cheapest_of(searches, question, answer_question);
}

std::vector<FittingChange> find_changes_of_size(const PlanQuestion& question,
                                                const Shortage& lacking, const Answerer& answer) {
  return cheapest_of(searches_of_size(question, lacking), question, answer);
}

DoesNotFit does_not_fit(const PlanQuestion& question, Shortage lacking,
                        std::vector<FittingChange> changes) {
  DoesNotFit result;
  result.limit_source = limit_source(question, lacking);
  result.place = std::move(lacking.place);
  // As device_limit() counts: what is asked for is enough.
  result.need = lacking.kind == PlaceKind::device ? slot_size(lacking.need) : lacking.need;
  result.have = lacking.have;
  result.breakdown = std::move(lacking.breakdown);
  for (FittingChange& change : changes) {
    result.remedies.push_back({std::move(change.text), change.step, std::move(change.assumed)});
  }
  return result;
}

}  // namespace ferry
