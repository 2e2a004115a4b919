#include "exec/timeline.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/check.h"

namespace ferry {
namespace {

// Appends "NAME":TEXT pairs of one JSON object per event.
class TraceText {
 public:
  void begin() { text_ += text_.empty() ? "{\"traceEvents\":[\n{" : ",\n{"; }
  void end() { text_ += '}'; }

  void string(std::string_view key, std::string_view value) {
    start(key);
    quote(value);
  }
  void number(std::string_view key, double value) {
    FERRY_CHECK(std::isfinite(value), "a timeline holds finite times");
    std::array<char, 32> digits{};
    const auto [stop, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    start(key);
    text_.append(digits.data(), stop);
  }
  void integer(std::string_view key, std::int64_t value) {
    start(key);
    text_ += std::to_string(value);
  }
  // Opens an object as the value of `key`; end() closes it.
  void object(std::string_view key) {
    start(key);
    text_ += '{';
  }

  std::string take() {
    text_ += text_.empty() ? "{\"traceEvents\":[]" : "\n]";
    return std::move(text_ += ",\"displayTimeUnit\":\"ms\"}\n");
  }

 private:
  void start(std::string_view key) {
    if (text_.back() != '{') text_ += ',';
    quote(key);
    text_ += ':';
  }
  void quote(std::string_view value) {
    constexpr std::string_view kHex = "0123456789abcdef";
    text_ += '"';
    for (const char c : value) {
      const auto code = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        (text_ += '\\') += c;
      } else if (code < 0x20 || code >= 0x7f) {
        text_ += "\\u00";
        (text_ += kHex[code >> 4]) += kHex[code & 15];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
};

std::size_t index(int id) { return static_cast<std::size_t>(id); }

void write_names(const Plan& plan, TraceText& trace) {
  const auto metadata = [&](std::string_view what, int process, int track, std::string_view name) {
    trace.begin();
    trace.string("name", what);
    trace.string("ph", "M");
    trace.integer("pid", process);
    trace.integer("tid", track);
    trace.object("args");
    trace.string("name", name);
    trace.end();
    trace.end();
  };
  for (std::size_t p = 0; p < plan.places.size(); ++p) {
    metadata("process_name", static_cast<int>(p), 0, plan.places[p].name);
  }
  for (std::size_t r = 0; r < plan.resources.size(); ++r) {
    metadata("thread_name", plan.resources[r].place, static_cast<int>(r), plan.resources[r].name);
  }
}

// The fields that say when and on which track an event is.
void write_position(const Plan& plan, const Span& span, Micros at, TraceText& trace) {
  const ResourceId resource = plan.tasks[index(span.run.task)].resource;
  trace.number("ts", at.count);
  trace.integer("pid", plan.resources[index(resource)].place);
  trace.integer("tid", resource);
}

void write_span(const Plan& plan, const Span& span, TraceText& trace) {
  const Task& task = plan.tasks[index(span.run.task)];
  trace.begin();
  trace.string("name", task.name);
  trace.string("ph", "X");
  write_position(plan, span, span.start, trace);
  trace.number("dur", std::max(0.0, (span.end - span.start).count));
  trace.object("args");
  trace.integer("step", span.run.step);
  if (task.bytes > Bytes{}) trace.integer("bytes", task.bytes.count);
  trace.end();
  trace.end();
}

void write_flow(const Plan& plan, const Span& earlier, const Span& later, std::int64_t id,
                TraceText& trace) {
  const auto write_half = [&](std::string_view phase, const Span& span, Micros at) {
    trace.begin();
    trace.string("name", "after");
    trace.string("cat", "after");
    trace.string("ph", phase);
    trace.integer("id", id);
    write_position(plan, span, at, trace);
    if (phase == "f") trace.string("bp", "e");
    trace.end();
  };
  write_half("s", earlier, earlier.end);
  write_half("f", later, std::max(later.start, earlier.end));
}

}  // namespace

std::vector<ResourceUse> resource_use(const Plan& plan, const Timeline& timeline) {
  std::vector<ResourceUse> use(plan.resources.size());
  if (timeline.spans.empty()) return use;
  Micros begin = timeline.spans.front().start;
  Micros end = timeline.spans.front().end;
  for (const Span& span : timeline.spans) {
    const Task& task = plan.tasks[index(span.run.task)];
    ResourceUse& one = use[index(task.resource)];
    one.busy += span.end - span.start;
    one.bytes += task.bytes;
    begin = std::min(begin, span.start);
    end = std::max(end, span.end);
  }
  const double total = (end - begin).count;
  for (ResourceUse& one : use) one.utilisation = total > 0 ? one.busy.count / total : 0.0;
  return use;
}

std::string to_chrome_trace(const Plan& plan, const Timeline& timeline) {
  TraceText trace;
  write_names(plan, trace);
  std::map<int, std::vector<const Span*>> steps;  // step -> by task, null where it did not run
  for (const Span& span : timeline.spans) {
    auto& spans = steps[span.run.step];
    spans.resize(plan.tasks.size());
    spans[index(span.run.task)] = &span;
    write_span(plan, span, trace);
  }
  std::int64_t flow = 0;
  for (const auto& [step, spans] : steps) {
    for (std::size_t id = 0; id < spans.size(); ++id) {
      if (spans[id] == nullptr) continue;
      for (const TaskId earlier : plan.tasks[id].after) {
        const Span* const first = spans[index(earlier)];
        if (first != nullptr) write_flow(plan, *first, *spans[id], ++flow, trace);
      }
    }
  }
  return trace.take();
}

}  // namespace ferry
