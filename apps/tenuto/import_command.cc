#include "import_command.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <chrono>
#include <utility>

#include "crypto/hash.h"
#include "serve/http/client.h"
#include "serve/requests/import.h"
#include "server_answers.h"

namespace tenuto {
namespace {

constexpr size_t kRequestBytes = 4 * kMiB;
constexpr size_t kRequestItems = kImportItemsMax / 2;
constexpr size_t kLineBytesMax = 12 * kMiB;
constexpr auto kSilence = std::chrono::seconds(2);

// A call of tools belongs to the turn that its results and the answer are of.
bool EndsTurn(const std::string& line) {
  boost::system::error_code error;
  const auto value = boost::json::parse(line, error);
  if (error || !value.is_object()) return false;
  const auto* calls = value.get_object().if_contains("tool_calls");
  if (calls != nullptr && calls->is_array() && !calls->get_array().empty()) return false;
  const auto* role = value.get_object().if_contains("role");
  return role != nullptr && role->is_string() && role->get_string() == "assistant";
}

class Importer {
 public:
  Importer(const std::string& control_socket, const SessionKey& key, ImportSource source,
           std::ostream& err)
      : socket_(control_socket), key_(key), source_(std::move(source)), err_(err) {}

  Result<ImportTotal> Run() && {
    std::string line;
    for (uint64_t number = 1; std::getline(source_.lines, line); ++number) {
      if (line.size() > kLineBytesMax)
        return Error(Code::kInvalid, source_.name + ", line " + std::to_string(number) +
                                         ": longer than " + std::to_string(kLineBytesMax) +
                                         " bytes");
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (items_ == 0) first_line_ = number;
      body_ += line;
      body_ += '\n';
      ++items_;
      const bool full = body_.size() >= kRequestBytes || items_ >= kRequestItems;
      if (full && EndsTurn(line)) TENUTO_TRY(Send());
    }
    if (source_.lines.bad()) return Error(Code::kIo, "can't read " + source_.name);
    if (items_ > 0) TENUTO_TRY(Send());
    if (part_ == 0)
      return Error(Code::kInvalid, source_.name +
                                       " has no items: one JSON object a line, "
                                       "{\"role\": \"user\", \"content\": \"...\"}");
    return total_;
  }

 private:
  Status Send() {
    TENUTO_ASSIGN(HttpClient client, HttpClient::Open("unix:" + socket_));
    ClientRequest request;
    request.method = "POST";
    request.target = "/v1/sessions/" + key_.Full() + "/import";
    request.headers.emplace_back("Idempotency-Key",
                                 "import:" + std::to_string(++part_) + ":" + Sha256Of(body_).Hex());
    request.body = std::move(body_);
    body_.clear();
    const auto response = client.Request(request);
    if (!response)
      return Error(Code::kUnavailable,
                   "importing needs the server that runs over this store, for "
                   "its tokenizer; start it with 'tenuto serve' (" +
                       response.error().message() + ")");
    if (response->status != 200)
      return Error(Code::kInvalid, source_.name + ", from line " + std::to_string(first_line_) +
                                       " on: " + ErrorSentence(*response) + "; " +
                                       std::to_string(total_.items + total_.items_known) +
                                       " items were taken before");
    TENUTO_ASSIGN(const RemoteSession added, ReadRemoteSession(response->body));
    if (added.replayed) {
      total_.items_known += items_;
    } else {
      total_.items += items_;
      total_.turns += added.turns;
      total_.tokens += added.tokens;
    }
    items_ = 0;
    if (std::chrono::steady_clock::now() - told_ > kSilence) {
      told_ = std::chrono::steady_clock::now();
      err_ << "imported " << total_.items << " items" << std::endl;
    }
    return Ok();
  }

  const std::string socket_;
  const SessionKey key_;
  const ImportSource source_;
  std::ostream& err_;
  std::string body_;
  uint64_t items_ = 0;
  uint64_t first_line_ = 1;
  uint64_t part_ = 0;  // requests sent
  ImportTotal total_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<ImportTotal> ImportThroughServer(const std::string& control_socket, const SessionKey& key,
                                        ImportSource source, std::ostream& err) {
  return Importer(control_socket, key, std::move(source), err).Run();
}

}  // namespace tenuto
