// SHA-256 by OpenSSL's EVP. A context costs an allocation and an algorithm look-up; both are kept,
// because chains are hashed in many short messages.
#include "crypto/hash.h"

#include <openssl/evp.h>

#include <utility>
#include <vector>

#include "base/check.h"

namespace tenuto {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;

// Fetched once: EVP_sha256() alone makes OpenSSL 3 look the implementation up at every init.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  TENUTO_CHECK(algorithm != nullptr);
  return algorithm;
}

// Contexts that this thread is done with. More than a few are never in use at once.
constexpr size_t kSpareContextsMax = 4;
std::vector<Context>& Spares() {
  thread_local std::vector<Context> spares;
  return spares;
}

Context TakeContext() {
  std::vector<Context>& spares = Spares();
  Context context;
  if (spares.empty()) {
    context.reset(EVP_MD_CTX_new());
    TENUTO_CHECK(context != nullptr);
  } else {
    context = std::move(spares.back());
    spares.pop_back();
  }
  TENUTO_CHECK(EVP_DigestInit_ex2(context.get(), Algorithm(), nullptr) == 1);
  return context;
}

void GiveBackContext(Context context) {
  std::vector<Context>& spares = Spares();
  if (spares.size() < kSpareContextsMax) spares.push_back(std::move(context));
}

Digest256 FinishContext(EVP_MD_CTX* context) {
  Digest256 digest;
  unsigned int bytes = 0;
  auto* out = reinterpret_cast<unsigned char*>(digest.bytes.data());
  TENUTO_CHECK(EVP_DigestFinal_ex(context, out, &bytes) == 1);
  TENUTO_CHECK(bytes == digest.bytes.size());
  return digest;
}

}  // namespace

struct Sha256::State {
  Context context = TakeContext();
  bool finished = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { GiveBackContext(std::move(context)); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  TENUTO_CHECK(!state_->finished);
  if (bytes.empty()) return;
  TENUTO_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

void Sha256::Update(std::string_view text) {
  Update(std::as_bytes(std::span(text.data(), text.size())));
}

void Sha256::UpdateField(std::string_view text) {
  UpdateU64(text.size());
  Update(text);
}

void Sha256::UpdateU64(uint64_t value) {
  std::array<std::byte, sizeof(value)> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
  }
  Update(bytes);
}

Digest256 Sha256::Finish() {
  TENUTO_CHECK(!state_->finished);
  state_->finished = true;
  return FinishContext(state_->context.get());
}

std::string Digest256::Hex() const {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    hex.push_back(kDigits[value >> 4]);
    hex.push_back(kDigits[value & 15]);
  }
  return hex;
}

Digest256 Sha256Of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

Digest256 Sha256Of(std::string_view text) {
  return Sha256Of(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace tenuto
