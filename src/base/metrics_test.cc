#include "base/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <thread>
#include <vector>

namespace tenuto {
namespace {

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

TEST(Metrics, EmptyGivesNothing) {
  EXPECT_EQ(Metrics().Text(), "");
}

TEST(Metrics, SameNameAndLabelsIsTheSameObject) {
  Metrics metrics;
  Counter& a = metrics.GetCounter("tenuto_turns_total", "Turns.");
  Counter& b = metrics.GetCounter("tenuto_turns_total", "Turns.");
  Counter& other = metrics.GetCounter("tenuto_turns_total", "Turns.", "code=\"io\"");
  EXPECT_EQ(&a, &b);
  EXPECT_NE(&a, &other);
}

TEST(Metrics, ReferencesSurviveManyMore) {
  Metrics metrics;
  Gauge& first = metrics.GetGauge("g", "G.", "n=\"-1\"");
  for (int i = 0; i < 500; ++i)
    metrics.GetGauge("g", "G.", "n=\"" + std::to_string(i) + "\"");
  first.Set(-7);
  EXPECT_EQ(metrics.GetGauge("g", "G.", "n=\"-1\"").value(), -7);
}

TEST(Metrics, HelpAndTypeStandOnceBeforeAllLabelSets) {
  Metrics metrics;
  metrics.GetCounter("tenuto_errors_total", "Errors by code.", "code=\"io\"").Add(2);
  metrics.GetGauge("tenuto_live", "Live sessions.").Set(3);
  metrics.GetCounter("tenuto_errors_total", "Errors by code.", "code=\"denied\"").Add();
  EXPECT_EQ(metrics.Text(),
            "# HELP tenuto_errors_total Errors by code.\n"
            "# TYPE tenuto_errors_total counter\n"
            "tenuto_errors_total{code=\"io\"} 2\n"
            "tenuto_errors_total{code=\"denied\"} 1\n"
            "# HELP tenuto_live Live sessions.\n"
            "# TYPE tenuto_live gauge\n"
            "tenuto_live 3\n");
}

TEST(Metrics, LabelValuesAndHelpAreEscaped) {
  EXPECT_EQ(MetricLabel("path", "a\\b\"c\nd"), R"(path="a\\b\"c\nd")");
  Metrics metrics;
  metrics.GetCounter("c", "one\ntwo \\ \"three\"", MetricLabel("v", "x\"} 1\nevil 2"));
  EXPECT_EQ(metrics.Text(),
            "# HELP c one\\ntwo \\\\ \"three\"\n# TYPE c counter\nc{v=\"x\\\"} 1\\nevil 2\"} 0\n");
}

TEST(Metrics, HistogramBucketsAreCumulative) {
  Metrics metrics;
  Histogram& histogram = metrics.GetHistogram("tenuto_wait_seconds", "Waiting.", "kind=\"a\"");
  histogram.Observe(0.0001);  // on a bound: inside, as "le" says
  histogram.Observe(0.002);
  histogram.Observe(0.002);
  histogram.Observe(50);
  histogram.Observe(1000);  // past the last bound
  const std::vector<std::string> lines = Lines(metrics.Text());
  ASSERT_EQ(lines.size(), 2 + Histogram::kBounds.size() + 3);
  EXPECT_EQ(lines[1], "# TYPE tenuto_wait_seconds histogram");
  EXPECT_EQ(lines[2], "tenuto_wait_seconds_bucket{kind=\"a\",le=\"0.0001\"} 1");
  EXPECT_EQ(lines[3], "tenuto_wait_seconds_bucket{kind=\"a\",le=\"0.0003\"} 1");
  EXPECT_EQ(lines[5], "tenuto_wait_seconds_bucket{kind=\"a\",le=\"0.003\"} 3");
  EXPECT_EQ(lines[10], "tenuto_wait_seconds_bucket{kind=\"a\",le=\"1\"} 3");
  EXPECT_EQ(lines[14], "tenuto_wait_seconds_bucket{kind=\"a\",le=\"100\"} 4");
  EXPECT_EQ(lines[15], "tenuto_wait_seconds_bucket{kind=\"a\",le=\"+Inf\"} 5");
  EXPECT_EQ(lines[16].substr(0, 36), "tenuto_wait_seconds_sum{kind=\"a\"} 10");
  EXPECT_EQ(lines[17], "tenuto_wait_seconds_count{kind=\"a\"} 5");
  EXPECT_NEAR(histogram.sum_seconds(), 1050.0041, 1e-6);
}

TEST(Metrics, HistogramWithoutLabelsHasOnlyLe) {
  Metrics metrics;
  metrics.GetHistogram("h", "H.").Observe(0.5);
  const std::string text = metrics.Text();
  EXPECT_NE(text.find("h_bucket{le=\"+Inf\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("h_sum 0.5\nh_count 1\n"), std::string::npos);
}

TEST(Metrics, NonsenseTimesCountAsZero) {
  Histogram histogram;
  histogram.Observe(-3);
  histogram.Observe(std::nan(""));
  histogram.Observe(INFINITY);
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.bucket(0), 3u);
  EXPECT_EQ(histogram.sum_seconds(), 0.0);
}

TEST(Metrics, UpdatesOfManyThreadsAddUpAndScrapesAreConsistent) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        metrics.GetCounter("c", "C.").Add();
        metrics.GetHistogram("h", "H.").Observe(0.01);
      }
    });
  for (int i = 0; i < 50; ++i)
    EXPECT_LE(CountOf(metrics.Text(), "# TYPE c counter"), 1u);
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(metrics.GetCounter("c", "C.").value(), 4000u);
  EXPECT_EQ(metrics.GetHistogram("h", "H.").count(), 4000u);
}

TEST(MetricsDeathTest, OneNameWithTwoTypesAborts) {
  Metrics metrics;
  metrics.GetCounter("x", "X.");
  EXPECT_DEATH(metrics.GetGauge("x", "X."), "internal error");
  EXPECT_DEATH(metrics.GetHistogram("x", "X."), "internal error");
}

TEST(MetricsDeathTest, BadNamesAbort) {
  Metrics metrics;
  EXPECT_DEATH(metrics.GetCounter("", "X."), "internal error");
  EXPECT_DEATH(metrics.GetCounter("9x", "X."), "internal error");
  EXPECT_DEATH(metrics.GetCounter("a b", "X."), "internal error");
}

}  // namespace
}  // namespace tenuto
