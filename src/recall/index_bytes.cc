#include <algorithm>

#include "crypto/hash.h"
#include "format/bytes.h"
#include "recall/index.h"

namespace tenuto {
namespace {

constexpr std::string_view kMagic = "TNTRECAL";
constexpr size_t kHeaderBytes = 32;
constexpr size_t kDigestBytes = 32;
constexpr uint64_t kU32Max = 0xFFFFFFFFu;

Error Damaged(std::string_view what) {
  return {Code::kCorrupt, "recall index: " + std::string(what)};
}

}  // namespace

std::vector<std::byte> RecallIndex::Encode() const {
  std::string body;
  PutVarint(body, turns_.size());
  uint32_t turn_before = 0;
  int64_t time_before = 0;
  for (uint32_t at = 0; at < turns_.size(); ++at) {
    const TurnInfo& turn = turns_[at];
    PutVarint(body, turn.turn - turn_before);
    PutVarint(body, ZigZag(turn.time.unix_s - time_before));
    PutVarint(body, ZigZag(turn.time.zone_s));
    PutVarint(body, turn.tokens);
    PutVarint(body, turn.user_digest);
    PutVarint(body, turn.flags);
    const auto recalled = RecalledBy(at);
    PutVarint(body, recalled.size());
    for (const uint32_t one : recalled)
      PutVarint(body, one);
    turn_before = turn.turn;
    time_before = turn.time.unix_s;
  }
  PutVarint(body, passages_.size());
  uint32_t at_before = 0;
  for (const PassageInfo& passage : passages_) {
    PutVarint(body, passage.turn_at - at_before);
    PutVarint(body, passage.user_tokens);
    PutVarint(body, passage.answer_tokens);
    at_before = passage.turn_at;
  }
  for (const uint32_t count : languages_)
    PutVarint(body, count);
  std::vector<std::pair<TermKey, const Postings*>> sorted;
  sorted.reserve(postings_.size());
  for (const auto& [key, postings] : postings_)
    sorted.emplace_back(key, &postings);
  std::sort(sorted.begin(), sorted.end());
  PutVarint(body, sorted.size());
  TermKey key_before = 0;
  for (const auto& [key, postings] : sorted) {
    PutVarint(body, key - key_before);
    PutVarint(body, postings->all);
    body += postings->bytes;
    key_before = key;
  }

  std::vector<std::byte> bytes(kHeaderBytes + body.size() + kDigestBytes);
  const std::span<std::byte> out(bytes);
  PutBytes(out, 0, std::as_bytes(std::span(kMagic)));
  PutLe<uint16_t>(out, 8, kRecallIndexVersion);
  PutLe<uint32_t>(out, 12, kAnalyserVersion);
  PutLe<uint64_t>(out, 16, body.size());
  PutBytes(out, kHeaderBytes, std::as_bytes(std::span(body)));
  const Digest256 digest = Sha256Of(out.first(kHeaderBytes + body.size()));
  PutBytes(out, kHeaderBytes + body.size(), digest.bytes);
  return bytes;
}

// Reads a body whose checksum fits; still trusts no number.
class IndexReader {
 public:
  explicit IndexReader(std::string_view body) : reader_(body) {}

  Result<RecallIndex> Read() {
    if (!Turns()) return Damaged("turns");
    if (!Passages()) return Damaged("passages");
    for (uint32_t& count : index_.languages_) {
      count = static_cast<uint32_t>(reader_.NextUpTo(kU32Max));
    }
    if (reader_.bad() || !Terms()) return Damaged("terms");
    if (!reader_.done()) return Damaged("bytes behind the last term");
    for (const TurnInfo& turn : index_.turns_) {
      if (!turn.Is(TurnInfo::kRemoved)) index_.Count(turn, 1);
    }
    return std::move(index_);
  }

