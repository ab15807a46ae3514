#include <gtest/gtest.h>

#include <map>
#include <string>

#include "config.h"

namespace tenuto {
namespace {

using Weights = std::map<std::string, int32_t>;

TEST(TenantWeights, AreReadFromAList) {
  EXPECT_EQ(ParseTenantWeights("").value(), Weights{});
  EXPECT_EQ(ParseTenantWeights(" ").value(), Weights{});
  EXPECT_EQ(ParseTenantWeights("acme=4").value(), (Weights{{"acme", 4}}));
  EXPECT_EQ(ParseTenantWeights(" acme = 4 , lab.x-1=1000").value(),
            (Weights{{"acme", 4}, {"lab.x-1", 1000}}));
}

TEST(TenantWeights, WhatIsWrongIsNamed) {
  for (const auto& [text, part] :
       std::map<std::string, std::string>{{"acme", "'acme' has no '='"},
                                          {"a=1,", "'' has no '='"},
                                          {"a=1,,b=2", "'' has no '='"},
                                          {"=1", "'=1' names no tenant"},
                                          {"a b=1", "'a b=1' names no tenant"},
                                          {"a::b=1", "'a::b=1' names no tenant"},
                                          {"a=0", "'a=0' is no such number"},
                                          {"a=1001", "'a=1001' is no such number"},
                                          {"a=-1", "'a=-1' is no such number"},
                                          {"a=2x", "'a=2x' is no such number"},
                                          {"a=", "'a=' is no such number"},
                                          {"a=1,a=2", "a is there twice"}}) {
    const auto weights = ParseTenantWeights(text);
    ASSERT_FALSE(weights.ok()) << text;
    EXPECT_EQ(weights.error().code(), Code::kInvalid);
    EXPECT_NE(weights.error().message().find(part), std::string::npos) << weights.error().message();
  }
  ServeConfig config;
  config.fake_executor = true;
  config.store = "/tmp/x";
  EXPECT_TRUE(CheckConfig(config).ok());
  config.tenant_weights = "a";
  EXPECT_FALSE(CheckConfig(config).ok());
}

}  // namespace
}  // namespace tenuto
