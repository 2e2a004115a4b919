#include "store/drive_queue.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/drive_page.h"
#include "base/error.h"

namespace ferry {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kIdle{3'600'000};

/// How long the thread waits before it looks whether a request is late.
milliseconds look_interval(milliseconds limit) {
  return std::clamp(limit / 4, milliseconds{5}, milliseconds{1'000});
}

const char* name_of(IoKind kind) { return kind == IoKind::read ? "read" : "write"; }

}  // namespace

void DriveTransfer::settle(std::exception_ptr error) {
  std::unique_lock lock(mutex_);
  if (error && !error_) error_ = std::move(error);
  if (--left_ > 0) return;
  const Done done = std::move(done_);
  std::exception_ptr first = std::move(error_);
  lock.unlock();
  done(std::move(first));  // whoever is told may be the last to hold it
}

bool DriveTransfer::failed() const {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

DriveQueue::DriveQueue(Setup setup) : setup_(std::move(setup)) {
  FERRY_CHECK(setup_.in_flight > 0 && setup_.time_limit > milliseconds{0},
              "a drive needs a request in flight and time");
  if (setup_.held) pace_.emplace(*setup_.held);
  flights_.resize(static_cast<std::size_t>(setup_.in_flight));
  for (std::size_t token = 0; token < flights_.size(); ++token) free_.push_back(token);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw ResourceError(std::string("cannot start a thread for a drive: ") + error.what());
  }
}

DriveQueue::~DriveQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    inbox_filled_.notify_all();
    if (engine_ && !ended_) engine_->wake();
  }
  thread_.join();
}

void DriveQueue::wait_open() { opened_.get_future().get(); }

void DriveQueue::post(std::vector<Piece> pieces) {
  std::unique_lock lock(mutex_);
  if (const std::exception_ptr ended = ended_) {
    lock.unlock();
    for (Piece& piece : pieces) piece.transfer->settle(ended);
    return;
  }
  inbox_.emplace_back(std::make_move_iterator(pieces.begin()),
                      std::make_move_iterator(pieces.end()));
  inbox_filled_.notify_all();
  engine_->wake();
}

std::string DriveQueue::use_memory(std::span<std::byte> memory) {
  std::unique_lock lock(mutex_);
  if (ended_) return "the drive is not used any more";
  registrations_.push_back({.memory = memory, .answer = {}});
  std::future<std::string> answer = registrations_.back().answer.get_future();
  inbox_filled_.notify_all();
  engine_->wake();
  lock.unlock();
  return answer.get();
}

DriveCounts DriveQueue::counts() const {
  return {.read = {read_}, .written = {written_}, .reads = reads_, .writes = writes_};
}

void DriveQueue::run() {
  if (!open()) return;
  std::exception_ptr failure;
  try {
    serve();
    failure = std::make_exception_ptr(ResourceError(setup_.place + ": " + setup_.folder.string() +
                                                    " was closed before this transfer began"));
  } catch (...) {
    failure = std::current_exception();
  }
  for (std::size_t token = 0; token < flights_.size(); ++token) {
    if (flights_[token]) land(token, failure);
  }
  refuse(failure);
}

bool DriveQueue::open() {
  try {
    OpenedDrive opened = setup_.open();
    const std::lock_guard lock(mutex_);
    engine_ = std::move(opened.engine);
    way_ = engine_->name() + (opened.refused.empty() ? "" : " (" + opened.refused + ")");
    opened_.set_value();
    return true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    ended_ = std::current_exception();
    opened_.set_exception(ended_);
    return false;
  }
}

/// Moves pieces until the queue is closed and nothing is in flight. Throws when the drive is lost.
void DriveQueue::serve() {
  looked_ = Clock::now();
  while (true) {
    const bool closing = take_new();
    if (!closing) start_waiting();
    if (closing && idle()) return;
    for (const IoCompletion& completion : engine_->wait(longest_wait())) complete(completion);
    look_for_late();
  }
}

bool DriveQueue::idle() const { return free_.size() == flights_.size(); }

milliseconds DriveQueue::longest_wait() const {
  const milliseconds look = idle() ? kIdle : look_interval(setup_.time_limit);
  if (!pace_ || free_.empty()) return look;
  Clock::time_point next = Clock::time_point::max();
  for (const std::deque<Pieces>& waiting : waiting_) {
    if (!waiting.empty()) next = std::min(next, begins(waiting.front().front()));
  }
  const Clock::time_point now = Clock::now();
  if (next - now > look) return look;  // also without any
  return std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(next - now));
}

DriveQueue::Clock::time_point DriveQueue::begins(const Piece& piece) const {
  return pace_->begins(piece.kind, piece.memory.size());
}

/// Settles everything that waits and still comes with `failure`, until the queue is closed.
void DriveQueue::refuse(const std::exception_ptr& failure) {
  while (true) {
    take_new();
    for (const std::deque<Pieces>& waiting : std::exchange(waiting_, {})) {
      for (const Pieces& pieces : waiting) {
        for (const Piece& piece : pieces) piece.transfer->settle(failure);
      }
    }
    std::unique_lock lock(mutex_);
    const auto has_new = [this] { return !inbox_.empty() || !registrations_.empty(); };
    inbox_filled_.wait(lock, [&] { return closing_ || has_new(); });
    if (has_new()) continue;
    ended_ = failure;
    const std::unique_ptr<IoEngine> engine = std::move(engine_);
    lock.unlock();  // an engine may take a while to end
    return;
  }
}

