#include "train/saving.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <new>
#include <utility>

#include "base/error.h"

namespace ferry {
namespace {

SavingTimes::Time now() { return std::chrono::steady_clock::now(); }

}  // namespace

std::string words_of(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) {
    return std::string("torch: ") + torch->what_without_backtrace();
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of host memory";
  return error.what();
}

Saving::Saving(Setup setup, int done, std::filesystem::path newest)
    : setup_(std::move(setup)), times_(setup_.rules, done, now()), newest_(std::move(newest)) {}

bool Saving::is_due(int done) const { return times_.is_due(done, now()); }

void Saving::save(int done, std::optional<int> last_good) {
  CheckpointContents contents = setup_.contents(done);
  contents.last_good = last_good;
  newest_ = save_checkpoint(contents, setup_.saved, setup_.observer);
  in_doubt_ = last_good ? std::optional(done) : std::nullopt;
  times_.succeeded(done, now());
  setup_.observer.saved(done, newest_);
}

void Saving::try_to_save(int done, std::optional<int> last_good) {
  try {
    save(done, last_good);
  } catch (const std::exception& error) {
    const int wait = static_cast<int>(times_.failed(now()).count());
    setup_.observer.warning(
        "step " + std::to_string(done) + " is not saved: " + words_of(error) +
        "\n  the run goes on, what was saved before stays; the next try is in " +
        std::to_string(wait) + " s");
  }
}

void Saving::save_the_rest(int done, std::optional<int> last_good) {
  if (!is_left(done)) return;
  try {
    save(done, last_good);
  } catch (const std::exception& error) {
    throw ResourceError(
        words_of(error) + "\n  the state after step " + std::to_string(done) + " is lost; " +
        (newest_.empty() ? "no checkpoint was saved before"
                         : newest_.string() + " is whole: go on from it with --resume"));
  }
}

void Saving::learned_from(int good) {
  if (!in_doubt_ || good < *in_doubt_) return;
  try {
    setup_.saved.remove_outdated(*in_doubt_, std::nullopt);
    in_doubt_.reset();
  } catch (const std::exception&) {
    // The drive is in trouble: the next step, or the next save, tries again.
  }
}

}  // namespace ferry
