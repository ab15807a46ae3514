#include "config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>

#include "io/os_error.h"
#include "store_layout.h"

// Errors as values: no exception may cross a file. The library's assertions fail on some malformed
// files ("[[[", "{=}") just before its own checks would refuse them, and clang takes them as
// promises in release builds: off in both.
#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(condition) static_cast<void>(0)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace tenuto {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 20;
constexpr std::string_view kVariablePrefix = "TENUTO_";
constexpr std::string_view kHiddenSecret = "***";

Error Invalid(std::string message) {
  return Error(Code::kInvalid, std::move(message));
}

std::string OneOf(const ConfigField& field) {
  const std::string domain = FieldDomain(field);
  return domain.empty() ? "" : " (allowed: " + domain + ")";
}

Status SetText(ServeConfig& config, const ConfigField& field, std::string text,
               const Environment& environment) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return Invalid("holds a control character");
  if (field.kind == FieldKind::kSecret && text == kHiddenSecret)
    return Invalid("'***' stands for a hidden secret; write the key itself");
  if (field.kind == FieldKind::kPath && text.rfind("~/", 0) == 0) {
    const auto home = environment("HOME");
    if (!home || home->empty()) return Invalid("'~' needs HOME to be set");
    text = *home + text.substr(1);
  }
  if (!field.text_choices.empty()) {
    bool known = false;
    for (const auto choice : field.text_choices)
      known = known || choice == text;
    if (!known) return Invalid("'" + text + "' is not known" + OneOf(field));
  }
  config.*std::get<std::string ServeConfig::*>(field.access) = std::move(text);
  return Ok();
}

Status SetNumber(ServeConfig& config, const ConfigField& field, int64_t value) {
  if (value < field.min || value > field.max)
    return Invalid(std::to_string(value) + " is out of range" + OneOf(field));
  if (const auto* large = std::get_if<int64_t ServeConfig::*>(&field.access)) {
    config.** large = value;
  } else {
    config.*std::get<int32_t ServeConfig::*>(field.access) = static_cast<int32_t>(value);
  }
  return Ok();
}

Status SetChoice(ServeConfig& config, const ConfigField& field, std::string_view text) {
  const auto& choice = std::get<ChoiceAccess>(field.access);
  for (size_t i = 0; i < choice.names.size(); ++i) {
    if (choice.names[i] != text) continue;
    choice.set(config, i);
    return Ok();
  }
  return Invalid("'" + std::string(text) + "' is not known" + OneOf(field));
}

// A value as flags and the environment give it.
Status SetFromText(ServeConfig& config, const ConfigField& field, const std::string& text,
                   const Environment& environment) {
  switch (field.kind) {
    case FieldKind::kNumber: {
      int64_t value = 0;
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, value);
      if (error == std::errc::result_out_of_range)
        return Invalid(text + " is out of range" + OneOf(field));
      if (error != std::errc() || stop != end)
        return Invalid("'" + text + "' is not a whole number" + OneOf(field));
      return SetNumber(config, field, value);
    }
    case FieldKind::kSwitch: {
      const bool on = text == "true" || text == "1" || text == "on" || text == "yes";
      if (!on && text != "false" && text != "0" && text != "off" && text != "no")
        return Invalid("'" + text + "' is neither true nor false");
      config.*std::get<bool ServeConfig::*>(field.access) = on;
      return Ok();
    }
    case FieldKind::kChoice:
      return SetChoice(config, field, text);
    case FieldKind::kText:
    case FieldKind::kPath:
    case FieldKind::kSecret:
      return SetText(config, field, text, environment);
  }
  return Invalid("unknown kind of setting");
}

const char* TomlTypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

Error WrongType(const toml::node& node, const char* wanted) {
  return Invalid(std::string("this is ") + TomlTypeName(node) + ", but " + wanted +
                 " belongs here");
}

Status SetFromToml(ServeConfig& config, const ConfigField& field, const toml::node& node,
                   const Environment& environment) {
  if (field.kind == FieldKind::kNumber) {
    const auto* value = node.as_integer();
    if (value == nullptr) return WrongType(node, "a whole number without quotes");
    return SetNumber(config, field, value->get());
  }
  if (field.kind == FieldKind::kSwitch) {
    const auto* value = node.as_boolean();
    if (value == nullptr) return WrongType(node, "true or false without quotes");
    config.*std::get<bool ServeConfig::*>(field.access) = value->get();
    return Ok();
  }
  const auto* value = node.as_string();
  if (value == nullptr) return WrongType(node, "text in quotes");
  if (field.kind == FieldKind::kChoice) return SetChoice(config, field, value->get());
  return SetText(config, field, value->get(), environment);
}

