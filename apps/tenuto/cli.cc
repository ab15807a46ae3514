#include "cli.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <sstream>

#include "base/log.h"
#include "store_layout.h"

namespace tenuto {
namespace {

constexpr int kExitUsage = 2;
constexpr const char* kSessionName = "SESSION";

constexpr const char* kAbout =
    "Tenuto serves language models whose conversations survive: a session's tokens and KV cache "
    "outlive\n"
    "the slot, the process and the machine's reboot.";

constexpr const char* kMainExamples =
    "Start here:\n"
    "  tenuto serve -m model.gguf        serve a model on http://127.0.0.1:8585\n"
    "  tenuto chat                       talk to it; kill the server, start it again, go on\n"
    "  tenuto sessions list              what is stored\n"
    "\n"
    "'tenuto help COMMAND' explains each command.";

constexpr const char* kServeExamples =
    "Examples:\n"
    "  tenuto serve -m model.gguf\n"
    "  tenuto serve -m model.gguf -c 16384 --window 8192 -np 4 --store ./store\n"
    "  TENUTO_API_KEY=secret tenuto serve -m model.gguf --host 0.0.0.0\n"
    "  tenuto serve --config tenuto.toml --port 9000 --print-config\n"
    "\n"
    "Every flag is a key of the TOML file (examples/tenuto.toml explains them) and a variable "
    "TENUTO_NAME, such\n"
    "as TENUTO_CTX_SIZE. A flag wins over a variable, a variable over the file, the file over the "
    "default.\n"
    "A first request:\n"
    "  curl http://127.0.0.1:8585/v1/chat/completions -d '{\"session_id\": \"first\",\n"
    "       \"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'";

constexpr const char* kVerifyExamples =
    "Compares what is stored of a session with what its log gives when computed again: bytes, then "
    "logits.\n"
    "Give the flags that the server runs with. Exit status 0: equal within the bounds that are "
    "printed.\n"
    "Example:\n"
    "  tenuto verify alice::chat-1 -m model.gguf --store ./store";

constexpr const char* kChatExamples =
    "Commands inside: /help /sessions /new NAME /quit. Ctrl-C stops an answer, Ctrl-D leaves.\n"
    "Examples:\n"
    "  tenuto chat\n"
    "  tenuto chat alice::trip --system 'You are terse.' --temperature 0\n"
    "  echo 'What did I ask first?' | tenuto chat";

constexpr const char* kSessionsExamples =
    "Works beside a running server and, but for import, without one.\n"
    "Examples:\n"
    "  tenuto sessions list\n"
    "  tenuto sessions show alice::chat-1\n"
    "  tenuto sessions export chat > chat.jsonl\n"
    "  tenuto sessions import alice::copy chat.jsonl\n"
    "  tenuto sessions delete alice::chat-1";

// Everything the parser fills in. Addresses must stay put while CLI11 holds them.
struct Parsed {
  std::vector<std::string> raw = std::vector<std::string>(ConfigFields().size());
  std::string config_file;
  bool print_config = false;
  bool check = false;
  std::string verify_session;
  ChatOptions chat;
  SessionsOptions sessions;
  bool version = false;
};

struct Commands {
  CLI::App* serve = nullptr;
  CLI::App* verify = nullptr;
  CLI::App* chat = nullptr;
  CLI::App* sessions = nullptr;
};

// CLI11's help, but with lines that end before the terminal does and with "-np" where "-n" would
// stand.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const std::string name = make_option_name(option, is_positional) + make_option_opts(option);
    std::string text = "  " + LongAlias(option) + name;
    const std::string indent(kHelpIndent, ' ');
    size_t column = text.size();
    // A name that is too long for its column has a line for itself.
    text += column + 2 > kHelpIndent ? "\n" + indent : std::string(kHelpIndent - column, ' ');
    column = kHelpIndent;
    std::istringstream words(option->get_description());
    for (std::string word; words >> word;) {
      if (column + word.size() + 1 > kHelpWidth) {
        text += "\n" + indent;
        column = kHelpIndent;
      }
      text += (column == kHelpIndent ? "" : " ") + word;
      column += word.size() + 1;
    }
    return text + "\n";
  }

