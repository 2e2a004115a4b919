// The commands of ferry. Each returns its exit code; errors are thrown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

inline constexpr int kDone = 0;
inline constexpr int kDiffers = 1;  // of `ferry verify`
inline constexpr int kUserError = 2;
inline constexpr int kResourceError = 3;
inline constexpr int kDoesNotFit = 4;
inline constexpr int kInterrupted = 130;
inline constexpr int kReaderGone = 141;  // nobody reads the output: as after SIGPIPE

struct PlanCommand {
  std::string job;
  std::vector<std::string> overrides;
  std::string output;  // empty: OUT/plan
  bool json = false;
  bool explain = false;
  bool what_if = false;
  bool passes = false;
};
int run_plan(const PlanCommand& command);

struct SimulateCommand {
  std::string plan;
  std::string trace;      // empty: PLAN.trace.json
  std::string html;       // empty: no page
  std::string endurance;  // bytes that a drive may be written in its life; empty: unknown
  bool json = false;
};
int run_simulate(const SimulateCommand& command);

struct TrainCommand {
  std::string program = "ferry";  // as it was called
  std::string job;
  std::vector<std::string> overrides;
  std::string plan;  // empty: make one
  bool without_drives = false;
  bool dry_run = false;
  bool resume = false;
  std::optional<std::int64_t> step;  // to resume from; none: the newest checkpoint
  std::vector<std::string> allow;    // what may have changed since, by name
  bool events = false;               // lines of JSON in place of text (event_lines.h)
};
int run_train(const TrainCommand& command);

struct VerifyCommand {
  std::string job;
  std::vector<std::string> overrides;
  std::string plan;  // empty: make one
  int steps = 3;
};
int run_verify(const VerifyCommand& command);

struct ExportCommand {
  std::string source;  // a run's folder or a checkpoint
  std::string folder;
  std::string dtype;  // empty: as stored
};
int run_export(const ExportCommand& command);

struct ReportCommand {
  std::string out;  // a run's folder
};
int run_report(const ReportCommand& command);

struct PreviewCommand {
  std::string source;  // a job file; with `model` a data file
  std::string model;   // whose tokenizer to use; empty: the job's
  std::vector<std::string> overrides;
  int samples = 3;
};
int run_preview(const PreviewCommand& command);

struct DoctorCommand {
  std::string machine;              // file to write; empty: none
  std::vector<std::string> drives;  // folders on the drives to measure
  std::string drive_size = "1 GiB";
  bool json = false;
};
int run_doctor(const DoctorCommand& command);

struct PapersCommand {
  std::vector<std::string> tables;  // empty: all
  std::string harmony;              // folder of Harmony's profiles; empty: none
  bool json = false;
};
int run_papers(const PapersCommand& command);

}  // namespace ferry
