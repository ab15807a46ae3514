// The table of settings. A new flag is one entry here, one member of ServeConfig and one paragraph
// in examples/tenuto.toml; a test fails while one of them is missing.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/limits.h"
#include "config.h"

namespace tenuto {
namespace {

constexpr int64_t kTokensMax = int64_t{1} << 26;
constexpr int64_t kQuotaMax = int64_t{1} << 50;
constexpr int64_t kTurnsMax = int64_t{1} << 20;
constexpr int64_t kTtlMaxS = (int64_t{1} << 31) - 1;
// The other half of the sequence ids is for idle sessions, scratch and shared prefixes.
constexpr int64_t kParallelMax = kSequencesMax / 2;

constexpr std::array<std::string_view, 3> kFlashNames = {"auto", "on", "off"};
constexpr std::array<std::string_view, 2> kDisconnectNames = {"commit", "discard"};
constexpr std::array<std::string_view, 3> kRecallNames = {"auto", "off", "force"};
constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};
constexpr std::array<std::string_view, 3> kLogFormatNames = {"auto", "json", "text"};
constexpr std::array<std::string_view, 9> kCacheTypes = {"f16",  "bf16", "f32",  "q8_0",  "q5_1",
                                                         "q5_0", "q4_1", "q4_0", "iq4_nl"};

// REQUIRES: the enum's values are 0, 1, 2, ... in the order of `names`.
template <auto Member>
constexpr ChoiceAccess Choice(std::span<const std::string_view> names) {
  return ChoiceAccess{names, [](const ServeConfig& c) { return static_cast<size_t>(c.*Member); },
                      [](ServeConfig& c, size_t i) {
                        c.*Member = static_cast<std::remove_reference_t<decltype(c.*Member)>>(i);
                      }};
}

using C = ServeConfig;

constexpr ConfigField kFields[] = {
    // --- Model ---
    {.name = "model",
     .short_flag = "-m",
     .placeholder = "FILE",
     .group = "Model",
     .help = "The model, a GGUF file.",
     .default_note = "none; needed",
     .kind = FieldKind::kPath,
     .access = &C::model},
    {.name = "upstream",
     .placeholder = "URL",
     .group = "Model",
     .help = "Another engine's address instead of a model. Not supported yet.",
     .default_note = "none",
     .access = &C::upstream,
     .serving = true},
    {.name = "alias",
     .short_flag = "-a",
     .placeholder = "NAME",
     .group = "Model",
     .help = "The name that clients see under /v1/models.",
     .default_note = "the model's own",
     .access = &C::alias},
    {.name = "chat-template",
     .placeholder = "NAME|FILE",
     .group = "Model",
     .help = "A chat template by name (chatml, llama3, ...) or from a file.",
     .default_note = "the model's own",
     .kind = FieldKind::kPath,
     .access = &C::chat_template},
    // --- Server ---
    {.name = "host",
     .placeholder = "ADDRESS",
     .group = "Server",
     .help = "The address to listen on. Anything but loopback needs --api-key.",
     .access = &C::host,
     .serving = true},
    {.name = "port",
     .placeholder = "N",
     .group = "Server",
     .help = "The port to listen on; 0 takes any free one.",
     .kind = FieldKind::kNumber,
     .access = &C::port,
     .max = 65535,
     .serving = true},
    {.name = "api-key",
     .placeholder = "KEY",
     .group = "Server",
     .help = "Clients must send it as 'Authorization: Bearer KEY'. Others on this machine can see "
             "flags: "
             "prefer TENUTO_API_KEY or the file.",
     .default_note = "none",
     .kind = FieldKind::kSecret,
     .access = &C::api_key,
     .serving = true},
    {.name = "strict",
     .group = "Server",
     .help =
         "Answer 400 to request fields nobody knows, instead of listing them in tenuto.ignored.",
     .kind = FieldKind::kSwitch,
     .access = &C::strict,
     .serving = true},
    {.name = "on-disconnect",
     .placeholder = "WHAT",
     .group = "Server",
     .help = "What becomes of an answer whose client went away: kept as an incomplete turn, or "
             "dropped.",
     .kind = FieldKind::kChoice,
     .access = Choice<&C::on_disconnect>(kDisconnectNames),
     .serving = true},
    // --- Store ---
    {.name = "store",
     .placeholder = "DIR",
     .group = "Store",
     .help = "The folder of sessions and their KV; made when it is missing. One server at a time.",
     .default_note = "$XDG_DATA_HOME/tenuto or ~/.local/share/tenuto",
     .kind = FieldKind::kPath,
     .access = &C::store},
    {.name = "no-kv-store",
     .group = "Store",
     .help = "Keep no KV on disk: a session goes on after a restart by computing it again.",
     .kind = FieldKind::kSwitch,
     .access = &C::no_kv_store},
    {.name = "session-ttl",
     .placeholder = "SECONDS",
     .group = "Store",
     .help = "A session that nobody used for so long is deleted.",
     .default_note = "never",
     .kind = FieldKind::kNumber,
     .access = &C::session_ttl,
     .max = kTtlMaxS,
     .serving = true},
    {.name = "session-turns-max",
     .placeholder = "N",
     .group = "Store",
     .help = "The most turns of one session; more are refused.",
     .default_note = "no limit",
     .kind = FieldKind::kNumber,
     .access = &C::session_turns_max,
     .max = kQuotaMax,
     .serving = true},
    {.name = "session-bytes-max",
     .placeholder = "BYTES",
     .group = "Store",
     .help = "The most bytes that the log keeps of one session.",
     .default_note = "no limit",
     .kind = FieldKind::kNumber,
     .access = &C::session_bytes_max,
     .max = kQuotaMax,
     .serving = true},
    {.name = "tenant-turns-max",
     .placeholder = "N",
     .group = "Store",
     .help = "The most turns of all sessions of a tenant.",
     .default_note = "no limit",
     .kind = FieldKind::kNumber,
     .access = &C::tenant_turns_max,
     .max = kQuotaMax,
     .serving = true},
    {.name = "tenant-bytes-max",
     .placeholder = "BYTES",
     .group = "Store",
     .help = "The most bytes that the log keeps of all sessions of a tenant.",
     .default_note = "no limit",
     .kind = FieldKind::kNumber,
     .access = &C::tenant_bytes_max,
     .max = kQuotaMax,
     .serving = true},
    {.name = "tenant-sessions-max",
     .placeholder = "N",
     .group = "Store",
     .help = "The most sessions of a tenant; a turn that would begin one more is refused.",
     .default_note = "no limit",
     .kind = FieldKind::kNumber,
     .access = &C::tenant_sessions_max,
     .max = kQuotaMax,
     .serving = true},
    // --- Engine ---
    {.name = "ctx-size",
     .short_flag = "-c",
     .placeholder = "N",
     .group = "Engine",
     .help = "KV cells, in tokens, shared by all sessions that are in memory.",
     .default_note = "1.5 x the model's window, at most what a quarter of the free memory holds",
     .kind = FieldKind::kNumber,
     .access = &C::ctx_size,
     .max = kTokensMax},
    {.name = "window",
     .placeholder = "N",
     .group = "Engine",
     .help = "The most tokens of one session.",
     .default_note = "the model's window, at most two thirds of --ctx-size",
     .kind = FieldKind::kNumber,
     .access = &C::window,
     .max = kTokensMax},
    {.name = "window-high",
     .placeholder = "PERCENT",
     .group = "Engine",
     .help =
         "A prompt that fills more of the window than this, less the answer's tokens, loses the "
         "session's oldest turns.",
     .kind = FieldKind::kNumber,
     .access = &C::window_high,
     .min = 20,
     .max = 100},
    {.name = "window-low",
     .placeholder = "PERCENT",
     .group = "Engine",
     .help = "So much of the window is kept then; whole turns only.",
     .kind = FieldKind::kNumber,
     .access = &C::window_low,
     .min = 10,
     .max = 90},
    {.name = "window-grid",
     .placeholder = "N",
     .group = "Engine",
     .help = "Cuts fall on the first turn at or behind a multiple of so many tokens.",
     .default_note = "a sixteenth of the window",
     .kind = FieldKind::kNumber,
     .access = &C::window_grid,
     .max = kTokensMax},
    {.name = "answer-tokens",
     .placeholder = "N",
     .group = "Engine",
     .help = "Tokens of the window kept free for an answer that has no max_tokens.",
     .default_note = "an eighth of the window",
     .kind = FieldKind::kNumber,
     .access = &C::answer_tokens,
     .max = kTokensMax},
    {.name = "recall",
     .placeholder = "MODE",
     .group = "Engine",
     .help = "Quoting older turns in a prompt that asks for them, where a request does not say: "
             "when they match (auto), never (off), the best ones always (force).",
     .kind = FieldKind::kChoice,
     .access = Choice<&C::recall>(kRecallNames),
     .serving = true},
    {.name = "recall-tokens",
     .placeholder = "N",
     .group = "Engine",
     .help = "The most tokens of quotes that one turn gets.",
     .kind = FieldKind::kNumber,
     .access = &C::recall_tokens,
     .min = 1,
     .max = kTokensMax,
     .serving = true},
    {.name = "recall-share",
     .placeholder = "PERCENT",
     .group = "Engine",
     .help = "The most of the window that all quotes in it take.",
     .kind = FieldKind::kNumber,
     .access = &C::recall_share,
     .min = 1,
     .max = 50,
     .serving = true},
    {.name = "parallel",
     .short_flag = "-np",
     .placeholder = "N",
     .group = "Engine",
     .help = "Turns that run at once; others wait.",
     .kind = FieldKind::kNumber,
     .access = &C::parallel,
     .min = 1,
     .max = kParallelMax},
    {.name = "resident-tokens",
     .placeholder = "N",
     .group = "Engine",
     .help = "Tokens of idle sessions that stay in the engine while others run.",
     .default_note = "chosen for the machine",
     .kind = FieldKind::kNumber,
     .access = &C::resident_tokens,
     .max = kTokensMax},
    {.name = "threads",
     .short_flag = "-t",
     .placeholder = "N",
     .group = "Engine",
     .help = "Threads that decode.",
     .default_note = "one per core",
     .kind = FieldKind::kNumber,
     .access = &C::threads,
     .max = 1024},
    {.name = "threads-batch",
     .short_flag = "-tb",
     .placeholder = "N",
     .group = "Engine",
     .help = "Threads that prefill.",
     .default_note = "as --threads",
     .kind = FieldKind::kNumber,
     .access = &C::threads_batch,
     .max = 1024},
    {.name = "ubatch-size",
     .short_flag = "-ub",
     .placeholder = "N",
     .group = "Engine",
     .help = "The most tokens of one step of the model.",
     .kind = FieldKind::kNumber,
     .access = &C::ubatch_size,
     .min = 1,
     .max = 65536},
    {.name = "flash-attn",
     .short_flag = "-fa",
     .placeholder = "MODE",
     .group = "Engine",
     .help =
         "Flash attention. 'auto' takes what was measured to be better for this kind of machine. "
         "Stored KV of the other mode is computed again.",
     .kind = FieldKind::kChoice,
     .access = Choice<&C::flash_attn>(kFlashNames)},
    {.name = "cache-type-k",
     .short_flag = "-ctk",
     .placeholder = "TYPE",
     .group = "Engine",
     .help = "Number format of the K half of the KV cache.",
     .access = &C::cache_type_k,
     .text_choices = kCacheTypes},
    {.name = "cache-type-v",
     .short_flag = "-ctv",
     .placeholder = "TYPE",
     .group = "Engine",
     .help = "Number format of the V half; quantized ones need flash attention.",
     .access = &C::cache_type_v,
     .text_choices = kCacheTypes},
    {.name = "n-gpu-layers",
     .short_flag = "-ngl",
     .placeholder = "N",
     .group = "Engine",
     .help = "Layers that a GPU holds, where libllama was built for one.",
     .kind = FieldKind::kNumber,
     .access = &C::n_gpu_layers,
     .max = 10000},
    // --- Limits ---
    {.name = "turns-queued",
     .placeholder = "N",
     .group = "Limits",
     .help = "Turns that wait for a place; more are refused.",
     .kind = FieldKind::kNumber,
     .access = &C::turns_queued,
     .max = kTurnsMax,
     .serving = true},
    {.name = "tenant-turns-queued",
     .placeholder = "N",
     .group = "Limits",
     .help = "Turns of one tenant that wait; more are refused.",
     .default_note = "half of --turns-queued",
     .kind = FieldKind::kNumber,
     .access = &C::tenant_turns_queued,
     .max = kTurnsMax,
     .serving = true},
    {.name = "tenant-turns-running",
     .placeholder = "N",
     .group = "Limits",
     .help = "Turns of one tenant that run at once; more wait.",
     .default_note = "as --parallel",
     .kind = FieldKind::kNumber,
     .access = &C::tenant_turns_running,
     .max = kParallelMax,
     .serving = true},
    {.name = "tenant-tokens-per-minute",
     .placeholder = "N",
     .group = "Limits",
     .help =
         "Prompt tokens computed and answer tokens of one tenant in a minute; then its turns are "
         "refused.",
     .default_note = "no limit",
     .kind = FieldKind::kNumber,
     .access = &C::tenant_tokens_per_minute,
     .max = kQuotaMax,
     .serving = true},
    {.name = "queue-timeout",
     .placeholder = "SECONDS",
     .group = "Limits",
     .help = "A turn that waited so long for a place is refused.",
     .default_note = "never",
     .kind = FieldKind::kNumber,
     .access = &C::queue_timeout,
     .max = kTtlMaxS,
     .serving = true},
    {.name = "tenant-weights",
     .placeholder = "NAME=N,...",
     .group = "Limits",
     .help =
         "Tenants that get more than one part of the engine when all want some: \"acme=4,lab=2\".",
     .default_note = "one part each",
     .access = &C::tenant_weights,
     .serving = true},
    // --- Log ---
    {.name = "log-level",
     .placeholder = "LEVEL",
     .group = "Log",
     .help = "The least important lines that are logged. No level logs prompts, answers or keys.",
     .kind = FieldKind::kChoice,
     .access = Choice<&C::log_level>(kLevelNames)},
    {.name = "log-format",
     .placeholder = "FORMAT",
     .group = "Log",
     .help = "One JSON object a line for machines, or text for people. 'auto' is text where "
             "standard error is a terminal, else json.",
     .kind = FieldKind::kChoice,
     .access = Choice<&C::log_format>(kLogFormatNames)},
    // --- Tests ---
    {.name = "fake-executor",
     .group = "",
     .help = "A toy in place of a model, for tests.",
     .kind = FieldKind::kSwitch,
     .access = &C::fake_executor,
     .hidden = true},
};

std::string JoinNames(std::span<const std::string_view> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

// Edit distance; '-' and '_' count as the same letter, since people mix them up.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = a[i - 1] == '_' ? '-' : a[i - 1];
      const size_t replaced = diagonal + (x == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const ConfigField> ConfigFields() {
  return kFields;
}

std::string EnvironmentName(const ConfigField& field) {
  std::string name = "TENUTO_";
  for (const char c : field.name)
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return name;
}

std::string FieldText(const ServeConfig& config, const ConfigField& field) {
  if (const auto* text = std::get_if<std::string C::*>(&field.access)) return config.**text;
  if (const auto* number = std::get_if<int32_t C::*>(&field.access))
    return std::to_string(config.**number);
  if (const auto* large = std::get_if<int64_t C::*>(&field.access))
    return std::to_string(config.**large);
  if (const auto* flag = std::get_if<bool C::*>(&field.access))
    return config.**flag ? "true" : "false";
  const auto& choice = std::get<ChoiceAccess>(field.access);
  return std::string(choice.names[choice.get(config)]);
}

std::string FieldDomain(const ConfigField& field) {
  if (field.kind == FieldKind::kNumber)
    return std::to_string(field.min) + " to " + std::to_string(field.max);
  if (field.kind == FieldKind::kSwitch) return "true or false";
  if (const auto* choice = std::get_if<ChoiceAccess>(&field.access))
    return JoinNames(choice->names);
  return JoinNames(field.text_choices);
}

std::string NearestName(std::string_view given, std::span<const std::string> known) {
  std::string best;
  // More than a third of the letters wrong is another word, not a slip. Absurd input is not worth
  // comparing.
  if (given.size() > 64) return best;
  size_t least = std::max<size_t>(2, given.size() / 3) + 1;
  for (const auto& name : known) {
    const size_t d = Distance(given, name);
    if (d >= least || d >= name.size()) continue;
    least = d;
    best = name;
  }
  return best;
}

std::vector<std::string> ConfigNames() {
  std::vector<std::string> names;
  for (const auto& field : kFields)
    if (!field.hidden) names.emplace_back(field.name);
  return names;
}

}  // namespace tenuto