 private:
  static constexpr size_t kHelpIndent = 30;
  static constexpr size_t kHelpWidth = 98;

  static std::string LongAlias(const CLI::Option* option) {
    for (const auto& field : ConfigFields())
      if (field.short_flag.size() > 2 && option->check_lname(std::string(field.name)))
        return std::string(field.short_flag) + ",";
    return "";
  }
};

std::string FieldHelp(const ConfigField& field) {
  std::string text(field.help);
  if (field.kind == FieldKind::kChoice || !field.text_choices.empty())
    text += " One of: " + FieldDomain(field) + ".";
  // What the struct holds before anything is applied is the default, unless a note says it better.
  const std::string value = field.default_note.empty() ? FieldText(ServeConfig{}, field)
                                                       : std::string(field.default_note);
  if (field.kind != FieldKind::kSwitch) text += " [" + value + "]";
  return text;
}

// `verifying`: for `tenuto verify`, which takes the flags of serve but shows those that matter.
void AddServeFlags(CLI::App& app, Parsed& parsed, bool verifying) {
  const auto fields = ConfigFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& field = fields[i];
    std::string names = "--" + std::string(field.name);
    if (field.short_flag.size() == 2) names.insert(0, std::string(field.short_flag) + ",");
    const std::string help = FieldHelp(field);
    CLI::Option* option = field.kind == FieldKind::kSwitch
                              ? app.add_flag(names, parsed.raw[i], help)
                              : app.add_option(names, parsed.raw[i], help)
                                    ->option_text(std::string(field.placeholder));
    option->group(verifying && field.serving ? "" : std::string(field.group));
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  app.add_option("--config", parsed.config_file, "A TOML file with these settings.")
      ->option_text("FILE")
      ->group("Configuration");
}

void AddChat(CLI::App& app, Parsed& parsed) {
  auto& chat = parsed.chat;
  app.add_option(kSessionName, chat.session, "The session to go on with or to begin [chat]")
      ->option_text(" ");
  app.add_option("--url", chat.url, "Where the server is [" + std::string(kDefaultUrl) + "]")
      ->option_text("URL");
  app.add_option("--api-key", chat.api_key, "The server's key; better given as TENUTO_API_KEY")
      ->option_text("KEY");
  app.add_option("--system", chat.system, "A system prompt for a new session")->option_text("TEXT");
  app.add_option("--max-tokens", chat.max_tokens, "The longest answer [what the window holds]")
      ->option_text("N");
  app.add_option("--temperature", chat.temperature, "0 is greedy [the server's default]")
      ->option_text("T");
  app.add_option("--seed", chat.seed, "For answers that can be had again")->option_text("N");
}

void AddSessions(CLI::App& app, Parsed& parsed) {
  using Action = SessionsOptions::Action;
  struct Entry {
    const char* name;
    const char* help;
    Action action;
  };
  static constexpr Entry kEntries[] = {
      {"list", "All sessions with their size and age", Action::kList},
      {"show", "One session, turn by turn", Action::kShow},
      {"delete", "Remove a session with everything stored of it", Action::kDelete},
      {"export", "A session's messages as JSON, one a line", Action::kExport},
      {"import", "Messages from such a file into a session, without running the model",
       Action::kImport},
  };
  auto& options = parsed.sessions;
  for (const auto& entry : kEntries) {
    CLI::App* sub = app.add_subcommand(entry.name, entry.help);
    const Action action = entry.action;
    sub->footer("");
    sub->parse_complete_callback([&options, action] { options.action = action; });
    if (action != Action::kList)
      sub->add_option(kSessionName, options.session, "Its name, such as chat or alice::trip")
          ->required()
          ->option_text(" ");
    if (action == Action::kImport)
      sub->add_option("FILE", options.file, "The file, or - for the standard input")
          ->required()
          ->option_text(" ");
    sub->add_option("--store", options.store, "The store's folder [as for serve]")
        ->option_text("DIR");
    sub->add_flag("--json", options.json, "For scripts: JSON instead of a table");
  }
  app.require_subcommand(1);
}