// Index of the field, or none. Hidden fields are flags only.
std::optional<size_t> FindKey(std::string_view name) {
  const auto fields = ConfigFields();
  for (size_t i = 0; i < fields.size(); ++i)
    if (!fields[i].hidden && fields[i].name == name) return i;
  return std::nullopt;
}

Error UnknownKey(std::string_view key, const toml::node& value) {
  std::string message = "unknown key '" + std::string(key) + "'";
  if (value.is_table())
    return Invalid(message + "; settings stand at the top level, without [sections]");
  const std::string nearest = NearestName(key, ConfigNames());
  if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
  return Invalid(message);
}

Status ReadWholeFile(const std::string& path, std::string& text) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return Invalid("the configuration file " + path + " is a directory");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    const int number = errno;
    return Error(OsErrorCode(number),
                 "can't read the configuration file " + path + ": " + OsErrorText(number));
  }
  text.resize(kFileBytesMax + 1);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return Error(Code::kIo, "can't read the configuration file " + path);
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kFileBytesMax)
    return Invalid(path + ": is larger than 1 MiB; this can't be a configuration file");
  return Ok();
}

std::string Place(const std::string& name, const toml::source_region& source) {
  return name + ":" + std::to_string(source.begin.line);
}

std::string LineOf(std::string_view text, size_t number) {
  for (; number > 1 && !text.empty(); --number)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return std::string(text.substr(0, text.find('\n')));
}

// "model = model.gguf": what everybody writes who does not know TOML. "" where it is something
// else.
std::string QuotesHint(const std::string& line) {
  const size_t equals = line.find('=');
  if (equals == std::string::npos) return "";
  const auto trimmed = [](std::string text) {
    text.erase(0, text.find_first_not_of(" \t\r"));
    text.erase(text.find_last_not_of(" \t\r") + 1);
    return text;
  };
  const std::string key = trimmed(line.substr(0, equals));
  const std::string value = trimmed(line.substr(equals + 1, line.find('#') - equals - 1));
  const auto field = FindKey(key);
  if (!field || value.empty() || value.find_first_of("\"'[{") != std::string::npos) return "";
  const FieldKind kind = ConfigFields()[*field].kind;
  if (kind == FieldKind::kNumber || kind == FieldKind::kSwitch) return "";
  return "; text goes in quotes: " + key + " = \"" + (kind == FieldKind::kSecret ? "..." : value) +
         "\"";
}

