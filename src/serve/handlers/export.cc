// GET /v1/sessions/{id}/export: all turns as lines of JSON, read page by page, no faster than the
// client takes them.
#include "serve/answers/export.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/limits.h"
#include "serve/answers/errors.h"
#include "serve/handlers/handlers.h"
#include "serve/handlers/reply.h"

namespace tenuto {
namespace {

constexpr int64_t kTickMs = 5;
constexpr size_t kUnsentBytesMax = 256 * kKiB;  // well below what cuts off a slow client

// One export under way. Belongs to the loop of its exchange; the service's callbacks post here.
class Export : public std::enable_shared_from_this<Export> {
 public:
  Export(const RouteCall& call, SessionKey key)
      : app_(call.app), exchange_(call.exchange), route_(call.route), key_(std::move(key)) {}

  void Start() { ReadPage(); }

 private:
  void ReadPage() {
    reading_ = true;
    app_->service.ReadLine(key_, at_, [self = shared_from_this()](Result<LinePage> page) {
      // Here, on the core runner, only the values move; the text is made on the loop.
      self->exchange_->Post([self, page = std::move(page)]() mutable { self->Take(page); });
    });
  }

  void Take(Result<LinePage>& page) {
    reading_ = false;
    if (!exchange_->open()) return;
    Status status = Ok();
    if (page.ok()) {
      at_ = page->next;
      done_ = !page->more;
      for (size_t i = 0; status && i < page->turns.size(); ++i)
        status = AppendExport(lines_, page->turns[i]);
    } else {
      status = std::move(page).error();
    }
    if (!status) return Fail(status.error());
    Begin();
    Pump();
  }

  void Begin() {
    if (exchange_->streaming()) return;
    HttpResponse head;
    head.content_type = "application/x-ndjson; charset=utf-8";
    head.headers.push_back({"X-Request-Id", RequestIdOf(exchange_->request())});
    exchange_->BeginStream(head);
    exchange_->SetTicker(kTickMs, [self = shared_from_this()] { self->Pump(); });
    if (exchange_->request().method == "HEAD") {
      lines_.clear();
      done_ = true;
    }
  }

  // As much as the client has room for.
  void Pump() {
    while (exchange_->open() && sent_ < lines_.size()) {
      const size_t unsent = exchange_->unsent();
      if (unsent >= kUnsentBytesMax) return;
      const size_t bytes = std::min(lines_.size() - sent_, kUnsentBytesMax - unsent);
      if (!exchange_->Write(std::string_view(lines_).substr(sent_, bytes))) return;
      sent_ += bytes;
    }
    if (!exchange_->open() || reading_) return;
    lines_.clear();
    sent_ = 0;
    if (!done_) return ReadPage();
    app_->Count(route_, 200);
    exchange_->Finish();
  }

  // Too late for a status: a last line that no import takes says that this is not all.
  void Fail(const Error& error) {
    if (!exchange_->streaming()) return app_->ReplyError(exchange_, route_, error);
    app_->Count(route_, StatusOf(error));
    exchange_->Write(ErrorBody(error) + "\n");
    exchange_->Finish();
  }

  const AppPtr app_;
  const ExchangePtr exchange_;
  const std::string_view route_;
  const SessionKey key_;
  LineCursor at_;
  bool reading_ = false;
  bool done_ = false;  // every page was read
  std::string lines_;  // of the page under way
  size_t sent_ = 0;    // bytes of them
};

}  // namespace

void HandleExport(const RouteCall& call) {
  const auto key = KeyOf(call);
  if (!key) return;
  std::make_shared<Export>(call, *key)->Start();
}

}  // namespace tenuto
