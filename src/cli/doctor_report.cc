#include "cli/doctor_report.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "cli/wrap_text.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

template <typename Member>
std::size_t widest(const std::vector<Finding>& findings, Member member) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, (finding.*member).size());
  return width;
}

/// Values that take more leave no room for their source, which then goes to the next line.
constexpr std::size_t kWidestValue = 32;

Json rate_json(Rate rate) { return rate.limited() ? Json(rate.bytes_per_second) : Json(nullptr); }

Json root_json(const Machine& machine, const std::optional<int>& root) {
  return root ? Json(machine.roots[*root].name) : Json(nullptr);
}

Json machine_json(const Machine& machine) {
  const Host& host = machine.host;
  Json json = {{"name", machine.name},
               {"host",
                {{"cores", host.cores},
                 {"memory", host.memory.count},
                 {"shared", host.shared},
                 {"memory_bandwidth", rate_json(host.memory_bandwidth)},
                 {"update_rate", host.update_rate}}},
               {"roots", Json::array()},
               {"devices", Json::array()},
               {"drives", Json::array()}};
  for (const Root& root : machine.roots) {
    json["roots"].push_back(
        {{"name", root.name}, {"up", rate_json(root.up)}, {"down", rate_json(root.down)}});
  }
  for (const MachineDevice& device : machine.devices) {
    json["devices"].push_back({{"name", device.name},
                               {"kind", to_string(device.kind)},
                               {"index", device.index},
                               {"memory", device.memory.count},
                               {"up", rate_json(device.up)},
                               {"down", rate_json(device.down)},
                               {"root", root_json(machine, device.root)}});
  }
  for (const Drive& drive : machine.drives) {
    json["drives"].push_back({{"name", drive.name},
                              {"path", drive.path},
                              {"capacity", drive.capacity.count},
                              {"read", rate_json(drive.read)},
                              {"write", rate_json(drive.write)},
                              {"root", root_json(machine, drive.root)}});
  }
  return json;
}

/// Follows the lines that to_yaml() writes: which part of the machine, which key.
class LinePlace {
 public:
  void advance(const std::string& line) {
    const std::size_t start = line.find_first_not_of(" -");
    const std::size_t colon = line.find(':');
    if (start == std::string::npos || colon == std::string::npos) return;
    key_ = line.substr(start, colon - start);
    if (line.starts_with("host:")) part_ = "host";
    if (line.starts_with("  - ")) part_ = line.substr(line.find_first_not_of(' ', colon + 1));
  }

  bool is(const Finding& finding) const { return finding.part == part_ && finding.key == key_; }

 private:
  std::string part_, key_;
};

}  // namespace

std::string examination_table(const Examination& examination) {
  const auto& findings = examination.findings;
  const std::size_t part_width = widest(findings, &Finding::part) + 2;
  const std::size_t key_width = widest(findings, &Finding::key) + 2;
  const std::size_t value_width = std::min(widest(findings, &Finding::value), kWidestValue) + 2;
  const std::size_t indent = part_width + key_width + value_width;
  std::string text, part;
  for (const Finding& finding : findings) {
    text += padded(finding.part == part ? "" : finding.part, part_width);
    part = finding.part;
    text += padded(finding.key, key_width) + padded(finding.value, value_width);
    if (finding.value.size() + 2 > value_width) text += "\n" + std::string(indent, ' ');
    text += wrap_text(finding.source, indent);
  }
  if (!examination.warnings.empty()) text += "warnings\n";
  for (const std::string& warning : examination.warnings) text += "  - " + wrap_text(warning, 4);
  return text;
}

std::string examination_json(const Examination& examination) {
  Json json = {{"machine", machine_json(examination.machine)},
               {"findings", Json::array()},
               {"warnings", examination.warnings}};
  for (const Finding& finding : examination.findings) {
    json["findings"].push_back({{"part", finding.part},
                                {"key", finding.key},
                                {"value", finding.value},
                                {"source", finding.source}});
  }
  // A path may hold bytes that are no UTF-8.
  return json_text(json, 2) + "\n";
}

std::string examination_yaml(const Examination& examination) {
  std::string text =
      "# Written by ferry doctor. A comment says where the figure below it comes from.\n";
  std::istringstream lines(to_yaml(examination.machine));
  LinePlace place;
  for (std::string line; std::getline(lines, line);) {
    place.advance(line);
    for (const Finding& finding : examination.findings) {
      if (!place.is(finding)) continue;
      const std::size_t indent = line.find_first_not_of(' ');
      text += std::string(indent, ' ') + "# " + finding.source + "\n";
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace ferry
