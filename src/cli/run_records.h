// What a run has written, read back: log.jsonl, summary.json and environment.json of its folder.
#pragma once

#include <filesystem>

#include "report/run_history.h"

namespace ferry {

/// Reads what is there of a run in `out`, one that still goes on included. Throws UserError when no
/// run has logged there, or a file is not what ferry writes.
RunHistory read_run(const std::filesystem::path& out);

}  // namespace ferry