Commands AddCommands(CLI::App& app, Parsed& parsed) {
  Commands commands;
  app.footer(kMainExamples);
  app.add_flag("--version", parsed.version, "Print Tenuto's and libllama's version");
  commands.serve = app.add_subcommand("serve", "Run the server");
  AddServeFlags(*commands.serve, parsed, /*verifying=*/false);
  commands.serve
      ->add_flag("--print-config", parsed.print_config,
                 "Print the effective settings and where each came from")
      ->group("Configuration");
  commands.serve
      ->add_flag("--check", parsed.check,
                 "Check the settings, the model's files and the store, then exit")
      ->group("Configuration");
  commands.serve->footer(kServeExamples);
  commands.chat = app.add_subcommand("chat", "Talk to a running server");
  AddChat(*commands.chat, parsed);
  commands.chat->footer(kChatExamples);
  commands.sessions =
      app.add_subcommand("sessions", "List, show, delete, export or import sessions");
  AddSessions(*commands.sessions, parsed);
  commands.sessions->footer(kSessionsExamples);
  commands.verify = app.add_subcommand("verify", "Check a session's stored KV against a recompute");
  commands.verify->add_option(kSessionName, parsed.verify_session, "The session to check")
      ->required()
      ->option_text(" ");
  AddServeFlags(*commands.verify, parsed, /*verifying=*/true);
  commands.verify->footer(kVerifyExamples);
  return commands;
}

// The deepest command that was named: whose help and whose flags an error is about.
const CLI::App* Deepest(const CLI::App& app) {
  const CLI::App* at = &app;
  for (;;) {
    const auto parsed = at->get_subcommands();
    if (parsed.empty()) return at;
    at = parsed.front();
  }
}

std::string CommandName(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* at = app.get_parent(); at != nullptr; at = at->get_parent())
    name.insert(0, at->get_name() + " ");
  return name;
}

int UsageError(const CLI::App& at, const std::string& message, const CommandStreams& streams) {
  streams.err << "tenuto: " << message << "\nSee '" << CommandName(at) << " --help'.\n";
  return kExitUsage;
}

// "list, show, delete or export"
std::string SubcommandNames(const CLI::App& at) {
  const auto subs = at.get_subcommands({});
  std::string names;
  for (size_t i = 0; i < subs.size(); ++i) {
    if (i > 0) names += i + 1 == subs.size() ? " or " : ", ";
    names += subs[i]->get_name();
  }
  return names;
}

