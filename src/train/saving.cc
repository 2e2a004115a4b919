#include "train/saving.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/system_words.h"

namespace ferry {
namespace {

SavingTimes::Time now() { return std::chrono::steady_clock::now(); }

std::string seconds_text(SavingTimes::Seconds time) {
  return std::to_string(static_cast<int>(time.count())) + " s";
}

/// Waits so long, or until `wanted` says so, which is returned.
bool wait_unless(const std::function<bool()>& wanted, SavingTimes::Seconds time) {
  constexpr std::chrono::milliseconds kInterval(100);
  for (const auto end = now() + time; now() < end;) {
    if (wanted()) return true;
    std::this_thread::sleep_for(kInterval);
  }
  return false;
}

}  // namespace

std::string words_of(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) {
    return std::string("torch: ") + torch->what_without_backtrace();
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return kOutOfMemory;
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    return words_of_system(*system);
  }
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
    setup_.observer.warning(
        not_saved(done, error) +
        "\n  the run goes on, what was saved before stays; the next try is in " +
        seconds_text(times_.failed(now())));
  }
}

void Saving::save_at_last(int done, std::optional<int> last_good) {
  const bool stop_was_wanted = setup_.observer.wants_to_stop();
  const auto wanted = [&] { return !stop_was_wanted && setup_.observer.wants_to_stop(); };
  for (bool is_last = false;;) {
    SavingTimes::Seconds wait;
    try {
      return save(done, last_good);
    } catch (const std::exception& error) {
      const auto next = times_.failed_at_end(now());
      if (is_last || !next) throw;
      wait = *next;
      setup_.observer.warning(not_saved(done, error) + "\n  the run has ended and waits, " +
                              seconds_text(SavingTimes::kPatience) +
                              " at most; the next try is in " + seconds_text(wait) +
                              ", Ctrl-C ends the wait");
    }
    is_last = wait_unless(wanted, wait);
  }
}

std::string Saving::not_saved(int done, const std::exception& error) const {
  const std::string lack = setup_.lack();
  return "step " + std::to_string(done) + " is not saved: " + words_of(error) +
         (lack.empty() ? "" : "\n  " + lack);
}

void Saving::save_the_rest(int done, std::optional<int> last_good) {
  if (!is_left(done)) return;
  try {
    save_at_last(done, last_good);
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
