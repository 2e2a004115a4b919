#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "cli/run_records.h"
#include "data/files.h"
#include "plan/verify.h"
#include "report/html.h"
#include "report/run_page.h"

namespace ferry {

int run_report(const ReportCommand& command) {
  const std::filesystem::path out = command.out;
  RunHistory history = read_run(out);
  if (std::filesystem::exists(out / "plan")) {
    const Plan plan = read_plan((out / "plan").string());
    require_verified(plan, (out / "plan").string());
    write_file(out / "plan.html", to_html(plan, simulate(plan)));
    history.timeline = "plan.html";
  }
  write_file(out / "log.csv", to_csv(history));
  write_file(out / "report.html", to_html(history));
  std::printf("page written to %s (open it in a browser)\n", (out / "report.html").c_str());
  std::printf("table written to %s\n", (out / "log.csv").c_str());
  return kDone;
}

}  // namespace ferry
