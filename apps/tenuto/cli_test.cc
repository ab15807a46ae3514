#include "cli.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

namespace tenuto {
namespace {

struct CliRun {
  int status = -1;
  std::string out, err;
  std::optional<ServeConfig> serve, check, verify;
  std::string verify_session;
  std::optional<ChatOptions> chat;
  std::optional<SessionsOptions> sessions;
};

using Variables = std::map<std::string, std::string>;

CliRun RunCli(const std::vector<std::string>& args, Variables variables = {{"HOME", "/home/ann"}}) {
  CliRun run;
  CommandHandlers handlers;
  handlers.serve = [&](const ServeConfig& config) {
    run.serve = config;
    return 0;
  };
  handlers.check = [&](const ServeConfig& config) {
    run.check = config;
    return 3;
  };
  handlers.verify = [&](const ServeConfig& config, const std::string& session) {
    run.verify = config;
    run.verify_session = session;
    return 7;
  };
  handlers.chat = [&](const ChatOptions& options) {
    run.chat = options;
    return 0;
  };
  handlers.sessions = [&](const SessionsOptions& options) {
    run.sessions = options;
    return 0;
  };
  handlers.version = [] { return std::string("tenuto 9.9\n"); };
  handlers.variables = [&] {
    std::vector<std::string> names;
    for (const auto& [name, value] : variables)
      names.push_back(name);
    return names;
  };
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  std::ostringstream out, err;
  run.status = RunCommandLine(args, environment, handlers, {out, err});
  run.out = out.str();
  run.err = err.str();
  return run;
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(CliTest, ServeTakesEveryFlagOfTheTable) {
  for (const auto& field : ConfigFields()) {
    std::string value = std::to_string(std::max<int64_t>(field.min, 2));
    if (field.name == "window-high") value = "95";  // stays above --window-low
    if (field.name == "tenant-weights") value = "acme=2";
    if (field.kind == FieldKind::kSwitch) value = "true";
    if (field.kind == FieldKind::kChoice)
      value = std::string(std::get<ChoiceAccess>(field.access).names.back());
    if (!field.text_choices.empty()) value = std::string(field.text_choices.back());
    const std::string flag = "--" + std::string(field.name);
    for (const auto& args : std::vector<std::vector<std::string>>{
             {"serve", "--api-key=k", flag + "=" + value, "-m", "m.gguf"},
             {"verify", "s", "--api-key=k", flag + "=" + value, "-m", "m.gguf"}}) {
      const CliRun run = RunCli(args);
      if (field.name == "upstream") {
        EXPECT_EQ(run.status, 2);
        EXPECT_TRUE(Has(run.err, "not supported yet"));
        continue;
      }
      const auto& config = args[0] == "serve" ? run.serve : run.verify;
      ASSERT_TRUE(config.has_value()) << flag << ": " << run.err;
      if (field.name != "model") {
        EXPECT_EQ(FieldText(*config, field), value) << flag;
      }
    }
  }
}

TEST(CliTest, ShortFlagsAreThoseOfLlamaServer) {
  const CliRun run = RunCli({"serve", "-m",        "m.gguf", "-c",  "4096",   "-np", "4",
                             "-t",    "2",         "-tb",    "3",   "-fa",    "on",  "-ctk",
                             "q8_0",  "-ctv=q4_0", "-ub",    "256", "-ngl=9", "-a",  "tiny"});
  ASSERT_TRUE(run.serve.has_value()) << run.err;
  EXPECT_EQ(run.serve->model, "m.gguf");
  EXPECT_EQ(run.serve->ctx_size, 4096);
  EXPECT_EQ(run.serve->parallel, 4);
  EXPECT_EQ(run.serve->threads, 2);
  EXPECT_EQ(run.serve->threads_batch, 3);
  EXPECT_EQ(run.serve->flash_attn, FlashAttentionChoice::kOn);
  EXPECT_EQ(run.serve->cache_type_k, "q8_0");
  EXPECT_EQ(run.serve->cache_type_v, "q4_0");
  EXPECT_EQ(run.serve->ubatch_size, 256);
  EXPECT_EQ(run.serve->n_gpu_layers, 9);
  EXPECT_EQ(run.serve->alias, "tiny");
  EXPECT_EQ(run.serve->store, "/home/ann/.local/share/tenuto");
}

TEST(CliTest, RewriteTouchesOnlyWholeFlags) {
  using Args = std::vector<std::string>;
  EXPECT_EQ(RewriteShortFlags({"-np", "4", "-np=4", "-npx", "np", "-n"}),
            (Args{"--parallel", "4", "--parallel=4", "-npx", "np", "-n"}));
  EXPECT_EQ(RewriteShortFlags({"-m", "--", "-np"}), (Args{"-m", "--", "-np"}));
}

TEST(CliTest, TheLastOfARepeatedFlagWins) {
  const CliRun run = RunCli(
      {"serve", "-m", "a", "--port", "1", "-m", "b", "--port=2", "--strict", "--strict=false"});
  ASSERT_TRUE(run.serve.has_value()) << run.err;
  EXPECT_EQ(run.serve->model, "b");
  EXPECT_EQ(run.serve->port, 2);
  EXPECT_FALSE(run.serve->strict);
}

TEST(CliTest, MistakesAreUsageErrorsThatTeach) {
  const CliRun unknown = RunCli({"serve", "-m", "m", "--paralel", "4"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(
      unknown.err,
      "tenuto: unknown flag --paralel; did you mean --parallel?\nSee 'tenuto serve --help'.\n");
  EXPECT_FALSE(unknown.serve.has_value());

  const CliRun value = RunCli({"serve", "-m", "m", "--port=x"});
  EXPECT_EQ(value.status, 2);
  EXPECT_TRUE(Has(value.err, "--port: 'x' is not a whole number")) << value.err;

  const CliRun model = RunCli({"serve"});
  EXPECT_EQ(model.status, 2);
  EXPECT_TRUE(Has(model.err, "no model given")) << model.err;

  const CliRun extra = RunCli({"serve", "-m", "m", "stray"});
  EXPECT_EQ(extra.status, 2);
  EXPECT_TRUE(Has(extra.err, "'stray' is not expected here")) << extra.err;

  const CliRun command = RunCli({"sevre"});
  EXPECT_EQ(command.status, 2);
  EXPECT_EQ(command.err,
            "tenuto: there is no command 'sevre'; did you mean 'serve'?\nSee 'tenuto --help'.\n");

  const CliRun missing = RunCli({"sessions", "show"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_TRUE(Has(missing.err, "SESSION")) << missing.err;
  EXPECT_TRUE(Has(missing.err, "See 'tenuto sessions show --help'.")) << missing.err;

  const CliRun bare = RunCli({"sessions"});
  EXPECT_EQ(bare.status, 2);
  EXPECT_EQ(bare.err,
            "tenuto: 'tenuto sessions' needs a command: list, show, delete, export or import\n"
            "See 'tenuto sessions --help'.\n");
  const CliRun slip = RunCli({"sessions", "lst"});
  EXPECT_EQ(slip.status, 2);
  EXPECT_TRUE(Has(slip.err, "there is no command 'lst'; did you mean 'list'?")) << slip.err;

  const CliRun value_missing = RunCli({"serve", "--port"});
  EXPECT_EQ(value_missing.status, 2);
  EXPECT_TRUE(Has(value_missing.err, "--port")) << value_missing.err;

  const CliRun open = RunCli({"serve", "-m", "m", "--host", "0.0.0.0"});
  EXPECT_EQ(open.status, 2);
  EXPECT_TRUE(Has(open.err, "--api-key")) << open.err;
}

TEST(CliTest, AValueThatIsMissingOrOfAnotherKindSaysWhatIsWanted) {
  const auto said = [](const std::vector<std::string>& args) {
    const CliRun run = RunCli(args);
    EXPECT_EQ(run.status, 2);
    return run.err.substr(0, run.err.find('\n'));
  };
  EXPECT_EQ(said({"serve", "-m"}), "tenuto: --model needs a value: --model FILE");
  EXPECT_EQ(said({"serve", "-np"}), "tenuto: --parallel needs a value: --parallel N");
  EXPECT_EQ(said({"chat", "--temperature"}),
            "tenuto: --temperature needs a value: --temperature T");
  EXPECT_EQ(said({"chat", "--max-tokens", "x"}),
            "tenuto: --max-tokens: 'x' is not a whole number up to 2147483647");
  EXPECT_EQ(said({"chat", "--max-tokens=99999999999"}),
            "tenuto: --max-tokens: '99999999999' is not a whole number up to 2147483647");
  EXPECT_EQ(said({"chat", "--seed", "x"}),
            "tenuto: --seed: 'x' is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(said({"chat", "--temperature", "warm"}),
            "tenuto: --temperature: 'warm' is not a number, such as 0.7");
  EXPECT_EQ(said({"serve", "--print-config=x"}),
            "tenuto: --print-config: 'x' is neither true nor false");
}

TEST(CliTest, ANameThatBeginsWithADashGoesAfterTwo) {
  const CliRun flag = RunCli({"sessions", "show", "-x"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_TRUE(Has(flag.err,
                  "unknown flag -x; a session whose name begins with a dash goes last, after "
                  "'--': tenuto sessions show -- -x\n"))
      << flag.err;
  EXPECT_EQ(RunCli({"sessions", "show", "--", "-x"}).sessions->session, "-x");
  const CliRun late = RunCli({"sessions", "show", "--", "-x", "--store", "/s"});
  EXPECT_EQ(late.status, 2);
  EXPECT_TRUE(Has(late.err, "'--store' is not expected here: flags go before '--'")) << late.err;
  EXPECT_FALSE(Has(RunCli({"sessions", "show", "x", "--jsno"}).err, "dash"));
  EXPECT_FALSE(Has(RunCli({"serve", "-x"}).err, "dash"));
}

TEST(CliTest, VariablesThatNobodyKnowsAreWarnedOf) {
  testing::internal::CaptureStderr();
  const CliRun run = RunCli({"serve", "-m", "m"}, {{"HOME", "/h"},
                                                   {"TENUTO_PROT", "1"},
                                                   {"TENUTO_PORT", "77"},
                                                   {"TENUTO_ZZZZZZ", "1"},
                                                   {"TENUTO_CTX_SIZE", ""},
                                                   {"TENUT", "1"}});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.serve->port, 77);
  EXPECT_TRUE(Has(said, R"("variable":"TENUTO_PROT","did_you_mean":"TENUTO_PORT")")) << said;
  EXPECT_TRUE(Has(said, R"("variable":"TENUTO_ZZZZZZ")")) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

TEST(CliTest, HelpListsEveryVisibleFlagWithItsShortForm) {
  const CliRun run = RunCli({"serve", "--help"});
  EXPECT_EQ(run.status, 0);
  for (const auto& field : ConfigFields()) {
    EXPECT_EQ(Has(run.out, "--" + std::string(field.name)), !field.hidden) << field.name;
    if (!field.short_flag.empty()) {
      EXPECT_TRUE(Has(run.out, field.short_flag)) << field.name;
    }
  }
  EXPECT_TRUE(Has(run.out, "-np,--parallel N"));
  EXPECT_TRUE(Has(run.out, "Examples:"));
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 110U) << line;
  EXPECT_TRUE(Has(RunCli({"--help"}).out, "tenuto serve -m model.gguf"));
  EXPECT_TRUE(Has(RunCli({"chat", "--help"}).out, "Ctrl-C"));
  EXPECT_TRUE(Has(RunCli({"sessions", "--help"}).out, "export"));
  const CliRun nothing = RunCli({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_TRUE(Has(nothing.err, "serve"));
}

TEST(CliTest, VersionIsThatOfTheHandlers) {
  EXPECT_EQ(RunCli({"--version"}).out, "tenuto 9.9\n");
}

TEST(CliTest, PrintConfigNeedsNoModelAndHidesTheKey) {
  const CliRun run = RunCli({"serve", "--port", "9", "--print-config"},
                            {{"HOME", "/h"}, {"TENUTO_API_KEY", "hunter2"}});
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(Has(run.out, "port = 9  # flag\n")) << run.out;
  EXPECT_FALSE(Has(run.out, "hunter2"));
  EXPECT_FALSE(run.serve.has_value());
}

class CliFilesTest : public testing::Test {
 protected:
  CliFilesTest() {
    std::string name = "/tmp/tenuto_cli_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~CliFilesTest() override { std::filesystem::remove_all(root_); }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = root_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string root_;
};

TEST_F(CliFilesTest, ConfigFileIsReadAndItsErrorsAreNamed) {
  const std::string good = Write("good.toml", "model = \"m.gguf\"\nport = 77\n");
  const CliRun run = RunCli({"serve", "--config", good, "--window", "5"});
  ASSERT_TRUE(run.serve.has_value()) << run.err;
  EXPECT_EQ(run.serve->port, 77);
  EXPECT_EQ(run.serve->window, 5);
  const std::string bad = Write("bad.toml", "model = \"m.gguf\"\nprot = 77\n");
  const CliRun refused = RunCli({"serve", "--config", bad});
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(Has(refused.err, bad + ":2: unknown key 'prot'; did you mean 'port'?"))
      << refused.err;
  EXPECT_EQ(RunCli({"serve", "--config", root_ + "/none.toml"}).status, 2);
}

TEST_F(CliFilesTest, AKeyInAFileThatOthersReadIsWarnedAbout) {
  const std::string path = Write("key.toml", "model = \"m.gguf\"\napi-key = \"hunter2\"\n");
  ::chmod(path.c_str(), 0644);
  const CliRun open = RunCli({"serve", "--config", path});
  EXPECT_TRUE(Has(open.err, "warning")) << open.err;
  EXPECT_FALSE(Has(open.err, "hunter2"));
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(RunCli({"serve", "--config", path}).err, "");
}

TEST(CliTest, CheckServesNothing) {
  const CliRun run = RunCli({"serve", "-m", "m.gguf", "--check"});
  EXPECT_EQ(run.status, 3);
  ASSERT_TRUE(run.check.has_value()) << run.err;
  EXPECT_EQ(run.check->model, "m.gguf");
  EXPECT_FALSE(run.serve.has_value());
  EXPECT_EQ(RunCli({"serve", "--check"}).status, 2);
}

TEST(CliTest, VerifyShowsWhatMattersToItAndTakesTheRest) {
  const std::string help = RunCli({"verify", "--help"}).out;
  EXPECT_TRUE(Has(help, "--ctx-size")) << help;
  for (const char* name :
       {"--host", "--port", "--api-key", "--strict", "--on-disconnect", "--upstream"})
    EXPECT_FALSE(Has(help, name)) << name;
  const CliRun run = RunCli({"verify", "x", "-m", "m.gguf", "--port", "99"});
  ASSERT_TRUE(run.verify.has_value()) << run.err;
  EXPECT_EQ(run.verify->port, 99);
}

TEST(CliTest, WordsForHelpAndVersion) {
  EXPECT_EQ(RunCli({"version"}).out, RunCli({"--version"}).out);
  EXPECT_EQ(RunCli({"help"}).out, RunCli({"--help"}).out);
  EXPECT_EQ(RunCli({"help"}).status, 0);
  EXPECT_EQ(RunCli({"help", "serve"}).out, RunCli({"serve", "--help"}).out);
  EXPECT_EQ(RunCli({"help", "sessions", "show"}).out, RunCli({"sessions", "show", "--help"}).out);
}

TEST(CliTest, VerifyTakesTheSessionAndReturnsItsStatus) {
  const CliRun run = RunCli({"verify", "alice::x", "-m", "m.gguf", "-np", "2"});
  EXPECT_EQ(run.status, 7);
  EXPECT_EQ(run.verify_session, "alice::x");
  EXPECT_EQ(run.verify->parallel, 2);
}

TEST(CliTest, ChatTakesItsOptions) {
  const CliRun plain = RunCli({"chat"}, {{"TENUTO_API_KEY", "k"}});
  ASSERT_TRUE(plain.chat.has_value()) << plain.err;
  EXPECT_EQ(plain.chat->session, "chat");
  EXPECT_EQ(plain.chat->url, "http://127.0.0.1:8585");
  EXPECT_EQ(plain.chat->api_key, "k");
  EXPECT_FALSE(plain.chat->seed.has_value());
  const CliRun full =
      RunCli({"chat", "alice::x", "--url", "http://h:1", "--api-key", "z", "--system", "Be terse.",
              "--max-tokens", "5", "--temperature", "0", "--seed", "18446744073709551615"},
             {{"TENUTO_API_KEY", "k"}});
  ASSERT_TRUE(full.chat.has_value()) << full.err;
  EXPECT_EQ(full.chat->session, "alice::x");
  EXPECT_EQ(full.chat->url, "http://h:1");
  EXPECT_EQ(full.chat->api_key, "z");
  EXPECT_EQ(full.chat->system, "Be terse.");
  EXPECT_EQ(full.chat->max_tokens, 5);
  EXPECT_EQ(full.chat->temperature, 0.0);
  EXPECT_EQ(full.chat->seed, 18446744073709551615ULL);
  EXPECT_EQ(RunCli({"chat", "--seed", "x"}).status, 2);
}

TEST(CliTest, SessionsFindsItsStoreAsServeDoes) {
  using Action = SessionsOptions::Action;
  const CliRun flag =
      RunCli({"sessions", "list", "--store", "/s", "--json"}, {{"TENUTO_STORE", "/t"}});
  ASSERT_TRUE(flag.sessions.has_value()) << flag.err;
  EXPECT_EQ(flag.sessions->action, Action::kList);
  EXPECT_EQ(flag.sessions->store, "/s");
  EXPECT_TRUE(flag.sessions->json);
  EXPECT_EQ(RunCli({"sessions", "list"}, {{"TENUTO_STORE", "/t"}}).sessions->store, "/t");
  EXPECT_EQ(RunCli({"sessions", "list"}, {{"XDG_DATA_HOME", "/d"}}).sessions->store, "/d/tenuto");
  EXPECT_EQ(RunCli({"sessions", "list"}, {}).status, 2);
  const std::map<std::string, Action> actions = {
      {"show", Action::kShow}, {"delete", Action::kDelete}, {"export", Action::kExport}};
  for (const auto& [name, action] : actions) {
    const CliRun run = RunCli({"sessions", name, "alice::x"});
    ASSERT_TRUE(run.sessions.has_value()) << run.err;
    EXPECT_EQ(run.sessions->action, action);
    EXPECT_EQ(run.sessions->session, "alice::x");
  }
}

}  // namespace
}  // namespace tenuto
