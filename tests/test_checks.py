"""The checks of this folder catch what they are for."""

import subprocess
from pathlib import Path

import count
import layers
import sources


ROOT = Path(__file__).resolve().parent.parent


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_an_include_against_the_order_is_caught(tmp_path):
    write(tmp_path, {"plan/plan.cc": '#include "plan/plan.h"\n#include "planner/pass.h"\n'})
    (problem,) = layers.violations(tmp_path)
    assert "plan.cc:2: plan/ may not include planner/" in problem


def test_torch_outside_its_folders_is_caught(tmp_path):
    write(tmp_path, {"exec/driver.h": "#  include <ATen/ATen.h>\n"})
    (problem,) = layers.violations(tmp_path)
    assert "exec/ may not include torch/" in problem


def test_threads_where_the_thread_sanitizer_does_not_look_are_caught(tmp_path):
    write(tmp_path, {"planner/cuts/mip.cc": "#include <mutex>\n", "store/rates.cc": "#include <mutex>\n"})
    (problem,) = layers.violations(tmp_path)
    assert "mip.cc:1: planner/ may not include <mutex>" in problem


def test_a_folder_outside_the_table_is_caught(tmp_path):
    write(tmp_path, {"misc/misc.cc": ""})
    assert "not in the table" in layers.violations(tmp_path)[0]


def test_allowed_includes_pass(tmp_path):
    write(tmp_path, {"model/block.cc": '#include "spec/model.h"\n#include <torch/types.h>\n'})
    assert layers.violations(tmp_path) == []


def test_the_order_of_rooms_is_held(tmp_path):
    write(
        tmp_path,
        {
            "planner/cuts/mip.cc": '#include "planner/costs/chain.h"\n#include "planner/write/builder.h"\n',
            "planner/cuts/mip_test.cc": '#include "planner/sample_questions.h"\n',
            "planner/planner.cc": '#include "planner/strategies/strategies.h"\n',
        },
    )
    (problem,) = layers.violations(tmp_path)
    assert "mip.cc:2: planner/cuts/ may not include planner/write" in problem


def test_a_room_may_not_see_what_lies_beside_the_rooms(tmp_path):
    write(tmp_path, {"planner/cuts/mip.cc": '#include "planner/planner.h"\n'})
    (problem,) = layers.violations(tmp_path)
    assert "mip.cc:1: planner/cuts/ may not include planner/" in problem


def test_a_cycle_of_includes_is_caught(tmp_path):
    write(tmp_path, {"plan/a.h": '#include "plan/b.h"\n', "plan/b.h": '#include "plan/a.h"\n', "plan/c.h": ""})
    assert layers.cycle(tmp_path) == ["plan/a.h", "plan/b.h"]


def test_an_allowed_include_that_nobody_uses_is_caught(tmp_path):
    write(tmp_path, {"plan/plan.cc": '#include "base/units.h"\n'})
    assert "tests/layers.py: plan/ may include spec/, and nothing does" in layers.unused(tmp_path)


def test_json_that_is_parsed_beside_its_door_is_caught(tmp_path):
    parses = "const Json kept = Json::parse(file);\n"
    write(tmp_path, {"base/json.cc": parses, "cli/cache.cc": "\n" + parses, "cli/cache_test.cc": parses})
    (problem,) = layers.other_doors(tmp_path)
    assert "cache.cc:2: JSON is read by parse_json()" in problem


def test_a_source_in_no_list_is_caught(tmp_path):
    write(
        tmp_path,
        {
            "src/plan/CMakeLists.txt": "ferry_library(plan SOURCES plan.cc)  # and verify.cc\n",
            "src/plan/plan.cc": "",
            "src/plan/verify.cc": "",
        },
    )
    assert sources.unlisted(tmp_path) == [tmp_path / "src/plan/verify.cc"]


def test_a_python_test_in_no_list_is_caught(tmp_path):
    write(
        tmp_path,
        {
            "tests/CMakeLists.txt": "add_test(NAME a COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_a.py)\n"
            "add_subdirectory(runs)",
            "tests/test_a.py": "",
            "tests/test_b.py": "",
            "tests/runs/CMakeLists.txt": "add_test(NAME d COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_d.py)",
            "tests/runs/test_d.py": "",
            "tests/runs/test_e.py": "",
            "tools/CMakeLists.txt": "add_test(NAME t COMMAND pytest ${PROJECT_SOURCE_DIR}/tools/tests)",
            "tools/tests/test_c.py": "",
        },
    )
    assert sources.unlisted(tmp_path) == [tmp_path / "tests/runs/test_e.py", tmp_path / "tests/test_b.py"]


CTEST = '<testsuite><testcase name="plan" status="{}"/><testcase name="layers" status="run"/></testsuite>'
PASSED = '<testsuites><testsuite><testcase name="a" status="run"/></testsuite></testsuites>'
FAILED = '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>'
SKIPPED = '<testsuite><testcase name="a" status="run"><skipped/></testcase></testsuite>'


def test_cases_are_counted_where_there_are_any(tmp_path):
    write(tmp_path, {"ctest.xml": CTEST.format("run"), "plan.xml": PASSED})
    assert count.count(tmp_path) == (2, 0, 0)
    write(tmp_path, {"plan.xml": SKIPPED})
    assert count.count(tmp_path) == (1, 0, 1)
    write(tmp_path, {"ctest.xml": CTEST.format("fail"), "plan.xml": FAILED})
    assert count.count(tmp_path) == (2, 1, 0)


def test_a_crash_counts_as_a_failure(tmp_path):
    write(tmp_path, {"ctest.xml": CTEST.format("fail")})
    assert count.count(tmp_path) == (1, 1, 0)
    write(tmp_path, {"plan.xml": "<testsuites><testsuite>"})  # died while it wrote its results
    assert count.count(tmp_path) == (1, 1, 0)
    write(tmp_path, {"plan.xml": PASSED})  # died after them
    assert count.count(tmp_path) == (2, 1, 0)


def test_runs_with_different_losses_are_told_apart(tmp_path):
    def compare(other: str) -> int:
        program = [ROOT / "scripts/compare-runs", tmp_path / "a", tmp_path / other]
        return subprocess.run(program, capture_output=True).returncode

    log = '{"step": 0, "loss": 2.5}\n{"step": 1, "loss": 1.25}\n'
    write(tmp_path, {"a/log.jsonl": log, "b/log.jsonl": log})
    write(tmp_path, {"c/log.jsonl": log.replace("1.25", "1.2500001"), "short/log.jsonl": log[:26]})
    assert compare("b") == 0
    assert compare("c") == 1
    assert compare("short") == 1


def test_a_type_of_two_headers_is_found(tmp_path):
    """Two structs of one name once shared the destructor of whichever the linker took."""
    for folder in ("plan", "train"):
        (tmp_path / "src" / folder).mkdir(parents=True)
        (tmp_path / "src" / folder / "change.h").write_text("struct Change {\n  struct Inner {};\n};\nstruct Other;\n")
    assert sources.types_of_two_headers(tmp_path) == ["Change is defined in src/plan/change.h and src/train/change.h"]
