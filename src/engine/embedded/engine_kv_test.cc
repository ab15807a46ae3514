// KV in and out of the embedded engine, in order and between steps; fairness between prefill and
// decode.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "engine/embedded/testing.h"

namespace tenuto {
namespace {

// Writes down what the engine asks for: 'F' forward, 'E' export, 'I' import, 'T' truncate, and each
// batch.
class LoggingExecutor : public FakeExecutor {
 public:
  using FakeExecutor::FakeExecutor;
  Status Forward(std::span<const ForwardToken> batch) override {
    log += 'F';
    batches.emplace_back(batch.begin(), batch.end());
    return FakeExecutor::Forward(batch);
  }
  Status Truncate(SeqId seq, TokenPos end) override {
    log += 'T';
    return FakeExecutor::Truncate(seq, end);
  }
  Status Export(SeqId seq, TokenRange range, std::vector<std::byte>& out) override {
    log += 'E';
    return FakeExecutor::Export(seq, range, out);
  }
  Status Import(SeqId seq, TokenRange range, std::span<const std::byte> bytes) override {
    log += 'I';
    return FakeExecutor::Import(seq, range, bytes);
  }
  std::string log;
  std::vector<std::vector<ForwardToken>> batches;
};

using Pieces = Result<std::vector<ExportedPiece>>;

EmbeddedSettings PiecesOf(size_t tokens) {
  EmbeddedSettings settings;
  settings.piece_bytes_target = tokens * FakeExecutorSettings{}.kv_bytes_per_token;
  settings.transfer_bytes_per_step = 1;  // a step after each piece
  return settings;
}

std::shared_ptr<std::optional<Pieces>> StartExport(SimEngine& sim, int32_t seq, TokenRange range) {
  auto pieces = std::make_shared<std::optional<Pieces>>();
  sim.engine->Export(SeqId{seq}, range, [pieces](Pieces p) { *pieces = std::move(p); });
  return pieces;
}

void StartImport(SimEngine& sim, int32_t seq, const std::vector<ExportedPiece>& pieces,
                 std::vector<Status>& statuses) {
  for (const ExportedPiece& piece : pieces) {
    auto buffer = std::make_shared<const std::vector<std::byte>>(piece.payload);
    sim.engine->Import(SeqId{seq}, piece.range, buffer, *buffer,
                       [&statuses](Status s) { statuses.push_back(std::move(s)); });
  }
}

TEST(EngineKv, ExportedAndImportedContinuesAsTheOriginal) {
  LoggingExecutor executor(FakeExecutorSettings{});
  SimEngine sim(executor, PiecesOf(10));
  RunRequest request = BusyRequest(executor, 0, 3);
  const auto first = sim.RunAlone(request);
  const TokenPos end = first->result().kv_end;
  const auto pieces = StartExport(sim, 0, {0, end});
  sim.Settle();
  ASSERT_TRUE(pieces->has_value() && (*pieces)->ok());
  TokenPos at = 0;
  for (const ExportedPiece& piece : **pieces->operator->()) {
    EXPECT_EQ(piece.range.begin, at);
    EXPECT_LE(piece.range.size(), 10);
    EXPECT_FALSE(piece.payload.empty());
    at = piece.range.end;
  }
  EXPECT_EQ(at, end);

  RunRequest next = BusyRequest(executor, 0, 4);
  next.tokens = WindowOf(request, first->result());
  next.begin = end;
  for (const TokenId token : ChatPrompt(executor, "and then?"))
    next.tokens.push_back(token);
  // The import and the run that builds on it are given at once: they take effect in that order.
  std::vector<Status> statuses;
  StartImport(sim, 4, **pieces->operator->(), statuses);
  RunRequest moved = next;
  moved.seq = SeqId{4};
  const auto restored = sim.Start(moved);
  sim.Settle();
  EXPECT_EQ(statuses.size(), (*pieces)->value().size());
  for (const Status& status : statuses)
    EXPECT_TRUE(status.ok());
  const auto original = sim.RunAlone(next);
  ASSERT_TRUE(original->done->ok() && restored->done->ok());
  EXPECT_GT(original->result().answer.size(), 0u);
  EXPECT_EQ(restored->result().answer, original->result().answer);
  EXPECT_EQ(restored->Text(), original->Text());
  EXPECT_EQ(restored->result().prefilled, original->result().prefilled);
  EXPECT_EQ(executor.HeldTokens(SeqId{4}), executor.HeldTokens(SeqId{0}));
}

TEST(EngineKv, CopiedPrefixContinuesAsTheOriginal) {
  FakeExecutor executor{FakeExecutorSettings{}};
  SimEngine sim(executor);
  RunRequest request = BusyRequest(executor, 0, 3);
  ASSERT_TRUE(sim.RunAlone(GreedyRequest(2, request.tokens, 0))->done->ok());
  std::optional<Status> copied;
  const auto end = static_cast<TokenPos>(request.tokens.size()) - 1;
  sim.engine->CopyPrefix(SeqId{2}, SeqId{1}, end, [&](Status s) { copied = std::move(s); });
  request.seq = SeqId{1};
  request.begin = end;
  const auto run = sim.RunAlone(request);
  ASSERT_TRUE(copied && copied->ok());
  EXPECT_EQ(run->result().prefilled, 1);
  EXPECT_EQ(run->result().answer, sim.RunAlone(BusyRequest(executor, 5, 3))->result().answer);
}

TEST(EngineKv, PiecesStayBelowTheLimitWhateverTheExecutorAdds) {
  ScriptedExecutor executor({"p", "a"}, {1});
  executor.export_bytes_per_token = kMiB;  // while it says 4
  SimEngine sim(executor);
  ASSERT_TRUE(sim.RunAlone(GreedyRequest(0, Tokens(20, 0), 0))->done->ok());
  auto pieces = StartExport(sim, 0, {0, 20});
  sim.Settle();
  ASSERT_TRUE((*pieces)->ok());
  EXPECT_GE((*pieces)->value().size(), 3u);
  TokenPos at = 0;
  for (const ExportedPiece& piece : (*pieces)->value()) {
    EXPECT_LE(piece.payload.size(), kPieceBytesMax);
    EXPECT_EQ(piece.range.begin, at);
    at = piece.range.end;
  }
  EXPECT_EQ(at, 20);
  executor.export_bytes_per_token = kPieceBytesMax + 1;
  pieces = StartExport(sim, 0, {0, 20});
  sim.Settle();
  EXPECT_EQ((*pieces)->error().code(), Code::kExhausted);
}

TEST(EngineKv, CallsOnOneSequenceTakeEffectInTheOrderMade) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    LoggingExecutor executor(FakeExecutorSettings{});
    SimEngine sim(executor, PiecesOf(4), seed);
    const Tokens window(40, 'a');
    ASSERT_TRUE(sim.RunAlone(GreedyRequest(0, window, 0))->done->ok());
    // Export all, then cut, export what is left, then replace it.
    const auto whole = StartExport(sim, 0, {0, 40});
    std::optional<Status> cut, gone;
    sim.engine->Truncate(SeqId{0}, 30, [&](Status s) { cut = std::move(s); });
    const auto rest = StartExport(sim, 0, {8, 30});
    const auto too_much = StartExport(sim, 0, {8, 31});
    sim.engine->Truncate(SeqId{0}, 0, [&](Status s) { gone = std::move(s); });
    std::vector<Status> statuses;
    const auto run = sim.Start(GreedyRequest(0, Tokens(20, 'b'), 0));
    sim.Settle();
    ASSERT_TRUE(whole->has_value() && (*whole)->ok());
    EXPECT_EQ((*whole)->value().back().range.end, 40);
    EXPECT_EQ((*whole)->value().size(), 10u);
    ASSERT_TRUE(rest->has_value() && (*rest)->ok());
    EXPECT_EQ((*rest)->value().front().range.begin, 8);
    EXPECT_EQ((*rest)->value().back().range.end, 30);
    EXPECT_EQ((*too_much)->error().code(), Code::kInvalid);
    EXPECT_TRUE(cut->ok() && gone->ok() && run->done->ok());
    EXPECT_EQ(executor.HeldTokens(SeqId{0}), Tokens(20, 'b'));
    // Imports wait for each other; a run behind them sees them all.
    StartImport(sim, 3, (*whole)->value(), statuses);
    sim.engine->Truncate(SeqId{3}, 39, nullptr);
    RunRequest next = GreedyRequest(3, Tokens(41, 'a'), 0);
    next.begin = 39;
    const auto after = sim.RunAlone(next);
    EXPECT_EQ(statuses.size(), 10u);
    EXPECT_TRUE(after->done->ok());
    EXPECT_EQ(executor.HeldTokens(SeqId{3}), Tokens(41, 'a'));
  }
}

