// The contract of log.h over every store: pieces and deletes.
#include <gtest/gtest.h>

#include <functional>

#include "tokenlog/conformance.h"

namespace tenuto {
namespace {

TEST_P(TokenLogTest, PiecesComeBackByBegin) {
  const int64_t id = CommitLine(Key("chat"), {"T1"});
  const std::vector<PieceRow> pieces = {MakePiece(10, 20, UINT64_MAX, 4096), MakePiece(0, 10, 7),
                                        MakePiece(0, 20, 8)};
  const auto ids = log().AddPieces(id, pieces);
  ASSERT_TRUE(ids.ok());
  store_->Reopen();
  const auto stored = log().ReadPieces(id);
  ASSERT_TRUE(stored.ok());
  ASSERT_EQ(stored->size(), 3U);
  EXPECT_EQ((*stored)[0].location.file.value, 7U);
  EXPECT_EQ((*stored)[1].location.file.value, 8U);
  EXPECT_EQ(*ids, (std::vector<int64_t>{(*stored)[2].id, (*stored)[0].id, (*stored)[1].id}));
  PieceRow last = (*stored)[2];
  EXPECT_GT(last.id, 0);
  last.id = 0;
  EXPECT_EQ(Describe(last), Describe(pieces[0]));
  EXPECT_EQ(*log().ReferencedFiles(), (std::vector<PayloadFileId>{{7}, {8}, {UINT64_MAX}}));
}

TEST_P(TokenLogTest, MalformedPiecesAreInvalid) {
  const int64_t id = CommitLine(Key("chat"), {"T1"});
  const std::vector<std::function<void(PieceRow&)>> breaks = {
      [](PieceRow& p) { p.kind = 0; },
      [](PieceRow& p) {
        p.range = {5, 5};
      },
      [](PieceRow& p) {
        p.range = {-1, 5};
      },
      [](PieceRow& p) { p.location.file = {}; },
      [](PieceRow& p) { p.location.bytes = 0; },
      [](PieceRow& p) { p.location.offset = UINT64_MAX; },
      [](PieceRow& p) { p.location.offset = INT64_MAX; },
  };
  for (size_t i = 0; i < breaks.size(); ++i) {
    std::vector<PieceRow> pieces = {MakePiece(0, 10, 1), MakePiece(10, 20, 1)};
    breaks[i](pieces[1]);
    const auto added = log().AddPieces(id, pieces);
    ASSERT_FALSE(added.ok()) << i;
    EXPECT_EQ(added.error().code(), Code::kInvalid) << i;
  }
  EXPECT_TRUE(log().ReadPieces(id)->empty());
}

TEST_P(TokenLogTest, DroppedPiecesGiveBackFilesThatNobodyNames) {
  const int64_t a = CommitLine(Key("a"), {"T1"});
  const int64_t b = CommitLine(Key("b"), {"T1"});
  ASSERT_TRUE(log()
                  .AddPieces(a, std::vector{MakePiece(0, 10, 1), MakePiece(10, 20, 1),
                                            MakePiece(20, 30, 2)})
                  .ok());
  ASSERT_TRUE(log().AddPieces(b, std::vector{MakePiece(0, 10, 2)}).ok());
  const auto pieces = *log().ReadPieces(a);
  const auto drop = [&](int64_t session, const std::vector<int64_t>& ids) {
    const auto files = log().DropPieces(session, ids);
    EXPECT_TRUE(files.ok());
    return *files;
  };
  using Files = std::vector<PayloadFileId>;
  EXPECT_EQ(drop(b, {pieces[0].id}), Files{});                   // another session's piece stays
  EXPECT_EQ(drop(a, {pieces[0].id, 12345}), Files{});            // file 1 is still named
  EXPECT_EQ(drop(a, {pieces[1].id, pieces[2].id}), Files{{1}});  // file 2 is named by session b
  EXPECT_EQ(drop(a, {pieces[1].id}), Files{});
  EXPECT_TRUE(log().ReadPieces(a)->empty());
  EXPECT_EQ(*log().ReferencedFiles(), Files{{2}});
  // Ids are not used again: what a late drop names cannot be another piece.
  ASSERT_TRUE(log().AddPieces(a, std::vector{MakePiece(0, 10, 3)}).ok());
  EXPECT_GT(log().ReadPieces(a)->front().id, pieces[2].id);
}

TEST_P(TokenLogTest, DeleteRemovesEverythingOfTheSessionAlone) {
  const int64_t a = CommitLine(Key("a"), {"T1", "T2"});
  const int64_t b = CommitLine(Key("b"), {"T1"});
  ASSERT_TRUE(log()
                  .AddPieces(a, std::vector{MakePiece(0, 10, 9), MakePiece(10, 20, 1),
                                            MakePiece(20, 30, 2)})
                  .ok());
  ASSERT_TRUE(log().AddPieces(b, std::vector{MakePiece(0, 10, 2)}).ok());
  const auto files = log().DeleteSession(Key("a"));
  ASSERT_TRUE(files.ok()) << files.error().message();
  EXPECT_EQ(*files, (std::vector<PayloadFileId>{{1}, {9}}));
  store_->Reopen();
  EXPECT_EQ(log().FindSession(Key("a")).error().code(), Code::kNotFound);
  EXPECT_EQ(log().ReadTurns(a, {"T2"}).error().code(), Code::kNotFound);
  EXPECT_EQ(log().ReadPieces(a).error().code(), Code::kNotFound);
  EXPECT_EQ(*log().ReferencedFiles(), (std::vector<PayloadFileId>{{2}}));
  EXPECT_EQ(log().FindSession(Key("b"))->turns, 1U);
  // A turn that was under way while the session went.
  EXPECT_EQ(CodeOf(MakeCommit(Key("a"), "T3", "T2")), Code::kConflict);
  const PieceRow late = MakePiece(0, 10, 3);
  EXPECT_EQ(log().AddPieces(a, {&late, 1}).error().code(), Code::kNotFound);
  // The name is free, the number is not given again.
  EXPECT_GT(CommitLine(Key("a"), {"T1"}), b);
}

}  // namespace
}  // namespace tenuto
