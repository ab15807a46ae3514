#include "engine/embedded/llama/state_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace tenuto {
namespace {

// Writes states by hand, so that the layout here is checked against the page in docs/formats and
// not against itself.
struct StateWriter {
  std::vector<TokenPos> positions;
  int32_t sequence = 0;
  uint32_t streams = 1;
  size_t extra = 0;
  bool transposed = true;
  bool values = true;
  uint32_t layers = 2;

  std::vector<std::byte> bytes;

  template <typename T>
  void Put(T value) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  // A value that tells where it belongs: layer, position, element.
  uint16_t Element(uint32_t layer, TokenPos pos, uint32_t element, uint32_t kind) const {
    return static_cast<uint16_t>(layer * 7919 + static_cast<uint32_t>(pos) * 131 + element * 17 +
                                 kind);
  }
  std::vector<std::byte> Write() {
    constexpr uint32_t kKeyElements = 4, kValueElements = 3;
    bytes.clear();
    Put<uint32_t>(0xaf143cd8);
    Put<int32_t>(sequence);
    Put<uint32_t>(streams);
    Put<uint32_t>(static_cast<uint32_t>(positions.size()));
    for (const TokenPos pos : positions) {
      Put<int32_t>(pos);
      Put<uint32_t>(1);
      for (size_t i = 0; i < extra; ++i)
        Put<uint8_t>(static_cast<uint8_t>(pos));
      Put<int32_t>(sequence);
    }
    Put<uint32_t>(transposed ? 1 : 0);
    Put<uint32_t>(layers);
    for (uint32_t layer = 0; layer < layers; ++layer) {
      Put<int32_t>(1);
      Put<uint64_t>(kKeyElements * 2);
      for (const TokenPos pos : positions) {
        for (uint32_t e = 0; e < kKeyElements; ++e)
          Put(Element(layer, pos, e, 1));
      }
    }
    for (uint32_t layer = 0; values && layer < layers; ++layer) {
      Put<int32_t>(1);
      if (transposed) {
        Put<uint32_t>(2);
        Put<uint32_t>(kValueElements);
        for (uint32_t e = 0; e < kValueElements; ++e) {
          for (const TokenPos pos : positions)
            Put(Element(layer, pos, e, 2));
        }
      } else {
        Put<uint64_t>(kValueElements * 2);
        for (const TokenPos pos : positions) {
          for (uint32_t e = 0; e < kValueElements; ++e)
            Put(Element(layer, pos, e, 2));
        }
      }
    }
    return bytes;
  }
};

StateWriter Form(size_t extra, bool transposed, bool values) {
  StateWriter writer;
  writer.extra = extra;
  writer.transposed = transposed;
  writer.values = values;
  return writer;
}

const StateWriter kForms[] = {Form(0, true, true), Form(0, false, true), Form(8, true, true),
                              Form(12, false, true), Form(0, false, false)};

StateLayout Learn(StateWriter writer) {
  writer.positions = {0, 1, 2};
  writer.sequence = 9;
  auto layout = LearnStateLayout(writer.Write(), 3);
  EXPECT_TRUE(layout.ok());
  return layout ? *layout : StateLayout();
}

TEST(StateCheck, LearnsEveryForm) {
  for (const StateWriter& form : kForms) {
    const StateLayout layout = Learn(form);
    EXPECT_EQ(layout.cell_extra_bytes, form.extra);
    EXPECT_EQ(layout.values_transposed, form.transposed);
    EXPECT_EQ(layout.keys.size(), 2U);
    EXPECT_EQ(layout.values.size(), form.values ? 2U : 0U);
    StateWriter writer = form;
    writer.positions = {5, 6, 7, 8};
    EXPECT_EQ(layout.BytesFor(4), writer.Write().size());
    EXPECT_TRUE(CheckState(layout, {5, 9}, writer.Write()).ok());
  }
  EXPECT_NE(Learn(kForms[0]).Describe(), Learn(kForms[1]).Describe());
}

TEST(StateCheck, AStateOfZeroesHasEveryFormsFrame) {
  for (StateWriter form : kForms) {
    const StateLayout layout = Learn(form);
    const std::vector<std::byte> zeroes = ZeroState(layout, {40, 43});
    EXPECT_TRUE(CheckState(layout, {40, 43}, zeroes).ok());
    form.positions = {40, 41, 42};
    const std::vector<std::byte> full = form.Write();
    ASSERT_EQ(zeroes.size(), full.size());
    // What is not zero in it is the frame.
    for (size_t i = 0; i < full.size(); ++i) {
      ASSERT_TRUE(zeroes[i] == std::byte{0} || zeroes[i] == full[i]) << i;
    }
  }
}

TEST(StateCheck, UnknownFormsAreNotLearned) {
  StateWriter writer;
  writer.positions = {0, 1, 2};
  writer.streams = 2;
  EXPECT_FALSE(LearnStateLayout(writer.Write(), 3).ok());
  writer.streams = 1;
  EXPECT_FALSE(LearnStateLayout(writer.Write(), 4).ok());
  EXPECT_FALSE(LearnStateLayout({}, 3).ok());
  EXPECT_FALSE(LearnStateLayout(writer.Write(), 0).ok());
  writer.layers = 0;
  EXPECT_FALSE(LearnStateLayout(writer.Write(), 3).ok());
  writer.layers = 2;
  std::vector<std::byte> longer = writer.Write();
  longer.resize(longer.size() + 8);  // a part that is not known
  EXPECT_FALSE(LearnStateLayout(longer, 3).ok());
  const std::vector<std::byte> good = writer.Write();
  for (size_t size = 0; size < good.size(); ++size) {
    // Keys alone are a known form; where the cut happens to fall on their end it must have no
    // values.
    const auto cut = LearnStateLayout(std::span(good).first(size), 3);
    EXPECT_TRUE(!cut || cut->values.empty()) << size;
  }
}

TEST(StateCheck, CanonicalFormIsTheSameHoweverCellsLay) {
  for (const StateWriter& form : kForms) {
    const StateLayout layout = Learn(form);
    StateWriter sorted = form;
    sorted.positions = {10, 11, 12, 13, 14};
    StateWriter mixed = form;
    mixed.positions = {13, 14, 10, 12, 11};
    mixed.sequence = 5;
    std::vector<std::byte> bytes = mixed.Write();
    EXPECT_FALSE(CheckState(layout, {10, 15}, bytes).ok());
    ASSERT_TRUE(CanonicalizeState(layout, {10, 15}, bytes).ok());
    EXPECT_EQ(bytes, sorted.Write());
    EXPECT_TRUE(CheckState(layout, {10, 15}, bytes).ok());
    ASSERT_TRUE(CanonicalizeState(layout, {10, 15}, bytes).ok());  // again: no change
    EXPECT_EQ(bytes, sorted.Write());
  }
}

TEST(StateCheck, WrongPositionsAreRefused) {
  const StateLayout layout = Learn(kForms[0]);
  for (const std::vector<TokenPos>& positions : std::vector<std::vector<TokenPos>>{
           {0, 1, 3}, {0, 0, 1}, {1, 2, 3}, {-1, 0, 1}, {0, 1, INT32_MAX}}) {
    StateWriter writer = kForms[0];
    writer.positions = positions;
    std::vector<std::byte> bytes = writer.Write();
    EXPECT_EQ(CheckState(layout, {0, 3}, bytes).error().code(), Code::kCorrupt);
    EXPECT_EQ(CanonicalizeState(layout, {0, 3}, bytes).error().code(), Code::kCorrupt);
  }
  StateWriter writer = kForms[0];
  writer.positions = {0, 1, 2};
  EXPECT_FALSE(CheckState(layout, {0, 4}, writer.Write()).ok());
  EXPECT_FALSE(CheckState(layout, {0, 0}, writer.Write()).ok());
  EXPECT_FALSE(CheckState(layout, {-3, 0}, writer.Write()).ok());
}

// Every byte that is not a number of K or V is checked: its flip is refused; and no length is
// believed.
TEST(StateCheck, EveryFlipOfTheFrameAndEveryLengthIsRefused) {
  for (const StateWriter& form : kForms) {
    const StateLayout layout = Learn(form);
    StateWriter writer = form;
    writer.positions = {0, 1, 2, 3};
    const std::vector<std::byte> good = writer.Write();
    ASSERT_TRUE(CheckState(layout, {0, 4}, good).ok());
    for (size_t size = 0; size < good.size(); ++size) {
      ASSERT_FALSE(CheckState(layout, {0, 4}, std::span(good).first(size)).ok()) << size;
    }
    std::vector<std::byte> bytes = good;
    size_t passed = 0;
    for (size_t at = 0; at < bytes.size(); ++at) {
      bytes[at] ^= std::byte{0x81};
      passed += CheckState(layout, {0, 4}, bytes).ok() ? 1 : 0;
      bytes[at] = good[at];
    }
    const size_t numbers = 2 * 4 * (4 * 2 + (form.values ? 3 * 2 : 0)) + 4 * form.extra;
    EXPECT_EQ(passed, numbers);
  }
}

}  // namespace
}  // namespace tenuto