TEST(EngineKv, MistakesAreErrorsAndChangeNothing) {
  LoggingExecutor executor(FakeExecutorSettings{});
  SimEngine sim(executor, PiecesOf(10));
  ASSERT_TRUE(sim.RunAlone(GreedyRequest(0, Tokens(20, 'a'), 0))->done->ok());
  const auto pieces = StartExport(sim, 0, {0, 20});
  sim.Settle();
  const std::vector<ExportedPiece>& good = (*pieces)->value();
  ASSERT_EQ(good.size(), 2u);

  const auto import = [&](int32_t seq, TokenRange range, const std::vector<std::byte>& bytes) {
    std::vector<Status> statuses;
    StartImport(sim, seq, {{range, bytes}}, statuses);
    sim.Settle();
    return statuses.at(0).ok() ? std::optional<Code>() : statuses.at(0).error().code();
  };
  EXPECT_EQ(import(1, {10, 20}, good[1].payload), Code::kInvalid) << "does not begin where it ends";
  EXPECT_EQ(import(0, {0, 10}, good[0].payload), Code::kInvalid) << "holds something";
  EXPECT_EQ(import(99, {0, 10}, good[0].payload), Code::kInvalid);
  EXPECT_EQ(import(1, {0, 0}, good[0].payload), Code::kInvalid);
  EXPECT_EQ(import(1, {0, 10}, good[1].payload), Code::kCorrupt);
  EXPECT_EQ(import(1, {0, 10}, good[0].payload), std::nullopt);
  executor.FailImport(1, Code::kExhausted);
  EXPECT_EQ(import(1, {10, 20}, good[1].payload), Code::kExhausted);
  EXPECT_EQ(import(1, {10, 20}, good[1].payload), std::nullopt);
  EXPECT_EQ(executor.HeldTokens(SeqId{1}), executor.HeldTokens(SeqId{0}));

  const auto copy = [&](int32_t from, int32_t to, TokenPos end) {
    std::optional<Status> status;
    sim.engine->CopyPrefix(SeqId{from}, SeqId{to}, end, [&](Status s) { status = std::move(s); });
    sim.Settle();
    return status->ok() ? std::optional<Code>() : status->error().code();
  };
  EXPECT_EQ(copy(0, 1, 5), Code::kInvalid) << "not empty";
  EXPECT_EQ(copy(0, 2, 21), Code::kInvalid) << "longer than the source";
  EXPECT_EQ(copy(0, 2, -1), Code::kInvalid);
  EXPECT_EQ(copy(-1, 2, 3), Code::kInvalid);
  EXPECT_EQ(copy(0, 16, 3), Code::kInvalid);
  EXPECT_EQ(copy(0, 2, 20), std::nullopt);
  EXPECT_EQ(sim.Truncate(SeqId{-3}, 0)->error().code(), Code::kInvalid);
  EXPECT_EQ(sim.Truncate(SeqId{0}, -1)->error().code(), Code::kInvalid);
  EXPECT_TRUE(sim.Truncate(SeqId{0}, 100)->ok()) << "nothing past its end";

  for (const TokenRange bad : {TokenRange{5, 5}, TokenRange{-1, 4}, TokenRange{10, 21}}) {
    const auto refused = StartExport(sim, 0, bad);
    sim.Settle();
    EXPECT_EQ((*refused)->error().code(), Code::kInvalid);
  }
  executor.FailExport(2, Code::kIo);
  const auto failed = StartExport(sim, 0, {0, 20});
  sim.Settle();
  EXPECT_EQ((*failed)->error().code(), Code::kIo);
  EXPECT_EQ(executor.HeldTokens(SeqId{0}), Tokens(20, 'a'));
}

