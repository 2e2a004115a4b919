// What a copy to or from a drive needs beyond other copies: drives take and give whole pages.
#pragma once

#include "plan/findings.h"
#include "plan/plan.h"

namespace ferry {

/// Reports, of every copy with an end at a drive: another end that is not the host (rule 2), a slot
/// that does not begin on a page, or another slot that begins in what is left of its last page
/// (rule 3). A slot that shares bytes with the copied one itself is rule 3's anyway, so nothing
/// else can lie in the pages that are moved. O(instances log instances).
void check_drive_copies(const Plan& plan, Findings& findings);

}  // namespace ferry