std::string QuoteToml(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string OriginText(const EffectiveConfig& config, size_t i) {
  switch (config.origins[i]) {
    case Origin::kFile:
      return "file " + config.file;
    case Origin::kEnvironment:
      return "env " + EnvironmentName(ConfigFields()[i]);
    case Origin::kFlag:
      return "flag";
    case Origin::kDefault:
      break;
  }
  const auto note = ConfigFields()[i].default_note;
  return note.empty() ? "default" : "default: " + std::string(note);
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  // Digits only: "127.example.org" is somebody's name.
  return host.rfind("127.", 0) == 0 && host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read before there is a thread that could change it.
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

std::vector<std::string> ProcessVariables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

void WarnOfUnknownVariables(std::span<const std::string> names) {
  std::vector<std::string> known;
  for (const auto& field : ConfigFields())
    if (!field.hidden) known.push_back(EnvironmentName(field).substr(kVariablePrefix.size()));
  for (const std::string& name : names) {
    if (!name.starts_with(kVariablePrefix)) continue;
    const std::string bare = name.substr(kVariablePrefix.size());
    if (std::ranges::find(known, bare) != known.end()) continue;
    const std::string nearest = NearestName(bare, known);
    if (nearest.empty()) {
      Log(LogLevel::kWarn, "config.unknown_variable", {{"variable", name}});
    } else {
      Log(LogLevel::kWarn, "config.unknown_variable",
          {{"variable", name}, {"did_you_mean", std::string(kVariablePrefix) + nearest}});
    }
  }
}

Status ApplyToml(EffectiveConfig& config, std::string_view text, const std::string& name,
                 const Environment& environment) {
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed)
    return Invalid(Place(name, parsed.error().source()) + ": " +
                   std::string(parsed.error().description()) +
                   QuotesHint(LineOf(text, parsed.error().source().begin.line)));
  for (const auto& [key, value] : parsed.table()) {
    const auto field = FindKey(key.str());
    Status set = field ? SetFromToml(config.values, ConfigFields()[*field], value, environment)
                       : Status(UnknownKey(key.str(), value));
    if (!set) {
      const std::string what = field ? ": '" + std::string(key.str()) + "'" : "";
      return std::move(set).error().With(Place(name, key.source()) + what);
    }
    config.origins[*field] = Origin::kFile;
  }
  return Ok();
}

Result<EffectiveConfig> LoadConfig(const std::string& file, const Environment& environment,
                                   std::span<const FlagValue> flags) {
  const auto fields = ConfigFields();
  EffectiveConfig config;
  config.origins.resize(fields.size(), Origin::kDefault);
  const auto variable = [&](const char* name) { return environment(name).value_or(""); };
  config.values.store = DefaultStorePath(variable("XDG_DATA_HOME"), variable("HOME"));
  if (!file.empty()) {
    std::string text;
    TENUTO_TRY(ReadWholeFile(file, text));
    config.file = file;
    TENUTO_TRY(ApplyToml(config, text, file, environment));
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].hidden) continue;
    const auto value = environment(EnvironmentName(fields[i]));
    if (!value || value->empty()) continue;
    if (auto set = SetFromText(config.values, fields[i], *value, environment); !set)
      return std::move(set).error().With(EnvironmentName(fields[i]));
    config.origins[i] = Origin::kEnvironment;
  }
  for (const auto& flag : flags) {
    const auto& field = fields[flag.field];
    if (auto set = SetFromText(config.values, field, flag.text, environment); !set)
      return std::move(set).error().With("--" + std::string(field.name));
    config.origins[flag.field] = Origin::kFlag;
  }
  return config;
}

std::string PrintConfig(const EffectiveConfig& config) {
  const auto fields = ConfigFields();
  std::string text;
  std::string_view group;
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& field = fields[i];
    if (field.hidden) continue;
    if (field.group != group)
      text += (text.empty() ? "# " : "\n# ") + std::string(field.group) + "\n";
    group = field.group;
    std::string value = FieldText(config.values, field);
    const bool secret = field.kind == FieldKind::kSecret && !value.empty();
    if (secret) value = kHiddenSecret;
    if (field.kind != FieldKind::kNumber && field.kind != FieldKind::kSwitch)
      value = QuoteToml(value);
    // A hidden secret is a comment, so that a saved print-out never becomes a key that anybody can
    // guess.
    text += (secret ? "# " : "") + std::string(field.name) + " = " + value + "  # " +
            OriginText(config, i) + "\n";
  }
  return text;
}

Status CheckConfig(const ServeConfig& config) {
  if (!config.upstream.empty())
    return Invalid(
        "--upstream is not supported yet; this version runs a model itself: use --model FILE.gguf");
  if (config.model.empty() && !config.fake_executor)
    return Invalid("no model given; use --model FILE.gguf, or 'model' in the --config file");
  if (config.store.empty())
    return Invalid(
        "no folder for the store: neither XDG_DATA_HOME nor HOME is set; use --store DIR");
  if (config.host.empty())
    return Invalid("--host is empty; give an address, such as 127.0.0.1, or leave it out");
  if (config.api_key.empty() && !IsLoopback(config.host))
    return Invalid("--host " + config.host +
                   " is reachable from other machines; without --api-key (or TENUTO_API_KEY) " +
                   "only 127.0.0.1, ::1 and localhost are allowed");
  for (const char c : config.api_key)
    if (c == ' ') return Invalid("--api-key: a key with a space can't be sent in a header");
  if (config.window_low >= config.window_high)
    return Invalid("--window-low " + std::to_string(config.window_low) +
                   " must be below --window-high " + std::to_string(config.window_high));
  if (config.ctx_size > 0 && config.window > config.ctx_size)
    return Invalid("--window " + std::to_string(config.window) + " is more than --ctx-size " +
                   std::to_string(config.ctx_size) + " holds");
  TENUTO_TRY(ParseTenantWeights(config.tenant_weights));
  return Ok();
}

}  // namespace tenuto
