#include "cli/event.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ferry {

void write_event(const std::string& event, nlohmann::json fields) {
  fields["event"] = event;
  // A path, or a text that quotes a file, may hold bytes that are not UTF-8.
  const std::string line = json_text(fields) + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace ferry
