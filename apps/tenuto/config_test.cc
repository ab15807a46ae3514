#include "config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

namespace tenuto {
namespace {

using Variables = std::map<std::string, std::string>;

Environment FakeEnvironment(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

const Environment kHome = FakeEnvironment({{"HOME", "/home/ann"}});

size_t FieldIndex(std::string_view name) {
  const auto fields = ConfigFields();
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].name == name) return i;
  ADD_FAILURE() << "no field " << name;
  return 0;
}

EffectiveConfig Defaults() {
  return LoadConfig("", kHome, {}).value();
}

// The error of a TOML text, or "" where it is good.
std::string TomlError(std::string_view text) {
  EffectiveConfig config = Defaults();
  const Status status = ApplyToml(config, text, "t.toml", kHome);
  return status ? "" : status.error().message();
}

std::string FlagError(std::string_view name, const std::string& text) {
  const FlagValue flag{FieldIndex(name), text};
  const auto loaded = LoadConfig("", kHome, {&flag, 1});
  return loaded ? "" : loaded.error().message();
}

class TempFile {
 public:
  explicit TempFile(std::string_view text) {
    const int descriptor = ::mkstemp(path_.data());
    EXPECT_GE(descriptor, 0);
    ::close(descriptor);
    std::ofstream(path_) << text;
  }
  ~TempFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/tenuto_config_XXXXXX";
};

std::string ReadSource(const std::string& name) {
  std::ifstream in(std::string(TENUTO_SOURCE_DIR) + "/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A value of the field's own domain that is not its default.
std::string OtherValue(const ConfigField& field) {
  const std::string now = FieldText(ServeConfig{}, field);
  if (field.kind == FieldKind::kNumber)
    return now == std::to_string(field.max) ? std::to_string(field.min) : std::to_string(field.max);
  if (field.kind == FieldKind::kSwitch) return now == "true" ? "false" : "true";
  if (const auto* choice = std::get_if<ChoiceAccess>(&field.access))
    return std::string(choice->names[choice->names[0] == now ? 1 : 0]);
  if (!field.text_choices.empty())
    return std::string(field.text_choices[field.text_choices[0] == now ? 1 : 0]);
  return "other";
}

std::string AsToml(const ConfigField& field, const std::string& value) {
  const bool bare = field.kind == FieldKind::kNumber || field.kind == FieldKind::kSwitch;
  return std::string(field.name) + " = " + (bare ? value : "\"" + value + "\"") + "\n";
}

TEST(ConfigTest, EveryFieldHasANameAHelpAndAGroup) {
  std::map<std::string_view, int> names, shorts;
  for (const auto& field : ConfigFields()) {
    EXPECT_EQ(++names[field.name], 1) << field.name;
    if (!field.short_flag.empty()) {
      EXPECT_EQ(++shorts[field.short_flag], 1) << field.short_flag;
    }
    EXPECT_FALSE(field.help.empty()) << field.name;
    EXPECT_EQ(field.group.empty(), field.hidden) << field.name;
  }
}

TEST(ConfigTest, EveryFieldIsSetByFileEnvironmentAndFlag) {
  const auto fields = ConfigFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& field = fields[i];
    const std::string other = OtherValue(field);
    ASSERT_NE(FieldText(ServeConfig{}, field), other) << field.name;

    const FlagValue flag{i, other};
    const auto by_flag = LoadConfig("", kHome, {&flag, 1});
    ASSERT_TRUE(by_flag.ok()) << by_flag.error().message();
    EXPECT_EQ(FieldText(by_flag->values, field), other) << field.name;
    EXPECT_EQ(by_flag->origins[i], Origin::kFlag) << field.name;
    if (field.hidden) continue;

    const auto by_variable = LoadConfig("", FakeEnvironment({{EnvironmentName(field), other}}), {});
    ASSERT_TRUE(by_variable.ok()) << by_variable.error().message();
    EXPECT_EQ(FieldText(by_variable->values, field), other) << field.name;
    EXPECT_EQ(by_variable->origins[i], Origin::kEnvironment) << field.name;

    const TempFile file(AsToml(field, other));
    const auto by_file = LoadConfig(file.path(), kHome, {});
    ASSERT_TRUE(by_file.ok()) << by_file.error().message();
    EXPECT_EQ(FieldText(by_file->values, field), other) << field.name;
    EXPECT_EQ(by_file->origins[i], Origin::kFile) << field.name;
  }
}

TEST(ConfigTest, HiddenFieldsAreFlagsOnly) {
  EXPECT_EQ(TomlError("fake-executor = true"), "t.toml:1: unknown key 'fake-executor'");
  const auto loaded = LoadConfig("", FakeEnvironment({{"TENUTO_FAKE_EXECUTOR", "true"}}), {});
  EXPECT_FALSE(loaded->values.fake_executor);
}

TEST(ConfigTest, FlagWinsOverVariableOverFileOverDefault) {
  const TempFile file("port = 1\nparallel = 2\nwindow = 3\n");
  const Environment environment =
      FakeEnvironment({{"HOME", "/home/ann"}, {"TENUTO_PORT", "10"}, {"TENUTO_PARALLEL", "20"}});
  const FlagValue flag{FieldIndex("port"), "100"};
  const auto loaded = LoadConfig(file.path(), environment, {&flag, 1});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(loaded->values.port, 100);
  EXPECT_EQ(loaded->values.parallel, 20);
  EXPECT_EQ(loaded->values.window, 3);
  EXPECT_EQ(loaded->values.ubatch_size, 512);
  EXPECT_EQ(loaded->origins[FieldIndex("ubatch-size")], Origin::kDefault);
}

TEST(ConfigTest, EmptyVariableIsNotSet) {
  const auto loaded = LoadConfig("", FakeEnvironment({{"TENUTO_PORT", ""}}), {});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->values.port, 8585);
}

TEST(ConfigTest, UnknownKeyNamesFileLineAndTheNearestKey) {
  EXPECT_EQ(TomlError("port = 1\n\nprot = 2\n"),
            "t.toml:3: unknown key 'prot'; did you mean 'port'?");
  EXPECT_EQ(TomlError("ctx_size = 2\n"),
            "t.toml:1: unknown key 'ctx_size'; did you mean 'ctx-size'?");
  EXPECT_EQ(TomlError("colour = 2\n"), "t.toml:1: unknown key 'colour'");
  EXPECT_EQ(TomlError("port = 2\n \t[server]\nport = 2\n"),
            "t.toml:2: unknown key 'server'; settings stand at the top level, without [sections]");
  EXPECT_EQ(TomlError("server.port = 2\n"),
            "t.toml:1: unknown key 'server'; settings stand at the top level, without [sections]");
}

TEST(ConfigTest, WrongTypeNamesFileLineAndBothTypes) {
  EXPECT_EQ(TomlError("strict = true\nport = \"8585\"\n"),
            "t.toml:2: 'port': this is text, but a whole number without quotes belongs here");
  EXPECT_EQ(TomlError("port = 1.5"),
            "t.toml:1: 'port': this is a number with a fraction, but a whole number without quotes "
            "belongs here");
  EXPECT_EQ(TomlError("strict = \"true\""),
            "t.toml:1: 'strict': this is text, but true or false without quotes belongs here");
  EXPECT_EQ(TomlError("model = 7"),
            "t.toml:1: 'model': this is a whole number, but text in quotes belongs here");
  EXPECT_EQ(TomlError("model = [\"a\"]"),
            "t.toml:1: 'model': this is an array, but text in quotes belongs here");
  EXPECT_EQ(TomlError("model = {file = \"a\"}"),
            "t.toml:1: 'model': this is a table, but text in quotes belongs here");
}

TEST(ConfigTest, BrokenTomlNamesFileAndLine) {
  EXPECT_EQ(TomlError("port = 1\nhost = \n").rfind("t.toml:2: ", 0), 0U);
  EXPECT_EQ(TomlError("port = 1\nport = 2\n").rfind("t.toml:2: ", 0), 0U);
  for (const char* text : {"[",          "[[",
                           "[[[",        "[]",
                           "[[]]",       "[=]",
                           "port",       "port =",
                           "= 1",        ".",
                           "a.",         "a.=1",
                           "\"",         "'",
                           "model = \"", "model = \"\"\"",
                           "model = {",  "model = {=}",
                           "model = [",  "model = [[",
                           "port = 0x",  "port = 1979-05-",
                           "\\",         "\xef\xbb\xbf",
                           "\xef\xbb",   "#\x01"})
    EXPECT_TRUE(TomlError(text) != "" || std::string_view(text) == "\xef\xbb\xbf") << text;
  EXPECT_NE(TomlError(std::string(100000, '[')), "");
  EXPECT_NE(TomlError("model = " + std::string(100000, '[')), "");
  EXPECT_NE(TomlError("model = " + std::string(100000, '{')), "");
  EXPECT_NE(TomlError(std::string(100000, '.')), "");
  EXPECT_NE(TomlError("model = \"\xff\xfe\""), "");
}

TEST(ConfigTest, ValuesOutOfTheirDomainAreRefused) {
  EXPECT_EQ(FlagError("port", "65536"), "--port: 65536 is out of range (allowed: 0 to 65535)");
  EXPECT_EQ(FlagError("port", "-1"), "--port: -1 is out of range (allowed: 0 to 65535)");
  EXPECT_EQ(FlagError("port", "99999999999999999999"),
            "--port: 99999999999999999999 is out of range (allowed: 0 to 65535)");
  EXPECT_EQ(FlagError("port", "80x"), "--port: '80x' is not a whole number (allowed: 0 to 65535)");
  EXPECT_EQ(FlagError("port", ""), "--port: '' is not a whole number (allowed: 0 to 65535)");
  EXPECT_EQ(FlagError("flash-attn", "yes"),
            "--flash-attn: 'yes' is not known (allowed: auto, on or off)");
  EXPECT_NE(FlagError("cache-type-k", "q3"), "");
  EXPECT_EQ(FlagError("strict", "maybe"), "--strict: 'maybe' is neither true nor false");
  EXPECT_EQ(FlagError("alias", "a\nb"), "--alias: holds a control character");
  EXPECT_EQ(TomlError("port = 70000"),
            "t.toml:1: 'port': 70000 is out of range (allowed: 0 to 65535)");
  EXPECT_NE(TomlError("port = 9223372036854775807"), "");
  const auto loaded = LoadConfig("", FakeEnvironment({{"TENUTO_PORT", "x"}}), {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message(),
            "TENUTO_PORT: 'x' is not a whole number (allowed: 0 to 65535)");
}

TEST(ConfigTest, EveryNumberHoldsItsLimits) {
  for (const auto& field : ConfigFields()) {
    if (field.kind != FieldKind::kNumber) continue;
    EXPECT_EQ(FlagError(field.name, std::to_string(field.min)), "") << field.name;
    EXPECT_EQ(FlagError(field.name, std::to_string(field.max)), "") << field.name;
    EXPECT_NE(FlagError(field.name, std::to_string(field.min - 1)), "") << field.name;
    EXPECT_NE(FlagError(field.name, std::to_string(field.max + 1)), "") << field.name;
    const int64_t now = std::stoll(FieldText(ServeConfig{}, field));
    EXPECT_TRUE(now >= field.min && now <= field.max) << field.name;
  }
}

TEST(ConfigTest, FilesThatCannotBeReadAreNamed) {
  const auto missing = LoadConfig("/nonexistent/t.toml", kHome, {});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_EQ(missing.error().message(),
            "can't read the configuration file /nonexistent/t.toml: No such file or directory");
  EXPECT_EQ(LoadConfig("/tmp", kHome, {}).error().message(),
            "the configuration file /tmp is a directory");
  EXPECT_FALSE(LoadConfig("/dev/zero", kHome, {}).ok());
}

TEST(ConfigTest, HomeIsExpandedInPathsOnly) {
  EffectiveConfig config = Defaults();
  ASSERT_TRUE(ApplyToml(config, "model = \"~/m.gguf\"\nalias = \"~/x\"", "t.toml", kHome).ok());
  EXPECT_EQ(config.values.model, "/home/ann/m.gguf");
  EXPECT_EQ(config.values.alias, "~/x");
  const Status homeless = ApplyToml(config, "model = \"~/m.gguf\"", "t.toml", FakeEnvironment({}));
  ASSERT_FALSE(homeless.ok());
  EXPECT_EQ(homeless.error().message(), "t.toml:1: 'model': '~' needs HOME to be set");
}

TEST(ConfigTest, StoreDefaultsToTheDataFolder) {
  EXPECT_EQ(Defaults().values.store, "/home/ann/.local/share/tenuto");
  const auto xdg =
      LoadConfig("", FakeEnvironment({{"HOME", "/h"}, {"XDG_DATA_HOME", "/data"}}), {});
  EXPECT_EQ(xdg->values.store, "/data/tenuto");
  const auto relative =
      LoadConfig("", FakeEnvironment({{"HOME", "/h"}, {"XDG_DATA_HOME", "data"}}), {});
  EXPECT_EQ(relative->values.store, "/h/.local/share/tenuto");
  EXPECT_EQ(LoadConfig("", FakeEnvironment({}), {})->values.store, "");
}

TEST(ConfigTest, PrintedConfigIsReadBackToTheSameValues) {
  const std::string odd = "a \"quoted\" \\ name # not a comment";
  std::vector<FlagValue> flags;
  const auto fields = ConfigFields();
  for (size_t i = 0; i < fields.size(); ++i)
    if (!fields[i].hidden && fields[i].kind != FieldKind::kSecret)
      flags.push_back({i, fields[i].name == "alias" ? odd : OtherValue(fields[i])});
  const auto first = LoadConfig("", kHome, flags);
  ASSERT_TRUE(first.ok()) << first.error().message();
  EffectiveConfig second = Defaults();
  const std::string printed = PrintConfig(*first);
  const Status read = ApplyToml(second, printed, "printed", kHome);
  ASSERT_TRUE(read.ok()) << read.error().message() << "\n" << printed;
  EXPECT_EQ(second.values, first->values) << printed;
}

TEST(ConfigTest, PrintedConfigNamesOriginsAndHidesSecrets) {
  const TempFile file("parallel = 2\n");
  const Environment environment = FakeEnvironment({{"HOME", "/h"}, {"TENUTO_API_KEY", "hunter2"}});
  const FlagValue flag{FieldIndex("port"), "100"};
  const std::string printed = PrintConfig(LoadConfig(file.path(), environment, {&flag, 1}).value());
  EXPECT_NE(printed.find("port = 100  # flag\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("parallel = 2  # file " + file.path() + "\n"), std::string::npos)
      << printed;
  EXPECT_NE(printed.find("# api-key = \"***\"  # env TENUTO_API_KEY\n"), std::string::npos)
      << printed;
  EXPECT_NE(printed.find("host = \"127.0.0.1\"  # default\n"), std::string::npos) << printed;
  EXPECT_EQ(printed.find("hunter2"), std::string::npos);
  EXPECT_EQ(printed.find("fake-executor"), std::string::npos);
  EXPECT_EQ(TomlError("api-key = \"***\""),
            "t.toml:1: 'api-key': '***' stands for a hidden secret; write the key itself");
}

TEST(ConfigTest, CheckFindsWhatNoSingleFieldTells) {
  const auto error = [](const ServeConfig& config) {
    const Status status = CheckConfig(config);
    return status ? "" : status.error().message();
  };
  ServeConfig good;
  good.model = "m.gguf";
  good.store = "/s";
  EXPECT_EQ(error(good), "");
  ServeConfig config = good;
  config.model = "";
  EXPECT_EQ(error(config),
            "no model given; use --model FILE.gguf, or 'model' in the --config file");
  config.fake_executor = true;
  EXPECT_EQ(error(config), "");
  config = good;
  config.upstream = "http://x";
  EXPECT_EQ(error(config).rfind("--upstream is not supported yet", 0), 0U);
  config = good;
  config.store = "";
  EXPECT_NE(error(config), "");
  config = good;
  config.ctx_size = 100;
  config.window = 101;
  EXPECT_EQ(error(config), "--window 101 is more than --ctx-size 100 holds");
  config = good;
  config.api_key = "two words";
  EXPECT_EQ(error(config).find("two"), std::string::npos);
  EXPECT_NE(error(config), "");
}

TEST(ConfigTest, BeyondLoopbackNeedsAKey) {
  ServeConfig config;
  config.model = "m.gguf";
  config.store = "/s";
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    config.host = host;
    EXPECT_TRUE(CheckConfig(config).ok()) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "192.168.1.2", "127.example.org", "example.org"}) {
    config.host = host;
    config.api_key = "";
    EXPECT_FALSE(CheckConfig(config).ok()) << host;
    config.api_key = "k";
    EXPECT_TRUE(CheckConfig(config).ok()) << host;
  }
}

TEST(ConfigTest, AnEmptyHostIsSaidToBeOne) {
  ServeConfig config;
  config.model = "m.gguf";
  config.store = "/s";
  config.host = "";
  config.api_key = "k";
  const Status status = CheckConfig(config);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("--host is empty"), std::string::npos);
}

TEST(ConfigTest, TextWithoutQuotesIsExplained) {
  const auto hint = [](const std::string& text) {
    const std::string error = TomlError(text);
    const size_t at = error.find("; text goes");
    return at == std::string::npos ? "" : error.substr(at + 2);
  };
  EXPECT_EQ(hint("model = model.gguf"), "text goes in quotes: model = \"model.gguf\"");
  EXPECT_EQ(hint("port = 1\n  host = localhost  # here\n"),
            "text goes in quotes: host = \"localhost\"");
  EXPECT_EQ(hint("model = ~/m.gguf\r\nport = 1\n"), "text goes in quotes: model = \"~/m.gguf\"");
  EXPECT_EQ(hint("api-key = hunter2"), "text goes in quotes: api-key = \"...\"");
  EXPECT_EQ(hint("port = x"), "");
  EXPECT_EQ(hint("model = \"a"), "");
  EXPECT_EQ(hint("colour = red"), "");
  EXPECT_EQ(hint("model = "), "");
}

TEST(ConfigTest, TheExampleParsesAndIsAllDefaultsButTheModel) {
  EffectiveConfig config = Defaults();
  const std::string example = ReadSource("examples/tenuto.toml");
  ASSERT_FALSE(example.empty());
  const Status read = ApplyToml(config, example, "examples/tenuto.toml", kHome);
  ASSERT_TRUE(read.ok()) << read.error().message();
  ServeConfig expected = Defaults().values;
  expected.model = config.values.model;
  EXPECT_NE(config.values.model, "");
  EXPECT_EQ(config.values, expected);
}

// The example is the manual: each key stands there with its true default and some lines of comment
// before it.
TEST(ConfigTest, TheExampleExplainsEveryKeyWithItsDefault) {
  std::istringstream lines(ReadSource("examples/tenuto.toml"));
  std::map<std::string, std::string> values;
  std::string line, previous;
  while (std::getline(lines, line)) {
    std::string entry = line.rfind("# ", 0) == 0 ? line.substr(2) : line;
    const size_t equals = entry.find(" = ");
    const std::string key = entry.substr(0, equals);
    if (equals != std::string::npos && key.find(' ') == std::string::npos) {
      EXPECT_EQ(previous.rfind('#', 0), 0U) << key << " has no comment";
      EXPECT_TRUE(values.emplace(key, entry.substr(equals + 3)).second)
          << key << " stands there twice";
    }
    previous = line;
  }
  for (const auto& field : ConfigFields()) {
    if (field.hidden) {
      EXPECT_EQ(values.count(std::string(field.name)), 0U);
      continue;
    }
    const auto found = values.find(std::string(field.name));
    ASSERT_NE(found, values.end()) << field.name << " is not in examples/tenuto.toml";
    if (field.name == "model" || field.name == "store") continue;  // no fixed default
    EXPECT_EQ(found->first + " = " + found->second + "\n",
              AsToml(field, FieldText(ServeConfig{}, field)));
  }
  EXPECT_EQ(values.size(), ConfigNames().size());
}

// docs/config.md has the same table; the test keeps it true.
TEST(ConfigTest, TheReferencePageListsEveryFlag) {
  const std::string page = ReadSource("docs/config.md");
  for (const auto& field : ConfigFields()) {
    if (field.hidden) continue;
    const std::string flag =
        (field.short_flag.empty() ? "" : "`" + std::string(field.short_flag) + "`, ") + "`--" +
        std::string(field.name) + "`";
    const std::string value = FieldText(ServeConfig{}, field);
    const std::string note =
        field.default_note.empty() ? "`" + value + "`" : std::string(field.default_note);
    const std::string row = "| " + flag + " | " + note + " | " + std::string(field.help) + " |\n";
    EXPECT_NE(page.find(row), std::string::npos) << "docs/config.md lacks the row\n" << row;
  }
}

TEST(ConfigTest, NearestNameIsNearOrNothing) {
  const std::vector<std::string> known = {"port", "parallel", "threads", "threads-batch"};
  EXPECT_EQ(NearestName("paralel", known), "parallel");
  EXPECT_EQ(NearestName("threads_batch", known), "threads-batch");
  EXPECT_EQ(NearestName("zzzz", known), "");
  EXPECT_EQ(NearestName("", known), "");
  EXPECT_EQ(NearestName(std::string(100000, 'p'), known), "");
}

}  // namespace
}  // namespace tenuto