std::string UnknownArgument(const CLI::App& at) {
  const auto rest = at.remaining();
  const std::string given = rest.empty() ? "" : rest.front();
  // What is left behind "--" is no flag, whatever it looks like.
  if (given == "--" && rest.size() > 1)
    return "'" + rest[1] + "' is not expected here: flags go before '--'";
  std::vector<std::string> known;
  if (given.rfind('-', 0) != 0) {
    for (const auto* sub : at.get_subcommands({}))
      known.push_back(sub->get_name());
    if (known.empty()) return "'" + given + "' is not expected here";
    const std::string nearest = NearestName(given, known);
    return "there is no command '" + given + "'" +
           (nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
  for (const auto* option : at.get_options())
    for (const auto& name : option->get_lnames())
      known.push_back(name);
  const size_t start = given.find_first_not_of('-');
  const std::string bare =
      start == std::string::npos ? "" : given.substr(start, given.find('=') - start);
  const std::string nearest = NearestName(bare, known);
  const std::string text = "unknown flag " + given.substr(0, given.find('='));
  if (!nearest.empty()) return text + "; did you mean --" + nearest + "?";
  const auto* session = at.get_option_no_throw(kSessionName);
  if (session == nullptr || session->count() > 0) return text;
  return text +
         "; a session whose name begins with a dash goes last, after '--': " + CommandName(at) +
         " -- " + given;
}

// What CLI11 says of a flag without its value, in words: "--model: 1 required TEXT missing".
std::string MissingValue(const CLI::App& at, const std::string& said) {
  const std::string name = said.substr(0, said.find(':'));
  const auto* option = at.get_option_no_throw(name);
  if (option == nullptr) return said;
  return name + " needs a value: " + name + " " + option->get_option_text();
}

// And of a value of another kind: "Could not convert: --max-tokens = x".
std::string WrongValue(const CLI::App& at, const std::string& said) {
  const size_t begin = said.find('-');
  const size_t equals = said.find(" = ");
  if (begin == std::string::npos || equals == std::string::npos || equals < begin) return said;
  const std::string name = said.substr(begin, equals - begin);
  const auto* option = at.get_option_no_throw(name);
  if (option == nullptr) return said;
  const std::string kind = option->get_type_name();
  const std::string problem =
      kind == "INT"     ? "not a whole number up to " + std::to_string(INT32_MAX)
      : kind == "UINT"  ? "not a whole number from 0 to " + std::to_string(UINT64_MAX)
      : kind == "FLOAT" ? "not a number, such as 0.7"
                        : "neither true nor false";
  return name + ": '" + said.substr(equals + 3) + "' is " + problem;
}

// 0 to go on, else *exit holds the status.
bool Parse(CLI::App& app, const std::vector<std::string>& args, const CommandStreams& streams,
           int& status) {
  // CLI11 throws by design; this is the one place that sees it.
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return true;
  } catch (const CLI::CallForHelp&) {
    streams.out << app.help();
    status = 0;
  } catch (const CLI::CallForAllHelp&) {
    streams.out << app.help("", CLI::AppFormatMode::All);
    status = 0;
  } catch (const CLI::ExtrasError&) {
    status = UsageError(*Deepest(app), UnknownArgument(*Deepest(app)), streams);
  } catch (const CLI::RequiredError& error) {
    const CLI::App& at = *Deepest(app);
    std::string message = error.what();
    if (!at.remaining().empty()) {
      message = UnknownArgument(at);
    } else if (!at.get_subcommands({}).empty()) {
      message = "'" + CommandName(at) + "' needs a command: " + SubcommandNames(at);
    }
    status = UsageError(at, message, streams);
  } catch (const CLI::ArgumentMismatch& error) {
    status = UsageError(*Deepest(app), MissingValue(*Deepest(app), error.what()), streams);
  } catch (const CLI::ConversionError& error) {
    status = UsageError(*Deepest(app), WrongValue(*Deepest(app), error.what()), streams);
  } catch (const CLI::Error& error) {
    status = UsageError(*Deepest(app), error.what(), streams);
  }
  return false;
}

std::vector<FlagValue> GivenFlags(const CLI::App& app, const Parsed& parsed) {
  std::vector<FlagValue> flags;
  const auto fields = ConfigFields();
  for (size_t i = 0; i < fields.size(); ++i)
    if (app.count("--" + std::string(fields[i].name)) > 0) flags.push_back({i, parsed.raw[i]});
  return flags;
}

void WarnIfKeyIsOpen(const EffectiveConfig& config, const CommandStreams& streams) {
  const auto fields = ConfigFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].kind != FieldKind::kSecret || config.origins[i] != Origin::kFile) continue;
    struct stat info {};
    if (::stat(config.file.c_str(), &info) == 0 && (info.st_mode & 077) != 0)
      streams.err << "tenuto: warning: " << config.file << " holds " << fields[i].name
                  << " and others can read it; chmod 600 " << config.file << "\n";
  }
}

// Text where a person reads along, unless a format was chosen.
bool LogsAsText(LogFormatChoice choice) {
  if (choice == LogFormatChoice::kAuto) return ::isatty(STDERR_FILENO) != 0;
  return choice == LogFormatChoice::kText;
}