/// Empties the inbox; returns whether the queue is being closed.
bool DriveQueue::take_new() {
  std::unique_lock lock(mutex_);
  std::vector<Pieces> transfers = std::exchange(inbox_, {});
  std::vector<Registration> registrations = std::exchange(registrations_, {});
  const bool closing = closing_;
  lock.unlock();
  for (Pieces& transfer : transfers) {
    const IoKind kind = transfer.front().kind;
    std::deque<Pieces>& waiting = waiting_.at(pace_ ? pace_->way(kind) : 0);
    if (pace_ && waiting.empty()) pace_->arrive(kind, Clock::now());
    waiting.push_back(std::move(transfer));
  }
  for (Registration& registration : registrations) {
    registration.answer.set_value(engine_->use_memory(registration.memory));
  }
  return closing;
}

/// Of the first transfer in turn; of a drive that is held to rates, where its time has come.
std::optional<DriveQueue::Piece> DriveQueue::next_piece() {
  for (std::deque<Pieces>& waiting : waiting_) {
    if (waiting.empty()) continue;
    if (pace_ && begins(waiting.front().front()) > Clock::now()) continue;
    Pieces transfer = std::move(waiting.front());
    waiting.pop_front();
    Piece piece = std::move(transfer.front());
    transfer.pop_front();
    if (!transfer.empty()) waiting.push_back(std::move(transfer));
    return piece;
  }
  return std::nullopt;
}

void DriveQueue::start_waiting() {
  while (!free_.empty()) {
    std::optional<Piece> piece = next_piece();
    if (!piece) return;
    if (piece->memory.empty() || piece->transfer->failed()) {
      piece->transfer->settle(nullptr);  // an error that another piece has met is told by that one
      continue;
    }
    if (pace_) pace_->begin(piece->kind, piece->memory.size());
    const std::size_t token = free_.back();
    free_.pop_back();
    flights_[token] = Flight{.piece = std::move(*piece), .moved = 0, .since = age_};
    start(token);
  }
}

/// Asks the drive for what is left of a flight.
void DriveQueue::start(std::size_t token) {
  const Flight& flight = *flights_[token];
  const Bytes moved{static_cast<std::int64_t>(flight.moved)};
  engine_->start({.kind = flight.piece.kind,
                  .offset = flight.piece.offset + moved,
                  .memory = flight.piece.memory.subspan(flight.moved),
                  .token = token});
}

void DriveQueue::complete(const IoCompletion& completion) {
  const auto token = static_cast<std::size_t>(completion.token);
  FERRY_CHECK(token < flights_.size() && flights_[token], "an engine completes what was started");
  Flight& flight = *flights_[token];
  if (completion.result == -EINTR || completion.result == -EAGAIN) return start(token);
  if (completion.result < 0) {
    const int error = static_cast<int>(-completion.result);
    return land(token, error_of(flight, std::generic_category().message(error)));
  }
  const auto moved = static_cast<std::size_t>(completion.result);
  const std::size_t left = flight.piece.memory.size() - flight.moved;
  FERRY_CHECK(moved <= left, "an engine moves no more than it was asked to");
  const bool reads = flight.piece.kind == IoKind::read;
  (reads ? read_ : written_) += completion.result;
  ++(reads ? reads_ : writes_);
  if (moved == left) return land(token, nullptr);
  if (moved == 0) return land(token, error_of(flight, "the swap file ended"));
  // Direct I/O goes on at a multiple only; what lies behind it is moved again. A drive that always
  // moves less than that is late some time.
  const auto whole = moved - moved % static_cast<std::size_t>(kDrivePage.count);
  flight.moved += whole;
  if (whole > 0) flight.since = age_;
  start(token);
}

/// Ends a flight; its token is free again.
void DriveQueue::land(std::size_t token, std::exception_ptr error) {
  const Flight flight = std::move(*flights_[token]);
  flights_[token].reset();
  free_.push_back(token);
  flight.piece.transfer->settle(std::move(error));
}

/// Throws when the drive has not answered a request in time. The time in which this process was
/// stopped or suspended does not count: a look adds no more than a few intervals.
void DriveQueue::look_for_late() {
  const Clock::time_point now = Clock::now();
  age_ += std::min<Clock::duration>(now - looked_, 4 * look_interval(setup_.time_limit));
  looked_ = now;
  for (const std::optional<Flight>& flight : flights_) {
    if (!flight || age_ - flight->since <= setup_.time_limit) continue;
    const std::string limit =
        to_string(from_seconds(std::chrono::duration<double>(setup_.time_limit).count()));
    std::rethrow_exception(
        error_of(*flight, "no answer within " + limit + "; the drive is not asked again"));
  }
}

std::exception_ptr DriveQueue::error_of(const Flight& flight, const std::string& reason) const {
  const Bytes at = flight.piece.offset + Bytes{static_cast<std::int64_t>(flight.moved)};
  const Bytes length{static_cast<std::int64_t>(flight.piece.memory.size() - flight.moved)};
  return std::make_exception_ptr(ResourceError(setup_.place + ": " + name_of(flight.piece.kind) +
                                               " failed: " + setup_.folder.string() + " at byte " +
                                               std::to_string(at.count) + " of its swap file, " +
                                               to_string(length) + ": " + reason));
}

}  // namespace ferry