 private:
  bool Turns() {
    const uint64_t count = reader_.NextUpTo(kU32Max);
    uint64_t number = 0;
    int64_t time = 0;
    for (uint64_t at = 0; at < count && !reader_.bad(); ++at) {
      TurnInfo turn;
      const uint64_t delta = reader_.NextUpTo(kU32Max);
      number += delta;
      if (number > kU32Max || (at > 0 && delta == 0)) return false;
      turn.turn = static_cast<uint32_t>(number);
      time = static_cast<int64_t>(static_cast<uint64_t>(time) +
                                  static_cast<uint64_t>(UnZigZag(reader_.Next())));
      turn.time.unix_s = time;
      turn.time.zone_s = static_cast<int32_t>(UnZigZag(reader_.NextUpTo(kU32Max)));
      turn.tokens = static_cast<uint32_t>(reader_.NextUpTo(kU32Max));
      turn.user_digest = static_cast<uint32_t>(reader_.NextUpTo(kU32Max));
      turn.flags = static_cast<uint8_t>(reader_.NextUpTo(31));
      const uint64_t recalled = reader_.NextUpTo(kU32Max);
      for (uint64_t i = 0; i < recalled && !reader_.bad(); ++i) {
        index_.recalled_[static_cast<uint32_t>(at)].push_back(
            static_cast<uint32_t>(reader_.NextUpTo(kU32Max)));
      }
      index_.turns_.push_back(turn);
    }
    return !reader_.bad();
  }

  // Each turn has at least one passage, in order.
  bool Passages() {
    const uint64_t count = reader_.NextUpTo(kU32Max);
    uint64_t at = 0;
    for (uint64_t i = 0; i < count && !reader_.bad(); ++i) {
      PassageInfo passage;
      const uint64_t delta = reader_.NextUpTo(1);
      at += delta;
      if (at >= index_.turns_.size() || (i == 0 && delta != 0)) return false;
      passage.turn_at = static_cast<uint32_t>(at);
      passage.user_tokens = static_cast<uint16_t>(reader_.NextUpTo(kPassageTokensMax));
      passage.answer_tokens = static_cast<uint16_t>(reader_.NextUpTo(kPassageTokensMax));
      if (i == 0 || delta == 1) index_.turns_[at].first_passage = static_cast<uint32_t>(i);
      index_.passages_.push_back(passage);
    }
    const bool all =
        index_.turns_.empty() ? count == 0 : count > 0 && at + 1 == index_.turns_.size();
    return !reader_.bad() && all;
  }

  bool Terms() {
    const uint64_t count = reader_.NextUpTo(kTermKeyMask);
    TermKey key = 0;
    for (uint64_t i = 0; i < count && !reader_.bad(); ++i) {
      const uint64_t delta = reader_.NextUpTo(kTermKeyMask);
      key += delta;
      if (key > kTermKeyMask || (i > 0 && delta == 0)) return false;
      const uint64_t entries = reader_.NextUpTo(index_.passages_.size());
      if (entries == 0) return false;
      Postings& postings = index_.postings_[key];
      uint64_t next = 0;
      for (uint64_t entry = 0; entry < entries && !reader_.bad(); ++entry) {
        const uint64_t packed = reader_.Next();
        TermCounts counts;
        if ((packed >> 3) > index_.passages_.size() || (packed >> 3) == 0 ||
            !CountsOf(packed & 7, reader_, counts)) {
          return false;
        }
        next += packed >> 3;
        if (next > index_.passages_.size()) return false;
        RecallIndex::Append(postings, static_cast<uint32_t>(next - 1), counts);
      }
    }
    return !reader_.bad();
  }

  VarintReader reader_;
  RecallIndex index_;
};

Result<RecallIndex> RecallIndex::Decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + kDigestBytes) return Damaged("cut short");
  if (!StartsWith(bytes, kMagic)) return Damaged("not an index");
  const auto version = GetLe<uint16_t>(bytes, 8);
  const auto analyser = GetLe<uint32_t>(bytes, 12);
  if (version != kRecallIndexVersion || analyser != kAnalyserVersion) {
    return Error(Code::kInvalid, "recall index: version " + std::to_string(version) + "." +
                                     std::to_string(analyser) + ", this build has " +
                                     std::to_string(kRecallIndexVersion) + "." +
                                     std::to_string(kAnalyserVersion));
  }
  const size_t body = bytes.size() - kHeaderBytes - kDigestBytes;
  if (GetLe<uint64_t>(bytes, 16) != body) return Damaged("length");
  const Digest256 digest = Sha256Of(bytes.first(kHeaderBytes + body));
  if (!std::equal(digest.bytes.begin(), digest.bytes.end(), bytes.end() - kDigestBytes)) {
    return Damaged("checksum");
  }
  if (!AllZero(bytes.subspan(10, 2)) || !AllZero(bytes.subspan(24, 8))) return Damaged("reserved");
  std::string text(body, '\0');
  std::transform(bytes.begin() + kHeaderBytes, bytes.end() - kDigestBytes, text.begin(),
                 [](std::byte b) { return static_cast<char>(b); });
  return IndexReader(text).Read();
}

}  // namespace tenuto