int RunWithConfig(const CLI::App& app, const Parsed& parsed, const Environment& environment,
                  const CommandHandlers& handlers, const CommandStreams& streams) {
  const auto loaded = LoadConfig(parsed.config_file, environment, GivenFlags(app, parsed));
  if (!loaded) return UsageError(app, loaded.error().message(), streams);
  if (parsed.print_config) {
    streams.out << PrintConfig(*loaded);
    return 0;
  }
  if (const auto good = CheckConfig(loaded->values); !good)
    return UsageError(app, good.error().message(), streams);
  WarnIfKeyIsOpen(*loaded, streams);
  SetLogLevel(loaded->values.log_level);
  SetLogFormatText(LogsAsText(loaded->values.log_format));
  WarnOfUnknownVariables(handlers.variables());
  if (app.get_name() == "verify") return handlers.verify(loaded->values, parsed.verify_session);
  return parsed.check ? handlers.check(loaded->values) : handlers.serve(loaded->values);
}

int RunStoreless(const Commands& commands, Parsed& parsed, const Environment& environment,
                 const CommandHandlers& handlers, const CommandStreams& streams) {
  const auto variable = [&](const char* name) { return environment(name).value_or(""); };
  if (commands.chat->parsed()) {
    if (parsed.chat.api_key.empty()) parsed.chat.api_key = variable("TENUTO_API_KEY");
    return handlers.chat(parsed.chat);
  }
  auto& store = parsed.sessions.store;
  if (store.empty()) store = variable("TENUTO_STORE");
  if (store.empty()) store = DefaultStorePath(variable("XDG_DATA_HOME"), variable("HOME"));
  if (store.empty())
    return UsageError(
        *commands.sessions,
        "no folder for the store: neither XDG_DATA_HOME nor HOME is set; use --store DIR", streams);
  return handlers.sessions(parsed.sessions);
}

}  // namespace

std::vector<std::string> RewriteShortFlags(const std::vector<std::string>& args) {
  std::vector<std::string> rewritten;
  bool open = true;
  for (const auto& arg : args) {
    open = open && arg != "--";
    std::string text = arg;
    const size_t equals = arg.find('=');
    const std::string name = arg.substr(0, equals);
    for (const auto& field : ConfigFields()) {
      if (!open || field.short_flag.size() <= 2 || field.short_flag != name) continue;
      text =
          "--" + std::string(field.name) + (equals == std::string::npos ? "" : arg.substr(equals));
    }
    rewritten.push_back(std::move(text));
  }
  return rewritten;
}

namespace {

// "help", "help COMMAND" and "version", as other programs have them.
std::vector<std::string> RewriteWords(std::vector<std::string> args) {
  if (args.empty()) return args;
  if (args[0] == "version") args[0] = "--version";
  if (args[0] != "help") return args;
  args.erase(args.begin());
  args.emplace_back("--help");
  return args;
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& given, const Environment& environment,
                   const CommandHandlers& handlers, const CommandStreams& streams) {
  const std::vector<std::string> args = RewriteWords(given);
  CLI::App app(kAbout, "tenuto");
  app.formatter(std::make_shared<HelpFormatter>());
  Parsed parsed;
  const Commands commands = AddCommands(app, parsed);
  int status = 0;
  const bool engine_flags = !args.empty() && (args[0] == "serve" || args[0] == "verify");
  if (!Parse(app, engine_flags ? RewriteShortFlags(args) : args, streams, status)) return status;
  if (parsed.version) {
    streams.out << handlers.version();
    return 0;
  }
  for (const CLI::App* command : {commands.serve, commands.verify})
    if (command->parsed()) return RunWithConfig(*command, parsed, environment, handlers, streams);
  if (app.get_subcommands().empty()) {
    streams.err << app.help();
    return kExitUsage;
  }
  return RunStoreless(commands, parsed, environment, handlers, streams);
}

}  // namespace tenuto