TEST(EngineKv, ExportOfASequenceWhoseForwardFailsIsAnError) {
  SetLogLevel(LogLevel::kOff);  // of the failure
  LoggingExecutor executor(FakeWithAnswers(30, 30));
  SimEngine sim(executor, PiecesOf(1));
  const RunRequest request = BusyRequest(executor, 0, 3);
  const auto run = sim.Start(request);
  (void)sim.Until([&] { return executor.forward_calls() >= 2; });
  executor.FailForward(3, Code::kIo);
  const auto pieces = StartExport(sim, 0, {0, static_cast<TokenPos>(request.tokens.size())});
  sim.Settle();
  EXPECT_TRUE(run->failed(Code::kIo));
  ASSERT_TRUE(pieces->has_value());
  EXPECT_EQ((*pieces)->error().code(), Code::kIo);
  SetLogLevel(LogLevel::kInfo);
}

TEST(EngineKv, StepsGoOnBetweenPieces) {
  LoggingExecutor executor(FakeWithAnswers(60, 60));
  SimEngine sim(executor, PiecesOf(2));
  ASSERT_TRUE(sim.RunAlone(GreedyRequest(5, Tokens(40, 'a'), 0))->done->ok());
  const auto run = sim.Start(GreedyRequest(0, ChatPrompt(executor, "hello"), 60));
  (void)sim.Until([&] { return run->chunks.size() >= 2; });
  executor.log.clear();
  const auto pieces = StartExport(sim, 5, {0, 40});
  (void)sim.Until([&] { return pieces->has_value(); });
  std::vector<Status> statuses;
  StartImport(sim, 6, (*pieces)->value(), statuses);
  (void)sim.Until([&] { return statuses.size() == 20; });
  EXPECT_FALSE(run->done) << "still decoding";
  for (const char* twice : {"EE", "II", "EI", "IE"}) {
    EXPECT_EQ(executor.log.find(twice), std::string::npos) << executor.log;
  }
  EXPECT_GE(std::count(executor.log.begin(), executor.log.end(), 'F'), 39);
  // With no run there is no step to wait for.
  sim.Settle();
  executor.log.clear();
  (void)StartExport(sim, 6, {0, 40});
  sim.Settle();
  EXPECT_EQ(executor.log, std::string(20, 'E'));
}

