// The settings of `tenuto serve` and where each came from. One table of fields (ConfigFields)
// drives the command line, the TOML file, the environment, --print-config, the help and the check
// of examples/tenuto.toml: none can drift. Plain values, thread-compatible. Numbers of tokens are
// tokens; 0 means "automatic" where the help says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/result.h"
#include "session/recall_types.h"

namespace tenuto {

enum class FlashAttentionChoice : uint8_t { kAuto, kOn, kOff };
enum class LogFormatChoice : uint8_t { kAuto, kJson, kText };
enum class OnDisconnect : uint8_t { kCommit, kDiscard };

struct ServeConfig {
  // Model.
  std::string model;          // GGUF file; empty: none given
  std::string upstream;       // URL; accepted and answered "not yet"
  std::string alias;          // name under /v1/models; empty: the model's own
  std::string chat_template;  // a name libllama knows or a file; empty: the model's own

  // Server.
  std::string host = "127.0.0.1";
  int32_t port = 8585;  // 0: any free one
  std::string api_key;  // secret; empty: none
  bool strict = false;  // a request field nobody knows is 400
  OnDisconnect on_disconnect = OnDisconnect::kCommit;

  // Store.
  std::string store;  // LoadConfig fills in the default
  bool no_kv_store = false;
  int32_t session_ttl = 0;  // seconds; 0: for ever
  int64_t session_turns_max = 0;
  int64_t session_bytes_max = 0;
  int64_t tenant_turns_max = 0;
  int64_t tenant_bytes_max = 0;
  int64_t tenant_sessions_max = 0;

  // Engine.
  int32_t ctx_size = 0;
  int32_t window = 0;
  int32_t window_high = 90;  // percent
  int32_t window_low = 55;   // percent
  int32_t window_grid = 0;
  int32_t answer_tokens = 0;
  RecallMode recall = RecallMode::kAuto;
  int32_t recall_tokens = 512;
  int32_t recall_share = 15;  // percent
  int32_t parallel = 8;
  int32_t resident_tokens = 0;
  int32_t threads = 0;
  int32_t threads_batch = 0;  // 0: as threads
  int32_t ubatch_size = 512;
  FlashAttentionChoice flash_attn = FlashAttentionChoice::kAuto;
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  int32_t n_gpu_layers = 0;

  // Limits on turns that wait; 0: none, but as the help says.
  int32_t turns_queued = kTurnQueueMax;
  int32_t tenant_turns_queued = 0;  // 0: half of turns_queued
  int32_t tenant_turns_running = 0;
  int64_t tenant_tokens_per_minute = 0;
  int32_t queue_timeout = 0;   // seconds
  std::string tenant_weights;  // see ParseTenantWeights

  // Log.
  LogLevel log_level = LogLevel::kInfo;
  LogFormatChoice log_format = LogFormatChoice::kAuto;

  // Hidden: tests only. Command line alone.
  bool fake_executor = false;

  bool operator==(const ServeConfig&) const = default;
};

// A field whose values have names. `set` takes an index into `names`.
struct ChoiceAccess {
  std::span<const std::string_view> names;
  size_t (*get)(const ServeConfig&);
  void (*set)(ServeConfig&, size_t);
};

using FieldAccess = std::variant<std::string ServeConfig::*, int32_t ServeConfig::*,
                                 int64_t ServeConfig::*, bool ServeConfig::*, ChoiceAccess>;

enum class FieldKind : uint8_t {
  kText,
  kPath,    // a leading "~/" becomes the home folder
  kSecret,  // never printed
  kNumber,
  kSwitch,
  kChoice,
};

struct ConfigField {
  std::string_view name{};         // long flag without its dashes, and the key in the file
  std::string_view short_flag{};   // "-m", or "-np" (see RewriteShortFlags), or ""
  std::string_view placeholder{};  // "FILE" in the help
  std::string_view group{};        // heading in the help
  std::string_view help{};         // one sentence or two; the default is added by whoever prints it
  std::string_view
      default_note{};  // what an empty or zero default means; "" when the value says it
  FieldKind kind = FieldKind::kText;
  FieldAccess access{};
  int64_t min = 0;  // of kNumber
  int64_t max = 0;
  std::span<const std::string_view>
      text_choices{};    // of kText: the only values allowed; empty: any
  bool serving = false;  // means nothing to `tenuto verify`: not in its help
  bool hidden = false;   // not in the help, the file or the environment
};

std::span<const ConfigField> ConfigFields();

// "TENUTO_CTX_SIZE" for "ctx-size".
std::string EnvironmentName(const ConfigField& field);
// The field's value as the file would have it, without quotes. Secrets too: for comparing, not for
// printing.
std::string FieldText(const ServeConfig& config, const ConfigField& field);
// "on, off or auto", "0 to 65535": what may stand there; "" for free text.
std::string FieldDomain(const ConfigField& field);

enum class Origin : uint8_t { kDefault, kFile, kEnvironment, kFlag };

struct EffectiveConfig {
  ServeConfig values;
  std::vector<Origin> origins;  // by index of ConfigFields()
  std::string file;             // the --config file, or ""
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();
std::vector<std::string> ProcessVariables();  // their names

// A flag as it stood on the command line.
struct FlagValue {
  size_t field = 0;  // index of ConfigFields()
  std::string text;
};

// Defaults, then the file (unless its path is empty), the environment, the flags. kInvalid: a value
// that can't be
// ("tenuto.toml:4: ...", "--port: ...", "TENUTO_PORT: ..."); kNotFound, kDenied, kIo: the file
// itself.
Result<EffectiveConfig> LoadConfig(const std::string& file, const Environment& environment,
                                   std::span<const FlagValue> flags);

// The file's part of it, on text: `name` is what messages call the file.
Status ApplyToml(EffectiveConfig& config, std::string_view text, const std::string& name,
                 const Environment& environment);

// TOML that LoadConfig reads back to the same values, each with its origin as a comment; secrets
// are commented out.
std::string PrintConfig(const EffectiveConfig& config);

// What no single field can tell: a model is there, not two engines, no open door without a key.
// kInvalid.
Status CheckConfig(const ServeConfig& config);

// "acme=4,lab=2": tenants by name, parts of 1 to 1000. kInvalid.
Result<std::map<std::string, int32_t>> ParseTenantWeights(std::string_view text);

// Logs a warning for each name that begins with TENUTO_ and is no setting's.
void WarnOfUnknownVariables(std::span<const std::string> names);

// The known name nearest to `given`, or "" when none is near.
std::string NearestName(std::string_view given, std::span<const std::string> known);
// Names of the fields that are not hidden.
std::vector<std::string> ConfigNames();

}  // namespace tenuto
