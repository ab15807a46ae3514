#include "recall/date_words.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "recall/lex.h"

namespace tenuto {
namespace {

// By month, spellings of all languages.
constexpr std::array<std::string_view, 12> kMonths = {
    "january \u064a\u0646\u0627\u064a\u0631 jan januar j\u00e4nner jan. janvier janv enero ene "
    "gennaio gen janeiro januari \u044f"
    "\u043d\u0432\u0430\u0440\u044c \u044f\u043d\u0432\u0430\u0440\u044f \u044f\u043d\u0432 \u0e21"
    "\u0e01\u0e23\u0e32\u0e04\u0e21 \u0e21.\u0e04",
    "february \u0641\u0628\u0631\u0627\u064a\u0631 feb februar feber f\u00e9vrier f\u00e9vr "
    "f\u00e9v febrero febbraio fevereiro fev feb"
    "ruari \u0444\u0435\u0432\u0440\u0430\u043b\u044c \u0444\u0435\u0432\u0440\u0430\u043b\u044f "
    "\u0444\u0435\u0432 \u0e01\u0e38\u0e21\u0e20\u0e32\u0e1e\u0e31\u0e19\u0e18\u0e4c",
    "march \u0645\u0627\u0631\u0633 mar m\u00e4rz mrz mars marzo mar\u00e7o maart mrt "
    "\u043c\u0430\u0440\u0442 \u043c\u0430"
    "\u0440\u0442\u0430 \u0e21\u0e35\u0e19\u0e32\u0e04\u0e21",
    "april \u0623\u0628\u0631\u064a\u0644 apr avril avr abril abr aprile "
    "\u0430\u043f\u0440\u0435\u043b\u044c \u0430\u043f\u0440"
    "\u0435\u043b\u044f \u0430\u043f\u0440 \u0e40\u0e21\u0e29\u0e32\u0e22\u0e19",
    "may \u0645\u0627\u064a\u0648 mai mayo maggio mag maio mei maj \u043c\u0430\u0439 "
    "\u043c\u0430\u044f \u0e1e\u0e24\u0e29"
    "\u0e20\u0e32\u0e04\u0e21",
    "june \u064a\u0648\u0646\u064a\u0648 jun juni juin junio giugno giu junho "
    "\u0438\u044e\u043d\u044c \u0438\u044e\u043d\u044f "
    "\u0438\u044e\u043d \u0e21\u0e34\u0e16\u0e38\u0e19\u0e32\u0e22\u0e19",
    "july \u064a\u0648\u0644\u064a\u0648 jul juli juillet juil julio luglio lug julho "
    "\u0438\u044e\u043b\u044c \u0438\u044e\u043b"
    "\u044f \u0438\u044e\u043b \u0e01\u0e23\u0e01\u0e0e\u0e32\u0e04\u0e21",
    "august \u0623\u063a\u0633\u0637\u0633 aug ao\u00fbt aou agosto ago augustus augusti "
    "\u0430\u0432\u0433\u0443\u0441\u0442 "
    "\u0430\u0432\u0433\u0443\u0441\u0442\u0430 \u0430\u0432\u0433 \u0e2a\u0e34\u0e07\u0e2b\u0e32"
    "\u0e04\u0e21",
    "september \u0633\u0628\u062a\u0645\u0628\u0631 sep sept septembre septiembre settembre "
    "setembro set \u0441\u0435\u043d\u0442\u044f"
    "\u0431\u0440\u044c \u0441\u0435\u043d\u0442\u044f\u0431\u0440\u044f \u0441\u0435\u043d \u0e01"
    "\u0e31\u0e19\u0e22\u0e32\u0e22\u0e19",
    "october \u0623\u0643\u062a\u0648\u0628\u0631 oct oktober okt octobre octubre ottobre ott "
    "outubro out \u043e\u043a\u0442\u044f"
    "\u0431\u0440\u044c \u043e\u043a\u0442\u044f\u0431\u0440\u044f \u043e\u043a\u0442 \u0e15\u0e38"
    "\u0e25\u0e32\u0e04\u0e21",
    "november \u0646\u0648\u0641\u0645\u0628\u0631 nov novembre noviembre novembro "
    "\u043d\u043e\u044f\u0431\u0440\u044c \u043d\u043e"
    "\u044f\u0431\u0440\u044f \u043d\u043e\u044f \u0e1e\u0e24\u0e28\u0e08\u0e34\u0e01\u0e32\u0e22"
    "\u0e19",
    "december \u062f\u064a\u0633\u0645\u0628\u0631 dec dezember dez d\u00e9cembre d\u00e9c "
    "diciembre dic dicembre dezembro \u0434\u0435"
    "\u043a\u0430\u0431\u0440\u044c \u0434\u0435\u043a\u0430\u0431\u0440\u044f \u0434\u0435\u043a "
    "\u0e18\u0e31\u0e19\u0e27\u0e32\u0e04\u0e21",
};
constexpr std::array<std::string_view, 7> kWeekdays = {
    "monday \u0627\u0644\u0627\u062b\u0646\u064a\u0646 mon montag montags lundi lunes luned\u00ec "
    "segunda maandag m\u00e5ndag \u043f\u043e"
    "\u043d\u0435\u0434\u0435\u043b\u044c\u043d\u0438\u043a \u0e27\u0e31\u0e19\u0e08\u0e31\u0e19"
    "\u0e17\u0e23\u0e4c",
    "tuesday \u0627\u0644\u062b\u0644\u0627\u062b\u0627\u0621 tue tues dienstag mardi martes "
    "marted\u00ec ter\u00e7a dinsdag tisdag \u0432\u0442"
    "\u043e\u0440\u043d\u0438\u043a \u0e27\u0e31\u0e19\u0e2d\u0e31\u0e07\u0e04\u0e32\u0e23",
    "wednesday \u0627\u0644\u0623\u0631\u0628\u0639\u0627\u0621 wed mittwoch mercredi "
    "mi\u00e9rcoles mercoled\u00ec quarta woensdag onsdag \u0441"
    "\u0440\u0435\u0434\u0430 \u0441\u0440\u0435\u0434\u0443 \u0e27\u0e31\u0e19\u0e1e\u0e38\u0e18",
    "thursday \u0627\u0644\u062e\u0645\u064a\u0633 thu thur thurs donnerstag jeudi jueves "
    "gioved\u00ec quinta donderdag torsdag \u0447"
    "\u0435\u0442\u0432\u0435\u0440\u0433 \u0e27\u0e31\u0e19\u0e1e\u0e24\u0e2b\u0e31\u0e2a\u0e1a"
    "\u0e14\u0e35",
    "friday \u0627\u0644\u062c\u0645\u0639\u0629 fri freitag vendredi viernes venerd\u00ec sexta "
    "vrijdag fredag \u043f\u044f\u0442"
    "\u043d\u0438\u0446\u0430 \u043f\u044f\u0442\u043d\u0438\u0446\u0443 \u0e27\u0e31\u0e19\u0e28"
    "\u0e38\u0e01\u0e23\u0e4c",
    "saturday \u0627\u0644\u0633\u0628\u062a sat samstag sonnabend samedi s\u00e1bado sabato "
    "zaterdag l\u00f6rdag \u0441\u0443"
    "\u0431\u0431\u043e\u0442\u0430 \u0441\u0443\u0431\u0431\u043e\u0442\u0443 \u0e27\u0e31\u0e19"
    "\u0e40\u0e2a\u0e32\u0e23\u0e4c",
    "sunday \u0627\u0644\u0623\u062d\u062f sun sonntag dimanche domingo domenica zondag "
    "s\u00f6ndag \u0432\u043e\u0441\u043a"
    "\u0440\u0435\u0441\u0435\u043d\u044c\u0435 \u0e27\u0e31\u0e19\u0e2d\u0e32\u0e17\u0e34\u0e15"
    "\u0e22\u0e4c",
};
// One to twelve.
constexpr std::array<std::string_view, 12> kNumbers = {
    "one a an ein eine einem einer un une uno una um uma een \u00e9\u00e9n en ett \u043e\u0434"
    "\u0438\u043d \u043e\u0434\u043d\u0443",
    "two couple zwei zweien deux dos due dois duas twee tv\u00e5 \u0434\u0432\u0430 \u0434\u0432"
    "\u0435",
    "three drei dreien trois tres tre tr\u00eas drie \u0442\u0440\u0438",
    "four vier vieren quatre cuatro quattro quatro fyra \u0447\u0435\u0442\u044b\u0440\u0435",
    "five f\u00fcnf cinq cinco cinque vijf fem \u043f\u044f\u0442\u044c",
    "six sechs seis sei zes sex \u0448\u0435\u0441\u0442\u044c",
    "seven sieben sept siete sette sete zeven sju \u0441\u0435\u043c\u044c",
    "eight acht huit ocho otto oito \u00e5tta \u0432\u043e\u0441\u0435\u043c\u044c",
    "nine neun neuf nueve nove negen nio \u0434\u0435\u0432\u044f\u0442\u044c",
    "ten zehn dix diez dieci dez tien tio \u0434\u0435\u0441\u044f\u0442\u044c",
    "eleven elf onze once undici elva \u043e\u0434\u0438\u043d\u043d\u0430\u0434\u0446\u0430\u0442"
    "\u044c",
    "twelve zw\u00f6lf douze doce dodici doze twaalf tolv \u0434\u0432\u0435\u043d\u0430\u0434"
    "\u0446\u0430\u0442\u044c",
};
constexpr std::array<RelativePhrase, 71> kRelative = {{
    {"the day before yesterday", -2},
    {"day before yesterday", -2},
    {"the day after tomorrow", 2},
    {"the other day", 0},
    {"yesterday", -1},
    {"last night", -1},
    {"today", 0},
    {"this morning", 0},
    {"this afternoon", 0},
    {"this evening", 0},
    {"tonight", 0},
    {"tomorrow", 1},
    {"vorgestern", -2},
    {"gestern", -1},
    {"heute", 0},
    {"\u00fcbermorgen", 2},
    {"letzte nacht", -1},
    {"avant hier", -2},
    {"hier soir", -1},
    {"hier", -1},
    {"aujourd hui", 0},
    {"ce matin", 0},
    {"ce soir", 0},
    {"cet apr\u00e8s midi", 0},
    {"la veille", -1},
    {"demain", 1},
    {"anteayer", -2},
    {"antes de ayer", -2},
    {"ayer", -1},
    {"anoche", -1},
    {"hoy", 0},
    {"esta ma\u00f1ana", 0},
    {"l altro ieri", -2},
    {"altro ieri", -2},
    {"ieri sera", -1},
    {"ieri", -1},
    {"oggi", 0},
    {"stamattina", 0},
    {"domani", 1},
    {"anteontem", -2},
    {"ontem", -1},
    {"hoje", 0},
    {"amanh\u00e3", 1},
    {"eergisteren", -2},
    {"gisteren", -1},
    {"vandaag", 0},
    {"vanmorgen", 0},
    {"i f\u00f6rrg\u00e5r", -2},
    {"ig\u00e5r", -1},
    {"i g\u00e5r", -1},
    {"idag", 0},
    {"i dag", 0},
    {"\u043f\u043e\u0437\u0430\u0432\u0447\u0435\u0440\u0430", -2},
    {"\u0432\u0447\u0435\u0440\u0430", -1},
    {"\u0441\u0435\u0433\u043e\u0434\u043d\u044f", 0},
    {"\u0437\u0430\u0432\u0442\u0440\u0430", 1},
    {"\u0623\u0648\u0644 \u0623\u0645\u0633", -2},
    {"\u0623\u0645\u0633", -1},
    {"\u0627\u0645\u0633", -1},
    {"\u0627\u0644\u0628\u0627\u0631\u062d\u0629", -1},
    {"\u0627\u0644\u064a\u0648\u0645", 0},
    {"\u063a\u062f\u0627", 1},
    {"\u063a\u062f\u0627\u064b", 1},
    {"", 0},
}};

// By day of the month. English makes those above twenty of two words: TensWord.
constexpr std::array<std::string_view, 31> kOrdinals = {
    "first ersten erster erste",
    "second zweiten zweiter zweite",
    "third dritten dritter dritte",
    "fourth vierten vierter vierte",
    "fifth f\u00fcnften f\u00fcnfter f\u00fcnfte",
    "sixth sechsten sechster sechste",
    "seventh siebten siebter siebte siebenten",
    "eighth achten achter achte",
    "ninth neunten neunter neunte",
    "tenth zehnten zehnter zehnte",
    "eleventh elften elfter elfte",
    "twelfth zw\u00f6lften zw\u00f6lfter zw\u00f6lfte",
    "thirteenth dreizehnten dreizehnter dreizehnte",
    "fourteenth vierzehnten vierzehnter vierzehnte",
    "fifteenth f\u00fcnfzehnten f\u00fcnfzehnter f\u00fcnfzehnte",
    "sixteenth sechzehnten sechzehnter sechzehnte",
    "seventeenth siebzehnten siebzehnter siebzehnte",
    "eighteenth achtzehnten achtzehnter achtzehnte",
    "nineteenth neunzehnten neunzehnter neunzehnte",
    "twentieth zwanzigsten zwanzigster zwanzigste",
    "einundzwanzigsten einundzwanzigster einundzwanzigste",
    "zweiundzwanzigsten zweiundzwanzigster zweiundzwanzigste",
    "dreiundzwanzigsten dreiundzwanzigster dreiundzwanzigste",
    "vierundzwanzigsten vierundzwanzigster vierundzwanzigste",
    "f\u00fcnfundzwanzigsten f\u00fcnfundzwanzigster f\u00fcnfundzwanzigste",
    "sechsundzwanzigsten sechsundzwanzigster sechsundzwanzigste",
    "siebenundzwanzigsten siebenundzwanzigster siebenundzwanzigste",
    "achtundzwanzigsten achtundzwanzigster achtundzwanzigste",
    "neunundzwanzigsten neunundzwanzigster neunundzwanzigste",
    "thirtieth drei\u00dfigsten drei\u00dfigster drei\u00dfigste dreissigsten",
    "einunddrei\u00dfigsten einunddrei\u00dfigster einunddrei\u00dfigste einunddreissigsten",
};

using Table = std::unordered_map<std::string, int32_t>;

template <size_t kCount>
Table TableOf(const std::array<std::string_view, kCount>& rows, int32_t first) {
  Table table;
  for (size_t i = 0; i < kCount; ++i) {
    std::string_view left = rows[i];
    while (!left.empty()) {
      const size_t end = std::min(left.find(' '), left.size());
      table.emplace(left.substr(0, end), first + static_cast<int32_t>(i));
      left.remove_prefix(std::min(end + 1, left.size()));
    }
  }
  return table;
}

std::optional<int32_t> Look(const Table& table, std::string_view word) {
  const auto found = table.find(std::string(word));
  if (found == table.end()) return std::nullopt;
  return found->second;
}

bool In(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// {phrase, days}: the first that fits wins, so longer ones stand first.
constexpr std::array<std::pair<std::string_view, int32_t>, 30> kDenseDays = {{
    {"\u5927\u524d\u5929", -3},
    {"\u524d\u5929", -2},
    {"\u6628\u5929", -1},
    {"\u6628\u665a", -1},
    {"\u6628\u591c", -1},
    {"\u4eca\u5929", 0},
    {"\u4eca\u65e9", 0},
    {"\u4eca\u665a", 0},
    {"\u660e\u5929", 1},
    {"\u4e00\u6628\u65e5", -2},
    {"\u304a\u3068\u3068\u3044", -2},
    {"\u6628\u65e5", -1},
    {"\u304d\u306e\u3046", -1},
    {"\u6628\u6669", -1},
    {"\u3086\u3046\u3079", -1},
    {"\u4eca\u65e5", 0},
    {"\u304d\u3087\u3046", 0},
    {"\u4eca\u671d", 0},
    {"\u4eca\u591c", 0},
    {"\u660e\u65e5", 1},
    {"\u0e40\u0e21\u0e37\u0e48\u0e2d\u0e27\u0e32\u0e19\u0e0b\u0e37\u0e19", -2},
    {"\u0e27\u0e32\u0e19\u0e0b\u0e37\u0e19", -2},
    {"\u0e40\u0e21\u0e37\u0e48\u0e2d\u0e27\u0e32\u0e19\u0e19\u0e35\u0e49", -1},
    {"\u0e40\u0e21\u0e37\u0e48\u0e2d\u0e27\u0e32\u0e19", -1},
    {"\u0e40\u0e21\u0e37\u0e48\u0e2d\u0e04\u0e37\u0e19", -1},
    {"\u0e27\u0e31\u0e19\u0e19\u0e35\u0e49", 0},
    {"\u0e40\u0e0a\u0e49\u0e32\u0e19\u0e35\u0e49", 0},
    {"\u0e04\u0e37\u0e19\u0e19\u0e35\u0e49", 0},
    {"\u0e1e\u0e23\u0e38\u0e48\u0e07\u0e19\u0e35\u0e49", 1},
    {"\u4e00\u5468\u524d", -7},
}};
constexpr std::array<std::pair<std::string_view, int32_t>, 11> kDenseNumbers = {{
    {"\u4e00", 1},
    {"\u4e8c", 2},
    {"\u4e24", 2},
    {"\u4e09", 3},
    {"\u56db", 4},
    {"\u4e94", 5},
    {"\u516d", 6},
    {"\u4e03", 7},
    {"\u516b", 8},
    {"\u4e5d", 9},
    {"\u5341", 10},
}};
constexpr std::array<std::pair<std::string_view, int32_t>, 13> kDenseUnits = {{
    {"\u5929\u524d", 1},
    {"\u5929\u4ee5\u524d", 1},
    {"\u5468\u524d", 7},
    {"\u4e2a\u661f\u671f\u524d", 7},
    {"\u661f\u671f\u524d", 7},
    {"\u65e5\u524d", 1},
    {"\u9031\u9593\u524d", 7},
    {"\u0e27\u0e31\u0e19\u0e01\u0e48\u0e2d\u0e19", 1},
    {"\u0e27\u0e31\u0e19\u0e17\u0e35\u0e48\u0e41\u0e25\u0e49\u0e27", 1},
    {"\u0e2a\u0e31\u0e1b\u0e14\u0e32\u0e2b\u0e4c\u0e01\u0e48\u0e2d\u0e19", 7},
    {"\u0e2a\u0e31\u0e1b\u0e14\u0e32\u0e2b\u0e4c\u0e17\u0e35\u0e48\u0e41\u0e25\u0e49\u0e27", 7},
    {"\u0e2d\u0e32\u0e17\u0e34\u0e15\u0e22\u0e4c\u0e01\u0e48\u0e2d\u0e19", 7},
    {"\u0e2d\u0e32\u0e17\u0e34\u0e15\u0e22\u0e4c\u0e17\u0e35\u0e48\u0e41\u0e25\u0e49\u0e27", 7},
}};
constexpr std::array<std::pair<std::string_view, int32_t>, 36> kDenseWeekdays = {{
    {"\u661f\u671f\u4e00", 0},
    {"\u661f\u671f\u4e8c", 1},
    {"\u661f\u671f\u4e09", 2},
    {"\u661f\u671f\u56db", 3},
    {"\u661f\u671f\u4e94", 4},
    {"\u661f\u671f\u516d", 5},
    {"\u661f\u671f\u65e5", 6},
    {"\u661f\u671f\u5929", 6},
    {"\u5468\u4e00", 0},
    {"\u5468\u4e8c", 1},
    {"\u5468\u4e09", 2},
    {"\u5468\u56db", 3},
    {"\u5468\u4e94", 4},
    {"\u5468\u516d", 5},
    {"\u5468\u65e5", 6},
    {"\u793c\u62dc\u4e00", 0},
    {"\u793c\u62dc\u4e8c", 1},
    {"\u793c\u62dc\u4e09", 2},
    {"\u793c\u62dc\u56db", 3},
    {"\u793c\u62dc\u4e94", 4},
    {"\u793c\u62dc\u516d", 5},
    {"\u793c\u62dc\u5929", 6},
    {"\u6708\u66dc", 0},
    {"\u706b\u66dc", 1},
    {"\u6c34\u66dc", 2},
    {"\u6728\u66dc", 3},
    {"\u91d1\u66dc", 4},
    {"\u571f\u66dc", 5},
    {"\u65e5\u66dc", 6},
    {"\u0e27\u0e31\u0e19\u0e08\u0e31\u0e19\u0e17\u0e23\u0e4c", 0},
    {"\u0e27\u0e31\u0e19\u0e2d\u0e31\u0e07\u0e04\u0e32\u0e23", 1},
    {"\u0e27\u0e31\u0e19\u0e1e\u0e38\u0e18", 2},
    {"\u0e27\u0e31\u0e19\u0e1e\u0e24\u0e2b\u0e31\u0e2a", 3},
    {"\u0e27\u0e31\u0e19\u0e28\u0e38\u0e01\u0e23\u0e4c", 4},
    {"\u0e27\u0e31\u0e19\u0e40\u0e2a\u0e32\u0e23\u0e4c", 5},
    {"\u0e27\u0e31\u0e19\u0e2d\u0e32\u0e17\u0e34\u0e15\u0e22\u0e4c", 6},
}};
constexpr std::array<std::string_view, 8> kDenseLast = {"\u4e0a\u4e2a",
                                                        "\u4e0a",
                                                        "\u5148\u9031\u306e",
                                                        "\u3053\u306e\u524d\u306e",
                                                        "\u524d\u306e",
                                                        "\u5148\u65e5"
                                                        "\u306e",
                                                        "\u8fd9\u4e2a",
                                                        "\u8fd9"};

// The entry's number and its bytes, 0 bytes where none is at the front.
template <size_t kCount>
std::pair<int32_t, size_t> At(std::string_view text,
                              const std::array<std::pair<std::string_view, int32_t>, kCount>& all) {
  for (const auto& [phrase, number] : all) {
    if (text.starts_with(phrase)) return {number, phrase.size()};
  }
  return {0, 0};
}

}  // namespace

std::optional<int32_t> MonthOf(std::string_view word) {
  static const Table kTable = TableOf(kMonths, 1);
  return Look(kTable, word);
}

std::optional<int32_t> WeekdayWord(std::string_view word) {
  static const Table kTable = TableOf(kWeekdays, 0);
  return Look(kTable, word);
}

std::optional<int32_t> SmallNumber(std::string_view word) {
  static const Table kTable = TableOf(kNumbers, 1);
  if (!word.empty() && word.size() <= 3 &&
      std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    int32_t number = 0;
    for (const char c : word)
      number = number * 10 + (c - '0');
    return number;
  }
  return Look(kTable, word);
}

std::optional<int32_t> OrdinalDay(std::string_view word) {
  static const Table kTable = TableOf(kOrdinals, 1);
  return Look(kTable, word);
}

int32_t TensWord(std::string_view word) {
  return word == "twenty" ? 20 : word == "thirty" ? 30 : 0;
}

std::optional<DenseRelative> DenseRelativeAt(std::string_view folded) {
  const auto [days, bytes] = At(folded, kDenseDays);
  if (bytes > 0) return DenseRelative{bytes, days, -1};
  const auto [number, number_bytes] = At(folded, kDenseNumbers);
  if (number_bytes > 0) {
    const auto [unit, unit_bytes] = At(folded.substr(number_bytes), kDenseUnits);
    if (unit_bytes > 0) return DenseRelative{number_bytes + unit_bytes, -number * unit, -1};
  }
  size_t before = 0;
  for (const std::string_view last : kDenseLast) {
    if (folded.starts_with(last)) {
      before = last.size();
      break;
    }
  }
  const auto [weekday, weekday_bytes] = At(folded.substr(before), kDenseWeekdays);
  if (weekday_bytes == 0) return std::nullopt;
  size_t taken = before + weekday_bytes;
  if (before == 0) {  // a bare weekday is too vague; Thai says "last" behind it
    size_t behind = 0;
    for (const std::string_view last :
         {"\u0e17\u0e35\u0e48\u0e41\u0e25\u0e49\u0e27", "\u0e01\u0e48\u0e2d\u0e19"}) {
      if (folded.substr(taken).starts_with(last)) behind = last.size();
    }
    if (behind == 0) return std::nullopt;
    taken += behind;
  }
  return DenseRelative{taken, 0, weekday};
}

const RelativePhrase* RelativePhrases() {
  return kRelative.data();
}

bool IsLastWord(std::string_view word) {
  return In(
      "\u0627\u0644\u0645\u0627\u0636\u064a \u0627\u0644\u0645\u0627\u0636\u064a\u0629 last past "
      "previous letzten letzter letzte vergangenen vorigen dernier derni\u00e8re "
      "pass\u00e9 pasado \u00faltimo scorso scorsa passado passada afgelopen vorige f\u00f6rr"
      "a \u043f\u0440\u043e\u0448\u043b\u044b\u0439 "
      "\u043f\u0440\u043e\u0448\u043b\u0443\u044e \u043f\u0440\u043e\u0448\u043b\u043e\u0435"
      " \u043f\u0440\u043e\u0448\u043b\u0430\u044f",
      word);
}

bool IsAgoBefore(std::string_view word) {
  return In("vor a hace h\u00e1 f\u00f6r", word);
}

bool IsAgoAfter(std::string_view word) {
  return In("ago fa atr\u00e1s geleden sedan \u043d\u0430\u0437\u0430\u0434 earlier", word);
}

int32_t DaysOfUnit(std::string_view word) {
  if (In("day days tag tage tagen jour jours d\u00eda d\u00edas giorno giorni dia dias dag dagen "
         "dagar "
         "\u0434\u0435\u043d\u044c \u0434\u043d\u044f \u0434\u043d\u0435\u0439",
         word)) {
    return 1;
  }
  if (In("week weeks woche wochen semaine semaines semana semanas settimana settimane weken vecka "
         "veckor \u043d\u0435\u0434\u0435\u043b\u044e \u043d\u0435\u0434\u0435\u043b\u0438 \u043d"
         "\u0435\u0434\u0435\u043b\u044c",
         word)) {
    return 7;
  }
  return 0;
}

bool IsOfWord(std::string_view word) {
  return In("of de di do del the", word);
}

bool IsOrdinalSuffix(std::string_view suffix) {
  return In("st nd rd th er \u00e8re o a e ter de", suffix);
}

}  // namespace tenuto