TEST(EngineKv, ImportsAndExportsTakeTurns) {
  LoggingExecutor executor(FakeExecutorSettings{});
  SimEngine sim(executor, PiecesOf(2));
  ASSERT_TRUE(sim.RunAlone(GreedyRequest(5, Tokens(20, 'a'), 0))->done->ok());
  const auto pieces = StartExport(sim, 5, {0, 20});
  sim.Settle();
  executor.log.clear();
  const auto again = StartExport(sim, 5, {0, 20});
  std::vector<Status> statuses;
  StartImport(sim, 6, (*pieces)->value(), statuses);
  sim.Settle();
  EXPECT_EQ(executor.log, "IEIEIEIEIEIEIEIEIEIE");
  EXPECT_EQ(statuses.size(), 10u);
}

TEST(EngineFairness, DecodeContinuesInEveryStepOfALongPrefill) {
  LoggingExecutor executor(FakeWithAnswers(200, 200));
  SimEngine sim(executor);
  const auto chat = sim.Start(GreedyRequest(0, ChatPrompt(executor, "hi"), 150));
  (void)sim.Until([&] { return chat->chunks.size() >= 2; });
  executor.batches.clear();
  const auto document = sim.Start(GreedyRequest(1, Tokens(1900, 'd'), 5));
  sim.Settle();
  ASSERT_TRUE(chat->done->ok() && document->done->ok());
  size_t shared = 0;
  for (const auto& batch : executor.batches) {
    const bool chats = std::any_of(batch.begin(), batch.end(),
                                   [](const auto& token) { return token.seq == SeqId{0}; });
    const bool prefills = batch.size() > 1;
    if (chat->done && !chats) continue;
    if (prefills) ++shared;
  }
  EXPECT_GT(shared, 20u);
  // Until the chat's last token no step is without it.
  size_t last_chat = 0;
  for (size_t i = 0; i < executor.batches.size(); ++i) {
    if (executor.batches[i].front().seq == SeqId{0}) last_chat = i;
  }
  for (size_t i = 0; i <= last_chat; ++i)
    EXPECT_EQ(executor.batches[i].front().seq, SeqId{0}) << i;
}

TEST(EngineFairness, StepsBesideDecodeKeepToTheirTimeTarget) {
  SimEngine* sim_pointer = nullptr;
  FakeExecutorSettings fake = FakeWithAnswers(400, 400);
  fake.spend = [&](int64_t ns) { sim_pointer->clock.now_ns += ns; };
  fake.prefill_token_ns = 4'000'000;  // 250 tokens a second
  fake.decode_token_ns = 15'000'000;
  LoggingExecutor executor(fake);
  SimEngine sim(executor);
  sim_pointer = &sim;
  const auto chat = sim.Start(GreedyRequest(0, ChatPrompt(executor, "hi"), 300));
  (void)sim.Until([&] { return chat->chunks.size() >= 5; });
  executor.batches.clear();
  const auto document = sim.Start(GreedyRequest(1, Tokens(1900, 'd'), 5));
  sim.Settle();
  ASSERT_TRUE(chat->done->ok() && document->done->ok());
  // 100 ms: 15 for the decode, and 21 prompt tokens. The first steps may be a guess.
  size_t long_steps = 0;
  for (const auto& batch : executor.batches)
    long_steps += batch.size() > 24 ? 1 : 0;
  EXPECT_LE(long_steps, 3u);
  EXPECT_GE(executor.batches.at(20).size(), 18u);
}

TEST(EngineFairness, AnIdleEngineHasNoTasks) {
  FakeExecutor executor{FakeExecutorSettings{}};
  SimEngine sim(executor);
  EXPECT_FALSE(sim.world.Step());
  (void)sim.RunAlone(BusyRequest(executor, 0, 1));
  EXPECT_FALSE(sim.world.Step());
}

}  // namespace
}  // namespace tenuto
