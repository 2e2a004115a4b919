#include <cstdio>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "cli/box_probes.h"
#include "cli/commands.h"
#include "cli/doctor_report.h"
#include "cli/examination.h"
#include "data/named_file.h"

namespace ferry {
namespace {

Bytes parse_drive_size(const std::string& text) {
  try {
    const Bytes size = parse_bytes(text);
    if (size > 0_B) return size;
  } catch (const UserError& error) {
    throw UserError("--drive-size: " + std::string(error.what()));
  }
  throw UserError("--drive-size: expected a size above 0; found '" + text + "'");
}

void write_machine(const Examination& examination, const std::string& file) {
  const std::string text = examination_yaml(examination);
  FERRY_CHECK(parse_machine(text, file) == examination.machine,
              "what ferry doctor writes reads back equal");
  write_named_file(file, text);
}

}  // namespace

int run_doctor(const DoctorCommand& command) {
  const std::filesystem::path file = command.machine;
  const std::string name = file.empty() ? "this machine" : file.stem().string();
  const auto say = [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); };
  const Examination examination =
      examine(probes_of_this_box(parse_drive_size(command.drive_size), say), name, command.drives);
  if (!file.empty()) write_machine(examination, command.machine);
  if (command.json) {
    std::fputs(examination_json(examination).c_str(), stdout);
    return kDone;
  }
  std::fputs(examination_table(examination).c_str(), stdout);
  if (file.empty()) {
    std::puts("nothing written; --machine FILE writes a machine file");
  } else {
    std::printf("machine file written to %s\n", file.c_str());
  }
  return kDone;
}

}  // namespace ferry
