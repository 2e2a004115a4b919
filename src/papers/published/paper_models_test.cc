#include "papers/published/paper_models.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ferry {
namespace {

double billions(const std::string& name) {
  return static_cast<double>(parameters(paper_model(name))) * 1e-9;
}

// 12 h^2 L + 51281 h; biases and norms beside it are below 0.1 %.
TEST(PaperModels, RatelGeometryHasThePrintedParameters) {
  EXPECT_NEAR(billions("ratel-13b"), 12.8, 0.1);
  EXPECT_NEAR(billions("ratel-30b"), 30.0, 0.1);
  EXPECT_NEAR(billions("ratel-70b"), 64.8, 0.1);
  EXPECT_NEAR(billions("ratel-135b"), 134.6, 0.1);
  EXPECT_NEAR(billions("ratel-175b"), 174.6, 0.1);
}

TEST(PaperModels, BiasesAndNormsAreTheOnlyOtherParameters) {
  for (const PaperModel& model : paper_models()) {
    if (model.spec.positions != PositionKind::learned) continue;
    const double h = static_cast<double>(model.spec.hidden);
    const double formula = 12 * h * h * static_cast<double>(model.spec.layers) + 51281 * h;
    EXPECT_NEAR(static_cast<double>(parameters(model.spec)), formula, 0.002 * formula)
        << model.name;
  }
}

TEST(PaperModels, SizesAreNearTheirNames) {
  EXPECT_NEAR(billions("ratel-6b"), 6, 0.3);
  EXPECT_NEAR(billions("ratel-276b"), 276, 2);
  EXPECT_NEAR(billions("ratel-412b"), 412, 2);
  EXPECT_NEAR(billions("mobius-3b"), 3, 0.15);
  EXPECT_NEAR(billions("mobius-8b"), 8, 0.4);
  EXPECT_NEAR(billions("mobius-15b"), 15, 0.5);
  EXPECT_NEAR(billions("mobius-51b"), 51, 1);
  EXPECT_NEAR(billions("qwen3-1.7b"), 1.72, 0.01);
  EXPECT_NEAR(billions("llama3.1-8b"), 8.03, 0.01);
  EXPECT_NEAR(billions("qwen3-32b"), 32.76, 0.01);
}

TEST(PaperModels, AnUnknownNameSuggestsTheNearest) {
  try {
    paper_model("ratel-13");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "unknown paper model 'ratel-13'; did you mean 'ratel-13b'?");
  }
}

TEST(PaperModels, HeadsMustDivideTheWidth) { EXPECT_THROW(gpt_geometry(2, 3, 64, 100), UserError); }

}  // namespace
}  // namespace ferry
