#include "recall/dates.h"

#include <gtest/gtest.h>

namespace tenuto {
namespace {

// Friday, 10 May 2024, 12:00 at +02:00.
Moment Now() {
  Moment moment;
  EXPECT_TRUE(ParseMoment("2024-05-10T12:00:00+02:00", moment));
  return moment;
}

std::vector<std::string> Days(std::string_view text) {
  const std::string clean = CleanText(text, 10000);
  std::vector<std::string> found;
  for (const DateMention& date : FindDates(clean, LexText(clean), Now())) {
    found.push_back(DayText(date.day));
  }
  return found;
}

using Texts = std::vector<std::string>;

TEST(DatesTest, OneDayInManySpellings) {
  for (const char* text : {"on 2024-05-03 we",
                           "3 May 2024",
                           "May 3rd, 2024",
                           "May 3, 2024",
                           "3rd of May 2024",
                           "3. Mai 2024",
                           "3.5.2024",
                           "03.05.24",
                           "2024/05/03",
                           "2024.5.3",
                           "3 mai 2024",
                           "le 3 mai 2024",
                           "3 de mayo de 2024",
                           "3 maggio 2024",
                           "3 mei 2024",
                           "the third of May 2024",
                           "May the third, 2024",
                           "am dritten Mai 2024",
                           "third of May, 2024",
                           "2024\u5e745\u67083\u65e5\u53bb",
                           "\u4ee4\u548c6\u5e745\u67083\u65e5",
                           "3 \u0e1e\u0e24\u0e29\u0e20\u0e32\u0e04\u0e21 2567",
                           "3 \u043c\u0430\u044f 2024"}) {
    EXPECT_EQ(Days(text), Texts{"2024-05-03"}) << text;
  }
}

TEST(DatesTest, WithoutAYear) {
  for (const char* text :
       {"May 3rd", "3 May", "3. Mai war", "1\u5e74 5\u67083\u53f7", "the 3rd of May"}) {
    const Texts days = Days(text);
    ASSERT_FALSE(days.empty()) << text;
    EXPECT_EQ(days.back(), "05-03") << text;
  }
  EXPECT_EQ(LatestYear({0, 5, 3}, {2024, 5, 10}), (Day{2024, 5, 3}));
  EXPECT_EQ(LatestYear({0, 12, 24}, {2024, 5, 10}), (Day{2023, 12, 24}));
  EXPECT_EQ(LatestYear({0, 2, 29}, {2023, 5, 10}), (Day{2020, 2, 29}));
}

TEST(DatesTest, DaysInWords) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"the twenty-first of March", "03-21"}, {"twenty first of June", "06-21"},
      {"October thirty-first", "10-31"},      {"am einunddrei\u00dfigsten Dezember", "12-31"},
      {"am ersten M\u00e4rz", "03-01"},       {"the twentieth of August", "08-20"},
      {"on April first they left", "04-01"},  {"\u0641\u064a 9 \u0645\u0627\u064a\u0648", "05-09"},
      {"thirtieth of November", "11-30"},
  };
  for (const auto& [text, day] : cases)
    EXPECT_EQ(Days(text), Texts{day}) << text;
}

TEST(DatesTest, RelativeWords) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"yesterday", "2024-05-09"},
      {"\u0631\u0623\u064a\u062a\u0647 \u0623\u0645\u0633", "2024-05-09"},
      {"\u0623\u0648\u0644 \u0623\u0645\u0633", "2024-05-08"},
      {"\u064a\u0648\u0645 \u0627\u0644\u062b\u0644\u0627\u062b\u0627\u0621 "
       "\u0627\u0644\u0645\u0627\u0636\u064a",
       "2024-05-07"},
      {"the day before yesterday", "2024-05-08"},
      {"last Tuesday", "2024-05-07"},
      {"last Friday", "2024-05-03"},
      {"three days ago", "2024-05-07"},
      {"a week ago", "2024-05-03"},
      {"gestern", "2024-05-09"},
      {"vorgestern", "2024-05-08"},
      {"vor zwei Tagen", "2024-05-08"},
      {"vor einer Woche", "2024-05-03"},
      {"letzten Dienstag", "2024-05-07"},
      {"avant-hier", "2024-05-08"},
      {"il y a 3 jours", "2024-05-07"},
      {"mardi dernier", "2024-05-07"},
      {"aujourd'hui", "2024-05-10"},
      {"hace dos d\u00edas", "2024-05-08"},
      {"3 giorni fa", "2024-05-07"},
      {"\u6211\u6628\u5929\u53bb", "2024-05-09"},
      {"\u4e24\u5929\u524d", "2024-05-08"},
      {"5\u5929\u524d", "2024-05-05"},
      {"\u4e0a\u4e2a\u661f\u671f\u4e8c", "2024-05-07"},
      {"\u6628\u65e5\u306f", "2024-05-09"},
      {"3\u65e5\u524d\u306b", "2024-05-07"},
      {"\u0e40\u0e21\u0e37\u0e48\u0e2d\u0e27\u0e32\u0e19", "2024-05-09"},
  };
  for (const auto& [text, day] : cases)
    EXPECT_EQ(Days(text), Texts{day}) << text;
}

TEST(DatesTest, WhatIsNoDay) {
  for (const char* text :
       {"may I go", "31.2.2024", "2024-13-01", "version 1.2.3", "room 12/14", "march on", "5 days",
        "on the third", "the second may come", "you may first ask", "march second in line",
        "twenty of May", "the ninth", "99 May", "1234567890-01-01", "a", ""}) {
    EXPECT_EQ(Days(text), Texts{}) << text;
  }
}

TEST(DatesTest, TheZoneDecidesTheDay) {
  Moment moment;
  ASSERT_TRUE(ParseMoment("2024-05-10T23:30:00Z", moment));
  EXPECT_EQ(DayOf(moment), (Day{2024, 5, 10}));
  moment.zone_s = 3600;
  EXPECT_EQ(DayOf(moment), (Day{2024, 5, 11}));
  EXPECT_EQ(DayOf({-1, 0}), (Day{1969, 12, 31}));
}

TEST(DatesTest, Moments) {
  Moment moment;
  ASSERT_TRUE(ParseMoment("1970-01-02T00:00:00+01:00", moment));
  EXPECT_EQ(moment.unix_s, 86400 - 3600);
  EXPECT_TRUE(ParseMoment("2024-02-29T10:00:00.123Z", moment));
  for (const char* text : {"", "2024-05-10", "2023-02-29T10:00:00Z", "2024-05-10T25:00:00Z",
                           "2024-05-10T10:00:00+99:00", "2024-05-10T10:00:00 CET"}) {
    EXPECT_FALSE(ParseMoment(text, moment)) << text;
  }
}

TEST(DatesTest, MentionsAreBoundedAndInOrder) {
  std::string text;
  for (int i = 0; i < 500; ++i)
    text += "2024-05-03 ";
  const std::string clean = CleanText(text, text.size());
  const auto found = FindDates(clean, LexText(clean), Now());
  ASSERT_EQ(found.size(), kDateMentionsMax);
  for (size_t i = 1; i < found.size(); ++i)
    EXPECT_LE(found[i - 1].end, found[i].begin);
  EXPECT_EQ(clean.substr(found[1].begin, found[1].end - found[1].begin), "2024-05-03");
}

}  // namespace
}  // namespace tenuto
